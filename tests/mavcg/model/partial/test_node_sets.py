"""Convex sets of generated graphs, against the definition by paths; sets of a delegate, against the runtime's rule."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.model.partial.node_sets import convex_sets, delegate_sets

Graph = tuple[list[list[int]], list[bool], list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 12))
    sources = [draw(st.lists(st.integers(0, i - 1), max_size=3, unique=True)) if i else [] for i in range(count)]
    supported = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return sources, supported, draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))


def has_cycle(sources: list[list[int]], group: list[int]) -> bool:
    """True if the groups, each taken as one node, wait for each other."""
    needs = {g: {group[s] for n, read in enumerate(sources) if group[n] == g for s in read} - {g} for g in group}
    while needs:
        ready = {g for g, on in needs.items() if not on & set(needs)}
        if not ready:
            return True
        for g in ready:
            del needs[g]
    return False


@given(graphs())
def test_sets_are_convex_together_and_no_two_can_be_joined(graph: Graph) -> None:
    sources, supported, weights = graph
    sets = convex_sets(sources, supported, weights)

    assert sorted(n for nodes in sets for n in nodes) == [n for n, able in enumerate(supported) if able]
    group = list(range(len(sources)))
    for nodes in sets:
        for n in nodes:
            group[n] = nodes[0]
    assert not has_cycle(sources, group)
    for n, read in enumerate(sources):
        for s in read:
            if supported[n] and supported[s] and group[n] != group[s]:
                joined = [group[n] if g == group[s] else g for g in group]
                assert has_cycle(sources, joined), f"{group} could join {group[s]} and {group[n]}"
    totals = [sum(weights[n] for n in nodes) for nodes in sets]
    assert all(a >= b for a, b in pairwise(totals))


@pytest.mark.parametrize(
    ("sources", "supported", "sets"),
    [
        ([[], [0], [1]], [True, True, True], [(0, 1, 2)]),
        ([[], [0], [1]], [True, False, True], [(0,), (2,)]),
        # The unsupported node beside a chain does not wait for it: both ends are one set.
        ([[], [], [0, 1]], [True, False, True], [(0, 2)]),
        # It waits for the beginning of the chain: the path through it would leave the set.
        ([[], [0], [0, 1]], [True, False, True], [(0,), (2,)]),
        ([], [], []),
    ],
)
def test_small_graphs(sources: list[list[int]], supported: list[bool], sets: list[tuple[int, ...]]) -> None:
    assert convex_sets(sources, supported, [1] * len(sources)) == sets


def test_a_long_chain_with_many_unsupported_nodes_is_divided_in_time() -> None:
    count = 3000
    sources = [[i - 1] if i else [] for i in range(count)]
    supported = [i % 10 != 0 for i in range(count)]

    assert len(convex_sets(sources, supported, [1] * count)) == count // 10


@pytest.mark.parametrize(
    ("sources", "supported", "sets"),
    [
        ([[], [0], [1]], [True, True, True], [(0, 1, 2)]),
        ([[], [0], [1]], [True, False, True], [(0,), (2,)]),
        # Node 0 runs first and alone: node 2 waits for node 1, which belongs to the runtime.
        ([[], [], [0, 1]], [True, False, True], [(0,), (2,)]),
        # The runtime's node comes first, and both others after it.
        ([[], [], [0, 1]], [False, True, True], [(1, 2)]),
        # Two chains without a connection are one set.
        ([[], []], [True, True], [(0, 1)]),
        ([], [], []),
    ],
)
def test_sets_of_a_delegate(sources: list[list[int]], supported: list[bool], sets: list[tuple[int, ...]]) -> None:
    assert delegate_sets(sources, supported, [1] * len(sources)) == sets


@given(st.data(), st.integers(0, 20))
def test_each_supported_node_is_in_one_set_of_a_delegate(data: st.DataObject, count: int) -> None:
    sources = [data.draw(st.lists(st.integers(0, i - 1), unique=True)) if i else [] for i in range(count)]
    supported = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    sets = delegate_sets(sources, supported, [1] * count)

    assert sorted(n for nodes in sets for n in nodes) == [n for n, able in enumerate(supported) if able]
    assert all(list(nodes) == sorted(nodes) for nodes in sets)
