"""Boards whose jobs end at once, in this process."""

import shlex
from collections.abc import Callable
from typing import Any

from mavcg.lab.fleet.board_task import BoardAnswer, BoardTask, Result
from mavcg.lab.jobs.engine import LocalEngine
from mavcg.lab.runners.bench_lines import Condition, InterleavedTimes, JobTimes, Rounds
from mavcg.lab.runners.facts import MachineFacts
from mavcg.lab.runners.open import LocalTransport
from mavcg.lab.runners.shell_runner import ShellRunner


def facts_by_files() -> MachineFacts:
    """This machine's facts as a runner elsewhere reads them: files show no CPUID."""
    with ShellRunner(LocalTransport()) as runner:
        return runner.facts("/.")


class InstantBoards(LocalEngine):
    """Boards in this process: a job takes what its program says, on desk-1 twice as long; all are this machine."""

    def call(self, work: Any, argument: Any, resource: str, stopped: Callable[[], bool]) -> Any:
        return facts_by_files() if isinstance(argument, str) else self._measured(argument, resource)

    def _measured(self, task: BoardTask, resource: str) -> BoardAnswer:
        micros = [float(word) for word in shlex.split(task.program.decode().splitlines()[1])[5].split(",")]
        ends, results = (Condition(2_000_000, 40.0), Condition(1_900_000, 45.0)), list[Result]()
        for job in (job for unit in task.units for job in unit):
            ms = micros[job] / 1e3 * (2 if resource == "board-desk-1" else 1)
            if task.interleaved:
                results.append(InterleavedTimes(job, "s", (ms,) * 7, (False,) * 7, 7, *ends))
            else:
                results.append(JobTimes(job, Rounds(ms, 0.0, 5, 5, 0), None, "s", *ends))
        return BoardAnswer(tuple(results), seconds=0.01)
