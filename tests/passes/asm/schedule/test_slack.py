"""Longest paths between the ops of a loop, against paths followed one by one."""

from itertools import pairwise, permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mavcg.passes.asm.isa.op import Edge
from mavcg.passes.asm.schedule.slack import Cycles, distances_by_stages, recurrences_fit, start_ranges

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
    """The most cycles along any simple path; along the simple cycle where both ends are one op."""
    others = [op for op in range(COUNT) if op not in (source, target)]
    paths = [(source, *between, target) for size in range(len(others) + 1) for between in permutations(others, size)]
    return max(sum(_step(edges, interval, a, b) for a, b in pairwise(path)) for path in paths)


def _has_positive_cycle(edges: list[Edge], interval: int) -> bool:
    return any(_paths(edges, interval, op, op) > 0 for op in range(COUNT))


@given(EDGES, st.integers(1, 8))
def test_recurrences_fit_where_no_cycle_takes_too_long(edges: list[Edge], interval: int) -> None:
    assert recurrences_fit(COUNT, edges, interval) == (not _has_positive_cycle(edges, interval))


@given(EDGES, st.integers(1, 8), st.integers(1, 3))
def test_windows_are_longest_paths_with_the_branch_in_its_place(edges: list[Edge], interval: int, stages: int) -> None:
    """The same with the branch's cycle and the number of stages as edges, which they are."""
    held = [Edge(LAST, op, 1 - interval) for op in range(COUNT)]
    held += [Edge(op, LAST, (1 - stages) * interval) for op in range(COUNT)]
    found = distances_by_stages(COUNT, edges, LAST, interval)(stages)

    if _has_positive_cycle([*edges, *held], interval):
        assert found is None
        return
    assert found is not None
    for source in range(COUNT):
        for target in range(COUNT):
            expected = 0 if source == target else _paths([*edges, *held], interval, source, target)
            assert found[source, target] == expected
    _hold(found, interval, stages)


def _hold(distances: Cycles, interval: int, stages: int) -> None:
    earliest, latest = start_ranges(distances, LAST, interval)
    assert earliest[LAST] == latest[LAST] == interval - 1
    assert (earliest >= 0).all() and (latest < stages * interval).all() and (earliest <= latest).all()


def test_a_loop_of_no_edges_closes() -> None:
    assert recurrences_fit(3, [], 1)
