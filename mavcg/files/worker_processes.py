"""Run tasks in forked copies of this process, so that Python code runs in parallel and nothing is loaded again.

Forked processes have all modules and values of this one from the start, and a task's arguments are not sent to them. If
a fork is not safe, tasks run in threads of this process; compilers still run in parallel.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from mavcg.errors import ToolError

R = TypeVar("R", covariant=True)


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

    from mavcg.files.forked_worker import FORKS, ForkedWorker, WorkerEndedError

    def answer_of(worker: ForkedWorker, number: int) -> R:
        try:
            result: R = worker.run(number)
            return result
        except WorkerEndedError:
            raise ToolError(
                f"{tasks[number].what}: the process ended with {worker.exit_status()}; "
                "take fewer --jobs where memory is short"
            ) from None

    def work(worker: ForkedWorker | None) -> None:
        with contextlib.suppress(Empty):
            while True:
                number = todo.get_nowait()
                try:
                    progress(tasks[number].what)
                    jobs[number].set_result(tasks[number].run() if worker is None else answer_of(worker, number))
                except BaseException as error:
                    jobs[number].set_exception(error)
        if worker is not None:
            worker.end()  # while there is a copy of this process, each page that is written is copied first

    # Threads that wait for a worker end when it is killed: so the workers, in the stack, go before the pool.
    with ThreadPoolExecutor(count) as pool, ExitStack() as stack:
        copies: list[ForkedWorker] = []
        for _ in range(count if FORKS else 0):
            copies.append(stack.enter_context(ForkedWorker(lambda number: tasks[number].run(), copies)))
        for number in range(count):
            pool.submit(work, copies[number] if FORKS else None)
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
