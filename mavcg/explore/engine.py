"""Engines that run tasks: in this process, or on workers."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

SMALLEST_PART = 16
Item = TypeVar("Item")
Result = TypeVar("Result")
Found = Callable[[Sequence[Item], Sequence[Result]], None]
# A plain function of frozen values, which gives a result for each.
Work = Callable[[tuple[Item, ...]], tuple[Result, ...]]


class Engine(Protocol):
    """Runs tasks: each is a function called with some of the items."""

    def run(self, work: Work[Item, Result], items: Sequence[Item], most: int, found: Found[Item, Result]) -> None:
        """Do the work on all items, at most so many in a task, tasks in any order.

        found: called in this thread with the items and results of each task.
        """


class LocalEngine:
    """Runs tasks in this process, one after the other."""

    def run(self, work: Work[Item, Result], items: Sequence[Item], most: int, found: Found[Item, Result]) -> None:
        """Do the work on all items in their order."""
        for task in tasks_of(items, most):
            found(task, work(task))


def tasks_of(items: Sequence[Item], most: int, workers: int = 1) -> tuple[tuple[Item, ...], ...]:
    """Return the items as tasks: `most` of them, or fewer where each of several workers would have less than four.

    Never less than a sixteenth of `most`: a scheduler takes a millisecond for a task, however small.
    """
    size = max(1, most // SMALLEST_PART, min(most, -(-len(items) // (4 * workers)))) if workers > 1 else most
    return tuple(tuple(items[start : start + size]) for start in range(0, len(items), size))
