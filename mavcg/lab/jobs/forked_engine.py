"""Runs tasks on processes of this machine: forked copies of this one, so that no Python is started and no port opened.

A task may run twice: the work of a process that was killed is repeated by another one.
"""

import tempfile
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import wait
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.forked_worker import ForkedWorker, WorkerEndedError
from mavcg.files.scratch import scratch_folder
from mavcg.lab.jobs.engine import ATTEMPTS, DIED, Item, LocalEngine, OnResults, Result, Work, tasks_of


class ForkedEngine(LocalEngine):
    """Engine that runs tasks in a number of forked processes; a context manager that ends them.

    A single call is run here: it waits for a board, and its threads may not fork.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._idle: list[ForkedWorker] = []  # they keep what their tasks cached for the tasks of later calls of `run`
        self._stack = ExitStack()

    def __enter__(self) -> "ForkedEngine":
        # What a process leaves when it is killed lies in a folder of this one, which removes it.
        self._answer = partial(_call, str(self._stack.enter_context(scratch_folder("mavcg-workers-"))))
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._idle:
            worker.end()
        self._stack.close()

    def run(
        self, work: Work[Item, Result], items: Sequence[Item], most: int, on_results: OnResults[Item, Result]
    ) -> None:
        """Run the work on all items; results are passed on in the order in which tasks end.

        Raises: what a task raises; MavcgError if processes die repeatedly during a task.
        """
        waiting = deque((task, 1) for task in tasks_of(items, most, self.workers))
        busy: dict[Any, tuple[ForkedWorker, tuple[Item, ...], int]] = {}  # by the worker's pipe
        try:
            while waiting or busy:
                while waiting and len(busy) < self.workers:
                    task, attempt = waiting.popleft()
                    worker = self._idle.pop() if self._idle else self._fork_worker([each for each, *_ in busy.values()])
                    worker.send((work, task))
                    busy[worker.pipe] = worker, task, attempt
                for pipe in wait(list(busy)):
                    worker, task, attempt = busy.pop(pipe)
                    self._idle.append(worker)
                    try:
                        results = worker.receive()
                    except WorkerEndedError:
                        self._idle.pop().end()
                        if attempt == ATTEMPTS:
                            raise MavcgError(f"--workers {self.workers}: {DIED}") from None
                        waiting.append((task, attempt + 1))
                    else:
                        on_results(task, results)
        finally:
            for worker, *_ in busy.values():
                worker.end()

    def _fork_worker(self, busy: Sequence[ForkedWorker]) -> ForkedWorker:
        return ForkedWorker(self._answer, [*self._idle, *busy])


def _call(folder: str, request: tuple[Work[Any, Any], tuple[Any, ...]]) -> tuple[Any, ...]:
    tempfile.tempdir = folder
    work, task = request
    return work(task)
