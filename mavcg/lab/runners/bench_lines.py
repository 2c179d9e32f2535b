"""Parses the output of the measuring program: lines about its CPU, about a job, and about interleaved jobs."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from mavcg.files.decode import json_document
from mavcg.hardware.core import Core
from mavcg.lab.runners.transport import RunnerError

HYBRID_KINDS = {"core": 0x40, "atom": 0x20}  # CPUID leaf 0x1A: Intel 64 SDM vol. 2A


@dataclass(frozen=True)
class Rounds:
    """Times of a job, in ms per run: processor time of a single thread, elapsed time of several.

    ms: median of the rounds. spread_ms: difference of the quartiles. runs: total number of runs. rounds: their number.
    lost: rounds in which another program ran on the core; they do not count if there are three other rounds.
    """

    ms: float
    spread_ms: float
    runs: int
    rounds: int
    lost: int


@dataclass(frozen=True)
class Condition:
    """The state of a machine: clock of the CPU in kHz, temperature of its hottest zone; None if not readable."""

    khz: int | None = None
    celsius: float | None = None


UNKNOWN = Condition()


@dataclass(frozen=True)
class JobTimes:
    """The result of a job.

    warm, cold: with warm caches, and after eviction. checksum: of its output, the same on every core. before, after:
    state of the machine.
    """

    job: int
    warm: Rounds
    cold: Rounds | None
    checksum: str
    before: Condition = UNKNOWN
    after: Condition = UNKNOWN
    interleaved: ClassVar[bool] = False

    @property
    def run_ms(self) -> float:
        """Time of a run with warm caches."""
        return self.warm.ms

    @property
    def spread_ms(self) -> float | None:
        """Difference of the quartiles of the rounds with warm caches."""
        return self.warm.spread_ms


@dataclass(frozen=True)
class JobFailed:
    """A job that could not be measured, and the reason."""

    job: int
    why: str


@dataclass(frozen=True)
class MachineReport:
    """The CPU as the program reports it at its beginning and end.

    midr: 0 if it cannot be read. lost: rounds in which another program ran on the core.
    """

    cpu: int
    midr: int
    governor: str
    khz: int | None
    lost: int


@dataclass(frozen=True)
class InterleavedTimes:
    """The result of a job in an interleaved measurement.

    ms: of one run, in each round. lost: for each round, True if another program ran on the core. runs: total number.
    checksum: of its output. before, after: state of the machine before and after all rounds of the group.
    """

    job: int
    checksum: str
    ms: tuple[float, ...]
    lost: tuple[bool, ...]
    runs: int
    before: Condition = UNKNOWN
    after: Condition = UNKNOWN
    interleaved: ClassVar[bool] = True

    @property
    def run_ms(self) -> float:
        """Time of a run in the fastest round."""
        return min(self.ms)

    @property
    def spread_ms(self) -> float | None:
        """Implement `JobTimes.spread_ms`: rounds are compared one by one, so that there is none."""
        return None


@dataclass(frozen=True)
class MachineLine:
    """The CPU in a line of the program. vendor, family, model, kind: of x86, by CPUID; "" and 0 if not known."""

    jobs: int
    cpu: int
    midr: int
    governor: str
    khz: int
    lost: int
    vendor: str = ""
    family: int = 0
    model: int = 0
    kind: int = 0


@dataclass(frozen=True)
class _Times:
    """Rounds of a job in a line: ns of a run in each round, whether another program ran meanwhile, runs of them all."""

    ns: Annotated[tuple[float, ...], Meta(min_length=1, description="a list of times")]
    lost: tuple[int, ...]
    runs: int

    def __post_init__(self) -> None:
        if len(self.ns) != len(self.lost):
            raise ValueError(f"{len(self.ns)} times and {len(self.lost)} losses")

    def rounds(self) -> Rounds:
        kept = [ns for ns, lost in zip(self.ns, self.lost, strict=True) if not lost]
        if len(kept) < 3:
            kept = list(self.ns)
        low, middle, high = statistics.quantiles(kept, n=4, method="inclusive") if len(kept) > 1 else kept * 3
        return Rounds(middle / 1e6, (high - low) / 1e6, self.runs, len(self.ns), sum(map(bool, self.lost)))

    def each(self) -> tuple[tuple[float, ...], tuple[bool, ...], int]:
        return tuple(ns / 1e6 for ns in self.ns), tuple(map(bool, self.lost)), self.runs


@dataclass(frozen=True)
class _InterleavedJob:
    job: int
    sum: str
    times: _Times


class _Line(msgspec.Struct, frozen=True, rename={"interleaved": "turns"}):
    """A line of the program: about its machine, a job, interleaved jobs, or why it cannot run.

    khz, mc: clock and thousandths of a degree before and after the jobs; 0 for unknown.
    """

    machine: MachineLine | None = None
    end: MachineLine | None = None
    job: int | None = None
    interleaved: tuple[_InterleavedJob, ...] = ()
    fault: str | None = None
    sum: str = ""
    warm: _Times | None = None
    cold: _Times | None = None
    khz: tuple[int, int] = (0, 0)
    mc: tuple[int, int] = (0, 0)

    def conditions(self) -> tuple[Condition, Condition]:
        before, after = (
            Condition(khz or None, mc / 1000 if mc else None) for khz, mc in zip(self.khz, self.mc, strict=True)
        )
        return before, after


class BenchLineReader:
    """Parses the program's lines. seen: jobs with a record. gave_up: True if the program named a job that ended it."""

    def __init__(
        self, name: str, jobs: int, cpu: int | None, core: Core | None, on_result: Callable[[Any], None]
    ) -> None:
        self.name, self.jobs, self.cpu, self.core, self.on_result = name, jobs, cpu, core, on_result
        self.seen: list[int] = []
        self.gave_up = False
        self.fault = ""
        self.before: MachineReport | None = None
        self.after: MachineReport | None = None

    def __call__(self, line: str) -> None:
        if not line.startswith("{"):
            return  # a message of a shell or linker
        where = f"{self.name}: {line[:80]!r} is not a line of the measuring program"
        document = json_document(line, where, "run it again", RunnerError)
        record = document.decode(_Line, of_others=True)
        if record.machine is not None:
            self.before = self._report(record.machine)
        elif record.end is not None:
            self.after = self._report(record.end)
        elif record.job is not None and record.fault is not None:
            self.gave_up = True
            self._take(JobFailed(record.job, record.fault))
        elif record.job is not None and record.warm is not None:
            self.gave_up = False
            cold = record.cold.rounds() if record.cold is not None else None
            self._take(JobTimes(record.job, record.warm.rounds(), cold, record.sum, *record.conditions()))
        elif record.interleaved:
            if len({len(job.times.ns) for job in record.interleaved}) != 1:
                raise document.fault("turns", "rounds of different lengths")
            for job in record.interleaved:
                self._take(InterleavedTimes(job.job, job.sum, *job.times.each(), *record.conditions()))
        elif record.fault is not None:
            self.fault = record.fault
        else:
            raise RunnerError(f"{where}: it has no key of one; run it again")

    def _take(self, result: JobTimes | JobFailed | InterleavedTimes) -> None:
        self.seen.append(result.job)
        self.on_result(result)

    def _report(self, machine: MachineLine) -> MachineReport:
        if machine.jobs != self.jobs:
            raise RunnerError(f"{self.name}: runs a program of {machine.jobs} jobs, not of {self.jobs}; run it again")
        if self.cpu is not None and machine.cpu not in (-1, self.cpu):
            raise RunnerError(f"{self.name}: runs on CPU {machine.cpu}, not on {self.cpu}; run it again")
        if self.core is not None and self.cpu is not None and (identified := other_core(self.core, machine)):
            raise RunnerError(
                f"{self.name}: CPU {self.cpu} is not a {self.core.name} ({identified}); "
                "`mavcg tune --check` lists the board's cores"
            )
        return MachineReport(machine.cpu, machine.midr, machine.governor, machine.khz or None, machine.lost)


def other_core(core: Core, machine: MachineLine) -> str:
    """Return the core that a CPU identifies as if it is not the expected one; "" if it is, or does not identify."""
    if core.midr and machine.midr:
        matches = any(identity.matches(machine.midr) for identity in core.midr)
        return "" if matches else f"MIDR_EL1 {machine.midr:#010x}"
    if core.x86_models and machine.vendor:
        model = machine.vendor, machine.family, machine.model
        if not any(identity.matches(*model) for identity in core.x86_models):
            return f"{machine.vendor} family {machine.family} model {machine.model}"
        if core.x86_kind and machine.kind and machine.kind != HYBRID_KINDS[core.x86_kind]:
            return f"the other kind of a hybrid, {machine.kind:#x}"
    return ""
