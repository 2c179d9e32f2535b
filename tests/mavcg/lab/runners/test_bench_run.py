"""What comes of a program's jobs, whatever happens to the program, the machine and the way to it."""

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mavcg.hardware.core import Core, Midr, X86Model
from mavcg.lab.runners import bench_lines, bench_run
from mavcg.lab.runners.bench_lines import Condition, JobFailed, JobTimes
from mavcg.lab.runners.bench_program import BenchProgram
from mavcg.lab.runners.bench_run import BenchOptions, run_bench
from mavcg.lab.runners.open import open_runner
from mavcg.lab.runners.shell_runner import FOLDER_VARIABLE
from mavcg.lab.runners.transport import ConnectionLost, RunnerError

BRIEF = BenchOptions(silence_s=1.0)
A55 = Core("cortex-a55", "aarch64", "in", "cortex-a55", "", midr=(Midr(0x41, 0xD05, 1),))
ZEN3 = Core("znver3", "x86_64", "out", "znver3", "", x86_models=(X86Model("AuthenticAMD", 25, (1,)),))


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.setattr(bench_run, "WAITS_S", (0.0, 0.0))
    monkeypatch.setenv(FOLDER_VARIABLE, str(there))


def measured(fake: Any, jobs: int, name: str = "local", **given: Any) -> list[JobTimes | JobFailed]:
    found: list[JobTimes | JobFailed] = []
    given = {"cpus": [0], "core": None, "options": BRIEF, **given}
    with open_runner(name) as runner:
        run_bench(runner, BenchProgram(fake.of(jobs), jobs), range(jobs), on_result=found.append, **given)
    return found


def test_medians_of_the_rounds_that_kept_their_core(fake_bench: Any) -> None:
    first, second = measured(fake_bench, 2)
    assert isinstance(first, JobTimes) and isinstance(second, JobTimes) and first.cold is not None
    # Of 1, 2, 1.5 and 3 us; the round of 99 us lost its core.
    assert (first.warm.ms, first.warm.runs, first.warm.rounds, first.warm.lost) == (1.75e-3, 5, 5, 1)
    assert first.warm.spread_ms == pytest.approx((2.25 - 1.375) * 1e-3)
    assert first.cold.ms == 2 * first.warm.ms and second.warm.ms == 2 * first.warm.ms
    assert (second.job, second.checksum) == (1, f"{1:016x}")
    assert (first.before, first.after) == (Condition(2_000_000, 41.5), Condition(1_990_000, 42.0))
    options = fake_bench.calls[0]
    assert options == {
        "--cpu": "0",
        "--seed": "1",
        "--rounds": "5",
        "--round-ns": "1000000",
        "--least-ns": "5000000",
        "--cold": "5",
        "--evict-bytes": str(64 << 20),
        "--settle-ns": "200000000",
        "--jobs": "0-1",
    }


def test_a_job_that_ends_the_program_is_left_out_and_the_rest_is_run(fake_bench: Any) -> None:
    fake_bench.does("kill 1", "fault 3 it wrote outside", "end 4 no memory")
    measurement = measured(fake_bench, 6)
    assert [each.job for each in measurement] == [0, 1, 2, 3, 4, 5]
    why = {each.job: each.why for each in measurement if isinstance(each, JobFailed)}
    assert why == {1: "the program was ended by signal 9 (killed)", 3: "it wrote outside", 4: "no memory"}
    assert [call["--jobs"] for call in fake_bench.calls] == ["0-5", "2-5", "5"]


def test_a_silent_job_is_ended_and_the_rest_is_run(fake_bench: Any) -> None:
    fake_bench.does("stop 1")
    measurement = measured(fake_bench, 3)
    assert [each.job for each in measurement if isinstance(each, JobTimes)] == [0, 2]
    (failed,) = (each for each in measurement if isinstance(each, JobFailed))
    assert failed.job == 1 and "no output for 1 s" in failed.why


def test_a_machine_on_which_everything_fails_is_given_up(fake_bench: Any) -> None:
    fake_bench.does(*(f"kill {job}" for job in range(9)))
    with pytest.raises(RunnerError, match="3 times in a row"):
        measured(fake_bench, 9)
    assert len(fake_bench.calls) == 3


