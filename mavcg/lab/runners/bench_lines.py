"""Parses the output of the measuring program: lines about its CPU, about a job, and about interleaved jobs."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mavcg.hardware.core import Core
from mavcg.lab.runners.finished import RunnerError

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
        try:
            record = json.loads(line)
            if "machine" in record:
                self.before = self._machine(record["machine"])
            elif "end" in record:
                self.after = self._machine(record["end"])
            elif "job" in record:
                self._job(record)
            elif "turns" in record:
                self._read_interleaved(record["turns"], *_conditions(record))
            else:
                self.fault = str(record["fault"])
        except (ValueError, KeyError, TypeError, statistics.StatisticsError) as error:
            raise RunnerError(
                f"{self.name}: {line[:80]!r} is not a line of the measuring program ({error}); run it again"
            ) from None

    def _job(self, record: dict[str, Any]) -> None:
        job = record["job"]
        self.gave_up = "fault" in record
        if self.gave_up:
            result: JobTimes | JobFailed = JobFailed(job, str(record["fault"]))
        else:
            cold = _rounds(record["cold"]) if "cold" in record else None
            warm = _rounds(record["warm"])
            result = JobTimes(job, warm, cold, str(record["sum"]), *_conditions(record))
        self.seen.append(job)
        self.on_result(result)

    def _read_interleaved(self, record: Sequence[dict[str, Any]], before: Condition, after: Condition) -> None:
        group = []
        for entry in record:
            times = entry["times"]
            ms, lost = tuple(float(ns) / 1e6 for ns in times["ns"]), tuple(map(bool, times["lost"]))
            runs = int(times["runs"])
            group.append(InterleavedTimes(entry["job"], str(entry["sum"]), ms, lost, runs, before, after))
        if len({(len(group_times.ms), len(group_times.lost)) for group_times in group}) != 1:
            raise ValueError("rounds of different lengths")
        self.seen += [group_times.job for group_times in group]
        for times_of_job in group:
            self.on_result(times_of_job)

    def _machine(self, record: dict[str, Any]) -> MachineReport:
        report = MachineReport(
            int(record["cpu"]),
            int(record["midr"]),
            str(record["governor"]),
            int(record["khz"]) or None,
            int(record["lost"]),
        )
        if record["jobs"] != self.jobs:
            raise RunnerError(f"{self.name}: runs a program of {record['jobs']} jobs, not of {self.jobs}; run it again")
        if self.cpu is not None and report.cpu not in (-1, self.cpu):
            raise RunnerError(f"{self.name}: runs on CPU {report.cpu}, not on {self.cpu}; run it again")
        core = self.core
        if core is not None and self.cpu is not None:
            identified = other_core(core, report.midr, record)
            if identified:
                raise RunnerError(
                    f"{self.name}: CPU {self.cpu} is not a {core.name} ({identified}); "
                    "`mavcg tune --check` lists the board's cores"
                )
        return report


def other_core(core: Core, midr: int, record: dict[str, Any]) -> str:
    """Return the core that a CPU identifies as if it is not the expected one; "" if it is, or does not identify."""
    if core.midr and midr:
        return "" if any(identity.matches(midr) for identity in core.midr) else f"MIDR_EL1 {midr:#010x}"
    if core.x86_models and "vendor" in record:
        vendor, family, model = str(record["vendor"]), int(record["family"]), int(record["model"])
        kind = int(record["kind"])
        if not any(identity.matches(vendor, family, model) for identity in core.x86_models):
            return f"{vendor} family {family} model {model}"
        if core.x86_kind and kind and kind != HYBRID_KINDS[core.x86_kind]:
            return f"the other kind of a hybrid, {kind:#x}"
    return ""


def _conditions(record: dict[str, Any]) -> tuple[Condition, Condition]:
    """Return the machine's state before and after; the record has kHz and thousandths of a degree, 0 for unknown."""
    pairs = zip(record["khz"], record["mc"], strict=True)
    before, after = (Condition(int(khz) or None, int(mc) / 1000 if int(mc) else None) for khz, mc in pairs)
    return before, after


def _rounds(record: dict[str, Any]) -> Rounds:
    ns = [float(value) for value in record["ns"]]
    lost = [bool(value) for value in record["lost"]]
    kept = [value for value, gone in zip(ns, lost, strict=True) if not gone]
    if len(kept) < 3:
        kept = ns
    low, middle, high = statistics.quantiles(kept, n=4, method="inclusive") if len(kept) > 1 else kept * 3
    return Rounds(middle / 1e6, (high - low) / 1e6, int(record["runs"]), len(ns), sum(lost))
