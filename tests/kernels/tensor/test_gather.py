"""Gather, table look-up and resampling: chosen elements, indices of every kind, tables of few and many taps."""

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


def noise(dtype: str, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal(shape).astype(np.float32)
        if dtype == "f32"
        else rng.integers(0, 99, shape).astype(DTYPES[dtype])
    )


@pytest.mark.spread
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_gather_along_any_axis(assert_node: AssertNode, inside: Inside, axis: int, dtype: str) -> None:
    x = noise(dtype, (5, 6, 70))
    indices = np.array([[0, -1, 3], [2, -5, 1]], np.int64)
    assert_node("gather", (x, indices), axis=axis)
    out = (*x.shape[:axis], 2, 3, *x.shape[axis + 1 :])
    views = {"x0": inside(dtype, x.shape), "x1": inside("i64", (2, 3), 1), "y": inside(dtype, out)}
    assert_node("gather", (x, indices), axis=axis, views=views)


def test_gather_one(assert_node: AssertNode) -> None:
    assert_node("gather", (noise("f32", (5, 6)), np.int32(-2)), axis=0)
    assert_node("gather", (noise("f32", (5, 6)), np.int32(3)), axis=1)
    assert_node("gather", (noise("i64", (1,)), np.zeros((1, 1), np.int32)), axis=0)
    assert_node("gather", (noise("f32", (5, 6)), np.zeros(0, np.int32)), axis=1)
    assert_node("gather", (noise("f32", (50, 1300)), np.arange(0, 50, 7)), axis=0)


def test_gather_reads_nothing_outside(assert_node: AssertNode) -> None:
    x = noise("f32", (4, 9))
    indices = np.array([2**40, -(2**62), 4, -5, 2**63 - 1, -(2**63)], np.int64)
    computed = assert_node("gather", (x, indices), axis=0, compare=False)[0]
    np.testing.assert_array_equal(computed, x[[3, 0, 3, 0, 3, 0]])


@pytest.mark.parametrize(("dtype", "to"), [("i8", "i8"), ("u8", "u8"), ("i8", "u8")])
def test_lookup(assert_node: AssertNode, dtype: str, to: str) -> None:
    table = np.random.default_rng(1).permutation(256).astype(np.uint8).view(DTYPES[to])
    x = np.arange(3 * 401).astype(np.uint8).view(DTYPES[dtype]).reshape(3, 401)
    assert_node("lookup", (x, table))


def tables(out: int, length: int, taps: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(out)
    return rng.integers(0, length, (out, taps)).astype(np.int32), rng.standard_normal((out, taps)).astype(np.float32)


@pytest.mark.spread
@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("taps", [1, 2, 4, 13])
def test_resample(assert_node: AssertNode, axis: int, taps: int) -> None:
    x = noise("f32", (2, 5, 7, 19))
    index, weight = tables(11, x.shape[axis], taps)
    assert_node("resample", (x, index, weight), axis=axis, rtol=1e-6, atol=1e-6)


def test_nearest_is_a_copy(assert_node: AssertNode, inside: Inside) -> None:
    x = noise("f32", (1, 4, 6, 40))
    index = np.repeat(np.arange(6, dtype=np.int32), 2)[:, None]
    views = {"x0": inside("f32", x.shape), "y": inside("f32", (1, 4, 12, 40), 5)}
    assert_node("resample", (x, index, np.ones((12, 1), np.float32)), axis=2, constants=(1, 2), views=views)


def test_wide_lines(assert_node: AssertNode) -> None:
    index, weight = tables(3, 4, 2)
    assert_node("resample", (noise("f32", (4, 50, 41)), index, weight), axis=0, rtol=1e-6, atol=1e-6)
