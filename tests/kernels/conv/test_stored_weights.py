"""Weights that lie in memory as f16, bf16 and i8: the bits of f32 kernels with the same, rounded weights."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import evaluate
from mavcg.passes.graph.stored_weights import round_to_stored
from mavcg.specs.channel_scales import in_eight_bits
from mavcg.specs.kernel import Machine
from mavcg.specs.tile_plan import MacroTile
from tests.kernels.conftest import RunNode
from tests.kernels.emulated_steps import EmulatedNode, compiled, emulated_node, run_emulated

Array = NDArray[Any]
LITTLE = Machine("little", "aarch64", "cortex-a53", in_order=True)  # without arithmetic in half precision
BIG = Machine("big", "aarch64", "cortex-a76")
# x, w, attributes: fully connected layers, and a convolution of several pixels, which has tiles of several rows.
CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 70), (70, 37), {"act": "relu"}),
    ((3, 129), (40, 129), {"transpose_b": True}),
    ((1, 1, 1, 50), (33, 1, 1, 50), {"act": "clip", "act_args": (0.0, 6.0)}),
    ((1, 7, 9, 20), (22, 3, 3, 10), {"groups": 2}),
)
TYPES = ("f16", "bf16")


def case(number: int, stored: str) -> tuple[Graph, dict[str, Array]]:
    """A case as a graph of one node, whose weights are stored in a type or, for "", rounded to f16 and f32."""
    x, w, attrs = CASES[number]
    rng, b = np.random.default_rng(number), GraphBuilder("test")
    exact = (rng.standard_normal(w) * np.exp2(rng.integers(-20, 4, w))).astype(np.float32)
    axis = channel_axis_of(number)
    weights = b.constant(round_to_stored(exact, stored or "f16", axis), "w")
    channels = w[axis]
    bias = b.constant(rng.standard_normal(channels).astype(np.float32), "bias")
    names = (b.input("x", TensorType("f32", x)), weights, bias)
    op = "matmul" if len(w) == 2 else "conv2d"
    return b.finish([b.add(op, names, **attrs, weights=stored)]), {"x": rng.standard_normal(x).astype(np.float32)}


def channel_axis_of(number: int) -> int:
    """The axis of a case's weights along which its output channels lie."""
    _, w, attrs = CASES[number]
    return 1 if len(w) == 2 and not attrs.get("transpose_b") else 0


def with_stored(graph: Graph, stored: str) -> Graph:
    (node,) = graph.nodes
    return Graph(
        graph.name, graph.inputs, graph.outputs, (node.with_attrs(weights=stored),), graph.types, graph.constants
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize("stored", TYPES)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_results_are_those_of_the_rounded_weights(number: int, stored: str, run_node: RunNode) -> None:
    graph, inputs = case(number, stored)
    macro = MacroTile(prefetch_distance_bytes=256) if number == 0 else None
    (found,) = run_node(graph.nodes[0], graph, inputs, parts=2, macro=macro)
    plain = with_stored(graph, "")
    (wide,) = run_node(plain.nodes[0], plain, inputs, parts=2)
    assert found.tobytes() == wide.tobytes()
    arrays = [inputs["x"], *graph.constants.values()]
    (exact,) = evaluate(graph.nodes[0], arrays, wide=True)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5 * np.abs(exact).max())


@pytest.mark.sample(2)
@pytest.mark.parametrize("blocks", [None, 16])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_sums_of_weights_in_8_bits_are_scaled_once(number: int, blocks: int | None, run_node: RunNode) -> None:
    """The bits of f32 sums of the whole numbers, times the scale, and the bias, in one rounding; then the activation.

    blocks: terms of a block of the sum, between which partial sums lie in the output.
    """
    graph, inputs = case(number, "i8")
    (node,) = graph.nodes
    macro = None if blocks is None else MacroTile(kc=blocks)
    (found,) = run_node(node, graph, inputs, parts=2, macro=macro)

    axis = channel_axis_of(number)
    numbers, scales = in_eight_bits(graph.constants["w"], axis)
    assert np.abs(numbers).max() == 127 and numbers.dtype == np.int8
    b, x = GraphBuilder("sums"), node.inputs[0]
    kept: dict[str, Any] = {n: value for n, value in dict(node.attrs).items() if n in ("groups", "transpose_b")}
    names = (b.input(x, graph.types[x]), b.constant(numbers.astype(np.float32), "w"))
    sums = b.finish([b.add(node.op, names, **kept)])
    (total,) = run_node(sums.nodes[0], sums, inputs, parts=2)
    right = (np.longdouble(total) * scales + graph.constants["bias"]).astype(np.float32)
    low, high = {"relu": (0, np.inf), "clip": (0, 6)}.get(node.attr("act"), (-np.inf, np.inf))
    np.testing.assert_array_equal(found, np.clip(right, low, high))
    (exact,) = evaluate(node, [inputs["x"], *graph.constants.values()], wide=True)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5 * np.abs(exact).max())


