"""Products of one input with weights in blocks become one: what is merged, and that each result is as before."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import run
from mavcg.passes.graph.block_products import fuse_gates, fuse_residuals, merge_block_products

BITS, BLOCK, DEPTH = 4, 16, 40
Form = dict[str, Any]  # of a product, besides its width


def graph_of(widths: Sequence[int], forms: Sequence[Form]) -> Graph:
    """Products of one input, each then reshaped, with reshaped results and plain ones as outputs."""
    random, blocks = np.random.default_rng(0), -(-DEPTH // BLOCK)
    g = GraphBuilder("g")
    x = g.input("x", TensorType("f32", (3, DEPTH)))
    outputs = []
    for width, form in zip(widths, forms, strict=True):
        scales = random.uniform(0.5, 1, (width, blocks)).astype(np.float16).astype(np.float32)
        scales *= form.get("scale", 1)
        zeros = random.integers(0, 1 + form["zeros"], (width, blocks)).astype(np.uint8) if "zeros" in form else None
        bias = random.normal(size=width).astype(np.float32) if form.get("bias") else None
        w = random.integers(0, 256, (width, blocks * BLOCK // 2)).astype(np.uint8)
        parts = [g.constant(part) if part is not None else "" for part in (w, scales, zeros, bias)]
        made = g.add("block_matmul", [x, *parts], bits=BITS, block=BLOCK, quantize=form.get("quantize", True))
        outputs += [made, g.add("reshape", [made], shape=(1, 3, width)), g.add("reshape", [made], shape=(3 * width,))]
    return g.finish(outputs)


def products(graph: Graph) -> int:
    return sum(node.op == "block_matmul" for node in graph.nodes)


@pytest.mark.parametrize("form", [{}, {"zeros": 15}, {"bias": True}, {"zeros": 15, "bias": True}], ids=str)
def test_results_are_as_before(form: Form) -> None:
    graph = graph_of((32, 16, 48), [form] * 3)
    merged = merge_block_products(graph)
    assert (products(graph), products(merged)) == (3, 1)
    x = np.random.default_rng(1).normal(size=(3, DEPTH)).astype(np.float32)
    for before, after in zip(run(graph, x), run(merged, x), strict=True):
        assert before.tobytes() == after.tobytes()
    assert str(merge_block_products(merged)) == str(merged)


@pytest.mark.parametrize(
    ("widths", "forms"),
    [
        ((32, 40), ({}, {})),  # not whole panels
        ((32, 32), ({}, {"scale": np.float32(1.0001)})),  # no f16 holds these scales
        ((32, 32), ({}, {"bias": True})),
        ((32, 32), ({"zeros": 15}, {"zeros": 200})),  # the second has no tiles
        ((32, 32), ({"quantize": False}, {"quantize": False})),
    ],
    ids=str,
)
def test_what_stays_apart(widths: Sequence[int], forms: Sequence[Form]) -> None:
    assert products(merge_block_products(graph_of(widths, forms))) == 2


def gated_graph(quantize: bool = True, other_reader: str = "", turned: bool = False, cut: int = -1) -> Graph:
    """A product whose input is a reshape of silu(gate) * x. other_reader: a tensor that is an output too. cut: the axis
    along which x is the second half of a tensor, of which another operator, or a reshape, is the maker; -1: of none."""
    random, g = np.random.default_rng(0), GraphBuilder("g")
    x, gate = (g.input(name, TensorType("f32", (1, 3, 32))) for name in ("x", "gate"))
    if cut >= 0:
        shape = [2 * n if axis == cut else n for axis, n in enumerate((1, 3, 32))]
        whole = g.add("reshape", [g.add("concat", [x, x], axis=cut)], shape=tuple(shape))
        starts = [n // 2 if axis == cut else 0 for axis, n in enumerate(shape)]
        x = g.add("slice", [whole], starts=tuple(starts), stops=tuple(shape), steps=(1, 1, 1))
    silu = g.add("silu", [gate])
    product = g.add("mul", [x, silu] if turned else [silu, x])
    rows = g.add("reshape", [product], shape=(3, 32))
    w, scales = (
        g.constant(random.integers(0, 256, (16, 16)).astype(np.uint8)),
        g.constant(random.uniform(0.5, 1, (16, 2)).astype(np.float32)),
    )
    made = g.add("block_matmul", [rows, w, scales], bits=BITS, block=BLOCK, quantize=quantize)
    others = {"silu": silu, "product": product, "rows": rows}
    return g.finish([made, *([others[other_reader]] if other_reader else [])])


@pytest.mark.parametrize("form", [{}, {"turned": True}, {"cut": 2}], ids=str)
def test_gates_are_applied_by_the_product(form: dict[str, Any]) -> None:
    graph = gated_graph(**form)
    fused = fuse_gates(graph)
    assert [node.op for node in fused.nodes][-2:] == ["block_matmul", "reshape"]
    assert not {"silu", "mul"} & {node.op for node in fused.nodes}
    x, gate = (np.random.default_rng(i).normal(size=(1, 3, 32)).astype(np.float32) for i in (1, 2))
    (before,), (after,) = run(graph, x, gate), run(fused, x, gate)
    np.testing.assert_allclose(after, before, rtol=0.02, atol=0.02 * np.abs(before).max())
    assert str(fuse_gates(fused)) == str(fused)


@pytest.mark.parametrize(
    "form",
    [{"quantize": False}, {"cut": 0}, {"cut": 1}, *({"other_reader": name} for name in ("silu", "product", "rows"))],
)
def test_gates_that_stay_operators(form: dict[str, Any]) -> None:
    graph = gated_graph(**form)
    assert str(fuse_gates(graph)) == str(graph)


def residual_graph(
    turned: bool = False, cut: bool = False, constant: bool = False, reader: str = "", both: bool = False
) -> Graph:
    """A product and the sum of it and another tensor. cut: that is a part of an input's lines. reader: an operator that
    reads the sum, behind a reshape. both: the other tensor is a product, too."""
    random, shape = np.random.default_rng(0), (2, 3, 16)
    g = GraphBuilder("g")
    x, other = (
        g.input("x", TensorType("f32", (2, 3, 32))),
        g.input("other", TensorType("f32", (2, 4 if cut else 3, 16))),
    )

    def product() -> str:
        w = g.constant(random.integers(0, 256, (16, 16)).astype(np.uint8))
        scales = g.constant(random.uniform(0.5, 1, (16, 2)).astype(np.float32))
        return g.add("block_matmul", [x, w, scales], bits=BITS, block=BLOCK, quantize=True)

    if cut:
        other = g.add("slice", [other], starts=(0, 0, 0), stops=shape, steps=(1, 1, 1))
    if constant:
        other = g.constant(random.normal(size=shape).astype(np.float32))
    made = product()
    total = g.add("add", [other, made] if turned else [made, product() if both else other])
    if not reader:
        return g.finish([total])
    if reader == "product":
        return g.finish([total, g.add("relu", [made])])
    reshaped = g.add("reshape", [total], shape=shape)
    read = g.add(reader, [reshaped, reshaped], axis=1) if reader == "concat" else g.add(reader, [reshaped])
    return g.finish([read])


@pytest.mark.parametrize("form", [{}, {"turned": True}, {"reader": "relu"}, {"both": True}], ids=str)
def test_residuals_are_added_by_the_product(form: dict[str, Any]) -> None:
    graph = residual_graph(**form)
    fused = fuse_residuals(graph)
    assert "add" not in {node.op for node in fused.nodes} and products(fused) == products(graph)
    assert sum(bool(node.inputs[6]) for node in fused.nodes if node.op == "block_matmul") == 1
    arrays = [
        np.random.default_rng(i).normal(size=graph.shape(n)).astype(np.float32) for i, n in enumerate(graph.inputs)
    ]
    (before,), (after,) = run(graph, *arrays), run(fused, *arrays)
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
    assert str(fuse_residuals(fused)) == str(fused)


@pytest.mark.parametrize(
    "form", [{"cut": True}, {"constant": True}, {"reader": "concat"}, {"reader": "product"}], ids=str
)
def test_residuals_that_stay_operators(form: dict[str, Any]) -> None:
    graph = residual_graph(**form)
    assert "add" in {node.op for node in fuse_residuals(graph).nodes}
