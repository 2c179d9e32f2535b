"""The state of a network's measurements on one core: jobs to do, costs known, progress and time limit."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mavcg.choose.algorithms.costs.database import CostDb, Record
from mavcg.choose.algorithms.costs.provider import MEASURED, Cost
from mavcg.files.scratch import scratch_folder
from mavcg.lab.runners.bench_lines import JobFailed, JobTimes, Rounds
from mavcg.lab.tuning.interleaved import CandidateGroup, candidate_groups
from mavcg.lab.tuning.measured_core import MeasuredCore
from mavcg.lab.tuning.work_list import Job, WorkList
from mavcg.runtime.machines import block_of

NOTHING = Cost(0.0, MEASURED)
LIMIT, INTERRUPT = "limit", "interrupt"  # reasons why a tuning stopped
FIRST_PART = 0.7  # fraction of a time limit for single measurements; the remainder is for interleaved ones


@dataclass(frozen=True)
class TunedOn:
    """The result of a plan on a core.

    already: number of jobs that were in the database. left: number of jobs not measured. stopped: the reason, or "".
    failed: jobs that could not be measured, with reasons. program_bytes: size of the largest program. checksums: of
    outputs. interleaved: number of scenarios measured interleaved. undecided: number that still need it.
    """

    measured: tuple[tuple[Job, Cost], ...]
    already: int
    left: int
    stopped: str
    seconds: float
    failed: tuple[tuple[Job, str], ...] = ()
    program_bytes: int = 0
    notes: tuple[str, ...] = ()
    checksums: dict[Job, str] = field(default_factory=dict)
    interleaved: int = 0
    undecided: int = 0


@dataclass(frozen=True)
class RunControl:
    """Settings of a tuning run: what it skips, when it ends, and who hears of its progress.

    resume: True to skip jobs that were measured before. limit_s: seconds after which no measurement is begun; None for
    no limit. progress: called with the number of finished jobs, of all jobs, and the name of the next.
    """

    resume: bool = False
    limit_s: float | None = None
    progress: Callable[[int, int, str], None] = lambda done, all_, words: None
    note: Callable[[str], None] = lambda words: None

    def part(self, spent_s: float, parts_left: int) -> "RunControl":
        """Return the same with an equal part of the time that is left, for one of so many parts."""
        return self if self.limit_s is None else replace(self, limit_s=max(self.limit_s - spent_s, 0.0) / parts_left)


ALL_AT_ONCE = RunControl()


class TimeIsUp(Exception):
    """Raised when the time limit is reached, so that no further measurement is begun."""


class TuningState:
    """The jobs of a plan on a core, and their costs as they become known. The time limit counts from creation."""

    def __init__(
        self,
        plan: WorkList,
        database: CostDb,
        core: MeasuredCore,
        control: RunControl,
    ) -> None:
        self.started, block = time.monotonic(), block_of(core.machine)
        self.plan, self.database, self.limit_s, self.progress = plan, database, control.limit_s, control.progress
        self.records = {
            job: Record(job.what, NOTHING, core.machine.name, core.threads, block, host=core.host) for job in plan.jobs
        }
        self.todo = [job for job in plan.jobs if not (control.resume and database.has(self.records[job]))]
        self.measured: dict[Job, Cost] = {}
        self.failed: list[tuple[Job, str]] = []
        self.checksums: dict[Job, str] = {}
        self.notes: list[str] = []
        self.stopped, self.largest = "", 0
        self.decided, self.measurements = 0, 0

    def measure(self, alone: Callable[[Path], None], interleaved: Callable[[Path], None]) -> None:
        """Measure each job alone, then the candidates interleaved, until all is done, the limit, or an interrupt.

        alone, interleaved: measure what is left to do, given a folder for programs. The fraction FIRST_PART of the
        limit is for the first.
        """
        with scratch_folder("mavcg-tune-") as name:
            try:
                try:
                    alone(Path(name))
                except TimeIsUp:
                    self.stopped = LIMIT
                interleaved(Path(name) / "interleaved")
            except TimeIsUp:
                self.stopped = LIMIT
            except KeyboardInterrupt:
                self.stopped = INTERRUPT

    def result(self) -> TunedOn:
        """Return the result so far."""
        left = len(self.todo) - len({*self.measured, *(job for job, _ in self.failed)} & set(self.todo))
        undecided = self.measurements - self.decided
        return TunedOn(
            tuple(self.measured.items()),
            len(self.plan.jobs) - len(self.todo),
            left,
            self.stopped if left or undecided else "",
            time.monotonic() - self.started,
            tuple(self.failed),
            self.largest,
            tuple(dict.fromkeys(self.notes)),
            self.checksums,
            self.decided,
            undecided,
        )

    def take(self, job: Job, result: JobTimes | JobFailed, host: str = "") -> None:
        """Store a job's result. host: machine that measured it; "" for core.host. Raises: MavcgError (full disk)."""
        if isinstance(result, JobFailed):
            self.failed.append((job, result.why))
            return
        record = replace(self.records[job], host=host) if host else self.records[job]
        cost = cost_of(result.warm)
        if result.cold is not None:
            self.database.put(replace(record, cost=cost_of(result.cold), cold=True))
        self.database.put(replace(record, cost=cost))
        self.measured[job] = cost
        self.checksums[job] = result.checksum

    def candidates(self) -> list[tuple[CandidateGroup, dict[Job, Cost]]]:
        """Return the scenarios whose fastest primitive is undecided, with the costs of their jobs measured alone.

        Raises: TimeIsUp.
        """
        groups = candidate_groups(self.plan, self._known_cost)
        self.measurements = len(groups)
        if groups:
            self.check_time()
        return [(group, {job: self._sure(job) for job in (group.base, *group.others, *group.rest)}) for group in groups]

    def decide(self, measurement: CandidateGroup, costs: dict[Job, Cost], failed: dict[Job, str]) -> None:
        """Store the result of an interleaved measurement."""
        for job, cost in costs.items():
            self.database.put(replace(self.records[job], cost=cost))
            if job in self.measured:
                self.measured[job] = cost
        self.failed += failed.items()
        self.decided += 1

    def check_time(self, part: float = 1.0) -> None:
        """Raise TimeIsUp after this fraction of the limit."""
        if self.limit_s is not None and time.monotonic() - self.started >= part * self.limit_s:
            raise TimeIsUp

    def tell(self) -> None:
        """Report the number of jobs done, and the next."""
        done = len(self.measured) + len(self.failed)
        if done < len(self.todo):
            self.progress(done, len(self.todo), self.todo[done].name)

    def tell_interleaved(self, measurement: CandidateGroup) -> None:
        """Report the interleaved measurement in progress. Raises: TimeIsUp."""
        self.check_time()
        words = f"{1 + len(measurement.others)} interleaved, {measurement.scenario.text}"
        self.progress(self.decided, self.measurements, words)

    def _known_cost(self, job: Job) -> Cost | None:
        return self.database.measured_cost(self.records[job])

    def _sure(self, job: Job) -> Cost:
        cost = self._known_cost(job)
        assert cost is not None
        return cost


def cost_of(rounds: Rounds) -> Cost:
    """Return the median of rounds as a measured cost."""
    return Cost(rounds.ms, MEASURED, rounds.spread_ms, rounds.runs)


def batches_of(jobs: Sequence[Job], first: int, size: int) -> list[list[Job]]:
    """Return the jobs in batches of `size`, the first batch of `first` jobs."""
    starts = [0, *range(first, len(jobs), size)] if jobs else []
    return [list(jobs[start : first if not start else start + size]) for start in starts]
