"""Weights in 8 bits with a scale for each output channel: how f32 weights are rounded to them.

All channels are symmetric around 0, and kernels multiply a sum of 8-bit weights by its channel's scale once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.graph import Node

Array = NDArray[Any]
LARGEST = 127  # of an 8-bit weight; -128 is not used
_SCALE_BITS = np.uint32(0xFFFFFF00)  # 16 significant bits, so that a product with a number of 8 bits is exact in f32


def channel_scales(weights: Array, axis: int) -> Array:
    """Return the scale of each channel: the largest magnitude of its weights over 127, cut to 16 significant bits.

    weights: f32, finite, with channels along `axis`. Returns: f32 [channels], normal numbers; of a channel of zeros
    the smallest. Weights that are multiples of such a scale, of which one has the magnitude 127, have it again.
    """
    others = tuple(other for other in range(weights.ndim) if other != axis)
    largest = np.abs(weights).max(axis=others, initial=0).astype(np.float32) / np.float32(LARGEST)
    cut = (largest.view(np.uint32) & _SCALE_BITS).view(np.float32)
    return np.asarray(np.maximum(cut, np.finfo(np.float32).tiny))


def in_eight_bits(weights: Array, axis: int) -> tuple[Array, Array]:
    """Return f32 weights as i8, rounded to multiples of their channel's scale, to even between two, and the scales.

    weights: [.., channels, ..], f32, as in channel_scales.
    """
    scales = channel_scales(weights, axis)
    shape = [1] * weights.ndim
    shape[axis] = -1
    quotients = np.rint(weights / scales.reshape(shape))
    return np.clip(quotients, -LARGEST, LARGEST).astype(np.int8), scales


def rounded_to_eight_bits(weights: Array, axis: int) -> Array:
    """Return f32 weights rounded to multiples of their channel's scale, which f32 holds exactly.

    weights: [.., channels, ..], f32, as in channel_scales.
    """
    numbers, scales = in_eight_bits(weights, axis)
    shape = [1] * weights.ndim
    shape[axis] = -1
    return np.asarray(numbers.astype(np.float32) * scales.reshape(shape))


def channel_axis(node: Node) -> int:
    """Return the axis of a product's constant weights, of conv2d or matmul, that its output channels lie along."""
    return 1 if node.op == "matmul" and not node.attr("transpose_b") else 0
