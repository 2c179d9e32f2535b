"""Graphs whose nodes are put in the order that needs the least memory: the same results, a smaller arena."""

import numpy as np

from mavcg.accelerators.networks import with_seeded_weights
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.memory_plan import plan_memory
from mavcg.graph import Graph
from mavcg.graph.networks.builder import NetworkBuilder
from mavcg.memory.node_order import order_nodes
from mavcg.passes.graph.pipeline import optimise
from mavcg.reference.evaluate import run
from mavcg.specs.kernel import Packing


def wide_first(branches: int = 3) -> Graph:
    """Branches, each of which widens the image and reduces it; listed so that all are widened first."""
    net = NetworkBuilder("branches", 8, 8)
    x = net.conv(net.image, "stem", 4, 1)
    wide = [net.conv(x, f"wide{n}", 32, 1) for n in range(branches)]
    narrow = [net.conv(y, f"narrow{n}", 4, 3, pad=1) for n, y in enumerate(wide)]
    return optimise(with_seeded_weights(net.finish(net.concat(*narrow))))


def test_branches_are_computed_one_after_the_other() -> None:
    graph = wide_first()
    ordered = order_nodes(graph)
    assert ordered.peak == ordered.lower_bound < 0.6 * ordered.given_peak
    assert sorted(n.output for n in ordered.graph.nodes) == sorted(n.output for n in graph.nodes)
    before, after = (plan_memory(lower_graph(each, Packing(8))).arena.bytes for each in (graph, ordered.graph))
    assert after < 0.6 * before

    x = np.random.default_rng(0).standard_normal((1, 8, 8, 3)).astype(np.float32)
    for a, b in zip(run(graph, x), run(ordered.graph, x), strict=True):
        assert np.array_equal(a, b)


def test_an_order_that_is_best_stays() -> None:
    graph = order_nodes(wide_first()).graph
    again = order_nodes(graph)
    assert again.graph is graph and again.peak == again.given_peak
