"""Passes that prepare 8-bit graphs for the accelerator do what their docstrings say, and keep results."""

from collections.abc import Callable

import numpy as np
import pytest

from mavcg.accelerators.tensor_formats import (
    TensorFormat,
    fold_eight_bit_pads,
    tensor_formats,
    transposes_outside,
)
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.ops.nodes import verify
from mavcg.graph.reference.evaluate import run


def quantized_around_transpose(after: bool) -> Graph:
    """A quantized image before its transpose, and one after it, if `after` is True dequantized too."""
    b = GraphBuilder("net")
    x = b.input("x", TensorType("f32", (1, 3, 2, 4)))
    given = (b.constant(np.asarray(0.5, np.float32)), b.constant(np.asarray(3, np.uint8)))
    q = b.add("transpose", [b.add("quantize", [x, *given], to="u8")], perm=(0, 2, 3, 1))
    y = b.add("qmean", [q], axes=(1, 2), multiplier=0.5, x_zero=3, out_zero=7, lo=0, hi=255, to="u8")
    if not after:
        return b.finish([y])
    return b.finish([y, b.add("dequantize", [b.add("transpose", [q], perm=(0, 3, 1, 2)), *given])])


def padded(value: float) -> Graph:
    b = GraphBuilder("net")
    x = b.input("x", TensorType("i8", (1, 3, 3, 2)))
    p = b.add("pad", [x], before=(0, 1, 0, 0), after=(0, 0, 2, 0), value=value, mode="constant")
    w = b.constant(np.arange(-8, 8, dtype=np.int8).reshape(2, 2, 2, 2))
    bias, factor = b.constant(np.asarray([5, 9], np.int32)), b.constant(np.asarray([0.05, 0.1], np.float32))
    pads = (0, 1, 0, 0)
    made = b.add("qconv2d", [p, w, bias, factor], pads=pads, x_zero=-5, out_zero=2, lo=-128, hi=127, to="i8")
    return b.finish([made])


def same_results(rewrite: Callable[[Graph], Graph], graph: Graph) -> Graph:
    made = rewrite(graph)
    verify(made)
    (given,) = graph.inputs
    x = np.random.default_rng(0).uniform(-9, 9, graph.types[given].shape)
    x = x.astype(np.float32 if graph.types[given].dtype == "f32" else np.int8)
    for new, old in zip(run(made, x), run(graph, x), strict=True):
        np.testing.assert_array_equal(new, old)
    return made


@pytest.mark.parametrize(
    ("after", "ops"), [(False, ["transpose", "quantize", "qmean"]), (True, ["dequantize", "transpose"])]
)
def test_transposes_move_to_real_numbers(after: bool, ops: list[str]) -> None:
    made = same_results(transposes_outside, quantized_around_transpose(after))

    assert [node.op for node in made.nodes][-len(ops) :] == ops


def test_pads_of_zero_points_are_folded() -> None:
    made = same_results(fold_eight_bit_pads, padded(-5.0))
    other = same_results(fold_eight_bit_pads, padded(0.0))

    assert [(node.op, node.attr("pads")) for node in made.nodes] == [("qconv2d", (1, 1, 0, 2))]
    assert [node.op for node in other.nodes] == ["pad", "qconv2d"]


def test_moved_tensors_share_a_format() -> None:
    """A transposed tensor has the scale of its quantize; a mean has its own zero point alone."""
    graph = quantized_around_transpose(False)
    names = [node.output for node in graph.nodes]

    formats = tensor_formats(graph, graph)

    assert [formats[name] for name in names] == [*[TensorFormat("u8", 0.5, 3)] * 2, TensorFormat("u8", 1.0, 7)]
    assert formats[names[0]].int8_zero == -125 and formats[names[0]].real(5) == 1.0
