"""Pools, reductions, softmax and pads with vectors of every length: the same bytes, and the reference at edges."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.graph import DTYPES
from mavcg.specs.kernel import View

Array = NDArray[Any]
AssertNode = Callable[..., list[Array]]
Inside = Callable[..., View]
INF, NAN = float("inf"), float("nan")


def noise(dtype: str, *shape: int) -> Array:
    rng = np.random.default_rng(0)
    if dtype[0] == "f":
        return rng.standard_normal(shape).astype(DTYPES[dtype])
    info = np.iinfo(DTYPES[dtype])
    return rng.integers(max(info.min, -999), min(info.max, 999), shape).astype(DTYPES[dtype])


@pytest.mark.spread
@pytest.mark.parametrize("dtype", ["f32", "i8", "u8"])
@pytest.mark.parametrize("channels", [1, 3, 16, 70])
def test_max_pool(assert_node: AssertNode, dtype: str, channels: int) -> None:
    x = noise(dtype, 2, 7, 6, channels)
    assert_node("max_pool2d", (x,), kernel=(3, 2), stride=(2, 1), pads=(1, 0, 2, 1))
    assert_node("max_pool2d", (x,), kernel=(2, 3), dilation=(3, 2), pads=(2, 3, 1, 3))


@pytest.mark.spread
@pytest.mark.parametrize("channels", [1, 3, 16, 70])
def test_average_pool(assert_node: AssertNode, inside: Inside, channels: int) -> None:
    x = noise("f32", 2, 7, 6, channels)
    views = {"x0": inside("f32", x.shape), "y": inside("f32", (2, 5, 6, channels))}
    pads = {"pads": (1, 0, 2, 1), "count_pads": (1, 0, 1, 1)}
    assert_node("avg_pool2d", (x,), kernel=(3, 2), stride=(2, 1), rtol=1e-6, atol=1e-6, **pads)
    assert_node("avg_pool2d", (x,), kernel=(3, 1), rtol=1e-6, atol=1e-6, views=views)


@pytest.mark.spread(2)
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1, 7, 7, 70), (1, 2)),
        ((3, 250), (1,)),
        ((300, 5), (0,)),
        ((2, 3, 4, 5), (0, 2)),
        ((2, 3, 17), (0, 1, 2)),
        ((2, 3), ()),
        ((), ()),
    ],
)
def test_reductions(assert_node: AssertNode, op: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = noise("f32", *shape)
    size = float(np.abs(x).sum()) if op in ("sum", "mean") else 0.0
    assert_node(f"reduce_{op}", (x,), axes=axes, keepdims=False, rtol=1e-5, atol=1e-7 * size + 1e-40)


@pytest.mark.spread
@pytest.mark.parametrize("dtype", ["i32", "i64", "u8", "i8", "f64"])
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
def test_reductions_of_types(assert_node: AssertNode, op: str, dtype: str) -> None:
    x = noise(dtype, 3, 4, 37) // (50 if dtype == "i32" else 1) if dtype != "f64" else noise(dtype, 3, 4, 37)
    for axes in ((2,), (0, 1)):
        assert_node(f"reduce_{op}", (x,), axes=axes, rtol=1e-12 if dtype == "f64" else 0, atol=0)


def test_reductions_of_nothing(assert_node: AssertNode) -> None:
    assert assert_node("reduce_sum", (np.zeros((3, 0), np.float32),), axes=(1,))[0].tolist() == [[0]] * 3
    assert assert_node("reduce_prod", (np.zeros((0, 3), np.float32),), axes=(0,))[0].tolist() == [[1] * 3]
    assert_node("reduce_max", (np.zeros((0, 3), np.float32),), axes=(1,))


@pytest.mark.parametrize("op", ["max", "min"])
def test_nan_is_passed_on(assert_node: AssertNode, op: str) -> None:
    x = noise("f32", 4, 40)
    x[0, 3], x[1, 39], x[2, 0], x[2, 1] = NAN, NAN, INF, -INF
    assert_node(f"reduce_{op}", (x,), axes=(1,))
    assert_node(f"reduce_{op}", (x,), axes=(0,))


@pytest.mark.spread
@pytest.mark.parametrize("op", ["arg_max", "arg_min"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f32", "u8", "i64"])
def test_places(assert_node: AssertNode, op: str, axis: int, dtype: str) -> None:
    x = noise(dtype, 3, 5, 41)
    assert_node(op, (x,), axis=axis)
    assert_node(op, (np.sign(x),), axis=axis, last=True, keepdims=False)


@pytest.mark.spread
@pytest.mark.parametrize(("axis", "count"), [(0, 3), (1, 1), (2, 7), (2, 41), (1, 0)])
@pytest.mark.parametrize("dtype", ["f32", "f16", "u8", "i64"])
def test_best_places(assert_node: AssertNode, inside: Inside, axis: int, count: int, dtype: str) -> None:
    x = noise(dtype, 3, 5, 41)
    assert_node("arg_top", (x,), axis=axis, count=count)
    shape = tuple(count if a == axis else n for a, n in enumerate(x.shape))
    views = {"x0": inside(dtype, x.shape), "y": inside("i64", shape)} if count else {}
    assert_node("arg_top", (np.sign(x).astype(x.dtype),), axis=axis, count=count, smallest=True, views=views)


@pytest.mark.sample(6)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f32", "f16", "u8", "i64"])
@pytest.mark.parametrize("op", ["sum", "prod"])
@pytest.mark.parametrize(("exclusive", "reverse"), [(False, False), (True, False), (True, True)])
def test_cumulative(
    assert_node: AssertNode, inside: Inside, axis: int, dtype: str, op: str, exclusive: bool, reverse: bool
) -> None:
    x = noise(dtype, 3, 5, 21)
    tolerance = 2e-3 if dtype == "f16" else 1e-5
    views = {"x0": inside(dtype, x.shape), "y": inside(dtype, x.shape, 5)}
    attrs = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    assert_node(f"cumulative_{op}", (x,), rtol=tolerance, atol=tolerance, views=views, **attrs)


@pytest.mark.spread
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(assert_node: AssertNode, inside: Inside, op: str, axis: int) -> None:
    x = noise("f32", 3, 5, 41) * 30
    views = {"x0": inside("f32", x.shape), "y": inside("f32", x.shape, 5)}
    assert_node(op, (x,), axis=axis, rtol=3e-6, atol=1e-6, views=views)
    assert_node(
        op, (np.array([[1e30, 0, -1e30], [-INF, 0, 1], [5, 5, 5]], np.float32),), axis=axis % 2, rtol=1e-6, atol=1e-7
    )


@pytest.mark.spread
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("dtype", ["f32", "i8", "i64"])
def test_pad(assert_node: AssertNode, inside: Inside, mode: str, dtype: str) -> None:
    x = noise(dtype, 3, 5, 21)
    attrs = {"before": (1, 0, 3), "after": (0, 4, 2), "mode": mode, "value": 7.0}
    assert_node("pad", (x,), **attrs)
    assert_node("pad", (x,), views={"x0": inside(dtype, x.shape), "y": inside(dtype, (4, 9, 26))}, **attrs)
