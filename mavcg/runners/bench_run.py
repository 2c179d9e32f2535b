"""A program of jobs run on one CPU of a machine: each job's times as soon as they are known.

A job that ends the program, or is silent for too long, is left out and the rest is run without it. A connection that
breaks off is tried again: what was measured before is not measured twice.
"""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mavcg.core import Core
from mavcg.cpu_list import cpu_ranges
from mavcg.runners.bench_program import BenchProgram
from mavcg.runners.finished import ConnectionLost, Finished, RunnerError, Silent
from mavcg.runners.shell_runner import SILENCE_S, ShellRunner

WAITS_S = (1.0, 5.0, 20.0)  # before a lost connection is tried again
MOST_FAILURES = 3  # in a row: then it is not the jobs' fault
HYBRID_KINDS = {"core": 0x40, "atom": 0x20}  # CPUID leaf 0x1A: Intel 64 SDM vol. 2A


@dataclass(frozen=True)
class BenchOptions:
    """How long a figure is measured: so many rounds and milliseconds at least, runs of about round_ms a round.

    cold_rounds: of one run each after evict_bytes were read, which push everything out of the caches; 0 for none.
    settle_ms: of work before all measurements, for the clock to rise. seed: of the operands' numbers.
    """

    rounds: int = 5
    least_ms: float = 5.0
    round_ms: float = 1.0
    cold_rounds: int = 5
    evict_bytes: int = 64 << 20
    settle_ms: float = 200.0
    seed: int = 1
    silence_s: float = SILENCE_S


@dataclass(frozen=True)
class Rounds:
    """Times of one run in ms: of the thread's processor time, of several threads all that passed; the median of the
    rounds, and what lies between the quartiles.

    runs: in all; lost: rounds in which another program had the core meanwhile; they do not count where three others are
    there.
    """

    ms: float
    spread_ms: float
    runs: int
    rounds: int
    lost: int


@dataclass(frozen=True)
class JobTimes:
    """What came of a job. checksum: of its output, the same on every core. khz: the clock after it, where readable."""

    job: int
    warm: Rounds
    cold: Rounds | None
    checksum: str
    khz: int | None = None


@dataclass(frozen=True)
class JobFailed:
    """A job that could not be measured, and why, in words."""

    job: int
    why: str


@dataclass(frozen=True)
class MachineSaid:
    """What the program said of its CPU: when it began, and when it ended. midr: 0 where it cannot be read."""

    cpu: int
    midr: int
    governor: str
    khz: int | None
    lost: int


Taken = Callable[[JobTimes | JobFailed], None]


def run_bench(
    runner: ShellRunner,
    program: BenchProgram,
    jobs: Sequence[int],
    cpus: Sequence[int],
    core: Core | None,
    options: BenchOptions,
    taken: Taken,
    note: Callable[[str], None] = lambda words: None,
) -> tuple[MachineSaid, MachineSaid]:
    """Run jobs of a program bound to CPUs; what the machine said before and after the last stretch of them.

    cpus: a thread is bound to each; none: one thread that is not bound. core: what the first CPU must be, as far as it
    can be read; None: any.
    taken: gets each result as soon as it is there; what it raises ends the program. note: gets words for the user.
    Raises: RunnerError where the machine cannot be used, the CPU not be had, or is another core; ConnectionLost where
    it is lost for good.
    """
    left, waits, failures = list(jobs), list(WAITS_S), 0
    while True:
        reader = _Reader(runner.name, program.jobs, cpus[0] if cpus else None, core, taken)
        lost: ConnectionLost | None = None
        done: Finished | None = None
        silent = ""
        try:
            done = runner.run(
                program.path, _arguments(left, cpus, options), on_line=reader, silence_s=options.silence_s
            )
        except ConnectionLost as error:
            lost = error
        except Silent as error:
            silent = str(error)
        left = [job for job in left if job not in reader.seen]
        if reader.seen:
            waits, failures = list(WAITS_S), 0
        if reader.fault:
            raise RunnerError(f"{runner.name}: {reader.fault}; name another core, or run it when the machine is free")
        if lost is not None:
            if not waits:
                raise lost
            note(f"{lost}; trying again in {waits[0]:.0f} s")
            time.sleep(waits.pop(0))
        elif done is not None and not left and reader.after is not None and reader.before is not None:
            return reader.before, reader.after
        else:
            how = silent or (_ended(done) if done is not None else "")
            if reader.before is None or not left:
                raise RunnerError(f"{runner.name}: {how}; see what `--check` says of the machine")
            if not reader.gave_up:  # else it said itself which job it could not do
                taken(JobFailed(left[0], how))
                left, failures = left[1:], failures + 1
            if failures == MOST_FAILURES:
                raise RunnerError(f"{runner.name}: {how}, {failures} times in a row; see that it runs programs at all")
            if not left:
                return reader.before, reader.before


