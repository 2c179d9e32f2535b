"""8-bit models: operators on quantised tensors, each in the form dequantize - operator - quantize.

A pass over the graph recognises that form and makes 8-bit operators of it; the file's own QDQ nodes end in the same
form.
"""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES
from mavcg.importers.emitter import Value, constant
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_ops.convolution import convolve
from mavcg.importers.onnx_ops.linear import multiply
from mavcg.importers.onnx_proto import dtype_of

_EXACT_F32 = 1 << 24  # whole numbers up to here are exact in float32


def _parameters(call: OnnxCall, x: Value, scale: Value, zero: Value | None, dtype: str) -> tuple[Value, Value]:
    """Return scale and zero point as graphs want them: f32 and of the quantised type, both scalars or both along one
    axis."""
    if scale.rank > 1 or (zero is not None and zero.rank > 1):
        raise call.unsupported(f"scale {scale.type}", "one scale, or one for each position along one axis")
    if scale.type.elements == 1:
        scale = call.reshape(scale, ())
    scale = call.cast(scale, "f32")
    if zero is None:
        zero = constant(np.zeros(scale.shape, DTYPES[dtype]), stem="zero")
    elif zero.type.elements == 1 and scale.rank == 0:
        zero = call.reshape(zero, ())
    if zero.dtype != dtype:
        raise call.fail(f"zero point {zero.type} where {dtype} is needed")
    if zero.shape != scale.shape:
        raise call.fail(f"scale {scale.type} and zero point {zero.type} differ in shape")
    return scale, zero


def dequantize_values(call: OnnxCall, x: Value, scale: Value, zero: Value | None, axis: int = 0) -> Value:
    """Return (x - zero) * scale in f32."""
    if x.dtype not in ("i8", "u8", "i16", "u16", "i32"):
        raise call.unsupported(f"elements of type {x.dtype}", "i8, u8, i16, u16, i32")
    scale, zero = _parameters(call, x, scale, zero, x.dtype)
    axis = call.axis(axis, x.rank) if scale.rank else 0
    return call.add("dequantize", x, scale, zero, axis=axis)


def quantize_values(
    call: OnnxCall, x: Value, scale: Value, zero: Value | None, axis: int = 0, dtype: str = "u8"
) -> Value:
    """Return x / scale + zero, rounded and saturated."""
    dtype = zero.dtype if zero is not None else dtype
    if dtype not in ("i8", "u8"):
        raise call.unsupported(f"quantisation to {dtype}", "i8, u8")
    scale, zero = _parameters(call, x, scale, zero, dtype)
    axis = call.axis(axis, x.rank) if scale.rank else 0
    return call.add("quantize", call.cast(x, "f32"), scale, zero, axis=axis, to=dtype)


def _whole_blocks(call: OnnxCall) -> None:
    if call.attr_int("block_size", 0):
        raise call.unsupported(
            f"block_size {call.attr_int('block_size')}", "one scale, or one for each position along one axis"
        )


def quantize_linear(call: OnnxCall) -> Results:
    """Import QuantizeLinear."""
    _whole_blocks(call)
    number = call.attr_int("output_dtype", 0)
    dtype = dtype_of(number, call.location) if number else "u8"
    return quantize_values(call, call.input(0), call.input(1), call.maybe(2), call.attr_int("axis", 1), dtype)


def dequantize_linear(call: OnnxCall) -> Results:
    """Import DequantizeLinear."""
    _whole_blocks(call)
    scale, zero, axis = call.input(1), call.maybe(2), call.attr_int("axis", 1)
    made = dequantize_values(call, call.input(0), scale, zero, axis)
    number = call.attr_int("output_dtype", 0)
    return call.cast(made, dtype_of(number, call.location) if number else scale.dtype)


def dynamic_range(call: OnnxCall, x: Value) -> tuple[Value, Value]:
    """Return scale and zero point of u8 numbers over a range that holds zero and every element of x.

    The scale of zeros is 1.
    """
    axes = tuple(range(x.rank))
    zero = call.scalar(0.0, x)
    high = call.add("max", call.add("reduce_max", x, axes=axes, keepdims=False), zero)
    low = call.add("min", call.add("reduce_min", x, axes=axes, keepdims=False), zero)
    scale = call.add("div", call.add("sub", high, low), call.scalar(255.0, x))
    # ONNX divides zeros by a scale of 0. Any other does; onnxruntime's is 1.
    scale = call.add("where", call.add("equal", scale, zero), call.scalar(1.0, x), scale)
    point = call.add("clip", call.add("round", call.add("div", call.add("neg", low), scale)), lo=0.0, hi=255.0)
    return scale, call.cast(point, "u8")


