"""Families of f16 whose sums are f32: one rounding at the end, of nearly the exact result.

Where the exact result lies near the middle of two f16, the error of f32 decides between them: a unit in the last place.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.specs.kernel import View

Array = NDArray[Any]
AssertNode = Callable[..., list[Array]]
Inside = Callable[..., View]
ULP, LEAST = 2.0**-10, 2.0**-24  # relative; of the smallest numbers


def half(*shape: int, seed: int = 0, size: float = 3) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * size + 0.5).astype(np.float16)


WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 5, 5, 130), {"kernel": (5, 5), "stride": (1, 1)}),
    ((2, 6, 7, 9), {"kernel": (3, 2), "stride": (2, 1), "pads": (1, 0, 1, 1)}),
    ((1, 6, 6, 1), {"kernel": (3, 3), "stride": (3, 3), "pads": (0, 0, 2, 2)}),
]


@pytest.mark.parametrize(("shape", "attrs"), WINDOWS)
def test_pools(assert_node: AssertNode, shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    assert_node("max_pool2d", (half(*shape),), **attrs)
    assert_node("avg_pool2d", (half(*shape),), rtol=ULP, atol=LEAST, **attrs)


def test_an_average_of_large_numbers_does_not_overflow(assert_node: AssertNode) -> None:
    x = np.full((1, 4, 4, 17), 60000, np.float16)
    (computed, *_) = assert_node("avg_pool2d", (x,), kernel=(4, 4))
    assert (computed == 60000).all()
    (mean, *_) = assert_node("reduce_mean", (x,), axes=(1, 2))
    assert (mean == 60000).all()


def test_a_maximum_passes_nan_on(assert_node: AssertNode) -> None:
    x = half(1, 4, 4, 21)
    x[0, 1, 1, :5] = np.nan
    (computed, *_) = assert_node("max_pool2d", (x,), compare=False, kernel=(2, 2), stride=(2, 2))
    assert np.isnan(computed[0, 0, 0, :5]).all() and not np.isnan(computed[0, 0, 0, 5:]).any()


@pytest.mark.spread
@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((1, 7, 7, 70), (1, 2)), ((3, 50), (1,)), ((3, 50), (0,)), ((2, 3, 17), (0, 1, 2)), ((5, 8), (1,))],
)
def test_reductions(assert_node: AssertNode, kind: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = half(*shape, size=0.3) if kind == "prod" else half(*shape)
    exact = kind in ("max", "min")
    assert_node(f"reduce_{kind}", (x,), rtol=0 if exact else ULP, atol=0 if exact else 2e-5, axes=axes, keepdims=False)


@pytest.mark.sample(4)
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
@pytest.mark.parametrize(("shape", "axis"), [((2, 300), 1), ((3, 5), 1), ((5, 3, 7), 1), ((4, 19), 0), ((2, 3, 16), 2)])
def test_softmax(assert_node: AssertNode, op: str, shape: tuple[int, ...], axis: int) -> None:
    assert_node(op, (half(*shape, size=6),), rtol=ULP, atol=2e-6, axis=axis)


def test_softmax_in_views(assert_node: AssertNode, inside: Inside) -> None:
    x = half(3, 4, 21, size=6)
    views = {"x0": inside("f16", x.shape), "y": inside("f16", x.shape, 7)}
    assert_node("softmax", (x,), rtol=ULP, atol=2e-6, axis=2, views=views)
    assert_node("softmax", (x,), rtol=ULP, atol=2e-6, axis=2, views={"x0": View("f16", x.shape, (84, 1, 4))})


@pytest.mark.parametrize("length", [1, 15, 16, 200])
def test_layer_norm(assert_node: AssertNode, inside: Inside, length: int) -> None:
    x, scale, bias = half(2, 5, length), *(half(length, seed=n).astype(np.float32) for n in (1, 2))
    assert_node("layer_norm", (x, scale, bias), axis=2, rtol=ULP, atol=2e-5)
    views = {"x0": inside("f16", x.shape), "y": inside("f16", x.shape, 7)}
    assert_node("layer_norm", (x, scale, None), axis=2, rtol=ULP, atol=2e-5, views=views)


@pytest.mark.parametrize("channels", [1, 16, 37])
def test_lrn(assert_node: AssertNode, channels: int) -> None:
    assert_node("lrn", (half(2, 3, 2, channels, size=300),), size=5, rtol=ULP, atol=1e-5)


@pytest.mark.parametrize("axis", [1, 2])
def test_resample(assert_node: AssertNode, axis: int) -> None:
    x = half(2, 6, 7, 19)
    index = np.array([[0, 1], [1, 2], [2, 3], [5, 5]], np.int32)
    weight = np.array([[0.25, 0.75], [0.1, 0.9], [1, 0], [-0.125, 1.125]], np.float32)
    assert_node("resample", (x, index, weight), rtol=ULP, atol=1e-5, axis=axis)
    one = np.ones((4, 1), np.float32)
    assert_node("resample", (x, index[:, :1], one), constants=(1, 2), axis=axis)
    assert_node("resample", (x[0, 0], index, weight), rtol=ULP, atol=1e-5, axis=1)
