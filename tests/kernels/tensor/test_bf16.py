"""Kernels of bf16 outside of products: computed in f32, rounded once to the nearest even bf16."""

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
BF16 = DTYPES["bf16"]
ULP = 2.0**-8  # half a unit in the last place, relative; and a little for the error of f32
NEAR = ULP * 1.001
INF, NAN = float("inf"), float("nan")


def numbers(*shape: int, seed: int = 0, size: float = 3) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * size + 0.5).astype(np.float32).astype(BF16)


@pytest.mark.parametrize("op", ["add", "mul", "div", "max", "min", "less"])
def test_binary_operators(assert_node: AssertNode, op: str) -> None:
    assert_node(op, (numbers(3, 70), numbers(70, seed=1)))


@pytest.mark.parametrize("op", ["relu", "neg", "sqrt", "floor"])
def test_unary_operators_of_one_operation(assert_node: AssertNode, op: str) -> None:
    assert_node(op, (np.abs(numbers(3, 41).astype(np.float32)).astype(BF16) if op == "sqrt" else numbers(3, 41),))


def test_functions_and_bounds(assert_node: AssertNode) -> None:
    for op in ("sigmoid", "gelu", "exp"):
        assert_node(op, (numbers(2, 53),), rtol=NEAR, atol=1e-6)
    assert_node("clip", (numbers(2, 53),), lo=0.3, hi=2.7)
    assert_node("pow", (numbers(2, 19, size=0.1), np.float32(2.5).astype(BF16)), rtol=NEAR, constants=(1,))
    assert_node("prelu", (numbers(2, 19), numbers(19, seed=1)))
    assert_node("where", (np.arange(19) % 3 == 0, numbers(2, 19), numbers(2, 19, seed=1)))


def test_extremes_of_nan(assert_node: AssertNode) -> None:
    a, b = ([1, NAN, 2, NAN, INF, -INF, 0] * 5, [NAN, 1, 3, NAN, -INF, 0, INF] * 5)
    assert_node("max", tuple(np.array(values, BF16) for values in (a, b)))


def test_every_bf16_and_the_numbers_between_them(assert_node: AssertNode) -> None:
    """All bf16 become f32 and come back; f32 near the middle of two go to the nearest, or to the even one."""
    every = np.arange(1 << 16, dtype=np.uint16)
    (wide, *_) = assert_node("cast", (every.view(BF16),), to="f32")
    known = ~np.isnan(wide)
    assert (wide.view(np.uint32)[known] == every.astype(np.uint32)[known] << 16).all()
    tails = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    between = ((every[known, None].astype(np.uint32) << 16) + tails).view(np.float32)
    (rounded, *_) = assert_node("cast", (between,), to="bf16", compare=False)
    bits, finite = rounded.view(np.uint16), ~np.isnan(between)
    up = (tails > 0x8000) | ((tails == 0x8000) & (every[known, None] & 1 == 1))
    np.testing.assert_array_equal(bits[finite], (every[known, None] + up).astype(np.uint16)[finite])
    assert np.isnan(rounded[~finite].astype(np.float32)).all()


@pytest.mark.parametrize(("source", "values"), [("f64", [1.00390625 + 1e-12, -1e300]), ("i32", [257, -3]), ("u8", [7])])
def test_casts_from_other_types(assert_node: AssertNode, source: str, values: list[float]) -> None:
    (computed, *_) = assert_node("cast", (np.array(values, DTYPES[source]),), to="bf16", compare=False)
    exact = {1.00390625 + 1e-12: 1.0078125, -1e300: -INF, 257: 256}  # f64: rounded once, from above the middle
    assert computed.astype(np.float64).tolist() == [exact.get(value, value) for value in values]


def test_casts_to_other_types(assert_node: AssertNode) -> None:
    x = np.array([-3.5, 0, 7.25, 100, NAN, -0.0], np.float32).astype(BF16)
    (whole, *_) = assert_node("cast", (x,), to="i32", compare=False)
    assert whole.tolist() == [-3, 0, 7, 100, 0, 0]
    for to in ("f16", "f64", "bool"):
        assert_node("cast", (x,), to=to)


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", ["sum", "mean", "max", "prod"])
@pytest.mark.parametrize(("shape", "axes"), [((1, 7, 7, 70), (1, 2)), ((3, 50), (1,)), ((5, 8), (1,))])
def test_reductions(assert_node: AssertNode, kind: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    exact = kind == "max"
    x = numbers(*shape, size=0.3 if kind == "prod" else 3)
    assert_node(f"reduce_{kind}", (x,), rtol=0 if exact else NEAR, atol=0 if exact else 2e-5, axes=axes)


def test_positions_of_extremes(assert_node: AssertNode) -> None:
    for op in ("arg_max", "arg_min"):
        assert_node(op, (numbers(4, 33),), axis=1, keepdims=False)


@pytest.mark.parametrize("shape", [(1, 5, 5, 130), (2, 6, 7, 9)])
def test_pools(assert_node: AssertNode, shape: tuple[int, ...]) -> None:
    attrs = {"kernel": (3, 2), "stride": (2, 1), "pads": (1, 0, 1, 1)}
    assert_node("max_pool2d", (numbers(*shape),), **attrs)
    assert_node("avg_pool2d", (numbers(*shape),), rtol=NEAR, atol=1e-7, **attrs)


@pytest.mark.parametrize(("shape", "axis"), [((2, 300), 1), ((5, 3, 7), 1), ((4, 19), 0)])
def test_softmax(assert_node: AssertNode, shape: tuple[int, ...], axis: int) -> None:
    assert_node("softmax", (numbers(*shape, size=6),), rtol=NEAR, atol=1e-7, axis=axis)


@pytest.mark.parametrize("axis", [0, 1])
def test_cumulative_sums(assert_node: AssertNode, axis: int) -> None:
    assert_node("cumulative_sum", (numbers(4, 19),), rtol=NEAR, atol=1e-5, axis=axis)


def test_normalisations(assert_node: AssertNode) -> None:
    scale, bias = (numbers(200, seed=n).astype(np.float32) for n in (1, 2))
    assert_node("layer_norm", (numbers(2, 5, 200), scale, bias), axis=2, rtol=NEAR, atol=2e-5)
    assert_node("lrn", (numbers(2, 3, 2, 37, size=300),), size=5, rtol=NEAR, atol=1e-5)


def test_resample(assert_node: AssertNode) -> None:
    index = np.array([[0, 1], [1, 2], [2, 3], [5, 5]], np.int32)
    weight = np.array([[0.25, 0.75], [0.1, 0.9], [1, 0], [-0.125, 1.125]], np.float32)
    assert_node("resample", (numbers(2, 6, 7, 19), index, weight), rtol=NEAR, atol=1e-5, axis=1)


def test_moves(assert_node: AssertNode, inside: Inside) -> None:
    x = numbers(3, 5, 17)
    assert_node("transpose", (x,), perm=(2, 0, 1))
    assert_node("concat", (x, numbers(3, 2, 17, seed=1)), axis=1)
    assert_node("slice", (x,), starts=(1, 0, 3), stops=(3, 5, 17), steps=(1, 2, 3))
    assert_node("pad", (x,), before=(0, 1, 2), after=(1, 0, 3), value=1.5)
    assert_node("reshape", (x,), shape=(15, 17), views={"x0": inside("bf16", x.shape)})
