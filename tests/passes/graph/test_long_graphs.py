"""Graphs thousands of nodes long, as a broken or hostile file may hold: no pass runs out of stack or time."""

import time

import numpy as np
import pytest

from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.memory.storage import assign_storage
from mavcg.passes.graph.pipeline import optimise

LENGTH = 1010  # more than Python's stack is deep


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["relu", "mul", "square", "reshape", "concat", "pad", "quantized"])
def test_long_rows(kind: str) -> None:
    b = GraphBuilder("long")
    x = b.input("x", TensorType("f32", (1, 2, 2, 2)))
    k, scale, zero = b.constant(np.float32(1.5)), b.constant(np.float32(0.1)), b.constant(np.int8(3))
    x = b.add("dequantize", (b.add("quantize", (x, scale, zero), to="i8"), scale, zero)) if kind != "pad" else x
    x = b.add("reshape", (b.add("transpose", (x,), perm=(0, 3, 1, 2)),), shape=(1, 8))
    for i in range(LENGTH):
        if kind == "mul":
            x = b.add("mul", (x, k))
        elif kind == "square":
            x = b.add("mul", (x, x))
        elif kind == "reshape":
            x = b.add("reshape", (x,), shape=(8,) if i % 2 else (2, 4))
        elif kind == "concat":
            both = b.add("concat", (x, x), axis=0)
            x = b.add("slice", (both,), starts=(0, 0), stops=(1, 8), steps=(1, 1))
        elif kind == "pad":
            x = b.add("max_pool2d", (b.add("reshape", (x,), shape=(1, 1, 8, 1)),), kernel=(1, 1))
        elif kind == "quantized":
            x = b.add("relu", (b.add("clip", (x,), lo=-float(i), hi=9.0),))
        else:
            x = b.add("relu" if i % 2 else "sigmoid", (x,))
    if kind in ("relu", "mul", "square"):
        x = b.add("matmul", (x, b.constant(np.ones((8, 3), np.float32))))
    graph = b.finish([b.add("quantize", (x, scale, zero), to="i8")])
    started = time.process_time()
    after = optimise(graph)
    assert time.process_time() - started < 30
    assert after.outputs == graph.outputs


@pytest.mark.sample(1)
@pytest.mark.parametrize("length", [1200, pytest.param(5000, marks=pytest.mark.long)])
@pytest.mark.parametrize("factor", [0.5, 1.5, "2 and 0.5"])
def test_scales_in_a_row_are_merged_in_linear_time(factor: float | str, length: int) -> None:
    """Products that f32 holds, one that it does not, and none at all, before a convolution that could take in each."""
    b = GraphBuilder("long")
    x = b.input("x", TensorType("f32", (1, 4, 4, 8)))
    factors = [b.constant(np.float32(f)) for f in ((factor, factor) if isinstance(factor, float) else (2.0, 0.5))]
    for i in range(length):
        x = b.add("mul", (x, factors[i % 2]))
    graph = b.finish([b.add("conv2d", (x, b.constant(np.ones((64, 3, 3, 8), np.float32))))])
    started = time.process_time()

    after = optimise(graph)

    assert time.process_time() - started < 30
    assert len(after.nodes) == (length - 217 if factor == 1.5 else 1)  # 1.5^218 is the last that f32 weights hold


def test_element_wise_rows_share_a_buffer_in_linear_time() -> None:
    b = GraphBuilder("long")
    x = b.input("x", TensorType("f32", (1, 8)))
    for i in range(6000):
        x = b.add("relu" if i % 2 else "sigmoid", (x,))
    graph = b.finish([x])
    started = time.process_time()

    storage = assign_storage(graph)

    assert time.process_time() - started < 15
    assert len({location.root for location in storage.locations.values()}) <= 3
