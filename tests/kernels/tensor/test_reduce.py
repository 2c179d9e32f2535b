"""Reductions, places of extremes and softmax against NumPy in double precision."""

from typing import Any

import numpy as np
import pytest

from mavcg.graph import DTYPES, Graph, Node, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.reference import evaluate
from mavcg.specs.kernel import View


def one_node(op: str, shape: tuple[int, ...], dtype: str = "f32", **attrs: Any) -> tuple[Graph, Node]:
    b = GraphBuilder("test")
    graph = b.finish([b.add(op, [b.input("x", TensorType(dtype, shape))], **attrs)])
    return graph, graph.nodes[-1]


def values_of(shape: tuple[int, ...], dtype: str) -> Any:
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return (values * (1 if dtype == "f32" else 5)).astype(DTYPES[dtype])


@pytest.mark.spread(2)
@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize(
    "shape, axes",
    [((1, 7, 7, 70), (1, 2)), ((3, 50), (1,)), ((3, 50), (0,)), ((2, 3, 4, 5), (0, 2)), ((2, 3, 17), (0, 1, 2)),
     ((4, 1, 33), (2,)), ((5, 16), (1,)), ((2, 9, 3), (1, 2))],
)  # fmt: skip
@pytest.mark.parametrize("keepdims", [True, False])
def test_floats(run_node: Any, kind: str, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> None:
    graph, node = one_node(f"reduce_{kind}", shape, axes=axes, keepdims=keepdims)
    values = values_of(shape, "f32")
    (expected,) = evaluate(node, [values], wide=True)
    (computed,) = run_node(node, graph, {"x": values}, None, 2)
    np.testing.assert_allclose(
        computed, expected, rtol=3e-6, atol=2e-6 * (np.abs(values).sum() if kind == "sum" else 1)
    )


@pytest.mark.spread
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", ["i32", "i64", "u8", "i8"])
def test_integers(run_node: Any, kind: str, dtype: str) -> None:
    graph, node = one_node(f"reduce_{kind}", (3, 37), dtype, axes=(1,), keepdims=False)
    values = values_of((3, 37), dtype)
    (expected,) = evaluate(node, [values])
    (computed,) = run_node(node, graph, {"x": values})
    np.testing.assert_array_equal(computed, expected)


def test_a_mean_within_a_wider_buffer(run_node: Any) -> None:
    graph, node = one_node("reduce_mean", (2, 5, 5, 9), axes=(1, 2), keepdims=True)
    values = values_of((2, 5, 5, 9), "f32")
    views = {"x": View("f32", (2, 5, 5, 9), (900, 150, 20, 1)), node.output: View("f32", (2, 1, 1, 9), (30, 9, 9, 1))}
    (computed,) = run_node(node, graph, {"x": values}, views)
    np.testing.assert_allclose(computed, values.mean((1, 2), keepdims=True, dtype=np.float64), rtol=1e-5, atol=1e-6)


@pytest.mark.spread
@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("axis, last", [(0, False), (1, True), (2, False), (2, True)])
def test_places(run_node: Any, kind: str, axis: int, last: bool) -> None:
    graph, node = one_node(f"arg_{kind}", (3, 4, 5), "i32", axis=axis, keepdims=True, last=last)
    values = np.random.default_rng(0).integers(0, 3, (3, 4, 5)).astype(np.int32)  # many equal ones
    (expected,) = evaluate(node, [values])
    (computed,) = run_node(node, graph, {"x": values}, None, 2)
    np.testing.assert_array_equal(computed, expected)


@pytest.mark.spread
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
@pytest.mark.parametrize(
    "shape, axis", [((2, 1000), 1), ((3, 5), 1), ((5, 3, 7), 1), ((4, 19), 0), ((2, 3, 16), 2), ((1, 6, 2, 33), 1)]
)
def test_softmax(run_node: Any, op: str, shape: tuple[int, ...], axis: int) -> None:
    graph, node = one_node(op, shape, axis=axis)
    values = values_of(shape, "f32") * 20
    (expected,) = evaluate(node, [values], wide=True)
    (computed,) = run_node(node, graph, {"x": values}, None, 2)
    np.testing.assert_allclose(computed, expected, rtol=4e-6, atol=1e-6 if op == "log_softmax" else 1e-30)


def test_softmax_of_huge_numbers(run_node: Any) -> None:
    graph, node = one_node("softmax", (2, 9), axis=1)
    values = np.zeros((2, 9), np.float32)
    values[0, 3] = 3e38
    values[1] = -3e38
    (computed,) = run_node(node, graph, {"x": values})
    np.testing.assert_allclose(computed[0], np.eye(9)[3])
    np.testing.assert_allclose(computed[1], np.full(9, 1 / 9), rtol=1e-6)
