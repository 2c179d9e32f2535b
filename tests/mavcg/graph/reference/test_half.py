"""Sums of f16 by blocks against plain loops of NumPy's f16, and whole graphs against double precision."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import half, run
from mavcg.graph.reference.half import BLOCK, GROUP, THROUGHOUT, round_to_half, run_half, sums_in_blocks

Array = NDArray[Any]


def noise(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@given(st.integers(0, 2**32 - 1))
def test_rounding_is_that_of_a_conversion(seed: int) -> None:
    x = (np.random.default_rng(seed).standard_normal(100) * 100).astype(np.float32)
    x = x[np.abs(x) >= 2.0**-14]  # smaller ones have fewer bits in f16
    np.testing.assert_array_equal(round_to_half(x), x.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("terms", [1, 5, BLOCK, BLOCK + 1, 3 * BLOCK - 1, GROUP + BLOCK + 1])
def test_sums_are_rounded_within_blocks_and_groups(terms: int) -> None:
    rows, columns = noise(3, terms), noise(terms, 2, seed=1)
    wanted = np.zeros((3, 2), np.float32)
    for group in range(0, terms, GROUP):
        so_far = np.zeros((3, 2), np.float16)
        for block in range(group, min(group + GROUP, terms), BLOCK):
            acc = np.zeros((3, 2), np.float16)
            for k in range(block, min(block + BLOCK, terms)):
                products = rows[:, k, None].astype(np.float32) * columns[k].astype(np.float32)
                acc = (acc.astype(np.float32) + products).astype(np.float16)
            so_far = so_far + acc
        wanted += so_far
    np.testing.assert_allclose(sums_in_blocks(rows, columns), wanted, atol=1e-3)  # subnormal numbers differ


def test_sums_in_f16_throughout() -> None:
    rows, columns = noise(3, GROUP + BLOCK), noise(GROUP + BLOCK, 2, seed=1)
    wanted = np.zeros((3, 2), np.float16)
    for row, column in zip(rows.T, columns, strict=True):
        wanted = (wanted + row[:, None].astype(np.float64) * column.astype(np.float64)).astype(np.float16)
    np.testing.assert_allclose(sums_in_blocks(rows, columns, THROUGHOUT), wanted, atol=1e-3)  # subnormal numbers differ


def layers(groups: int) -> Graph:
    b = GraphBuilder("layers")
    x = b.input("x", TensorType("f16", (1, 6, 7, 8)))
    w = b.constant(noise(8, 3, 3, 8 // groups, seed=1) * np.float16(0.125))
    y = b.add("conv2d", (x, w, b.constant(np.full(8, 0.1, np.float32))), stride=(2, 1), groups=groups, act="relu")
    rows = b.add("reshape", (y,), shape=(2, 5, 8))
    z = b.add("matmul", (rows, b.add("transpose", (rows,), perm=(0, 2, 1))))
    return b.finish((b.add("softmax", (z,), axis=2),))


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_a_graph_is_near_its_exact_value(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, x = layers(groups), noise(1, 6, 7, 8)
    nodes: list[str] = []
    (computed,) = run_half(graph, [x], lambda node, result: nodes.append(node.op))
    (exact,) = run(graph, x, wide=True)
    assert nodes == [node.op for node in graph.nodes] and computed.dtype == np.float16
    error = np.abs(computed - exact).max()
    monkeypatch.setattr(half, "MOST_MACS", 0)
    (smooth,) = run_half(graph, [x], lambda node, result: None)
    assert 0 < error < 0.02 and np.abs(smooth - exact).max() < 0.02 and (smooth != computed).any()
