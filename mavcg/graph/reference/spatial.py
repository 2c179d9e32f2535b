"""Definitions of operators on images, and of matrix products."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import Array, Node
from mavcg.graph.ops.spatial import divisors
from mavcg.graph.reference.elementwise import apply_activation


def taps(node: Node, x: Array, kernel: tuple[int, ...], outside: Any) -> Iterator[tuple[int, int, Array]]:
    """Yield (row, column, inputs of all windows at this position [N, OH, OW, C]) for each position in the window."""
    stride, dilation, (top, left, bottom, right) = node.attr("stride"), node.attr("dilation"), node.attr("pads")
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=outside)
    spans = [dilation[i] * (kernel[i] - 1) + 1 for i in (0, 1)]
    counts = [(padded.shape[1 + i] - spans[i]) // stride[i] + 1 for i in (0, 1)]
    for row in range(kernel[0]):
        for col in range(kernel[1]):
            first = (row * dilation[0], col * dilation[1])
            rows, cols = (slice(first[i], first[i] + (counts[i] - 1) * stride[i] + 1, stride[i]) for i in (0, 1))
            yield row, col, padded[:, rows, cols, :]


def _mix_channels(x: Array, w: Array, groups: int) -> Array:
    """Return the products of pixels and one position of the filter: x [.., C], w [O, C/groups] -> [.., O]."""
    pixels = x.reshape(-1, groups, x.shape[-1] // groups).transpose(1, 0, 2)
    filters = w.reshape(groups, w.shape[0] // groups, w.shape[1]).transpose(0, 2, 1)
    products: Array = np.matmul(pixels, filters)
    return products.transpose(1, 0, 2).reshape(*x.shape[:-1], w.shape[0])


def _conv2d(node: Node, inputs: Sequence[Any]) -> Array:
    x, w, bias, residual = inputs
    total: Any = 0.0
    for row, col, seen in taps(node, x, w.shape[1:3], 0):
        total = total + _mix_channels(seen, w[:, row, col, :], node.attr("groups"))
    total = total if bias is None else total + bias
    return apply_activation(node, total if residual is None else total + residual)


def _conv_transpose2d(node: Node, inputs: Sequence[Any]) -> Array:
    x, w, bias = inputs
    stride, dilation, pads, extra = (node.attr(n) for n in ("stride", "dilation", "pads", "output_pads"))
    spans = [dilation[i] * (w.shape[1 + i] - 1) + 1 for i in (0, 1)]
    height, width = ((x.shape[1 + i] - 1) * stride[i] + spans[i] + extra[i] for i in (0, 1))
    canvas = np.zeros((x.shape[0], height, width, w.shape[0]), x.dtype)
    for row in range(w.shape[1]):
        for col in range(w.shape[2]):
            first = (row * dilation[0], col * dilation[1])
            rows, cols = (slice(first[i], first[i] + (x.shape[1 + i] - 1) * stride[i] + 1, stride[i]) for i in (0, 1))
            canvas[:, rows, cols, :] += _mix_channels(x, w[:, row, col, :], node.attr("groups"))
    cropped = canvas[:, pads[0] : height - pads[2], pads[1] : width - pads[3], :]
    return apply_activation(node, cropped if bias is None else cropped + bias)


def _max_pool2d(node: Node, inputs: Sequence[Any]) -> Array:
    x: Array = inputs[0]
    lowest = np.iinfo(x.dtype).min if np.issubdtype(x.dtype, np.integer) else -np.inf
    largest: Array | None = None
    for _, _, seen in taps(node, x, node.attr("kernel"), lowest):
        largest = seen if largest is None else np.maximum(largest, seen)
    return np.array(largest)


def _avg_pool2d(node: Node, inputs: Sequence[Any]) -> Array:
    x: Array = inputs[0]
    total = sum(seen for _, _, seen in taps(node, x, node.attr("kernel"), 0))
    rows, cols = (divisors(node, i, x.shape[1 + i], np.shape(total)[1 + i]) for i in (0, 1))
    return np.asarray(total / (rows[:, None, None] * cols[:, None]))


_SPATIAL: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {
    "conv2d": _conv2d,
    "conv_transpose2d": _conv_transpose2d,
    "max_pool2d": _max_pool2d,
    "avg_pool2d": _avg_pool2d,
}


def _matmul(node: Node, inputs: Sequence[Any]) -> Array:
    a, b, bias, residual = inputs
    total = np.matmul(a, np.swapaxes(b, -1, -2) if node.attr("transpose_b") else b)
    total = total if bias is None else total + bias
    return apply_activation(node, total if residual is None else total + residual)


_LINEAR: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {"matmul": _matmul}

DEFINITIONS = {**_SPATIAL, **_LINEAR}
