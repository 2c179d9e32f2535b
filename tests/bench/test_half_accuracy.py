"""Errors of whole networks in half precision: a network that f16 holds, and one that overflows it."""

import numpy as np
import pytest

from bench.half_accuracy import errors_of
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.model.precision import MAX_HALF_ERROR


def squares(size: float) -> Graph:
    """A product, and the root of its squares' mean."""
    b, rng = GraphBuilder("layers"), np.random.default_rng(1)
    x = b.input("x", TensorType("f32", (4, 32)))
    product = b.add("matmul", (x, b.constant((size * rng.standard_normal((32, 32))).astype(np.float32))), "product")
    mean = b.add("reduce_mean", (b.add("mul", (product, product), "squares"),), "mean", axes=(1,), keepdims=True)
    return b.finish((b.add("div", (product, b.add("sqrt", (mean,), "root")), "norm"),))


def test_small_numbers_are_in_half_as_a_whole() -> None:
    row = errors_of(squares(0.1), "small")
    assert row.overflows == "" and row.auto_single == 0 and row.nodes == 5
    assert row.f16 == row.auto and 1e-4 < row.f16 < 4e-3 < row.bf16 < 4e-2  # type: ignore[operator]


def test_layers_that_overflow_are_named_and_stay_f32() -> None:
    row = errors_of(squares(300), "large")
    assert "squares" in row.overflows and row.overflows.endswith("in all")
    assert row.f16 == 1  # divided by infinity
    assert 0 < row.auto_single < row.nodes and row.auto == pytest.approx(0, abs=MAX_HALF_ERROR)
    assert row.bf16 is not None and row.bf16 < 0.1


def test_long_sums_are_worse_in_f16_throughout() -> None:
    b, rng = GraphBuilder("long"), np.random.default_rng(1)
    weights = (0.01 * rng.standard_normal((4096, 4))).astype(np.float32)
    x = b.input("x", TensorType("f32", (8, 4096)))
    row = errors_of(b.finish((b.add("matmul", (x, b.constant(weights)), "product"),)), "long")
    assert row.f16 is not None and row.throughout is not None and row.throughout > 2 * row.f16