def dynamic_quantize_linear(call: OnnxCall) -> Results:
    """Import DynamicQuantizeLinear: to u8."""
    x = call.input(0)
    scale, point = dynamic_range(call, x)
    return quantize_values(call, x, scale, point), scale, point


def qlinear_conv(call: OnnxCall) -> Results:
    """Import QLinearConv; its bias is in units of the product of both scales."""
    x, w = call.input(0, rank_min=3), call.input(3, rank_min=3)
    x_scale, w_scale, bias = call.input(1), call.input(4), call.maybe(8)
    real_bias = None
    if bias is not None:
        unit = call.add("mul", call.reshape(x_scale, ()) if x_scale.type.elements == 1 else x_scale, w_scale)
        real_bias = dequantize_values(
            call, bias, unit, constant(np.zeros(unit.shape if unit.type.elements > 1 else (), np.int32))
        )
    made = convolve(
        call,
        dequantize_values(call, x, x_scale, call.input(2), 1),
        dequantize_values(call, w, w_scale, call.input(5), 0),
        real_bias,
    )
    return quantize_values(call, made, call.input(6), call.input(7), 1)


def qlinear_matmul(call: OnnxCall) -> Results:
    """Import QLinearMatMul: scales of a are one or one a row, of b one or one a column."""
    a, b = call.input(0, rank_min=1), call.input(3, rank_min=1)
    made = multiply(
        call,
        dequantize_values(call, a, call.input(1), call.input(2), -2 if a.rank > 1 else -1),
        dequantize_values(call, b, call.input(4), call.input(5), -1),
    )
    return quantize_values(call, made, call.input(6), call.input(7), -2 if made.rank > 1 else -1)


def _less_zero(call: OnnxCall, x: Value, zero: Value | None, axis: int, dtype: str) -> Value:
    """Return x - zero as whole numbers of a wider type, or as floats; a zero point per position runs along `axis`."""
    if x.dtype not in ("i8", "u8"):
        raise call.unsupported(f"elements of type {x.dtype}", "i8, u8")
    wide = call.cast(x, dtype)
    if zero is None or (zero.array is not None and not zero.array.any()):
        return wide
    if zero.dtype != x.dtype:
        raise call.fail(f"zero point {zero.type} for {x.type}")
    if zero.type.elements == 1:
        zero = call.reshape(zero, ())
    elif zero.rank == 1:
        axis = call.axis(axis, x.rank)
        zero = call.reshape(zero, [zero.shape[0] if i == axis else 1 for i in range(x.rank)])
    return call.add("sub", wide, call.cast(zero, dtype))


def matmul_integer(call: OnnxCall) -> Results:
    """Import MatMulInteger: exact sums, in f32 where known weights are so small that no sum leaves its whole numbers
    (the packed product is the faster by far), else in 32 bits."""
    a, b = call.input(0, rank_min=1), call.input(1, rank_min=1)
    weights = _less_zero(call, b, call.maybe(3), -1, "i32")
    known = weights.array
    # 255 is the largest difference of two 8-bit numbers. Every partial sum is below the bound, in whatever order.
    exact = known is not None and np.abs(known).sum(axis=-2 if b.rank > 1 else -1).max(initial=0) * 255 < _EXACT_F32
    dtype = "f32" if exact else "i32"
    left = _less_zero(call, a, call.maybe(2), -2 if a.rank > 1 else -1, dtype)
    return call.cast(multiply(call, left, call.cast(weights, dtype)), "i32")


def conv_integer(call: OnnxCall) -> Results:
    """Import ConvInteger, by a convolution of floats wide enough for every sum to be exact."""
    x, w = call.input(0, rank_min=3), call.input(1, rank_min=3)
    weights = _less_zero(call, w, call.maybe(3), 0, "i32")
    known = weights.array
    # 255 is the largest difference of two 8-bit numbers. Every partial sum is below the bound, in whatever order.
    magnitudes = np.full(w.shape, 255) if known is None else np.abs(known)
    largest = magnitudes.reshape(w.shape[0], -1).sum(axis=1).max(initial=0) * 255
    dtype = "f32" if largest < _EXACT_F32 else "f64"
    image = _less_zero(call, x, call.maybe(2), 1, dtype)
    made = convolve(call, image, call.cast(weights, dtype), None, exact=True)
    return call.cast(made, "i32")


HANDLERS: Mapping[str, Handler] = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "MatMulInteger": matmul_integer,
    "ConvInteger": conv_integer,
}
