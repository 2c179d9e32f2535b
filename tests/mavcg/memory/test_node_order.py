"""Graphs whose nodes are put in the order that needs the least memory: the same results, a smaller arena."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.accelerators.networks import with_seeded_weights
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.memory_plan import plan_memory
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.networks.builder import NetworkBuilder
from mavcg.graph.reference.evaluate import run
from mavcg.memory.node_order import order_nodes
from mavcg.memory.storage import assign_storage
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.kernel import Packing
from tests.conftest import examples
from tests.mavcg.memory.arena_runs import run_in_arena
from tests.mavcg.memory.random_loops import random_loops


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


def loops_last(branches: int = 4) -> Graph:
    """Branches, each of a wide tensor whose rows a loop adds up; listed so that all are widened first."""
    b = GraphBuilder("loops")
    x = b.input("x", TensorType("f32", (1, 64)))
    zero = b.constant(np.zeros(64, np.float32))
    wide = [b.add("exp", [b.add("broadcast_to", [b.add("neg", [x])], shape=(32, 64))]) for _ in range(branches)]
    total = zero
    for loop, rows in enumerate(wide):
        state = b.add("loop_state", [zero], loop=loop, number=0, trips=32)
        row = b.add("loop_slice", [rows], loop=loop)
        sums = b.add("add", [state, b.add("tanh", [row])])
        total = b.add("add", [total, b.add("loop_final", [b.add("loop_next", [state, sums], loop=loop)], loop=loop)])
    return b.finish([total])


def test_a_loop_is_computed_as_soon_as_its_rows_are() -> None:
    graph = loops_last()
    ordered = order_nodes(graph)
    assert ordered.peak < 0.6 * ordered.given_peak
    before, after = (plan_memory(lower_graph(each, Packing(8))).arena.bytes for each in (graph, ordered.graph))
    assert after < 0.6 * before
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
    for a, b in zip(run(graph, x), run(ordered.graph, x), strict=True):
        assert np.array_equal(a, b)


@settings(max_examples=examples(400, 20))
@given(st.integers(0, 10**9))
def test_random_loops_in_another_order(seed: int) -> None:
    graph = random_loops(seed)
    ordered = order_nodes(graph)
    assert ordered.peak <= ordered.given_peak
    rng = np.random.default_rng(seed)
    inputs = {name: rng.standard_normal(graph.shape(name)).astype(np.float32) for name in graph.inputs}
    wanted = run(graph, *inputs.values())
    for have, want in zip(run_in_arena(assign_storage(ordered.graph), inputs), wanted, strict=True):
        np.testing.assert_array_equal(have, want)


def test_an_order_that_is_best_stays() -> None:
    graph = order_nodes(wide_first()).graph
    again = order_nodes(graph)
    assert again.graph is graph and again.peak == again.given_peak
