"""Measure the jobs of a network (selection/measure/work_list.py) on one core of any machine that a runner reaches.

Some jobs at a time become a program; while a board works on one, the next is made here. When all were measured by
themselves, the candidates for the fastest of each scenario are measured interleaved (interleaved_run.py,
selection/measure/interleaved.py).
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from mavcg.files.scratch import scratch_folder
from mavcg.runners.bench_lines import JobFailed, JobTimes, MachineReport, Rounds
from mavcg.runners.bench_run import BenchOptions, run_bench
from mavcg.runners.interleaved_run import DEFAULT_INTERLEAVED, InterleavedOptions, measure_interleaved
from mavcg.runners.spot import Spot, programs
from mavcg.selection.costs.database import CostDb, Record
from mavcg.selection.costs.provider import MEASURED, Cost
from mavcg.selection.measure.interleaved import CandidateGroup, contests_of
from mavcg.selection.measure.work_list import Job, Plan, scenario_text
from mavcg.trials.check import block_of

NOTHING = Cost(0.0, MEASURED)
FIRST_BATCH, BATCH = 8, 24  # jobs of a program: few at first, so that figures come soon
DEFAULT_OPTIONS = BenchOptions()
FIRST_PART = 0.7  # fraction of a limit for single measurements, so that there is time for interleaved ones
SLOWED = 0.9  # of the clock before: below that the machine got hot, or saves power


@dataclass(frozen=True)
class TunedOn:
    """Result of a plan on a core. already: jobs that were in the database; left: jobs not measured, as time was up or
    the run was stopped; failed: jobs that could not be measured, with reasons. program_bytes: size of the largest
    program that was sent. interleaved: scenarios with an interleaved measurement; undecided: those that still need one.
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


class _TimeIsUp(Exception):
    """Raised when the time limit is reached: no measurement is begun any more."""


def tune_on(
    plan: Plan,
    database: CostDb,
    spot: Spot,
    *,
    resume: bool = False,
    limit_s: float | None = None,
    options: BenchOptions = DEFAULT_OPTIONS,
    interleaving: InterleavedOptions = DEFAULT_INTERLEAVED,
    progress: Callable[[int, int, str], None] = lambda done, all_, words: None,
    note: Callable[[str], None] = lambda words: None,
) -> TunedOn:
    """Measure on as many threads as CPUs; each figure, warm and cold, is stored in the database at once.

    First all jobs by themselves, then interleaved the candidates for the fastest of each scenario. resume: jobs that
    were measured already are not measured again. limit_s: seconds after which no measurement is begun; FIRST_PART of
    them is for the single measurements. An interrupt (Ctrl-C) ends it as the limit does. progress: called with the
    number of jobs that are done, the number of all jobs, and the name of the next.
    Raises: RunnerError where the machine fails; what was measured until then is kept.
    """
    tuning = _TuningRun(plan, database, spot, resume, limit_s, progress)
    with scratch_folder("mavcg-tune-") as name:
        try:
            try:
                tuning.alone(Path(name), options, note)
            except _TimeIsUp:
                tuning.stopped = "limit"
            tuning.interleaved(Path(name) / "interleaved", options, interleaving, note)
        except _TimeIsUp:
            tuning.stopped = "limit"
        except KeyboardInterrupt:
            tuning.stopped = "interrupt"
    return tuning.result()


