"""Measures the jobs of a network (lab/tuning/work_list.py) on a core of any machine that a runner reaches.

Each batch of jobs becomes a program; while it runs on a board, the next is built here. First each job is measured
alone, then the candidates for the fastest primitive of each scenario interleaved (interleaved_run.py,
lab/tuning/interleaved.py).
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from mavcg.choose.algorithms.costs.database import CostDb
from mavcg.lab.runners.bench_lines import JobFailed, JobTimes, MachineReport
from mavcg.lab.runners.bench_run import BenchOptions, run_bench
from mavcg.lab.tuning.interleaved_run import DEFAULT_INTERLEAVED, InterleavedOptions, measure_interleaved
from mavcg.lab.tuning.measured_core import ReachedCore, programs
from mavcg.lab.tuning.state import (
    ALL_AT_ONCE,
    FIRST_PART,
    RunControl,
    TunedOn,
    TuningState,
    batches_of,
)
from mavcg.lab.tuning.work_list import Job, WorkList

FIRST_BATCH, BATCH = 8, 24  # jobs of a program; the first batch is small so that progress is shown soon
DEFAULT_OPTIONS = BenchOptions()
SLOWED = 0.9  # ratio to the clock before; a lower clock means that the machine is hot or saves power


def tune_on(
    plan: WorkList,
    database: CostDb,
    reached: ReachedCore,
    control: RunControl = ALL_AT_ONCE,
    options: BenchOptions = DEFAULT_OPTIONS,
    interleaving: InterleavedOptions = DEFAULT_INTERLEAVED,
) -> TunedOn:
    """Measure the jobs of a plan with a thread per CPU; store each cost, warm and cold, in the database at once.

    An interrupt (Ctrl-C) ends it as the limit does.
    Raises: RunnerError if the machine fails; costs measured before are in the database.
    """
    tuning = TuningState(plan, database, reached, control)

    def compare(folder: Path) -> None:
        bytes_ = measure_interleaved(
            tuning.candidates(),
            reached,
            folder,
            options,
            interleaving,
            tuning.decide,
            tuning.tell_interleaved,
            control.note,
        )
        tuning.largest = max(tuning.largest, bytes_)

    tuning.measure(lambda folder: _measure_alone(tuning, reached, folder, options, control.note), compare)
    return tuning.result()


def _measure_alone(
    tuning: TuningState, reached: ReachedCore, folder: Path, options: BenchOptions, note: Callable[[str], None]
) -> None:
    """Measure each job alone. Raises: TimeIsUp."""
    if tuning.todo:
        tuning.check_time(FIRST_PART)
    tuning.tell()
    with closing(programs(batches_of(tuning.todo, FIRST_BATCH, BATCH), reached, folder)) as made:
        for batch, program in made:
            tuning.largest = max(tuning.largest, program.bytes)
            before, after = run_bench(
                reached.runner,
                program,
                range(len(batch)),
                reached.cpus,
                reached.core,
                options,
                _taker(tuning, batch),
                note,
            )
            tuning.notes += _clock_notes(before, after)


def _taker(tuning: TuningState, batch: Sequence[Job]) -> Callable[[JobTimes | JobFailed], None]:
    def take(result: JobTimes | JobFailed) -> None:
        tuning.take(batch[result.job], result)
        tuning.check_time(FIRST_PART)
        tuning.tell()

    return take


def _clock_notes(before: MachineReport, after: MachineReport) -> list[str]:
    if before.khz and after.khz and after.khz < SLOWED * before.khz:
        clocks = f"{before.khz / 1e6:.2f} GHz to {after.khz / 1e6:.2f} GHz"
        return [f"CPU {before.cpu}: its clock fell from {clocks} meanwhile; let it cool, or hold the clock lower"]
    return []
