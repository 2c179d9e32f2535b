"""Run tasks in forked copies of this process, so that Python code runs in parallel and nothing is loaded again.

Forked processes have all modules and values of this one from the start, and a task's arguments are not sent to them. If
a fork is not safe, tasks run in threads of this process; compilers still run in parallel.
"""

import contextlib
import gc
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from mavcg.errors import ToolError
from mavcg.files.scratch import ENDING_SIGNALS, making

FORKS = sys.platform.startswith("linux")  # macOS's frameworks do not survive a fork, and Windows has none
R = TypeVar("R", covariant=True)
Pipe = Connection  # one end of it


@dataclass(frozen=True)
class Task(Generic[R]):
    """Some work.

    what: its description, for people. run: does the work, and returns a result that can be pickled. cost: estimate of
    its time, in any unit, which decides the order in which tasks start.
    """

    what: str
    run: Callable[[], R]
    cost: float = 0.0


def run_tasks(
    tasks: Sequence[Task[R]], workers: int, progress: Callable[[str], None] = lambda message: None
) -> list[R]:
    """Run tasks, `workers` at a time, each worker in a process of its own; return the results in the tasks' order.

    Tasks with the highest cost start first, so that no long task is left to the end; equal ones start in their order.
    progress: called with each task's description as it starts, from any thread.
    Raises: what a task raises; ToolError if a process ends before its task does.
    """
    if min(workers, len(tasks)) < 2:
        return _run_here(tasks, progress)
    with started_tasks(tasks, workers, progress) as results:
        return results()


@contextlib.contextmanager
def started_tasks(
    tasks: Sequence[Task[R]], workers: int, progress: Callable[[str], None] = lambda message: None
) -> Iterator[Callable[[], list[R]]]:
    """Start tasks as run_tasks does, in parallel with this process; yield a function that waits for the results.

    Tasks that have not ended at the end of the context are stopped. With fewer than one worker, the tasks run when the
    function is called.
    """
    count = min(workers, len(tasks))
    if count < 1:
        yield partial(_run_here, tasks, progress)
        return
    todo: SimpleQueue[int] = SimpleQueue()
    for number in sorted(range(len(tasks)), key=lambda number: -tasks[number].cost):
        todo.put(number)
    jobs = [Future[R]() for _ in tasks]

    def work(worker: _Worker | None) -> None:
        with contextlib.suppress(Empty):
            while True:
                number = todo.get_nowait()
                try:
                    progress(tasks[number].what)
                    jobs[number].set_result(tasks[number].run() if worker is None else worker.run(number))
                except BaseException as error:
                    jobs[number].set_exception(error)
        if worker is not None:
            worker.end()  # while there is a copy of this process, each page that is written is copied first

    # Threads that wait for a worker end when it is killed: so the workers, in the stack, go before the pool.
    with ThreadPoolExecutor(count) as pool, ExitStack() as stack:
        ours: list[Pipe] = []
        copies = [stack.enter_context(_Worker(tasks, ours)) if FORKS else None for _ in range(count)]
        for task in copies:
            pool.submit(work, task)
        try:
            yield lambda: [job.result() for job in jobs]
        finally:
            with contextlib.suppress(Empty):
                while True:
                    todo.get_nowait()


def _run_here(tasks: Sequence[Task[R]], progress: Callable[[str], None]) -> list[R]:
    results = []
    for task in tasks:
        progress(task.what)
        results.append(task.run())
    return results


class _Worker:
    """A process that runs tasks one after the other."""

    def __init__(self, tasks: Sequence[Task[Any]], ours: list[Pipe]) -> None:
        """Start the process.

        ours: this process's ends of the pipes to all workers, which the worker closes; the new one is added.
        """
        context = multiprocessing.get_context("fork")
        self._tasks = tasks
        self._ending = threading.Lock()  # by its thread, and where the context ends
        self._pipe, theirs = context.Pipe()
        ours.append(self._pipe)
        self._process = context.Process(target=_serve, args=(tasks, theirs, tuple(ours)), daemon=True)
        with making:  # no other thread then makes a folder or a process, and a signal's handler sees this one
            self._process.start()
        theirs.close()

    def run(self, number: int) -> Any:
        """Run a task in the process. Raises: as the task; ToolError with the exit status if the process has ended."""
        try:
            self._pipe.send(number)
            succeeded, result = self._pipe.recv()
        except (OSError, EOFError) as error:
            self._process.join()
            raise ToolError(
                f"{self._tasks[number].what}: the process ended with {self._process.exitcode}; "
                "take fewer --jobs where memory is short"
            ) from error
        if not succeeded:
            raise result
        return result

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process if it still runs; the result of an unfinished task is lost."""
        with self._ending:
            self._process.kill()
            self._process.join()
            self._pipe.close()


def _serve(tasks: Sequence[Task[Any]], pipe: Pipe, parents: Sequence[Pipe]) -> None:
    """Run the tasks whose numbers arrive, until the parent closes its end of the pipe or ends."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # folders are the parent's to remove
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the parent ends its workers
    for end in parents:
        end.close()
    # Inherited objects are excluded from garbage collection, so that their pages stay shared. A task's own garbage is
    # collected at its end, because collections during a task take a quarter of the time of emitting kernels. Objects
    # that a task leaves in caches are not collected; to traverse them after each task would take a tenth of a build's
    # time.
    gc.disable()
    gc.freeze()
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = tasks[pipe.recv()]
            try:
                answer = True, task.run()
            except Exception as error:
                answer = False, error
            pipe.send(answer)
            del task, answer
            gc.collect()
            gc.freeze()