def test_a_layer_without_a_bias_has_one_of_zeros(run_node: RunNode) -> None:
    """A residual stays the last term but the activation."""
    b, rng = GraphBuilder("test"), np.random.default_rng(3)
    weights = round_to_stored(rng.standard_normal((19, 3, 3, 5)).astype(np.float32), "i8")
    inputs = {n: rng.standard_normal(s).astype(np.float32) for n, s in (("x", (1, 6, 7, 5)), ("r", (1, 4, 5, 19)))}
    x, r = (b.input(name, TensorType("f32", value.shape)) for name, value in inputs.items())
    graph = b.finish([b.add("conv2d", (x, b.constant(weights, "w"), "", r), weights="i8", act="relu")])
    (found,) = run_node(graph.nodes[0], graph, inputs, parts=3)
    (exact,) = evaluate(graph.nodes[0], [inputs["x"], weights, None, inputs["r"]], wide=True)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5 * np.abs(exact).max())


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("stored", TYPES)
def test_arm_cores_compute_the_same(stored: str, tmp_path: Path) -> None:
    graphs = [case(number, stored) for number in range(len(CASES))]
    nodes = [emulated_node(graph, inputs) for graph, inputs in graphs]
    plain = [emulated_node(with_stored(graph, ""), inputs) for graph, inputs in graphs]
    of_f32 = run_emulated(plain, BIG, tmp_path / "plain")
    little, big = run_emulated(nodes, LITTLE, tmp_path / "little", "cortex-a53"), run_emulated(nodes, BIG, tmp_path)
    for wide, first, second in zip(of_f32, little, big, strict=True):
        assert wide.tobytes() == first.tobytes() == second.tobytes()


@pytest.mark.long
@pytest.mark.sample(1)
def test_arm_cores_and_this_machine_scale_alike(run_node: RunNode, tmp_path: Path) -> None:
    graphs = [case(number, "i8") for number in range(len(CASES))]
    nodes = [emulated_node(graph, inputs) for graph, inputs in graphs]
    little, big = run_emulated(nodes, LITTLE, tmp_path / "little", "cortex-a53"), run_emulated(nodes, BIG, tmp_path)
    for (graph, inputs), first, second in zip(graphs, little, big, strict=True):
        (here,) = run_node(graph.nodes[0], graph, inputs, parts=2)
        assert here.tobytes() == first.tobytes() == second.tobytes()


def node_of(stored: str) -> EmulatedNode:
    return emulated_node(*case(0, stored))


def test_weights_take_half_of_the_bytes_and_are_widened_in_the_loop(tmp_path: Path) -> None:
    sizes = {}
    for stored in ("", *TYPES):
        step = node_of(stored).steps[0]
        assert step.operands[1].constant is not None and step.spec.products is not None
        sizes[stored] = step.operands[1].constant.nbytes
        assert step.spec.products.sizes.weight_item_bytes == (2 if stored else 4)
    assert sizes["f16"] == sizes["bf16"] == sizes[""] // 2
    for stored, widening in (("f16", "fcvtl"), ("bf16", "shll")):
        text = compiled([node_of(stored)], LITTLE, tmp_path, "asm").read_text()
        assert len(re.findall(rf"\b{widening}2?\s+v\d+\.4s, v\d+\.[48]h", text)) > 4
        assert not re.search(r"\bbl\b|\bfmla\s+v\d+\.8h", text)
