"""Scales and shifts around convolutions and products: folded where that is right, left alone where not."""

from typing import Any

import numpy as np
import pytest

from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.passes.graph.intrinsic import fold_scale_after, fold_scale_before


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def linear(kind: str, b: GraphBuilder, rng: np.random.Generator, pads: int, groups: int) -> tuple[str, str]:
    """A graph's input and what to read it through, by kind."""

    def weights(*shape: int) -> str:
        return b.constant(rng.standard_normal(shape).astype(np.float32))

    def add(x: str) -> str:
        bias = weights(4) if rng.random() < 0.5 else ""
        if kind == "matmul":
            return b.add("matmul", (x, weights(6, 4), bias))
        if kind == "matmul_turned":
            return b.add("matmul", (x, weights(4, 6), bias), transpose_b=True)
        inputs = (x, weights(4, 3, 2, 6 // groups), bias)
        return b.add(kind, inputs, pads=(pads, 0, pads, pads), groups=groups)

    x = b.input("x", TensorType("f32", (2, 5, 4, 6)))
    return x, add(x)


@pytest.mark.parametrize("kind", ["conv2d", "conv_transpose2d", "matmul", "matmul_turned"])
@pytest.mark.parametrize("op", ["mul", "add", "sub", "div", "sub_from", "mul_by"])
@pytest.mark.parametrize("shape", [(), (4,), (1, 1, 4), (1, 1, 1, 1)])
def test_after(kind: str, op: str, shape: tuple[int, ...], h: Any) -> None:
    rng = np.random.default_rng(len(shape))
    b = GraphBuilder("after")
    _, y = linear(kind, b, rng, 1, 2 if kind.startswith("conv") else 1)
    constant = b.constant(rng.uniform(0.5, 2, shape).astype(np.float32))
    inputs = (constant, y) if "_" in op else (y, constant)
    graph = b.finish([b.add(op.split("_")[0], inputs)])
    after = fold_scale_after(graph)
    assert len(after.nodes) == 1
    h.same(graph, after, relative=1e-5)


@pytest.mark.parametrize("kind", ["conv2d", "matmul", "matmul_turned"])
@pytest.mark.parametrize("op", ["mul", "add", "sub", "div", "sub_from"])
@pytest.mark.parametrize("shape", [(), (6,)])
@pytest.mark.parametrize("pads", [0, 1])
def test_before(kind: str, op: str, shape: tuple[int, ...], pads: int, h: Any) -> None:
    rng = np.random.default_rng(3)
    b = GraphBuilder("before")
    x = b.input("x", TensorType("f32", (2, 5, 4, 6)))
    constant = b.constant(rng.uniform(0.5, 2, shape).astype(np.float32))
    scaled = b.add(op.split("_")[0], (constant, x) if "_" in op else (x, constant))
    if kind == "conv2d":
        weights = b.constant(rng.standard_normal((4, 3, 2, 3)).astype(np.float32))
        y = b.add("conv2d", (scaled, weights), pads=(pads, 0, pads, 0), groups=2)
    else:
        turned = kind == "matmul_turned"
        weights = b.constant(rng.standard_normal((4, 6) if turned else (6, 4)).astype(np.float32))
        y = b.add(
            "matmul", (scaled, weights, b.constant(rng.standard_normal(4).astype(np.float32))), transpose_b=turned
        )
    graph = b.finish([y])
    after = fold_scale_before(graph)
    shift_meets_pads = kind == "conv2d" and pads and op not in ("mul", "div")
    assert len(after.nodes) == (2 if shift_meets_pads else 1)
    h.same(graph, after, relative=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        # another reader of what the convolution makes
        """input %x: f32[1,2,2,1]
        const %w: f32[1,1,1,1] = {2.0}
        const %k: f32[] = {3.0}
        %c = conv2d(%x, %w)
        %y = mul(%c, %k)
        return %y, %c""",
        # an activation in between
        """input %x: f32[1,2,2,1]
        const %w: f32[1,1,1,1] = {2.0}
        const %k: f32[] = {3.0}
        %c = conv2d(%x, %w) act="relu"
        %y = mul(%c, %k)
        return %y""",
        # the constant makes the result larger
        """input %x: f32[1,1,1,1]
        const %w: f32[1,1,1,1] = {2.0}
        const %k: f32[3] = {3.0, 4.0, 5.0}
        %c = conv2d(%x, %w)
        %y = mul(%c, %k)
        return %y""",
        # differs by row, not by channel
        """input %x: f32[1,2,2,1]
        const %w: f32[1,1,1,1] = {2.0}
        const %k: f32[2,1] = {3.0, 4.0}
        %c = conv2d(%x, %w)
        %y = add(%c, %k)
        return %y""",
        # nothing to multiply with
        """input %x: f32[1,2,2,1]
        const %w: f32[1,1,1,1] = {2.0}
        const %k: f32[] = {inf}
        %c = conv2d(%x, %w)
        %y = mul(%c, %k)
        return %y""",
        # weights that f32 does not hold
        """input %x: f32[1,2,2,1]
        const %w: f32[1,1,1,1] = {1e30}
        const %k: f32[] = {1e30}
        %s = mul(%x, %k)
        %c = conv2d(%s, %w)
        %y = mul(%c, %k)
        return %y""",
        # weights that are computed
        """input %x: f32[2,2]
        input %w: f32[2,2]
        const %k: f32[] = {2.0}
        %c = matmul(%x, %w)
        %y = mul(%c, %k)
        return %y""",
    ],
)
def test_left_alone(text: str, h: Any) -> None:
    graph = h.graph(text)
    assert str(fold_scale_before(fold_scale_after(graph))) == str(graph)


def test_shift_of_a_product_with_computed_weights_is_its_bias(h: Any) -> None:
    graph = h.graph("""input %x: f32[2,2]
        input %w: f32[2,2]
        const %k: f32[2] = {2.0, 3.0}
        %c = matmul(%x, %w)
        %y = add(%k, %c)
        return %y""")
    after = fold_scale_after(graph)
    assert ops(after) == ["matmul"]
    h.same(graph, after, relative=1e-6)
