"""Longest paths between the ops of a loop, against paths followed one by one."""

from itertools import pairwise, permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mavcg.passes.asm.op import Edge
from mavcg.passes.asm.windows import Cycles, circles_close, cycle_ranges, windows

COUNT, LAST = 4, 3
EDGES = st.lists(
    st.builds(Edge, st.integers(0, COUNT - 1), st.integers(0, COUNT - 1), st.integers(0, 6), st.integers(0, 2)),
    max_size=8,
)


def _step(edges: list[Edge], interval: int, source: int, target: int) -> float:
    """The most cycles of an edge from one op to the other."""
    ends = (e.latency - interval * e.distance for e in edges if (e.source, e.target) == (source, target))
    return max(ends, default=-np.inf)


def _paths(edges: list[Edge], interval: int, source: int, target: int) -> float:
    """The most cycles along any path without a circle; the circle itself where both ends are one op."""
    others = [op for op in range(COUNT) if op not in (source, target)]
    ways = [(source, *between, target) for size in range(len(others) + 1) for between in permutations(others, size)]
    return max(sum(_step(edges, interval, a, b) for a, b in pairwise(way)) for way in ways)


def _circle(edges: list[Edge], interval: int) -> bool:
    return any(_paths(edges, interval, op, op) > 0 for op in range(COUNT))


@given(EDGES, st.integers(1, 8))
def test_circles_close_where_no_circle_takes_too_long(edges: list[Edge], interval: int) -> None:
    assert circles_close(COUNT, edges, interval) == (not _circle(edges, interval))


@given(EDGES, st.integers(1, 8), st.integers(1, 3))
def test_windows_are_longest_paths_with_the_branch_in_its_place(edges: list[Edge], interval: int, stages: int) -> None:
    """The same with the branch's cycle and the number of stages as edges, which they are."""
    held = [Edge(LAST, op, 1 - interval) for op in range(COUNT)]
    held += [Edge(op, LAST, (1 - stages) * interval) for op in range(COUNT)]
    found = windows(COUNT, edges, LAST, interval)(stages)

    if _circle([*edges, *held], interval):
        assert found is None
        return
    assert found is not None
    for source in range(COUNT):
        for target in range(COUNT):
            wanted = 0 if source == target else _paths([*edges, *held], interval, source, target)
            assert found[source, target] == wanted
    _hold(found, interval, stages)


def _hold(apart: Cycles, interval: int, stages: int) -> None:
    earliest, latest = cycle_ranges(apart, LAST, interval)
    assert earliest[LAST] == latest[LAST] == interval - 1
    assert (earliest >= 0).all() and (latest < stages * interval).all() and (earliest <= latest).all()


def test_a_loop_of_no_edges_closes() -> None:
    assert circles_close(3, [], 1)
