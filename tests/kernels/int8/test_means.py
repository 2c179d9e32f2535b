"""Means of 8-bit numbers, exactly as the reference has them."""

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


def noise(dtype: str, *shape: int) -> Array:
    info = np.iinfo(DTYPES[dtype])
    return np.random.default_rng(0).integers(info.min, info.max, shape, DTYPES[dtype], endpoint=True)


def result(to: str, multiplier: float = 1.3) -> dict[str, Any]:
    low, high = (-128, 100) if to == "i8" else (3, 255)
    return {"x_zero": 7, "multiplier": multiplier, "out_zero": 5, "lo": low, "hi": high, "to": to}


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("channels", [1, 8, 37, 1100])
@pytest.mark.parametrize("axes", [(1, 2), (1,), (3,), (0, 1, 2, 3)])
def test_means_agree_with_the_definition(
    assert_node: AssertNode, dtype: str, channels: int, axes: tuple[int, ...]
) -> None:
    assert_node("qmean", (noise(dtype, 2, 3, 5, channels),), axes=axes, keepdims=len(axes) == 2, **result(dtype, 2.7))


def test_mean_in_views(assert_node: AssertNode, inside: Inside) -> None:
    x = noise("i8", 2, 3, 5, 21)
    views = {"x0": inside("i8", x.shape), "y": inside("i8", (2, 1, 1, 21))}
    assert_node("qmean", (x,), axes=(1, 2), views=views, **result("i8"))


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("channels", [3, 16, 70])
@pytest.mark.parametrize(
    "window",
    [
        {"kernel": (2, 2), "stride": (2, 2)},
        {"kernel": (3, 3), "pads": (1, 1, 1, 1)},
        {"kernel": (3, 2), "pads": (1, 0, 2, 1), "count_pads": (1, 0, 1, 1), "stride": (2, 1)},
        {"kernel": (2, 3), "dilation": (3, 2), "pads": (2, 3, 1, 3)},
    ],
)
def test_average_pools_agree_with_the_definition(
    assert_node: AssertNode, dtype: str, channels: int, window: dict[str, Any]
) -> None:
    assert_node("qavg_pool2d", (noise(dtype, 2, 7, 6, channels),), **window, **result("u8"))


def test_average_pool_in_views(assert_node: AssertNode, inside: Inside) -> None:
    x = noise("u8", 1, 6, 6, 21)
    views = {"x0": inside("u8", x.shape), "y": inside("u8", (1, 3, 3, 21), 11)}
    assert_node("qavg_pool2d", (x,), kernel=(2, 2), stride=(2, 2), views=views, **result("u8"))
    apart = {"x0": View("u8", x.shape, (756, 6, 1, 36))}
    assert_node("qavg_pool2d", (x,), kernel=(2, 2), stride=(2, 2), views=apart, **result("u8"))