class _TuningRun:
    """The state of tune_on."""

    def __init__(
        self, plan: Plan, database: CostDb, spot: Spot, resume: bool, limit_s: float | None,
        progress: Callable[[int, int, str], None],
    ) -> None:  # fmt: skip
        self.started, block = time.monotonic(), block_of(spot.machine)
        self.plan, self.database, self.spot, self.limit_s, self.progress = plan, database, spot, limit_s, progress
        self.records = {
            job: Record(job.what, NOTHING, spot.machine.name, spot.threads, block, host=spot.host) for job in plan.jobs
        }
        self.todo = [job for job in plan.jobs if not (resume and database.has(self.records[job]))]
        self.measured: dict[Job, Cost] = {}
        self.failed: list[tuple[Job, str]] = []
        self.checksums: dict[Job, str] = {}
        self.notes: list[str] = []
        self.stopped, self.largest = "", 0
        self.decided, self.measurements = 0, 0

    def result(self) -> TunedOn:
        """The result so far."""
        left = len(self.todo) - len({*self.measured, *(job for job, _ in self.failed)} & set(self.todo))
        undecided = self.measurements - self.decided
        return TunedOn(
            tuple(self.measured.items()), len(self.plan.jobs) - len(self.todo), left,
            self.stopped if left or undecided else "", time.monotonic() - self.started, tuple(self.failed),
            self.largest, tuple(dict.fromkeys(self.notes)), self.checksums, self.decided, undecided,
        )  # fmt: skip

    def alone(self, folder: Path, options: BenchOptions, note: Callable[[str], None]) -> None:
        """Measure each job by itself. Raises: _TimeIsUp."""
        if self.todo and self._over(FIRST_PART):
            raise _TimeIsUp
        self._tell()
        with closing(programs(_batches(self.todo), self.spot, folder)) as made:
            for batch, program in made:
                self.largest = max(self.largest, program.bytes)
                before, after = run_bench(
                    self.spot.runner, program, range(len(batch)), self.spot.cpus, self.spot.core, options,
                    self._taker(batch), note,
                )  # fmt: skip
                self.notes += _clock_notes(before, after)

    def interleaved(
        self, folder: Path, options: BenchOptions, settings: InterleavedOptions, note: Callable[[str], None]
    ) -> None:
        """Measure in an interleaved run the candidates for fastest of each scenario that were not yet.

        Raises: _TimeIsUp.
        """
        found = contests_of(self.plan, self._known)
        self.measurements = len(found)
        if found and self._over():
            raise _TimeIsUp
        entries = [(one, {job: self._sure(job) for job in (one.base, *one.others, *one.rest)}) for one in found]
        bytes_ = measure_interleaved(
            entries, self.spot, folder, options, settings, self._decided, self._at_work, note
        )  # fmt: skip
        self.largest = max(self.largest, bytes_)

    def _known(self, job: Job) -> Cost | None:
        return self.database.measured(self.records[job])

    def _sure(self, job: Job) -> Cost:
        cost = self._known(job)
        assert cost is not None
        return cost

    def _over(self, part: float = 1.0) -> bool:
        return self.limit_s is not None and time.monotonic() - self.started >= part * self.limit_s

    def _tell(self) -> None:
        done = len(self.measured) + len(self.failed)
        if done < len(self.todo):
            self.progress(done, len(self.todo), self.todo[done].name)

    def _taker(self, batch: Sequence[Job]) -> Callable[[JobTimes | JobFailed], None]:
        def taken(result: JobTimes | JobFailed) -> None:
            job = batch[result.job]
            if isinstance(result, JobFailed):
                self.failed.append((job, result.why))
            else:
                cost = _cost(result.warm)
                if result.cold is not None:
                    self.database.put(replace(self.records[job], cost=_cost(result.cold), cold=True))
                self.database.put(replace(self.records[job], cost=cost))
                self.measured[job] = cost
                self.checksums[job] = result.checksum
            if self._over(FIRST_PART):
                raise _TimeIsUp
            self._tell()

        return taken

    def _at_work(self, measurement: CandidateGroup) -> None:
        if self._over():
            raise _TimeIsUp
        words = f"{1 + len(measurement.others)} interleaved, {scenario_text(measurement.scenario)}"
        self.progress(self.decided, self.measurements, words)

    def _decided(self, measurement: CandidateGroup, costs: dict[Job, Cost], failed: dict[Job, str]) -> None:
        for job, cost in costs.items():
            self.database.put(replace(self.records[job], cost=cost))
            if job in self.measured:
                self.measured[job] = cost
        self.failed += failed.items()
        self.decided += 1


def _batches(jobs: Sequence[Job]) -> list[list[Job]]:
    batches: list[list[Job]] = []
    rest = iter(jobs)
    while batch := list(islice(rest, BATCH if batches else FIRST_BATCH)):
        batches.append(batch)
    return batches


def _cost(rounds: Rounds) -> Cost:
    return Cost(rounds.ms, MEASURED, rounds.spread_ms, rounds.runs)


def _clock_notes(before: MachineReport, after: MachineReport) -> list[str]:
    if before.khz and after.khz and after.khz < SLOWED * before.khz:
        clocks = f"{before.khz / 1e6:.2f} GHz to {after.khz / 1e6:.2f} GHz"
        return [f"CPU {before.cpu}: its clock fell from {clocks} meanwhile; let it cool, or hold the clock lower"]
    return []
