"""Convolution and products over 8-bit numbers: every bit as the definition has it, on every machine."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from mavcg.graph import DTYPES
from mavcg.kernels.int8.register_tile import sums_in_i16
from mavcg.specs.kernel import View

Array = NDArray[Any]


def numbers(seed: int, dtype: str, shape: tuple[int, ...]) -> Array:
    """All of a type's numbers, its ends more often than others."""
    rng, info = np.random.default_rng(seed), np.iinfo(DTYPES[dtype])
    ends = rng.choice([info.min, info.max], shape)
    return np.where(rng.random(shape) < 0.1, ends, rng.integers(info.min, info.max + 1, shape)).astype(DTYPES[dtype])


def ending(seed: int, terms: int, channels: int, dtype: str, to: str) -> tuple[Array, Array, dict[str, Any]]:
    """Bias and multiplier that bring such sums into 8 bits, some of them beyond its ends; the attributes."""
    rng, info = np.random.default_rng(seed + 1), np.iinfo(DTYPES[to])
    bias = rng.integers(-5000, 5000, channels).astype(np.int32)
    multiplier = (rng.uniform(0.5, 2, channels) * 60 / (5500 * terms**0.5)).astype(np.float32)
    of = np.iinfo(DTYPES[dtype])
    zeros = {"x_zero": int(rng.integers(of.min, of.max + 1)), "out_zero": int(rng.integers(info.min, info.max + 1))}
    return bias, multiplier, {**zeros, "lo": info.min + 3, "hi": info.max, "to": to}


def assert_conv(
    assert_node: Any,
    x: tuple[int, ...],
    w: tuple[int, ...],
    dtype: str = "u8",
    to: str = "i8",
    least: int = -127,
    views: Any = None,
    **attrs: Any,
) -> None:
    seed = sum(x) + 7 * sum(w)
    weights = np.maximum(numbers(seed, "i8", w), np.int8(least))
    bias, multiplier, result = ending(seed, w[1] * w[2] * w[3], w[0], dtype, to)
    inputs = [numbers(seed, dtype, x), weights, bias, multiplier]
    assert_node("qconv2d", inputs, constants=(1, 2, 3), views=views, **attrs, **result)


@pytest.mark.spread
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("width", [1, 6, 13])
def test_widths_around_tiles(assert_node: Any, dtype: str, width: int) -> None:
    assert_conv(assert_node, (1, 4, width + 2, 4), (18, 3, 3, 4), dtype, "u8")


@pytest.mark.parametrize("channels", [1, 8, 9, 17, 40])
def test_channels_around_vectors(assert_node: Any, channels: int) -> None:
    assert_conv(assert_node, (1, 4, 5, 5), (channels, 1, 1, 5))
    assert_conv(assert_node, (1, 1, 1, 70), (channels * 3, 1, 1, 70), "i8")  # by channels


@pytest.mark.sample(4)
@pytest.mark.parametrize("terms", [1, 2, 3, 4, 5, 7, 8, 35])
def test_sums_of_every_length(assert_node: Any, terms: int) -> None:
    assert_conv(assert_node, (1, 2, 3, terms), (9, 1, 1, terms), "u8" if terms % 2 else "i8", least=-128)


