"""Embeddings equal networkx's VF2 monomorphisms, counted once per set of nodes."""

import random

import networkx as nx
import pytest
from networkx.algorithms.isomorphism import DiGraphMatcher

from mavcg.accelerators.fusion.matching import LabelledGraph, embeddings
from mavcg.errors import MavcgError


def random_graph(rng: random.Random, nodes: int, density: float, labels: str, loops: bool) -> LabelledGraph:
    """A directed graph of labelled nodes and edges."""
    names = {f"n{i}": rng.choice(labels) for i in range(nodes)}
    edges = {
        (a, b): rng.choice("  x").strip() for a in names for b in names if (a != b or loops) and rng.random() < density
    }
    return LabelledGraph(names, edges)


def by_networkx(pattern: LabelledGraph, graph: LabelledGraph) -> set[frozenset[str]]:
    """The sets of nodes of all monomorphisms that VF2 finds."""

    def of(labelled: LabelledGraph) -> "nx.DiGraph[str]":
        made: nx.DiGraph[str] = nx.DiGraph()
        made.add_nodes_from((name, {"label": label}) for name, label in labelled.nodes.items())
        made.add_edges_from((a, b, {"label": label}) for (a, b), label in labelled.edges.items())
        return made

    matcher = DiGraphMatcher(
        of(graph),
        of(pattern),
        node_match=lambda g, p: g["label"] == p["label"],
        edge_match=lambda g, p: p["label"] in ("", g["label"]),
    )
    return {frozenset(found) for found in matcher.subgraph_monomorphisms_iter()}


def check(seed: int) -> int:
    rng = random.Random(seed)
    graph = random_graph(rng, rng.randint(1, 12), rng.choice([0.1, 0.2, 0.35]), rng.choice(["a", "ab", "abc"]), True)
    pattern = random_graph(rng, rng.randint(1, 4), rng.choice([0.2, 0.4]), rng.choice(["a", "ab"]), seed % 5 == 0)
    found = list(embeddings(pattern, graph))
    sets = [frozenset(nodes) for nodes in found]
    assert len(sets) == len(set(sets))
    for nodes in found:
        image = dict(zip(pattern.nodes, nodes, strict=True))
        assert len(set(nodes)) == len(nodes)
        assert all(graph.nodes[image[v]] == label for v, label in pattern.nodes.items())
        assert all(label in ("", graph.edges[image[a], image[b]]) for (a, b), label in pattern.edges.items())
    assert set(sets) == by_networkx(pattern, graph)
    return len(found)


def test_embeddings_are_networkxs() -> None:
    assert sum(check(seed) for seed in range(150)) > 500


@pytest.mark.long
def test_embeddings_are_networkxs_on_many_graphs() -> None:
    assert sum(check(seed) for seed in range(1000)) > 3000


def test_twins_count_once() -> None:
    """Five readers of one node: ten pairs, whatever the pattern's order."""
    graph = LabelledGraph({"x": "in", **{f"c{i}": "conv" for i in range(5)}}, {("x", f"c{i}"): "" for i in range(5)})
    pattern = LabelledGraph({"b": "conv", "in": "in", "a": "conv"}, {("in", "a"): "", ("in", "b"): ""})

    found = list(embeddings(pattern, graph))

    assert len(found) == 10
    assert found[0] == ("c0", "x", "c1")


def test_candidates_and_predicates() -> None:
    graph = LabelledGraph({"a": "conv", "b": "pool", "c": "conv"}, {("a", "b"): "", ("c", "b"): ""})
    pattern = LabelledGraph({"v": "conv", "w": "pool"}, {("v", "w"): ""})

    assert list(embeddings(pattern, graph, candidates={"v": ["c"]})) == [("c", "b")]
    assert list(embeddings(pattern, graph, vertex_matches=lambda p, g: p == "conv" == g)) == []


def test_a_search_without_end_is_refused() -> None:
    """Paths of six vertices in a complete graph: millions of millions."""
    names = [f"n{i}" for i in range(200)]
    graph = LabelledGraph(dict.fromkeys(names, "a"), {(a, b): "" for a in names for b in names if a != b})
    pattern = LabelledGraph(dict.fromkeys("uvwxyz", "a"), {(a, b): "" for a, b in zip("uvwxy", "vwxyz", strict=True)})

    with pytest.raises(MavcgError, match="more than 1000 steps"):
        list(embeddings(pattern, graph, most_steps=1000))


def test_a_pattern_without_nodes_matches_nothing() -> None:
    assert list(embeddings(LabelledGraph({}, {}), LabelledGraph({"a": ""}, {}))) == []
