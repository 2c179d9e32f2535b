"""Run jobs of a program on a board: a plain function of frozen values, called here or by a Dask worker."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.hardware.core import Core
from mavcg.runners.bench_lines import InterleavedTimes, JobFailed, JobTimes
from mavcg.runners.bench_program import BenchProgram
from mavcg.runners.bench_run import BenchOptions, run_bench, run_interleaved
from mavcg.runners.facts import MachineFacts
from mavcg.runners.open import open_runner

Result = JobTimes | JobFailed | InterleavedTimes
Unit = tuple[int, ...]


@dataclass(frozen=True)
class BoardTask:
    """Jobs of a program on one board. runner: how the board is reached; jobs: of the program; units: of jobs whose
    results come together; interleaved: whether the jobs of a unit are. cpus, core: as run_bench takes them.
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
    """Result of a task. fault: why the board could not be used to the end, or ""; what came before it is there."""

    results: tuple[Result, ...]
    fault: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


class _NotNeeded(Exception):
    """Raised when nobody waits for the task any more."""


def never() -> bool:
    """Return False: the task runs to its end."""
    return False


def run_board_task(task: BoardTask, stopped: Callable[[], bool] = never) -> BoardAnswer:
    """Run a task's jobs. stopped: called after each result; the task ends where it returns True. Nothing is left
    there."""
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
        pass  # what was measured counts
    except (MavcgError, OSError) as error:
        fault = str(error)
    return BoardAnswer(tuple(results), fault, tuple(notes), time.monotonic() - started)


def read_board_facts(runner: str) -> MachineFacts | str:
    """Return what a board reports of itself, or why it does not."""
    try:
        with open_runner(runner) as opened:
            return opened.facts()
    except (MavcgError, OSError) as error:
        return str(error)