@pytest.mark.parametrize(
    "x, w, attrs",
    [
        ((1, 4, 9, 5), (19, 3, 3, 5), {}),
        ((1, 3, 6, 35), (35, 2, 3, 1), {"groups": 35}),
        ((1, 1, 1, 70), (57, 1, 1, 70), {}),
        ((2, 5, 5, 16), (24, 3, 3, 8), {"groups": 2}),
    ],
)
def test_shifts_are_added_after_the_multiplier(
    assert_node: Any, x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    bias, multiplier, result = ending(3, w[1] * w[2] * w[3], w[0], "u8", "i8")
    shift = np.where(np.arange(w[0]) % 3, 0, np.random.default_rng(5).normal(0, 60, w[0])).astype(np.float32)
    inputs = [numbers(1, "u8", x), numbers(2, "i8", w), bias, multiplier, shift]
    assert_node("qconv2d", inputs, constants=(1, 2, 3, 4), **attrs, **result)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "x, w, attrs",
    [
        ((1, 4, 9, 5), (19, 3, 3, 5), {}),
        ((1, 8, 13, 35), (64, 1, 1, 35), {}),
        ((1, 1, 1, 70), (57, 1, 1, 70), {}),
        ((2, 5, 5, 16), (24, 3, 3, 8), {"groups": 2}),
        ((1, 9, 7, 6), (9, 3, 3, 6), {"stride": (2, 2)}),
    ],
)
@pytest.mark.parametrize("types", ["u8 u8", "i8 u8", "u8 i8"])
def test_residuals_are_added_to_rounded_results(
    assert_node: Any, x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, Any], types: str
) -> None:
    """Results at the ends of own_lo .. own_hi too. types: of x and result, of the residual."""
    dtype, added = types.split()
    bias, multiplier, result = ending(3, w[1] * w[2] * w[3], w[0], dtype, dtype)
    down, across = attrs.get("stride", (1, 1))
    out = (x[0], (x[1] - w[1]) // down + 1, (x[2] - w[2]) // across + 1, w[0])
    inputs = [numbers(1, dtype, x), numbers(2, "i8", w), bias, multiplier, None, numbers(3, added, out)]
    scales = {"own_lo": -37, "own_hi": 45, "own_scale": 0.83, "residual_scale": -0.41}
    assert_node("qconv2d", inputs, constants=(1, 2, 3), residual_zero=9, **attrs, **scales, **result)


@pytest.mark.parametrize("to", ["i8", "u8"])
def test_rounded_results_in_another_scale(assert_node: Any, to: str) -> None:
    bias, multiplier, result = ending(3, 45, 19, "u8", to)
    inputs = [numbers(1, "u8", (1, 4, 9, 5)), numbers(2, "i8", (19, 3, 3, 5)), bias, multiplier]
    assert_node("qconv2d", inputs, constants=(1, 2, 3), own_lo=-37, own_hi=45, own_scale=1.37, **result)


@pytest.mark.sample(4)
@pytest.mark.parametrize("channels", [9, 32, 70])
@pytest.mark.parametrize("groups", [1, 0])
@pytest.mark.parametrize("to", ["i8", "u8"])
def test_results_far_beyond_i32_saturate(assert_node: Any, channels: int, groups: int, to: str) -> None:
    """The largest are 2**31 * 1000, beside others that i16 or 8 bits hold. groups: 0 for depthwise."""
    groups = groups or channels
    w = (channels, 1, 1, 8) if groups == 1 else (channels, 3, 3, 1)
    factor = np.resize(np.array([1000, 1e-3, 0.3, 1], np.float32), channels)
    bias = np.resize([2**30, 5, -(2**30), -7, 900], channels).astype(np.int32)
    inputs = [numbers(3, "u8", (1, 3, 7, 8 if groups == 1 else channels)), numbers(4, "i8", w), bias, factor]
    low = -128 if to == "i8" else 0
    result = {"x_zero": 7, "out_zero": low + 100, "lo": low, "hi": low + 255, "to": to}
    assert_node("qconv2d", inputs, constants=(1, 2, 3), groups=groups, **result)


@pytest.mark.parametrize("constants", [(1, 2, 3, 4), (2, 3, 4)])
def test_shifts_of_products(assert_node: Any, constants: tuple[int, ...]) -> None:
    bias, multiplier, result = ending(3, 33, 40, "u8", "u8")
    inputs = [numbers(1, "u8", (11, 33)), numbers(2, "i8", (33, 40)), bias, multiplier, np.linspace(-9, 9, 40)]
    inputs[4] = inputs[4].astype(np.float32)
    assert_node("qmatmul", inputs, constants=constants, **result)


WEIGHTS = st.integers(-128, 127) | st.sampled_from([-64, -32, 32, 64])
PACKED = st.integers(1, 5).flatmap(lambda steps: arrays(np.int8, (2, steps, 3, 4), elements=WEIGHTS))


@given(PACKED)
def test_what_i16_holds_is_found_by_trying_the_worst_inputs(packed: Array) -> None:
    def worst(together: int) -> int:
        """The largest sum of products with 0 or 255 that some block of groups can have, by its size."""
        sums = [0]
        for run in packed.astype(int):
            for start in range(0, len(run), together):
                block = run[start : start + together]
                for lane in range(3):
                    for pair in (block[:, lane, :2], block[:, lane, 2:]):
                        sums += [255 * pair[pair > 0].sum(), -255 * pair[pair < 0].sum()]
        return int(max(sums))

    assert sums_in_i16(packed) == next((n for n in (4, 2, 1) if worst(n) < 1 << 15), 0)


@pytest.mark.spread
@pytest.mark.parametrize(("terms", "dtype"), [(7, "i8"), (70, "u8")])
@pytest.mark.parametrize("most", [64, 32, 16])
def test_small_weights_at_the_largest_inputs(assert_node: Any, most: int, terms: int, dtype: str) -> None:
    info = np.iinfo(DTYPES[dtype])
    x = np.where(np.arange(13 * terms) % 5 < 4, info.max, info.min).reshape(1, 1, 13, terms).astype(DTYPES[dtype])
    signs = np.where(np.arange(18) % 3 < 2, 1, -1)[:, None, None, None]
    weights = (most * signs * np.ones((18, 1, 1, terms))).astype(np.int8)
    multiplier = np.full(18, 0.9 / (most * terms * 2), np.float32)
    inputs = [x, weights, np.arange(18, dtype=np.int32), multiplier]
    assert_node("qconv2d", inputs, constants=(1, 2, 3), x_zero=int(info.min) + 3, out_zero=-5, lo=-128, hi=127, to="i8")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "x, w, more",
    [
        ((1, 11, 9, 3), (10, 7, 7, 3), {"stride": (2, 2)}),
        ((2, 9, 9, 6), (12, 3, 3, 3), {"groups": 2}),
        ((1, 6, 6, 24), (72, 3, 3, 8), {"groups": 3, "dtype": "i8"}),
        ((1, 12, 12, 5), (20, 3, 3, 5), {"dilation": (2, 3)}),
        ((3, 7, 7, 40), (130, 1, 1, 40), {"least": -128}),
        ((1, 3, 3, 64), (200, 3, 3, 64), {"dtype": "i8"}),
        ((1, 2, 2, 64), (96, 1, 1, 32), {"groups": 2}),
        ((1, 29, 31, 2), (3, 1, 1, 2), {"stride": (3, 2)}),
        ((1, 1, 67, 8), (16, 1, 1, 8), {}),
    ],
)
def test_convolutions_of_every_form_agree_with_the_definition(
    assert_node: Any, x: tuple[int, ...], w: tuple[int, ...], more: dict[str, Any]
) -> None:
    assert_conv(assert_node, x, w, **more)


