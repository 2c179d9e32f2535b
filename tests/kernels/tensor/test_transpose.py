"""Transposes: every way of turning, edges of tiles, strided views."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mavcg.graph import DTYPES
from mavcg.specs.kernel import View

Array = NDArray[Any]
AssertNode = Callable[..., list[Array]]
Inside = Callable[..., View]


def noise(dtype: str, shape: tuple[int, ...]) -> Array:
    """Random bytes, as any type, without NaN."""
    return np.random.default_rng(0).integers(0, 100, shape).astype(DTYPES[dtype])


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 17, 67])
def test_images_to_channels_last_and_back(assert_node: AssertNode, channels: int) -> None:
    x = noise("f32", (2, channels, 7, 15))
    assert_node("transpose", (x,), perm=(0, 2, 3, 1))
    assert_node("transpose", (np.ascontiguousarray(x.transpose(0, 2, 3, 1)),), perm=(0, 3, 1, 2))


@pytest.mark.spread
@pytest.mark.parametrize("dtype", ["i8", "f16", "i64"])
@pytest.mark.parametrize("shape", [(3, 70), (16, 16), (33, 130), (4, 9)])
def test_other_sizes_of_elements(assert_node: AssertNode, dtype: str, shape: tuple[int, int]) -> None:
    assert_node("transpose", (noise(dtype, shape),), perm=(1, 0))
    assert_node("transpose", (noise(dtype, shape[::-1]),), perm=(1, 0))


@pytest.mark.parametrize("perm", list(itertools.permutations(range(4)))[1::3])
def test_orders_of_four_dimensions(assert_node: AssertNode, inside: Inside, perm: tuple[int, ...]) -> None:
    x = noise("f32", (3, 9, 5, 12))
    out = tuple(x.shape[i] for i in perm)
    assert_node("transpose", (x,), perm=perm, views={"x0": inside("f32", x.shape), "y": inside("f32", out)})


def test_large(assert_node: AssertNode) -> None:
    assert_node("transpose", (noise("f32", (3, 150, 130)),), perm=(0, 2, 1))
    assert_node("transpose", (noise("f32", (3, 150 * 130)),), perm=(1, 0))


def test_channel_shuffle(assert_node: AssertNode) -> None:
    assert_node("transpose", (noise("f32", (6, 2, 29)),), perm=(0, 2, 1))
    assert_node("transpose", (noise("f32", (6, 29, 2)),), perm=(0, 2, 1))


def test_without_elements(assert_node: AssertNode) -> None:
    assert_node("transpose", (noise("f32", (3, 0, 2)),), perm=(2, 0, 1))
    assert_node("transpose", (noise("f32", ()),), perm=())


@settings(max_examples=8)
@given(
    shape=st.lists(st.integers(1, 19), min_size=2, max_size=4),
    data=st.data(),
    dtype=st.sampled_from(["f32", "i8", "i64"]),
)
def test_any(assert_node: AssertNode, inside: Inside, shape: list[int], data: st.DataObject, dtype: str) -> None:
    perm = tuple(data.draw(st.permutations(range(len(shape)))))
    views = {"x0": inside(dtype, tuple(shape), 2)} if data.draw(st.booleans()) else {}
    assert_node("transpose", (noise(dtype, tuple(shape)),), perm=perm, views=views)
