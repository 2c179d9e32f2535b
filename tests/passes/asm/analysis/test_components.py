"""Strongly connected components are those that networkx finds."""

import networkx as nx
from hypothesis import given
from hypothesis.strategies import integers, lists, sets

from mavcg.passes.asm.analysis.components import strongly_connected

NODES = 8


@given(
    successors=lists(lists(integers(0, NODES - 1), max_size=3), min_size=NODES, max_size=NODES),
    among=sets(integers(0, NODES - 1)),
)
def test_components_are_those_of_networkx(successors: list[list[int]], among: set[int]) -> None:
    graph = nx.DiGraph((i, j) for i in among for j in successors[i] if j in among)
    graph.add_nodes_from(among)
    assert set(strongly_connected(successors, among)) == set(map(frozenset, nx.strongly_connected_components(graph)))
