"""Measures a network's jobs on one core type of a pool of boards: each job alone, then the candidates interleaved."""

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from mavcg.choose.algorithms.costs.database import CostDb
from mavcg.choose.algorithms.costs.provider import Cost
from mavcg.lab.fleet.board_pool import Attempt, BoardPool, PoolAnswer
from mavcg.lab.fleet.board_task import BoardTask, Unit
from mavcg.lab.fleet.figures_store import put_figures
from mavcg.lab.runners.bench_lines import JobFailed, JobTimes
from mavcg.lab.runners.bench_run import BenchOptions, TakenInterleaved
from mavcg.lab.runners.transport import RunnerError
from mavcg.lab.tuning.interleaved import CandidateGroup
from mavcg.lab.tuning.interleaved_run import (
    DEFAULT_INTERLEAVED,
    Entry,
    Groups,
    InterleavedOptions,
    interleaved_batches,
    jobs_of,
    settle,
)
from mavcg.lab.tuning.measured_core import MeasuredCore, programs
from mavcg.lab.tuning.state import (
    ALL_AT_ONCE,
    FIRST_PART,
    INTERRUPT,
    RunControl,
    TimeIsUp,
    TunedOn,
    TuningState,
    batches_of,
)
from mavcg.lab.tuning.work_list import Job, WorkList

BATCH = 12  # jobs of a program without its two probes; fewer than for one board, so that all boards stay busy
Decision = tuple[CandidateGroup, dict[Job, Cost], dict[Job, str]]


def tune_on_fleet(
    plan: WorkList,
    database: CostDb,
    core: MeasuredCore,
    pool: BoardPool,
    options: BenchOptions,
    control: RunControl = ALL_AT_ONCE,
    interleaving: InterleavedOptions = DEFAULT_INTERLEAVED,
) -> TunedOn:
    """Measure as tune_on does, on all boards of the pool at once; the figures of a batch are stored at its end.

    The plan's first job is the probe: it is measured on each board first, and at both ends of each batch.
    Raises: RunnerError if no board is left; figures measured before are stored.
    """
    tuning = _FleetTuning(TuningState(plan, database, core, control), core, pool, options)
    tuning.state.measure(tuning.alone, lambda folder: tuning.measure_interleaved(folder, interleaving))
    if pool.stopped.is_set():
        tuning.state.stopped = INTERRUPT
    tuning.state.notes += pool.notes
    return tuning.state.result()


