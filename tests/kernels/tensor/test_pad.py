"""Padding against NumPy, and borders around an inside that stays."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.graph import DTYPES, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import evaluate
from mavcg.kernels.tensor.pad import border
from mavcg.specs.kernel import View


@pytest.mark.spread(2)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize(
    "shape, before, after, dtype",
    [
        ((1, 5, 6, 3), (0, 1, 1, 0), (0, 1, 1, 0), "f32"),
        ((1, 5, 6, 40), (0, 3, 0, 0), (0, 2, 1, 0), "f32"),
        ((2, 3, 4), (1, 2, 3), (1, 0, 2), "f32"),
        ((7,), (3,), (6,), "i8"),
        ((1, 4, 4, 5), (0, 0, 0, 0), (0, 1, 1, 0), "u8"),
        ((3, 4), (0, 0), (0, 0), "i64"),
    ],
)
def test_modes(run_node: Any, mode: str, shape: Any, before: Any, after: Any, dtype: str) -> None:
    if mode == "reflect" and any(p >= n for n, ps in zip(shape, zip(before, after)) for p in ps):  # noqa: B905
        pytest.skip("reflection goes at most to the other edge")
    b = GraphBuilder("test")
    x = b.input("x", TensorType(dtype, shape))
    b.add("pad", [x], before=before, after=after, mode=mode, value=3.0)
    graph = b.finish([b.add("pad", [x], before=before, after=after, mode=mode, value=3.0)])
    values = (np.random.default_rng(0).standard_normal(shape) * 50).astype(DTYPES[dtype])
    node = graph.nodes[-1]
    (expected,) = evaluate(node, [values])
    for parts in (1, 3):
        (computed,) = run_node(node, graph, {"x": values}, None, parts)
        np.testing.assert_array_equal(computed, expected)


def test_in_a_wider_buffer(run_node: Any) -> None:
    b = GraphBuilder("test")
    x = b.input("x", TensorType("f32", (1, 5, 6, 3)))
    out = b.add("pad", [x], before=(0, 1, 1, 0), after=(0, 1, 2, 0), mode="constant", value=-1.5)
    graph = b.finish([out])
    values = np.random.default_rng(0).standard_normal((1, 5, 6, 3)).astype(np.float32)
    views = {x: View("f32", (1, 5, 6, 3), (900, 100, 10, 1)), out: View("f32", (1, 7, 9, 3), (900, 100, 10, 1))}
    (computed,) = run_node(graph.nodes[-1], graph, {"x": values}, views)
    np.testing.assert_array_equal(computed, np.pad(values, ((0, 0), (1, 1), (1, 2), (0, 0)), constant_values=-1.5))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4))
def test_boxes_cover_the_border_once(axes: list[tuple[int, int, int]]) -> None:
    shape = [inside + low + high for inside, low, high in axes]
    before, after = [low for _, low, _ in axes], [high for _, _, high in axes]
    covered = np.zeros(shape, int)
    for region in border(shape, before, after):
        covered[tuple(slice(low, high) for low, high in region)] += 1
    expected = np.ones(shape, int)
    expected[tuple(slice(low, n - high) for low, n, high in zip(before, shape, after, strict=True))] = 0
    np.testing.assert_array_equal(covered, expected)
