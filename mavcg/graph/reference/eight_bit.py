"""Definitions of operators on 8-bit tensors: sums are exact, and one f32 product requantizes them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import DTYPES, Array, Node
from mavcg.graph.ops import make_node
from mavcg.graph.ops.eight_bit import limits
from mavcg.graph.ops.spatial import divisors
from mavcg.graph.reference import spatial
from mavcg.graph.reference.elementwise import apply_activation


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


_QUANTIZATION: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {
    "dynamic_range": _dynamic_range,
    "quantize": _quantize,
    "dequantize": _dequantize,
}


def requantize(node: Node, value: Array) -> Array:
    """Return clamp(round_half_even(value) + out_zero, lo, hi). value: f32 in units of the result's scale."""
    rounded = np.rint(value.astype(np.float32)).astype(np.float64) + node.attr("out_zero")
    return np.asarray(np.clip(rounded, node.attr("lo"), node.attr("hi"))).astype(DTYPES[node.attr("to")])


def _scale(node: Node, total: Array, multiplier: Any, shift: Array | None = None) -> Array:
    """Return exact sums, at most 2**31, times an f32 multiplier, plus an f32 shift, rounded as f32 arithmetic does."""
    real = total.astype(np.float32) * np.asarray(multiplier, np.float32)
    return requantize(node, real if shift is None else real + np.asarray(shift, np.float32))


def _centre(x: Array, zero: int) -> Array:
    """Return x - zero in f64, which represents all sums of products exactly."""
    return np.asarray(x.astype(np.float64) - zero)


def _convolve(node: Node, x: Array, w: Array, bias: Array | None, groups: int) -> Array:
    """Return the convolution in f64 with a node's window; all products and sums are exact integers."""
    window = {name: node.attr(name) for name in ("stride", "dilation", "pads")}
    conv = make_node("conv2d", ("x", "w", "bias" if bias is not None else ""), ("y",), groups=groups, **window)
    return spatial.DEFINITIONS["conv2d"](conv, (x, w.astype(np.float64), bias, None))


def _qconv2d(node: Node, inputs: Sequence[Any]) -> Array:
    x, w, bias, multiplier, shift, residual = inputs
    total = _convolve(node, _centre(x, node.attr("x_zero")), w, bias, node.attr("groups"))
    if residual is None and not node.attr("own_scale"):
        return _scale(node, total, multiplier, shift)
    real = total.astype(np.float32) * np.asarray(multiplier, np.float32)
    real = real if shift is None else real + np.asarray(shift, np.float32)
    own = np.clip(np.rint(real), node.attr("own_lo"), node.attr("own_hi")).astype(np.float32)
    own *= np.float32(node.attr("own_scale"))
    if residual is None:
        return requantize(node, own)
    added = _centre(residual, node.attr("residual_zero")).astype(np.float32) * np.float32(node.attr("residual_scale"))
    return requantize(node, own + added)


def _qmatmul(node: Node, inputs: Sequence[Any]) -> Array:
    a, b, bias, multiplier, shift = inputs
    wide = b.astype(np.float64)
    total = np.matmul(_centre(a, node.attr("x_zero")), np.swapaxes(wide, -1, -2) if node.attr("transpose_b") else wide)
    return _scale(node, total + bias, multiplier, shift)


def _integer_result(node: Node, total: Array, inputs: Sequence[Any]) -> Array:
    """Return the result of exact sums: they wrap around in 32 bits, and the epilogue is computed in f64."""
    _, _, _, bias, multiplier, shift, residual = inputs
    total = (total.astype(np.int64) + (0 if bias is None else bias)).astype(np.int32)
    if multiplier is None:
        return total
    real = total.astype(np.float64) * multiplier
    for added in (shift, residual):
        real = real if added is None else real + added
    return apply_activation(node, real)


def _iconv2d(node: Node, inputs: Sequence[Any]) -> Array:
    x, w, zero = inputs[:3]
    return _integer_result(node, _convolve(node, _centre(x, int(zero)), w, None, node.attr("groups")), inputs)


def _imatmul(node: Node, inputs: Sequence[Any]) -> Array:
    x, w, zero = inputs[:3]
    total = np.matmul(_centre(x, int(zero)), (w.T if node.attr("transpose_b") else w).astype(np.float64))
    return _integer_result(node, total, inputs)


def _qadd(node: Node, inputs: Sequence[Any]) -> Array:
    a, b = (
        _centre(inputs[i], node.attr(f"{n}_zero")).astype(np.float32) * np.float32(node.attr(f"{n}_scale"))
        for i, n in enumerate("ab")
    )
    return requantize(node, a + b)


def _qmul(node: Node, inputs: Sequence[Any]) -> Array:
    a, b = (_centre(inputs[i], node.attr(f"{n}_zero")) for i, n in enumerate("ab"))
    return _scale(node, a * b, node.attr("multiplier"))


def _qavg_pool2d(node: Node, inputs: Sequence[Any]) -> Array:
    x = _centre(inputs[0], node.attr("x_zero"))
    total = _convolve(node, x, np.ones((x.shape[3], *node.attr("kernel"), 1)), None, x.shape[3])
    rows, cols = (divisors(node, i, x.shape[1 + i], total.shape[1 + i]) for i in (0, 1))
    count = (rows[:, None, None] * cols[:, None]).astype(np.float64)
    return _scale(node, total, np.float32(node.attr("multiplier")).astype(np.float64) / count)


def _qmean(node: Node, inputs: Sequence[Any]) -> Array:
    x, axes = _centre(inputs[0], node.attr("x_zero")), tuple(node.attr("axes"))
    count = float(np.prod([x.shape[i] for i in axes]))
    total = np.asarray(x.sum(axis=axes, keepdims=node.attr("keepdims")))
    return _scale(node, total, np.float32(node.attr("multiplier")).astype(np.float64) / count)


def _lookup(node: Node, inputs: Sequence[Any]) -> Array:
    x, table = inputs
    least, _ = limits("i8" if x.dtype == np.int8 else "u8")
    return np.asarray(table[x.astype(np.int64) - least])


_EIGHT_BIT: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {
    "qconv2d": _qconv2d,
    "qmatmul": _qmatmul,
    "iconv2d": _iconv2d,
    "imatmul": _imatmul,
    "qadd": _qadd,
    "qmul": _qmul,
    "qavg_pool2d": _qavg_pool2d,
    "qmean": _qmean,
    "lookup": _lookup,
}

DEFINITIONS = {**_QUANTIZATION, **_EIGHT_BIT}
