"""Strongly connected components and cycles are those that networkx finds."""

from itertools import islice

import networkx as nx
from hypothesis import given
from hypothesis.strategies import integers, lists, sets

from mavcg.passes.asm.analysis.components import simple_cycles, strongly_connected

NODES = 8


@given(
    successors=lists(lists(integers(0, NODES - 1), max_size=3), min_size=NODES, max_size=NODES),
    among=sets(integers(0, NODES - 1)),
)
def test_components_are_those_of_networkx(successors: list[list[int]], among: set[int]) -> None:
    graph = nx.DiGraph((i, j) for i in among for j in successors[i] if j in among)
    graph.add_nodes_from(among)
    assert set(strongly_connected(successors, among)) == set(map(frozenset, nx.strongly_connected_components(graph)))


@given(successors=lists(lists(integers(0, NODES - 1), max_size=3), min_size=NODES, max_size=NODES))
def test_cycles_are_those_of_networkx(successors: list[list[int]]) -> None:
    graph = nx.DiGraph((i, j) for i in range(NODES) for j in successors[i] if j != i)
    found = list(simple_cycles(successors))

    def from_lowest(cycle: list[int]) -> tuple[int, ...]:
        start = cycle.index(min(cycle))
        return (*cycle[start:], *cycle[:start])

    assert sorted(map(tuple, found)) == sorted(map(from_lowest, nx.simple_cycles(graph)))
    assert [cycle[0] for cycle in found] == sorted(cycle[0] for cycle in found)


def test_the_first_of_very_many_cycles_come_at_once() -> None:
    """2^40 ways through 40 diamonds that return to the start, and a long chain of loops of two blocks."""
    diamonds = [(3 * i + 1, 3 * i + 2) if j == 0 else (3 * i + 3,) for i in range(40) for j in range(3)]
    chain = [(max(120, i - 1), min(1999, i + 1)) for i in range(120, 2000)]
    graph = [*diamonds, *chain]
    graph[119] = graph[118] = (0,)

    assert len(list(islice(simple_cycles(graph), 128))) == 128
