"""Reductions, places of extremes and softmax against NumPy in double precision."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph import DTYPES, Graph, Node, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import evaluate
from mavcg.specs.kernel import View
from tests.kernels.onnxruntime_node import by_onnxruntime


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
    [
        ((1, 7, 7, 70), (1, 2)),
        ((3, 50), (1,)),
        ((3, 50), (0,)),
        ((2, 3, 4, 5), (0, 2)),
        ((2, 3, 17), (0, 1, 2)),
        ((4, 1, 33), (2,)),
        ((5, 16), (1,)),
        ((2, 9, 3), (1, 2)),
    ],
)
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


def fused(a: Any, b: Any, c: Any) -> Any:
    """a * b + c with one rounding: products of f32 are exact in 80 bits."""
    return (np.longdouble(1) * a * np.float32(b) + np.asarray(c, np.float32)).astype(np.float32)


def halved(parts: Any) -> Any:
    width = parts.shape[-1] // 2
    return parts[..., :width] + parts[..., width:]


def partial_sums(values: Any, count: int) -> Any:
    """[.., count]: lane i has the terms i, i + count, ..; what lacks at the end is 0."""
    filled = np.zeros((*values.shape[:-1], -(-values.shape[-1] // count) * count), np.float32)
    filled[..., : values.shape[-1]] = values
    total = np.zeros((*values.shape[:-1], count), np.float32)
    for first in range(0, filled.shape[-1], count):
        total = total + filled[..., first : first + count]
    return total


def softmax_of_onnxruntime(x: Any) -> Any:
    """As onnxruntime 1.32 computes it with AVX-512, from a description of its steps."""
    below = np.maximum(x - x.max(-1, keepdims=True), np.float32(-88.3762626647949))
    shifted = fused(below, 1.44269504088896341, 12582912.0)
    whole = shifted - np.float32(12582912.0)
    rest = fused(whole, -1.42860677e-6, fused(whole, -6.93145752e-1, below))
    power = np.full_like(x, float.fromhex("0x1.694p-10"))
    for text in ("0x1.125edcp-7", "0x1.555b5ap-5", "0x1.55545p-3", "0x1.fffff6p-2", "0x1p0", "0x1p0"):
        power = fused(power, rest, float.fromhex(text))
    power = power * np.where(whole < -126, 0, np.ldexp(np.float32(1), whole.astype(int))).astype(np.float32)
    total = halved(partial_sums(power, 16))
    while total.shape[-1] > 1:
        total = total[..., 0::2] + total[..., 1::2]
    return power * (np.float32(1) / total)


@pytest.mark.parametrize("length", [16, 33, 128, 200])
def test_softmax_has_the_bits_of_onnxruntimes(run_node: Any, length: int) -> None:
    graph, node = one_node("softmax", (6, length), axis=1)
    values = values_of((6, length), "f32") * np.array([[0.1], [1], [3], [10], [40], [90]], np.float32)
    (computed,) = run_node(node, graph, {"x": values}, None, 2)
    np.testing.assert_array_equal(computed, softmax_of_onnxruntime(values))


@pytest.mark.parametrize("length", [8, 64, 504])
def test_a_mean_has_the_bits_of_onnxruntimes(run_node: Any, length: int) -> None:
    graph, node = one_node("reduce_mean", (20, length), axes=(1,), keepdims=True)
    values = values_of((20, length), "f32") ** 2
    (computed,) = run_node(node, graph, {"x": values}, None, 2)
    expected = halved(halved(halved(partial_sums(values, 8)))) / np.float32(length)
    np.testing.assert_array_equal(computed, expected)
    np.testing.assert_array_equal(computed, by_onnxruntime("ReduceMean", values, axes=[1], keepdims=1))


@pytest.mark.parametrize("height, width", [(7, 7), (3, 4), (1, 3)])
def test_a_mean_of_pixels_has_the_bits_of_onnxruntimes_global_average_pool(
    run_node: Any, height: int, width: int
) -> None:
    graph, node = one_node("reduce_mean", (1, height, width, 40), axes=(1, 2), keepdims=True)
    values = values_of((1, height, width, 40), "f32") ** 2
    dense = View("f32", values.shape, (height * width * 40, width * 40, 40, 1))
    bordered = View("f32", values.shape, (height * (width + 2) * 40, (width + 2) * 40, 40, 1))
    for view in (dense, bordered):
        out = View("f32", (1, 1, 1, 40), (40, 40, 40, 1))
        (computed,) = run_node(node, graph, {"x": values}, {"x": view, node.output: out})
        lines = values.reshape(-1, 40).T
        whole = height * width // 4 * 4
        total = halved(halved(partial_sums(lines[:, :whole], 4)))[:, 0] if whole else np.zeros(40, np.float32)
        for at in range(whole, height * width):
            total = total + lines[:, at]
        np.testing.assert_array_equal(computed.ravel(), total / np.float32(height * width))
        theirs = by_onnxruntime("GlobalAveragePool", np.ascontiguousarray(values.transpose(0, 3, 1, 2)))
        np.testing.assert_array_equal(computed.ravel(), theirs.ravel())


def test_what_is_called_onnxruntimes_softmax_is() -> None:
    if "avx512f" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("without AVX-512 onnxruntime adds in other parts")
    values = np.random.default_rng(3).standard_normal((8, 77)).astype(np.float32) * 9
    np.testing.assert_array_equal(softmax_of_onnxruntime(values), by_onnxruntime("Softmax", values, axis=-1))