def test_inside_other_buffers(assert_node: Any) -> None:
    """The input within a padded buffer, the output within a concatenation."""
    views = {"x0": View("u8", (2, 8, 9, 7), (9000, 100, 7, 1)), "y": View("i8", (2, 6, 7, 18), (2100, 350, 50, 1))}
    assert_conv(assert_node, (2, 8, 9, 7), (18, 3, 3, 7), views=views)
    views = {"x0": View("u8", (2, 8, 9, 7), (8 * 9 * 11, 99, 11, 1))}
    assert_conv(assert_node, (2, 8, 9, 7), (18, 3, 3, 7), views=views)
    assert_conv(assert_node, (2, 8, 9, 7), (18, 1, 1, 7), views=views)


@pytest.mark.parametrize(
    "a, right, constant, more",
    [
        ((5, 12), (12, 20), True, {}),
        ((1, 512), (300, 512), True, {"transpose_b": True}),
        ((2, 3, 50, 12), (12, 20), True, {}),
        ((3, 2, 12), (3, 12, 7), True, {}),
        ((5, 12), (12, 20), False, {}),
        ((3, 5, 12), (3, 12, 21), False, {}),
        ((2, 1, 7, 5), (4, 5, 9), False, {}),
        ((2, 7, 5), (2, 9, 5), False, {"transpose_b": True}),
        ((4, 12), (12, 1), False, {}),
    ],
)
def test_products(
    assert_node: Any, a: tuple[int, ...], right: tuple[int, ...], constant: bool, more: dict[str, Any]
) -> None:
    dtype = "u8" if a[-1] % 2 else "i8"
    channels = right[-2] if more.get("transpose_b") else right[-1]
    bias, multiplier, result = ending(sum(a), a[-1], channels, dtype, "u8")
    inputs = [numbers(sum(a), dtype, a), numbers(sum(right), "i8", right), bias, multiplier]
    assert_node("qmatmul", inputs, constants=(1, 2, 3) if constant else (), **more, **result)


@pytest.mark.parametrize(
    "channels, kernel, stride, width, least, dtype",
    [
        (2, 3, 1, 1, -127, "i8"),
        (8, 3, 2, 9, -128, "u8"),
        (24, 5, 1, 4, -127, "i8"),
        (32, 3, 1, 17, -128, "u8"),
        (35, 2, 3, 5, -127, "u8"),
        (61, 3, 1, 8, -128, "i8"),
    ],
)
def test_depthwise(
    assert_node: Any, channels: int, kernel: int, stride: int, width: int, least: int, dtype: str
) -> None:
    side = (width - 1) * stride + kernel
    assert_conv(
        assert_node,
        (2, kernel, side, channels),
        (channels, kernel, kernel, 1),
        dtype,
        "u8",
        least,
        groups=channels,
        stride=(stride, stride),
    )


def test_depthwise_with_dilation_in_a_wider_buffer(assert_node: Any) -> None:
    views = {"x0": View("u8", (1, 9, 9, 13), (9 * 9 * 30, 9 * 30, 30, 1))}
    assert_conv(assert_node, (1, 9, 9, 13), (13, 3, 3, 1), groups=13, dilation=(2, 3), views=views)
