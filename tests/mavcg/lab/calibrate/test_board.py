"""The program that measures a board, run under qemu for its answers alone: its times mean nothing here."""

from pathlib import Path

import pytest

from mavcg.lab.calibrate.board import BoardTimer
from mavcg.lab.calibrate.chains import chain_loop, choose_chains
from mavcg.lab.calibrate.loops import OutOfTime, TimedLoop
from mavcg.lab.calibrate.memory_loops import KIB, branch_loops, miss_loop, run_loop, split_loops, walk_loop, window_loop
from mavcg.lab.calibrate.rate_loops import rate_loop
from mavcg.lab.calibrate.templates import templates
from mavcg.lab.runners.open import LocalTransport
from mavcg.lab.runners.shell_runner import ShellRunner
from mavcg.lab.runners.transport import RunnerError
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from tests.machine import QEMU, needs_qemu

ADD = TimedLoop("add", ("add x6, x6, x2",) * 8, 8, iterations=8)


def timer(runner: ShellRunner, folder: Path, seconds: float = 500) -> BoardTimer:
    return BoardTimer(runner, folder, None, (), seconds, lambda: 0.0)


@pytest.mark.long
@needs_qemu
def test_every_kind_of_loop_runs_and_is_timed(tmp_path: Path) -> None:
    assert QEMU is not None
    core = load_core("cortex-a76")
    timing = load_timing(core)
    known = templates(timing, frozenset(core.extensions))
    loops = [rate_loop(name, template) for name, template in known.items()]
    loops += [chain_loop(chain) for chain in choose_chains(known, timing)]
    loops += [walk_loop(8 * KIB), run_loop(4), miss_loop(24), window_loop("window.in_flight", 8)]
    loops += [*branch_loops(), *split_loops()]
    with ShellRunner(LocalTransport(), (QEMU, "-cpu", "max")) as runner:
        timed = timer(runner, tmp_path)
        cycles = timed.cycles(loops)
    assert set(cycles) == {loop.name for loop in loops} and all(value >= 0 for value in cycles.values())
    assert timed.ghz


class Answer:
    """A runner whose program answers with these lines."""

    name = "board"

    def __init__(self, *lines: str, status: int = 0) -> None:
        self.lines, self.status = lines, status

    def run(self, program: Path, arguments: list[str], **options: object) -> object:
        from mavcg.lab.runners.transport import Finished

        for line in self.lines:
            options["on_line"](line)  # type: ignore[operator]
        return Finished(self.status, b"", "out of reach")


GOOD, END = '{"loop": 0, "ns": [2.0, 2.2, 2.1], "clock": [0.5, 0.5, 0.5]}', '{"end": 1}'


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mavcg.lab.calibrate.board.build_loops", lambda text, count, out: None)


@pytest.mark.usefixtures("unbuilt")
def test_cycles_are_the_median_of_times_by_that_of_an_addition(tmp_path: Path) -> None:
    runner = Answer("a shell says hello", GOOD, END)
    timed = timer(runner, tmp_path)  # type: ignore[arg-type]
    assert timed.cycles([ADD]) == {"add": pytest.approx(4.2)}
    assert timed.ghz == [pytest.approx(2.0)]


@pytest.mark.usefixtures("unbuilt")
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (('{"loop": 7, "ns": [2.0], "clock": [0.5]}', END), "no such loop"),
        (('{"loop": -1, "ns": [2.0], "clock": [0.5]}', END), "no such loop"),
        (('{"loop": 0, "ns": [2.0], "clock": [0.5, 0.5]}', END), "no times of rounds"),
        (('{"loop": 0, "ns": [], "clock": []}', END), "no times of rounds"),
        (('{"loop": 0, "ns": [2.0], "clock": [0.0]}', END), "no times of rounds"),
        (('{"loop": 0, "ns": [-2.0], "clock": [0.5]}', END), "no CPU takes"),
        (('{"loop": 0, "ns": [1e300], "clock": [0.5]}', END), "no CPU takes"),
        (('{"loop": 0, "ns": [2.0], "clock": [1e-9]}', END), "no CPU takes"),
        (('{"loop": 0, "ns": "fast"}', END), "ns"),
        (("{", END), "not JSON"),
        ((GOOD,), "the program that measures"),
    ],
)
def test_an_answer_that_no_program_of_ours_gives_is_refused(
    tmp_path: Path, lines: tuple[str, ...], message: str
) -> None:
    with pytest.raises(RunnerError, match=message):
        timer(Answer(*lines), tmp_path).cycles([ADD])  # type: ignore[arg-type]


@pytest.mark.usefixtures("unbuilt")
def test_loops_without_a_time_mean_that_the_time_is_over(tmp_path: Path) -> None:
    with pytest.raises(OutOfTime):
        timer(Answer('{"end": 0}'), tmp_path).cycles([ADD])  # type: ignore[arg-type]
    with pytest.raises(OutOfTime):
        timer(Answer(GOOD, END), tmp_path, seconds=0).cycles([ADD])  # type: ignore[arg-type]
