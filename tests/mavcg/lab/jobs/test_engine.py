"""One task by an engine: its result, its error, and that it is stopped; on a farm, by the worker that has a board."""

from collections.abc import Callable
from typing import Any

import pytest

from mavcg.errors import MavcgError
from mavcg.lab.jobs.engine import Engine, LocalEngine, Stopped, never, tasks_of
from mavcg.lab.jobs.forked_engine import ForkedEngine


def length_until_stopped(text: str, stopped: Stopped) -> int | None:
    """Return the length of a text, unless it is not needed."""
    if not text:
        raise MavcgError("text: is empty; give one")
    return None if stopped() else len(text)


@pytest.mark.parametrize("open_engine", [LocalEngine, lambda: ForkedEngine(2).__enter__()])
def test_a_single_task_runs_here(open_engine: Callable[[], Engine]) -> None:
    engine: Any = open_engine()

    assert engine.call(length_until_stopped, "abc", "board-a", never) == 3
    assert engine.call(length_until_stopped, "abc", "board-a", lambda: True) is None
    with pytest.raises(MavcgError, match="text: is empty"):
        engine.call(length_until_stopped, "", "board-a", never)


@pytest.mark.parametrize("workers", [1, 3, 40])
@pytest.mark.parametrize("most", [1, 7, 64])
def test_tasks_have_all_items_in_order(workers: int, most: int) -> None:
    tasks = tasks_of(range(100), most, workers)

    assert [item for task in tasks for item in task] == list(range(100))
    assert all(1 <= len(task) <= most for task in tasks)
