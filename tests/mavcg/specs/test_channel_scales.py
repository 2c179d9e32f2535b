"""Weights in 8 bits: their scales and rounding, against the definition in double precision."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mavcg.graph.builder import GraphBuilder
from mavcg.specs.channel_scales import channel_axis, channel_scales, in_eight_bits, rounded_to_eight_bits

NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
MATRICES = arrays.arrays(np.float32, arrays.array_shapes(min_dims=2, max_dims=4, max_side=5), elements=NUMBERS)


@given(MATRICES, st.integers(0, 1))
def test_weights_are_the_nearest_multiples_of_their_channels_scale(weights: Any, axis: int) -> None:
    numbers, scales = in_eight_bits(weights, axis)
    assert numbers.dtype == np.int8 and numbers.shape == weights.shape and scales.shape == (weights.shape[axis],)
    assert np.abs(numbers.astype(int)).max(initial=0) <= 127
    wide = np.moveaxis(weights.astype(np.float64), axis, -1)
    exact = np.moveaxis(numbers.astype(np.float64), axis, -1) * scales
    assert np.all(np.abs(exact - wide) <= scales * 0.505)  # the scale is cut, by up to 127 / 32768 of the largest

    rounded = rounded_to_eight_bits(weights, axis)
    assert rounded.dtype == np.float32 and np.isfinite(rounded).all()
    np.testing.assert_array_equal(np.moveaxis(rounded, axis, -1).astype(np.float64), exact)


@given(MATRICES)
def test_rounded_weights_have_the_same_scales_and_numbers_again(weights: Any) -> None:
    numbers, scales = in_eight_bits(weights, 0)
    again, same = in_eight_bits(rounded_to_eight_bits(weights, 0), 0)
    np.testing.assert_array_equal(again, numbers)
    np.testing.assert_array_equal(same, scales)


def test_a_channel_of_zeros_has_the_smallest_normal_scale() -> None:
    weights = np.array([[0, -0.0], [2.54, -1.27]], np.float32)
    scales = channel_scales(weights, 0)
    assert scales[0] == np.finfo(np.float32).tiny and scales[1] == pytest.approx(0.02, rel=2**-15)
    np.testing.assert_array_equal(in_eight_bits(weights, 0)[0], [[0, 0], [127, -64]])


def test_output_channels_lie_along_the_last_axis_of_a_matrix_on_the_right() -> None:
    b = GraphBuilder("test")
    x, w = b.constant(np.ones((2, 2), np.float32), "x"), b.constant(np.ones((2, 2), np.float32), "w")
    names = [b.add("matmul", (x, w)), b.add("matmul", (x, w), transpose_b=True)]
    graph = b.finish(names)
    assert [channel_axis(node) for node in graph.nodes] == [1, 0]
