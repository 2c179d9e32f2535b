"""What a network needs measured (selection/tuning.py), on one core of any machine that a runner reaches.

Some jobs at a time become a program; while a board works on one, the next is made here. When all were measured by
themselves, those of a scenario that may be its fastest are measured in turns (turns_run.py, selection/contest.py).
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from mavcg.runners.bench_lines import JobFailed, JobTimes, MachineSaid, Rounds
from mavcg.runners.bench_run import BenchOptions, run_bench
from mavcg.runners.spot import Spot, programs
from mavcg.runners.turns_run import TURNS, TurnOptions, measure_in_turns
from mavcg.scratch import scratch_folder
from mavcg.selection.contest import Contest, contests_of
from mavcg.selection.cost_db import CostDb, Record
from mavcg.selection.costs import MEASURED, Cost
from mavcg.selection.tuning import Job, Plan, scenario_text
from mavcg.trials.check import block_of

NOTHING = Cost(0.0, MEASURED)
FIRST_BATCH, BATCH = 8, 24  # jobs of a program: few at first, so that figures come soon
USUAL_OPTIONS = BenchOptions()
FIRST_PART = 0.7  # of a limit: what measuring by themselves may take, so that there is time for turns
SLOWED = 0.9  # of the clock before: below that the machine got hot, or saves power


@dataclass(frozen=True)
class TunedOn:
    """What came of a plan on a core. already: how many were in the database; left: not measured as time was up, or
    stopped; failed: which could not be, and why. program_bytes: of the largest program that was sent. in_turns: how
    many scenarios were measured in turns, undecided: of how many that is left.
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
    in_turns: int = 0
    undecided: int = 0


class _TimeIsUp(Exception):
    """No more is begun."""


def tune_on(
    plan: Plan,
    database: CostDb,
    spot: Spot,
    *,
    resume: bool = False,
    limit_s: float | None = None,
    options: BenchOptions = USUAL_OPTIONS,
    turns: TurnOptions = TURNS,
    progress: Callable[[int, int, str], None] = lambda done, all_, words: None,
    note: Callable[[str], None] = lambda words: None,
) -> TunedOn:
    """Measure on as many threads as CPUs; every figure is in the database as soon as it is known, warm and cold.

    First all by themselves, then in turns those of each scenario that may be its fastest. resume: what was measured
    already is not measured again. limit_s: no new figure is begun after so many seconds; of these, FIRST_PART is for
    the first. An interrupt (Ctrl-C) ends it as the limit does. progress: called with how many are done, of how many,
    and what is next.
    Raises: RunnerError where the machine fails; what was measured until then is kept.
    """
    tuning = _Tuning(plan, database, spot, resume, limit_s, progress)
    with scratch_folder("mavcg-tune-") as name:
        try:
            try:
                tuning.alone(Path(name), options, note)
            except _TimeIsUp:
                tuning.stopped = "limit"
            tuning.in_turns(Path(name) / "turns", options, turns, note)
        except _TimeIsUp:
            tuning.stopped = "limit"
        except KeyboardInterrupt:
            tuning.stopped = "interrupt"
    return tuning.result()


class _Tuning:
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
        self.decided, self.contests = 0, 0

    def result(self) -> TunedOn:
        """As it stands."""
        left = len(self.todo) - len({*self.measured, *(job for job, _ in self.failed)} & set(self.todo))
        undecided = self.contests - self.decided
        return TunedOn(
            tuple(self.measured.items()), len(self.plan.jobs) - len(self.todo), left,
            self.stopped if left or undecided else "", time.monotonic() - self.started, tuple(self.failed),
            self.largest, tuple(dict.fromkeys(self.notes)), self.checksums, self.decided, undecided,
        )  # fmt: skip

    def alone(self, folder: Path, options: BenchOptions, note: Callable[[str], None]) -> None:
        """Each job by itself. Raises: _TimeIsUp."""
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

    def in_turns(self, folder: Path, options: BenchOptions, turns: TurnOptions, note: Callable[[str], None]) -> None:
        """Who may be the fastest of each scenario, and was not measured in turns before. Raises: _TimeIsUp."""
        found = contests_of(self.plan, self._known)
        self.contests = len(found)
        if found and self._over():
            raise _TimeIsUp
        entries = [(one, {job: self._sure(job) for job in (one.base, *one.others, *one.rest)}) for one in found]
        bytes_ = measure_in_turns(
            entries, self.spot, folder, options, turns, self._decided, self._at_work, note
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

    def _at_work(self, contest: Contest) -> None:
        if self._over():
            raise _TimeIsUp
        words = f"{1 + len(contest.others)} in turns, {scenario_text(contest.scenario)}"
        self.progress(self.decided, self.contests, words)

    def _decided(self, contest: Contest, costs: dict[Job, Cost], failed: dict[Job, str]) -> None:
        for job, cost in costs.items():
            self.database.put(replace(self.records[job], cost=cost))
            if job in self.measured:
                self.measured[job] = cost
        self.failed += failed.items()
        self.decided += 1


def _batches(jobs: Sequence[Job]) -> list[list[Job]]:
    found: list[list[Job]] = []
    rest = iter(jobs)
    while batch := list(islice(rest, BATCH if found else FIRST_BATCH)):
        found.append(batch)
    return found


def _cost(rounds: Rounds) -> Cost:
    return Cost(rounds.ms, MEASURED, rounds.spread_ms, rounds.runs)


def _clock_notes(before: MachineSaid, after: MachineSaid) -> list[str]:
    if before.khz and after.khz and after.khz < SLOWED * before.khz:
        clocks = f"{before.khz / 1e6:.2f} GHz to {after.khz / 1e6:.2f} GHz"
        return [f"CPU {before.cpu}: its clock fell from {clocks} meanwhile; let it cool, or hold the clock lower"]
    return []