@pytest.mark.parametrize(
    ("faults", "core", "words"),
    [
        (["refuse CPU 5 cannot be had: Invalid argument"], None, "CPU 5 cannot be had"),
        (["cpu 1"], None, "runs on CPU 1, not on 0"),
        ([f"midr {0x410FD0B0}"], A55, "CPU 0 is not a cortex-a55 .MIDR_EL1 0x410fd0b0"),
        ([f"midr {0x410FD050}"], A55, "0x410fd050"),  # r0 is another core
        (["jobs 7"], None, "a program of 7 jobs, not of 2"),
    ],
)
def test_another_cpu_than_was_asked_for_is_an_error(
    fake_bench: Any, faults: list[str], core: Core | None, words: str
) -> None:
    fake_bench.does(*faults)
    with pytest.raises(RunnerError, match=words):
        measured(fake_bench, 2, core=core)


def test_the_cpu_that_was_asked_for_is_taken(fake_bench: Any) -> None:
    fake_bench.does(f"midr {0x411FD050}")  # r1p0
    assert len(measured(fake_bench, 1, core=A55)) == 1


def test_a_processor_of_x86_is_known_by_its_model() -> None:
    silent = bench_lines.MachineLine(1, 0, 0, "", 0, 0)
    milan = replace(silent, vendor="AuthenticAMD", family=25, model=1)
    assert bench_lines.other_core(ZEN3, milan) == bench_lines.other_core(ZEN3, silent) == ""
    assert bench_lines.other_core(ZEN3, replace(milan, model=97)) == "AuthenticAMD family 25 model 97"


TIMES = {"ns": [1.0, 2.0], "lost": [0, 1], "runs": 2}
TURN = {"job": 0, "sum": "", "times": TIMES}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1, column 2: not JSON"),
        ("{}", "it has no key of one"),
        ('{"job": 1}', "it has no key of one"),
        ('{"job": "x", "fault": "y"}', 'job: "x" is not a whole number'),
        ({"job": 1, "warm": {**TIMES, "ns": []}}, r"warm.ns: \[\] is not a list of times"),
        ({"job": 1, "warm": {**TIMES, "lost": [0]}}, "warm: 2 times and 1 losses"),
        ({"job": 1, "warm": {"ns": [1.0], "lost": [0]}}, "warm.runs: missing"),
        ({"job": 1, "warm": TIMES, "khz": [1]}, "khz: .* is not"),
        ({"turns": [TURN, {**TURN, "times": {**TIMES, "ns": [1], "lost": [0]}}]}, "turns: rounds of different lengths"),
        ({"machine": {"jobs": 1}}, "machine.cpu: missing"),
    ],
)
def test_another_line_is_refused_with_its_key(line: Any, words: str) -> None:
    reader = bench_lines.BenchLineReader("ssh:desk", 2, None, None, lambda result: None)
    with pytest.raises(RunnerError, match=f"^ssh:desk: .* is not a line of the measuring program: .*{words}.*; "):
        reader(line if isinstance(line, str) else json.dumps(line))
    assert reader.seen == []


def test_what_a_reader_raises_ends_it(fake_bench: Any) -> None:
    def stop(result: object) -> None:
        raise KeyboardInterrupt

    with open_runner("local") as runner, pytest.raises(KeyboardInterrupt):
        run_bench(runner, BenchProgram(fake_bench.of(2), 2), [0, 1], [0], None, BRIEF, stop)


def cut_when_it_stands(fake: Any, cut: Any) -> threading.Thread:
    """Cuts the connection when the program has come to the job at which it waits."""

    def work() -> None:
        until = time.monotonic() + 200
        while not (fake.folder / "at").exists() and time.monotonic() < until:
            time.sleep(0.01)
        cut()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.long
def test_a_lost_connection_is_tried_again_and_goes_on_where_it_was(fake_bench: Any, sshd: Any, tmp_path: Path) -> None:
    fake_bench.does("cut 2 once")
    notes: list[str] = []
    thread = cut_when_it_stands(fake_bench, sshd.cut)
    measurement = measured(fake_bench, 4, sshd.name, options=BenchOptions(silence_s=15.0), note=notes.append)
    thread.join()
    assert [each.job for each in measurement if isinstance(each, JobTimes)] == [0, 1, 2, 3]
    assert [call["--jobs"] for call in fake_bench.calls] == ["0-3", "2-3"]
    (note,) = notes
    assert "the connection was lost" in note and "trying again" in note
    assert list((tmp_path / "there").iterdir()) == []


def test_a_connection_that_stays_lost_is_an_error_and_says_what_is_left(
    fake_bench: Any, sshd: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fake_bench.does("cut 1 once")
    thread = cut_when_it_stands(fake_bench, sshd.stop)
    with pytest.raises(ConnectionLost, match="refused on port"):
        measured(fake_bench, 3, sshd.name, options=BenchOptions(silence_s=15.0))
    thread.join()
    (left,) = (tmp_path / "there").iterdir()
    assert f"{left} was left behind" in capfd.readouterr().err
