"""Engines that run searches: in this process, or as tasks of workers."""

from collections.abc import Callable, Sequence
from typing import Protocol

from mavcg.explore.tilings import SearchKey, TileTraffic, search_tilings

TASK_SEARCHES = 400  # of one task: a few tenths of a second, after which results are kept
Found = Callable[[Sequence[SearchKey], Sequence[TileTraffic | None]], None]


class Engine(Protocol):
    """Runs searches."""

    def run(self, keys: Sequence[SearchKey], found: Found) -> None:
        """Search for all keys, in any order; call `found` in this thread with the results of each task."""


class LocalEngine:
    """Runs searches in this process, one after the other."""

    def run(self, keys: Sequence[SearchKey], found: Found) -> None:
        """Search for all keys in their order."""
        for task in tasks_of(keys):
            found(task, search_tilings(task))


def tasks_of(keys: Sequence[SearchKey], workers: int = 1) -> tuple[tuple[SearchKey, ...], ...]:
    """Return the searches as tasks: of TASK_SEARCHES, or fewer where each of `workers` would have less than four."""
    size = max(1, min(TASK_SEARCHES, -(-len(keys) // (4 * workers)))) if workers > 1 else TASK_SEARCHES
    ordered = sorted(keys, key=lambda key: (key.layer.name, id(key.layer)))  # a layer is sent once for each task
    return tuple(tuple(ordered[start : start + size]) for start in range(0, len(ordered), size))
