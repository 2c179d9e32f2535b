"""The interface of what runs tasks, and the engine that is this process."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

SMALLEST_PART = 16
ATTEMPTS = 10  # attempts of a task whose workers die; after that the task itself is taken to be the cause
DIED = "workers died repeatedly during a task, for example for lack of memory; results so far are kept"
Item = TypeVar("Item")
Result = TypeVar("Result")
OnResults = Callable[[Sequence[Item], Sequence[Result]], None]
# A plain function from frozen values to a result for each.
Work = Callable[[tuple[Item, ...]], tuple[Result, ...]]
Stopped = Callable[[], bool]  # returns True when a result is no longer needed
# A plain function from a frozen value to a result, which looks at times whether it is stopped.
Call = Callable[[Item, Stopped], Result]


def never() -> bool:
    """Return False, so that a task runs to its end."""
    return False


class Engine(Protocol):
    """Runs tasks, each a call of a function with some of the items."""

    def run(
        self, work: Work[Item, Result], items: Sequence[Item], most: int, on_results: OnResults[Item, Result]
    ) -> None:
        """Run the work on all items, at most `most` per task, tasks in any order.

        on_results: called in this thread with the items and results of each task.
        """

    def call(self, work: Call[Item, Result], argument: Item, resource: str, stopped: Stopped) -> Result | None:
        """Return the result of one task, or None if it was stopped before; several threads may call.

        resource: what the task needs, as a board, which one task at a time uses. Raises: MavcgError where nothing that
        has it answers.
        """


class LocalEngine:
    """Runs tasks in this process, one after the other."""

    def run(
        self, work: Work[Item, Result], items: Sequence[Item], most: int, on_results: OnResults[Item, Result]
    ) -> None:
        """Run the work on all items, in order."""
        for task in tasks_of(items, most):
            on_results(task, work(task))

    def call(self, work: Call[Item, Result], argument: Item, resource: str, stopped: Stopped) -> Result | None:
        """Run the task in the calling thread; this machine has all resources."""
        return work(argument, stopped)


def tasks_of(items: Sequence[Item], most: int, workers: int = 1) -> tuple[tuple[Item, ...], ...]:
    """Return the items divided into tasks of `most` items, or fewer, so that each of several workers gets four tasks.

    A task has at least a sixteenth of `most` items, because a scheduler takes a millisecond per task.
    """
    size = max(1, most // SMALLEST_PART, min(most, -(-len(items) // (4 * workers)))) if workers > 1 else most
    return tuple(tuple(items[start : start + size]) for start in range(0, len(items), size))
