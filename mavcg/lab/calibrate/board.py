"""Times loops on a machine that a runner reaches: a static program with all loops, run on one CPU."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from mavcg.files.decode import json_document
from mavcg.lab.calibrate.loops import OutOfTime, TimedLoop, loop_program
from mavcg.lab.runners.shell_runner import ShellRunner
from mavcg.lab.runners.transport import RunnerError
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

CSRC = Path(__file__).resolve().parent / "csrc"
TARGET = "aarch64-linux-musl"  # static, for Android too
CLOCK = TimedLoop("clock", ("add x6, x6, x2",) * 64, 64, iterations=512)
ROUND_NS = 400_000
_SILENCE_S = 300.0
_JOBS = "loops.txt"
_OUT_OF_TIME = "the time for loops is over; give more --minutes"
_NS, _GHZ = (0.0, 1e9), (0.01, 20.0)  # bounds of what a program may claim


class _LoopLine(msgspec.Struct, frozen=True):
    """A line of the program: a loop's rounds, or the number of loops at its end."""

    loop: int | None = None
    ns: Annotated[tuple[float, ...], msgspec.Meta(max_length=64)] = ()
    clock: Annotated[tuple[float, ...], msgspec.Meta(max_length=64)] = ()
    end: int | None = None


@dataclass
class BoardTimer:
    """A LoopTimer of one CPU of a machine.

    cpu: its number; None for any. known: loops that the program gets at once, so that it is built once. seconds: that
    remain for loops; no loop begins after them. ghz: clocks that were seen, by additions that depend on one another.
    """

    runner: ShellRunner
    folder: Path
    cpu: int | None
    known: Sequence[TimedLoop]
    seconds: float
    clock: Callable[[], float]
    ghz: list[float] = field(default_factory=list)
    _built: dict[str, int] = field(default_factory=dict)

    def cycles(self, loops: Sequence[TimedLoop]) -> Mapping[str, float]:
        """Implement `LoopTimer.cycles`. Raises: RunnerError if the machine or its answer is at fault; OutOfTime."""
        program, numbers = self._program(loops)
        left = self.seconds - self.clock()
        if left <= 0:
            raise OutOfTime(_OUT_OF_TIME)
        jobs = self.folder / _JOBS
        jobs.write_text("".join(_job(loop, numbers[loop.name]) for loop in loops))
        rounds: dict[str, float] = {}
        ended = False

        def read(line: str) -> None:
            nonlocal ended
            if line.startswith("{"):
                parsed = self._parse(line)
                ended = ended or parsed.end is not None
                if parsed.loop is not None:
                    rounds[self._name(loops, parsed, line)] = self._cycles(parsed, line)

        words = [str(-1 if self.cpu is None else self.cpu), _JOBS, str(ROUND_NS), f"{left:.0f}"]
        done = self.runner.run(program, words, files_in={_JOBS: jobs}, on_line=read, silence_s=_SILENCE_S)
        if done.status or not ended:
            message = done.words.splitlines()[-1:] or ["it says nothing"]
            raise RunnerError(
                f"{self.runner.name}: the program that measures {done.how} ({message[0]}); "
                "see what `mavcg tune --check` says of the machine"
            )
        if len(rounds) < len(loops):
            raise OutOfTime(_OUT_OF_TIME)
        return rounds

    def _program(self, loops: Sequence[TimedLoop]) -> tuple[Path, Mapping[str, int]]:
        path = self.folder / "calibrate"
        text = loop_program([CLOCK, *self.known, *loops])
        numbers = {name: int(symbol.removeprefix("loop")) for name, symbol in text.symbols.items()}
        if self._built.get("text") != hash(text.text):
            build_loops(text.text, max(numbers.values()) + 1, path)
            self._built["text"] = hash(text.text)
        return path, numbers

    def _parse(self, line: str) -> _LoopLine:
        where = f"{self.runner.name}: {line[:80]!r} is not a line of the program that measures"
        return json_document(line, where, "run it again", RunnerError).decode(_LoopLine, of_others=True)

    def _name(self, loops: Sequence[TimedLoop], parsed: _LoopLine, line: str) -> str:
        if parsed.loop is None or not 0 <= parsed.loop < len(loops):
            raise RunnerError(f"{self.runner.name}: {line[:80]!r}: there is no such loop; run it again")
        return loops[parsed.loop].name

    def _cycles(self, parsed: _LoopLine, line: str) -> float:
        """Return the cycles of a body: the median over the rounds of its time by that of an addition."""
        clocks = [1 / ns for ns in parsed.clock if ns > 0]
        if len(parsed.ns) != len(parsed.clock) or not parsed.ns or len(clocks) != len(parsed.clock):
            raise RunnerError(f"{self.runner.name}: {line[:80]!r}: has no times of rounds; run it again")
        if not all(_NS[0] <= ns <= _NS[1] for ns in parsed.ns) or not _GHZ[0] <= statistics.median(clocks) <= _GHZ[1]:
            raise RunnerError(f"{self.runner.name}: {line[:80]!r}: no CPU takes such times; run it again")
        self.ghz.append(statistics.median(clocks))
        return statistics.median(ns * ghz for ns, ghz in zip(parsed.ns, clocks, strict=True))


def _job(loop: TimedLoop, number: int) -> str:
    walk = loop.walk
    memory = (walk.bytes, walk.node_bytes, walk.run, int(walk.cold)) if walk is not None else (0, 0, 0, 0)
    values = (number, loop.iterations, loop.warm, loop.bodies, loop.parameter, *memory)
    return " ".join(map(str, values)) + "\n"


def build_loops(text: str, count: int, out: Path) -> None:
    """Compile a static program with these loops. Raises: ToolError with the compiler's message."""
    folder = out.parent
    names = [f"loop{number}" for number in range(count)]
    table = [f"extern calibrate_loop {', '.join(names)};", f"#define LOOPS {count}"]
    table += [f"static calibrate_loop *const loops[LOOPS] = {{{', '.join(names)}}};", ""]
    (folder / "calibrate_loops.h").write_text("\n".join(table))
    (folder / "loops.S").write_text(text)
    flags = ["-target", TARGET, "-static", "-O2", "-std=gnu11", *PLAIN_CODE_FLAGS, "-s", f"-I{folder}"]
    sources = [str(CSRC / "calibrate.c"), str(folder / "loops.S")]
    run_zig("cc", [*flags, *sources, "-o", str(out)], "building the program that measures a core", folder)
