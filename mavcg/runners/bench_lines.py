"""What the program that measures says, line by line: of its CPU, of a job, of jobs that took turns."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mavcg.core import Core
from mavcg.runners.finished import RunnerError

HYBRID_KINDS = {"core": 0x40, "atom": 0x20}  # CPUID leaf 0x1A: Intel 64 SDM vol. 2A


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


@dataclass(frozen=True)
class Turns:
    """A job that took turns with others of its group: ms of one run in each round, and whether its core was taken away
    meanwhile. checksum: of its output.
    """

    job: int
    checksum: str
    ms: tuple[float, ...]
    lost: tuple[bool, ...]
    runs: int


class Reader:
    """Takes the program's lines. seen: jobs of which something was said; gave_up: it said which one it ended at."""

    def __init__(self, name: str, jobs: int, cpu: int | None, core: Core | None, taken: Callable[[Any], None]) -> None:
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
            elif "turns" in said:
                self._turns(said["turns"])
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

    def _turns(self, said: Sequence[dict[str, Any]]) -> None:
        found = []
        for each in said:
            times = each["times"]
            ms, lost = tuple(float(ns) / 1e6 for ns in times["ns"]), tuple(map(bool, times["lost"]))
            found.append(Turns(each["job"], str(each["sum"]), ms, lost, int(times["runs"])))
        if len({(len(each.ms), len(each.lost)) for each in found}) != 1:
            raise ValueError("turns of different lengths")
        self.seen += [each.job for each in found]
        for turns in found:
            self.taken(turns)

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
            other = other_core(core, found.midr, said)
            if other:
                raise RunnerError(
                    f"{self.name}: CPU {self.cpu} is no {core.name} ({other}); `mavcg tune --check` says what it has"
                )
        return found


def other_core(core: Core, midr: int, said: dict[str, Any]) -> str:
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
