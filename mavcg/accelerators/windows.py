"""Convolutions and pools of feature maps in the arrays' number type, shared by f32 and integer arithmetic."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from mavcg.accelerators.xgraph import XNode
from mavcg.graph import Array


def _tap_slices(node: XNode, lengths: tuple[int, ...]) -> Iterator[tuple[int, int, slice, slice]]:
    """Yield (row, column) of each tap of a kernel, with the rows and columns that it reads or writes in the padded map.

    lengths: rows and columns of the map without windows: the result's, for a transposed convolution the input's.
    """
    for row in range(node.kernel[0]):
        for column in range(node.kernel[1]):
            rows, columns = (
                slice(first, first + (length - 1) * stride + 1, stride)
                for first, length, stride in zip(
                    (row * node.dilation[0], column * node.dilation[1]), lengths, node.stride, strict=True
                )
            )
            yield row, column, rows, columns


def _taps(node: XNode, x: Array, outside: Any) -> Iterator[tuple[int, int, Array]]:
    """Yield (row, column, elements) of each position in the window; elements: [N, OH, OW, C], one for each window.

    outside: value of elements outside of the map.
    """
    top, left, bottom, right = node.pads
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=outside)
    for row, column, rows, columns in _tap_slices(node, node.shape[1:3]):
        yield row, column, padded[:, rows, columns, :]


def _mix_channels(x: Array, filters: Array, groups: int) -> Array:
    """Multiply each pixel with one position of the filter: x[N, H, W, C], filters[O, C / groups] -> [N, H, W, O]."""
    if groups == 1:
        return np.asarray(np.matmul(x, filters.T))
    if filters.shape[1] == 1:  # depthwise: an output channel reads one input channel
        several = filters.shape[0] // x.shape[-1]
        return np.asarray((x if several == 1 else np.repeat(x, several, axis=-1)) * filters[:, 0])
    parts = np.split(x, groups, axis=-1)
    return np.concatenate(
        [np.matmul(part, f.T) for part, f in zip(parts, np.split(filters, groups), strict=True)], axis=-1
    )


def convolve(node: XNode, x: Array, weights: Array, outside: int = 0) -> Array:
    """Return the sums of products of conv, depthwise, deconv or dense, without bias.

    x: [N, H, W, C] and weights, as Parameters has them, of the same number type. outside: value in the pads.
    """
    if node.kind == "dense":
        flat: Array = np.matmul(x.reshape(x.shape[0], -1), weights.reshape(weights.shape[0], -1).T)
        return flat[:, None, None, :]
    if node.kind == "deconv":
        return _scatter_products(node, x, weights)
    total = np.zeros((x.shape[0], *node.shape[1:]), x.dtype)
    for row, column, seen in _taps(node, x, outside):
        total += _mix_channels(np.ascontiguousarray(seen), weights[:, row, column, :], node.groups)
    return total


def _scatter_products(node: XNode, x: Array, weights: Array) -> Array:
    """Return a transposed convolution: each input's products are added to the outputs that it contributes to."""
    top, left, bottom, right = node.pads
    height, width = node.shape[1] + top + bottom, node.shape[2] + left + right
    canvas = np.zeros((x.shape[0], height, width, node.channels), x.dtype)
    for row, column, rows, columns in _tap_slices(node, x.shape[1:3]):
        canvas[:, rows, columns, :] += _mix_channels(x, weights[:, row, column, :], node.groups)
    return canvas[:, top : height - bottom, left : width - right, :]


def window_sums(node: XNode, x: Array) -> Array:
    """Return the sums over the windows of a pool; elements outside of the map count as 0."""
    total = np.zeros((x.shape[0], *node.shape[1:]), x.dtype)
    for _, _, seen in _taps(node, x, 0):
        total += seen
    return total


def window_greatest(node: XNode, x: Array) -> Array:
    """Return the largest element of each window; elements outside of the map do not count."""
    lowest = np.iinfo(x.dtype).min if np.issubdtype(x.dtype, np.integer) else -np.inf
    greatest: Array | None = None
    for _, _, seen in _taps(node, x, lowest):
        greatest = seen.copy() if greatest is None else np.maximum(greatest, seen)
    assert greatest is not None
    return greatest


def window_counts(node: XNode, in_shape: tuple[int, ...]) -> Array:
    """Return the number of positions of each window that an avg_pool's divisor counts: [OH, OW], integers above 0."""
    along = []
    for axis in (0, 1):
        first = np.arange(node.shape[1 + axis]) * node.stride[axis] - node.pads[axis]
        positions = first[:, None] + np.arange(node.kernel[axis]) * node.dilation[axis]
        low, high = -node.count_pads[axis], in_shape[1 + axis] + node.count_pads[axis + 2]
        along.append(((positions >= low) & (positions < high)).sum(axis=1))
    return np.asarray(along[0][:, None] * along[1][None, :])


def move_elements(node: XNode, x: Array) -> Array:
    """Return the result of upsample (nearest) or reorganise (space to depth).

    Channels of a reorganised map are ordered by block row, block column, channel.
    """
    height, width = node.factor
    if node.kind == "upsample":
        return np.repeat(np.repeat(x, height, axis=1), width, axis=2)
    n, rows, columns, channels = x.shape
    blocks = x.reshape(n, rows // height, height, columns // width, width, channels).transpose(0, 1, 3, 2, 4, 5)
    return np.ascontiguousarray(blocks).reshape(n, rows // height, columns // width, height * width * channels)
