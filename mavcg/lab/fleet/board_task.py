"""Runs jobs of a program on a board, by a function of frozen values that may be called here or by a Dask worker."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.hardware.core import Core
from mavcg.lab.jobs.engine import Stopped, never
from mavcg.lab.jobs.messages import MessageError
from mavcg.lab.runners.bench_lines import InterleavedTimes, JobFailed, JobTimes
from mavcg.lab.runners.bench_program import BenchProgram
from mavcg.lab.runners.bench_run import BenchOptions, run_bench, run_interleaved
from mavcg.lab.runners.facts import MachineFacts
from mavcg.lab.runners.open import open_runner

Result = JobTimes | JobFailed | InterleavedTimes
Unit = tuple[int, ...]


@dataclass(frozen=True)
class BoardTask:
    """Jobs of a program to run on one board.

    runner: of the board, as for --runner. jobs: number of jobs in the program. units: jobs whose results arrive
    together. interleaved: True if the jobs of a unit are interleaved. cpus, core: as in run_bench.
    """

    runner: str
    program: bytes = field(repr=False)
    jobs: int
    units: tuple[Unit, ...]
    interleaved: bool
    cpus: tuple[int, ...]
    core: Core | None = field(repr=False)
    options: BenchOptions


@dataclass(frozen=True)
class BoardAnswer:
    """The result of a task. fault: the reason why the board could not finish, or ""; earlier results are included."""

    results: tuple[Result, ...]
    fault: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


class _NotNeeded(Exception):
    """Raised if the task's result is no longer needed."""


def run_board_task(task: BoardTask, stopped: Stopped = never) -> BoardAnswer:
    """Run a task's jobs on its board, and remove all files there at the end.

    stopped: called after each result; the task ends if it returns True.
    """
    started = time.monotonic()
    results: list[Result] = []
    notes: list[str] = []
    fault = ""

    def take(result: Result) -> None:
        results.append(result)
        if stopped():
            raise _NotNeeded

    try:
        with scratch_folder("mavcg-fleet-") as folder, open_runner(task.runner) as runner:
            path = Path(folder) / "bench"
            path.write_bytes(task.program)
            program = BenchProgram(path, task.jobs)
            if task.interleaved:
                run_interleaved(runner, program, task.units, task.cpus, task.core, task.options, take, notes.append)
            else:
                numbers = [job for unit in task.units for job in unit]
                run_bench(runner, program, numbers, task.cpus, task.core, task.options, take, notes.append)
    except _NotNeeded:
        pass  # results until now count
    except (MavcgError, OSError) as error:
        fault = str(error)
    return BoardAnswer(tuple(results), fault, tuple(notes), time.monotonic() - started)


def check_run_board_task(task: BoardTask, answer: BoardAnswer) -> None:
    """Raise MessageError for results of a worker that belong to other jobs than the task's."""
    asked = {job for unit in task.units for job in unit}
    for result in answer.results:
        if result.job not in asked:
            raise MessageError(f"a result of job {result.job}, which was not asked for")


def read_board_facts(runner: str, stopped: Stopped = never) -> MachineFacts | str:
    """Return a board's facts, or the reason why they cannot be read. stopped: not looked at, for it takes a moment."""
    try:
        with open_runner(runner) as opened:
            return opened.facts()
    except (MavcgError, OSError) as error:
        return str(error)