class _FleetTuning:
    """The measurements of one core type."""

    def __init__(self, state: TuningState, core: MeasuredCore, pool: BoardPool, options: BenchOptions) -> None:
        self.state, self.core, self.pool, self.options = state, core, pool, options
        self.fault = ""  # the reason why no board is left

    def alone(self, folder: Path) -> None:
        """Measure each job alone, in batches with a probe at both ends. Raises: TimeIsUp, RunnerError."""
        if not self.state.todo:
            return
        self.state.check_time(FIRST_PART)
        probe = self.state.plan.jobs[0]
        batches = [[probe, *batch, probe] for batch in batches_of(self.state.todo, BATCH, BATCH)]
        with (
            closing(programs([[probe], *batches], self.core, folder)) as made,
            ThreadPoolExecutor(len(self.pool.boards)) as threads,
        ):
            _, program = next(made)
            self.pool.calibrate(self._task(program.path.read_bytes(), 1, ((0,),)))
            pending: dict[Future[PoolAnswer], Sequence[Job]] = {}
            try:
                for batch, program in made:
                    if self.pool.stopped.is_set() or self.fault:
                        break
                    self.state.check_time(FIRST_PART)
                    self.state.tell()
                    self.state.largest = max(self.state.largest, program.bytes)
                    units = tuple((number,) for number in range(1, len(batch) - 1))
                    task = self._task(program.path.read_bytes(), program.jobs, units)
                    pending[threads.submit(self.pool.measure, task, (0, len(batch) - 1))] = batch
                    self._collect(pending, len(self.pool.boards))
            finally:
                self._collect(pending, 0)
        self._check_boards()

    def measure_interleaved(self, folder: Path, settings: InterleavedOptions) -> None:
        """Measure the candidates of each scenario interleaved; all groups of a program run on one board.

        Raises: TimeIsUp, RunnerError.
        """
        if self.pool.stopped.is_set():
            return
        batches = interleaved_batches(self.state.candidates(), settings.jobs)
        options = replace(self.options, rounds=settings.rounds)
        with (
            closing(programs(jobs_of(batches), self.core, folder)) as made,
            ThreadPoolExecutor(len(self.pool.boards)) as threads,
        ):
            pending: dict[Future[_Settled], Sequence[Job]] = {}
            try:
                for batch, (order, program) in zip(batches, made, strict=True):
                    if self.pool.stopped.is_set() or self.fault:
                        break
                    self.state.largest = max(self.state.largest, program.bytes)
                    self.state.tell_interleaved(batch[0][0])
                    task = self._task(program.path.read_bytes(), program.jobs, ())
                    task = replace(task, interleaved=True, options=options)
                    pending[threads.submit(self._settle, batch, order, task, settings)] = order
                    self._decide(pending, len(self.pool.boards))
            finally:
                self._decide(pending, 0)
        self._check_boards()
        self.state.check_time()

    def _check_boards(self) -> None:
        """Raise RunnerError if no board is left."""
        if self.fault:
            raise RunnerError(self.fault)

    def _task(self, program: bytes, jobs: int, units: tuple[Unit, ...]) -> BoardTask:
        return BoardTask("", program, jobs, units, False, (), self.core.core, self.options)

    def _collect(self, pending: dict[Future[PoolAnswer], Sequence[Job]], most: int) -> None:
        """Store the figures of batches as they end, until at most `most` are pending."""
        while len(pending) > most:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                batch, answer = pending.pop(future), future.result()
                self._keep(batch, answer)
                for attempt in answer.accepted:
                    (result,) = attempt.results
                    if isinstance(result, JobTimes | JobFailed):
                        self.state.take(batch[result.job], result, f"{self.core.host} {attempt.board}")
                    if attempt.verdict and isinstance(result, JobTimes):
                        name = batch[result.job].name
                        self.state.notes.append(f"{name}: {attempt.verdict} on every board; {attempt.board}'s is kept")
                self._compare_checksums(batch, (*answer.accepted, *answer.rejected))
                self.state.tell()

    def _decide(self, pending: "dict[Future[_Settled], Sequence[Job]]", most: int) -> None:
        while len(pending) > most:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                order, settled = pending.pop(future), future.result()
                for answer in settled.answers:
                    self._keep(order, answer)
                for decision in settled.decisions:
                    self.state.decide(*decision)

    def _keep(self, jobs: Sequence[Job], answer: PoolAnswer) -> None:
        self.fault = self.fault or answer.fault
        record = self.state.records[self.state.plan.jobs[0]]
        kind = self.pool.boards[0].kind
        put_figures(self.state.database, record, kind, jobs, answer.rejected, False)
        put_figures(self.state.database, record, kind, jobs, answer.accepted, True)

    def _compare_checksums(self, batch: Sequence[Job], attempts: Sequence[Attempt]) -> None:
        """Note jobs for which two boards computed different bits."""
        first: dict[int, tuple[str, str]] = {}
        for attempt in attempts:
            for result in attempt.results:
                if isinstance(result, JobTimes):
                    checksum, board = first.setdefault(result.job, (result.checksum, attempt.board))
                    if checksum != result.checksum:
                        words = f"{board} and {attempt.board} compute other results; one of them is faulty"
                        self.state.notes.append(f"{batch[result.job].name}: {words}")

    def _settle(
        self, batch: Sequence[Entry], order: Sequence[Job], task: BoardTask, settings: InterleavedOptions
    ) -> "_Settled":
        """Measure a program's groups until they are decided, each process on any board. Called in a thread."""
        settled = _Settled()

        def measure(groups: Groups, taker: TakenInterleaved) -> None:
            answer = self.pool.measure(replace(task, units=tuple(tuple(group) for group in groups)))
            settled.answers.append(answer)
            if self.pool.stopped.is_set() or answer.fault:
                raise TimeIsUp
            for attempt in answer.accepted:
                for result in attempt.results:
                    if not isinstance(result, JobTimes):
                        taker(result)

        def decide(*decision: *Decision) -> None:
            settled.decisions.append(decision)

        try:
            settle(batch, order, measure, settings, decide, lambda measurement: self.state.check_time())
        except TimeIsUp:
            return settled  # without the undecided groups
        return settled


@dataclass(frozen=True)
class _Settled:
    """The result of a program's groups: the answers of its processes, and the decisions."""

    answers: list[PoolAnswer] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
