"""layer_norm and lrn against the reference in double precision."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.specs.kernel import View

Array = NDArray[Any]
AssertNode = Callable[..., list[Array]]
Inside = Callable[..., View]


def noise(*shape: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * 3 + 1).astype(np.float32)


@pytest.mark.spread
@pytest.mark.parametrize("length", [1, 3, 15, 16, 17, 200])
@pytest.mark.parametrize("biased", [False, True])
def test_layer_norm_of_the_last_axis(assert_node: AssertNode, length: int, biased: bool) -> None:
    bias = noise(length, seed=2) if biased else None
    inputs = (noise(2, 5, length), noise(length, seed=1), bias)
    assert_node("layer_norm", inputs, axis=2, rtol=2e-5, atol=2e-5)


def test_layer_norm_of_several_axes(assert_node: AssertNode, inside: Inside) -> None:
    x, scale = noise(3, 4, 5, 21), noise(4, 1, 21, seed=1)
    assert_node("layer_norm", (x, scale, noise(seed=3)), axis=1, rtol=1e-5, atol=1e-5)
    views = {"x0": inside("f32", x.shape), "y": inside("f32", x.shape, 7)}
    assert_node("layer_norm", (x, scale, None), axis=1, rtol=1e-5, atol=1e-5, views=views, epsilon=0.1)
    assert_node("layer_norm", (x, noise(21), None), axis=0, rtol=1e-5, atol=1e-5, epsilon=0.1)


def test_layer_norm_where_channels_are_apart(assert_node: AssertNode) -> None:
    views = {"x0": View("f32", (6, 5, 7), (35, 1, 5))}
    assert_node("layer_norm", (noise(6, 5, 7), noise(7), None), axis=2, rtol=1e-5, atol=1e-5, views=views)


@pytest.mark.parametrize("length", [3, pytest.param(200, marks=pytest.mark.long)])
def test_norms_by_the_mean_square(assert_node: AssertNode, length: int) -> None:
    inputs = (noise(2, 5, length), noise(length, seed=1), None)
    assert_node("layer_norm", inputs, axis=2, rtol=1e-6, atol=1e-6, epsilon=0.1, centred=False)


@pytest.mark.spread
@pytest.mark.parametrize("channels", [1, 4, 16, 37, 96])
@pytest.mark.parametrize(("size", "beta"), [(5, 0.75), (4, 0.5), (1, 1.0), (3, 0.6), (11, 0.75)])
def test_lrn(assert_node: AssertNode, channels: int, size: int, beta: float) -> None:
    attrs = {"size": size, "beta": beta, "alpha": 0.3, "bias": 1.5}
    assert_node("lrn", (noise(2, 3, 2, channels),), rtol=1e-6, atol=1e-6, **attrs)


def test_lrn_in_views(assert_node: AssertNode, inside: Inside) -> None:
    x = noise(2, 3, 21)
    views = {"x0": inside("f32", x.shape), "y": inside("f32", x.shape, 7)}
    assert_node("lrn", (x,), size=5, rtol=1e-6, atol=1e-6, views=views)
    assert_node("lrn", (x,), size=5, rtol=1e-6, atol=1e-6, views={"y": View("f32", x.shape, (63, 1, 3))})
