"""Definitions of conversions between real numbers and 8-bit integers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import DTYPES, Array, Node


def _along(node: Node, x: Array, parameter: Array) -> Array:
    """Return a parameter, a scalar or an element per position of the axis, in a shape that broadcasts to x."""
    if not parameter.shape:
        return parameter
    return parameter.reshape([-1 if i == node.attr("axis") else 1 for i in range(x.ndim)])


def _dynamic_range(node: Node, inputs: Sequence[Any]) -> Array:
    # In f32, as ONNX defines it: the nearest zero point may depend on the rounding of the scale.
    x = inputs[0].astype(np.float32)
    low, high = np.min(x, initial=np.float32(0)), np.max(x, initial=np.float32(0))
    scale = (high - low) / np.float32(255)
    scale = scale if scale != 0 else np.float32(1)
    point = np.clip(np.rint(-low / scale), 0, 255)
    return np.array([scale, 0 if np.isnan(point) else point], np.float32)


def _quantize(node: Node, inputs: Sequence[Any]) -> Array:
    x, scale, zero = inputs
    to = DTYPES[node.attr("to")]
    limits = np.iinfo(to)
    # The quotient is an f32: the nearest integer may depend on its rounding.
    quotient = (x / _along(node, x, scale)).astype(np.float32).astype(np.float64)
    return np.asarray(np.clip(np.rint(quotient) + _along(node, x, zero), limits.min, limits.max)).astype(to)


def _dequantize(node: Node, inputs: Sequence[Any]) -> Array:
    x, scale, zero = inputs
    return np.asarray((x.astype(np.int64) - _along(node, x, zero)) * _along(node, x, scale))


DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {
    "dynamic_range": _dynamic_range,
    "quantize": _quantize,
    "dequantize": _dequantize,
}