def _ended(done: Finished) -> str:
    killed = done.status > 128  # which a shell says, too
    said = "" if killed else "".join(done.words.splitlines()[-1:])
    return f"the program {done.how}" + (f" ({said})" if said else "")


def _arguments(jobs: Sequence[int], cpus: Sequence[int], options: BenchOptions) -> list[str]:
    figures = {
        "--seed": options.seed, "--rounds": options.rounds, "--round-ns": options.round_ms * 1e6,
        "--least-ns": options.least_ms * 1e6, "--cold": options.cold_rounds, "--evict-bytes": options.evict_bytes,
        "--settle-ns": options.settle_ms * 1e6,
    }  # fmt: skip
    bound = ["--cpu", ",".join(map(str, cpus))] if cpus else []
    return [*bound, *(word for name, value in figures.items() for word in (name, str(round(value)))),
            "--jobs", cpu_ranges(jobs)]  # fmt: skip


class _Reader:
    """Takes the program's lines. seen: jobs of which something was said; gave_up: it said which one it ended at."""

    def __init__(self, name: str, jobs: int, cpu: int | None, core: Core | None, taken: Taken) -> None:
        self.name, self.jobs, self.cpu, self.core, self.taken = name, jobs, cpu, core, taken
        self.seen: list[int] = []
        self.gave_up = False
        self.fault = ""
        self.before: MachineSaid | None = None
        self.after: MachineSaid | None = None

    def __call__(self, line: str) -> None:
        if not line.startswith("{"):
            return  # words of a shell, or of a linker
        try:
            said = json.loads(line)
            if "machine" in said:
                self.before = self._machine(said["machine"])
            elif "end" in said:
                self.after = self._machine(said["end"])
            elif "job" in said:
                self._job(said)
            else:
                self.fault = str(said["fault"])
        except (ValueError, KeyError, TypeError, statistics.StatisticsError) as error:
            raise RunnerError(f"{self.name}: {line[:80]!r} is no line of ours ({error}); run it again") from None

    def _job(self, said: dict[str, Any]) -> None:
        job = said["job"]
        self.gave_up = "fault" in said
        if self.gave_up:
            result: JobTimes | JobFailed = JobFailed(job, str(said["fault"]))
        else:
            cold = _rounds(said["cold"]) if "cold" in said else None
            result = JobTimes(job, _rounds(said["warm"]), cold, str(said["sum"]), int(said["khz"]) or None)
        self.seen.append(job)
        self.taken(result)

    def _machine(self, said: dict[str, Any]) -> MachineSaid:
        found = MachineSaid(
            int(said["cpu"]), int(said["midr"]), str(said["governor"]), int(said["khz"]) or None, int(said["lost"])
        )
        if said["jobs"] != self.jobs:
            raise RunnerError(f"{self.name}: runs a program of {said['jobs']} jobs, not of {self.jobs}; run it again")
        if self.cpu is not None and found.cpu not in (-1, self.cpu):
            raise RunnerError(f"{self.name}: runs on CPU {found.cpu}, not on {self.cpu}; run it again")
        core = self.core
        if core is not None and self.cpu is not None:
            other = _other_core(core, found.midr, said)
            if other:
                raise RunnerError(
                    f"{self.name}: CPU {self.cpu} is no {core.name} ({other}); `mavcg tune --check` says what it has"
                )
        return found


def _other_core(core: Core, midr: int, said: dict[str, Any]) -> str:
    """What the CPU says that it is, where that is not the core; "" where it is, or says nothing."""
    if core.midr and midr:
        return "" if any(one.matches(midr) for one in core.midr) else f"MIDR_EL1 {midr:#010x}"
    if core.x86_models and "vendor" in said:
        vendor, family, model = str(said["vendor"]), int(said["family"]), int(said["model"])
        kind = int(said["kind"])
        if not any(one.matches(vendor, family, model) for one in core.x86_models):
            return f"{vendor} family {family} model {model}"
        if core.x86_kind and kind and kind != HYBRID_KINDS[core.x86_kind]:
            return f"the other kind of a hybrid, {kind:#x}"
    return ""


def _rounds(said: dict[str, Any]) -> Rounds:
    ns = [float(each) for each in said["ns"]]
    lost = [bool(each) for each in said["lost"]]
    kept = [each for each, gone in zip(ns, lost, strict=True) if not gone]
    if len(kept) < 3:
        kept = ns
    low, middle, high = statistics.quantiles(kept, n=4, method="inclusive") if len(kept) > 1 else kept * 3
    return Rounds(middle / 1e6, (high - low) / 1e6, int(said["runs"]), len(ns), sum(lost))
