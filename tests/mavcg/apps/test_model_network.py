"""A model's graph as a CNN: sizes, rows, windows; its schedule by parts."""

import numpy as np

from mavcg.apps.application import Application, RowWindow, sequential
from mavcg.apps.derivation import Derivation, all_by_parts
from mavcg.apps.joint_arena import plan_joint_arena
from mavcg.apps.model_network import network_of
from mavcg.apps.token_simulator import greedy_rings, simulate_schedule
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder


def small_graph() -> Graph:
    """Convolution with a residual, a pool, a gate over channels, a concat of channels, a mean."""
    b = GraphBuilder("small")
    x = b.input("x", TensorType("f32", (1, 8, 8, 4)))
    w = b.constant(np.zeros((4, 3, 3, 4), np.float32))
    first = b.add("conv2d", [x, w], pads=(1, 1, 1, 1))
    second = b.add("conv2d", [first, w, "", x], pads=(1, 1, 1, 1))
    pool = b.add("max_pool2d", [second], kernel=(2, 2), stride=(2, 2))
    gate = b.add("avg_pool2d", [pool], kernel=(4, 4))
    gated = b.add("mul", [pool, gate])
    joined = b.add("concat", [gated, pool], axis=3)
    return b.finish([b.add("relu", [joined])])


def test_layers_and_edges() -> None:
    cnn = network_of(small_graph(), "n")

    kinds = [layer.kind for layer in cnn.layers]
    assert kinds == ["input", "conv", "conv", "pool", "pool", "add", "concat", "activation"]
    assert [layer.out_rows for layer in cnn.layers] == [8, 8, 8, 4, 1, 4, 4, 4]
    assert cnn.layers[1].window == RowWindow(3, 1, 1) and cnn.layers[3].window == RowWindow(2, 2, 0)
    assert cnn.layers[1].weights == 4 * 3 * 3 * 4 * 4
    sizes = {(e.source == "input x", e.elements, e.rows) for e in cnn.edges}
    assert (True, 8 * 8 * 4 * 4, 8) in sizes and (False, 4 * 4 * 8 * 4, 4) in sizes
    residual = [e for e in cnn.edges if e.source == "input x"][1]
    assert residual.window == RowWindow()
    assert not any(layer.by_parts for layer in cnn.layers if layer.out_rows == 1 or layer.kind == "input")


def test_precisions_scale_data_and_weights() -> None:
    whole, mixed = (network_of(small_graph(), "n", name) for name in ("fp32", "mixed"))

    assert sum(e.elements for e in mixed.edges) * 2 == sum(e.elements for e in whole.edges)
    assert sum(layer.weights for layer in mixed.layers) * 4 == sum(layer.weights for layer in whole.layers)


def test_by_parts_runs_token_by_token_in_less_memory() -> None:
    cnn = network_of(small_graph(), "n")
    app = Application((cnn,), (sequential(cnn),))
    whole = Derivation(app).derive(frozenset())
    parts = Derivation(app).derive(all_by_parts(app))

    for derived in (whole, parts):
        assert simulate_schedule(derived, greedy_rings(derived)) > 0
        assert simulate_schedule(derived, plan_joint_arena(derived).rings) > 0
    assert parts.capacities[("n", cnn.layers[1].name, cnn.layers[2].name)] == 3  # rows of a window of three
    assert parts.capacities[("n", cnn.layers[5].name, cnn.layers[6].name)] == 1
    assert all(parts.capacities[key] <= rows for key, rows in whole.capacities.items())
    assert sum(data.size for data in parts.data) < sum(data.size for data in whole.data)


def test_border_is_part_of_the_data_that_a_window_reads() -> None:
    b = GraphBuilder("bordered")
    x = b.input("x", TensorType("f32", (1, 8, 6, 4)))
    w = b.constant(np.zeros((4, 3, 3, 4), np.float32))
    first = b.add("relu", [x])
    padded = b.add("pad", [first], before=(0, 1, 1, 0), after=(0, 1, 1, 0))
    graph = b.finish([b.add("add", [b.add("conv2d", [padded, w]), first])])
    cnn = network_of(graph, "n")

    assert [layer.kind for layer in cnn.layers] == ["input", "activation", "conv", "add"]
    bordered = next(e for e in cnn.edges if e.target == cnn.layers[2].name)
    assert (bordered.source, bordered.rows, bordered.window) == (cnn.layers[1].name, 8, RowWindow(3, 1, 1))
    assert bordered.elements == 8 * -(-10 * 8 * 4 * 4 // 8)  # all of the border, in whole rows
    derived = Derivation(app := Application((cnn,), (sequential(cnn),))).derive(all_by_parts(app))
    assert derived.capacities[("n", bordered.source, bordered.target)] == 3
    assert simulate_schedule(derived, plan_joint_arena(derived).rings) > 0


def test_pad_that_other_layers_read_stays_a_layer() -> None:
    b = GraphBuilder("kept")
    x = b.input("x", TensorType("f32", (1, 8, 6, 4)))
    padded = b.add("pad", [x], before=(0, 1, 1, 0), after=(0, 1, 1, 0))
    graph = b.finish([b.add("relu", [padded])])

    assert [layer.kind for layer in network_of(graph, "n").layers] == ["input", "pad", "activation"]
