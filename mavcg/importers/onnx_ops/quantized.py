"""Handlers of operators on quantised tensors, imported as dequantize - operator - quantize.

A graph pass recognises this form and replaces it by 8-bit operators. The file's own QDQ nodes have the same form.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from mavcg.graph import DTYPES, TensorType
from mavcg.importers import indices
from mavcg.importers.onnx_narrow import BY_NUMBER, NARROW, bounds_of, cast_narrow
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_ops.convolution import convolve, convolve_integers, multiply
from mavcg.importers.onnx_proto import dtype_of
from mavcg.importers.value import Quantised, Value, constant

_EXACT_F32 = 1 << 24  # integers up to this size are exact in f32


def _parameters(call: OnnxCall, x: Value, scale: Value, zero: Value | None, dtype: str) -> tuple[Value, Value]:
    """Return (scale, zero point) as graphs need them: f32 and the quantised type, both scalars or both along one
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
    """Return x / scale + zero, rounded and saturated to dtype."""
    dtype = zero.dtype if zero is not None else dtype
    if dtype not in ("i8", "u8"):
        raise call.unsupported(f"quantisation to {dtype}", "i8, u8")
    scale, zero = _parameters(call, x, scale, zero, dtype)
    axis = call.axis(axis, x.rank) if scale.rank else 0
    return call.add("quantize", call.cast(x, "f32"), scale, zero, axis=axis, to=dtype)


def _along_blocks(call: OnnxCall, x: Value, scale: Value, block: int, axis: int) -> Callable[[Value], Value]:
    """Return a function that repeats a value of the scales' shape along blocks, so that it has x's shape.

    Raises: MavcgError for scales that do not fit.
    """
    length = x.shape[axis] if x.rank else 0
    expected = tuple(-(-length // block) if i == axis else n for i, n in enumerate(x.shape))
    if block < 1 or scale.shape != expected:
        raise call.fail(f"scale {scale.type} for blocks of {block} along axis {axis} of {x.type}")
    numbers = constant(np.arange(length, dtype=np.int64) // block)
    return lambda value: indices.gather_along(call, value, numbers, axis)


def quantize_linear(call: OnnxCall) -> Results:
    """Import QuantizeLinear; to 16 bits and by blocks as arithmetic."""
    x, scale, zero, block = call.input(0), call.input(1), call.maybe(2), call.attr_int("block_size", 0)
    number = call.attr_int("output_dtype", 0)
    narrow = NARROW.get(zero.narrow) if zero is not None else BY_NUMBER.get(number)
    if narrow is not None:
        dtype = narrow.values
    else:
        dtype = zero.dtype if zero is not None else dtype_of(number, call.location) if number else "u8"
    if dtype in ("i8", "u8") and not block and narrow is None:
        return quantize_values(call, x, scale, zero, call.attr_int("axis", 1), dtype)
    if dtype not in ("i8", "u8", "i16", "u16") and (narrow is None or not narrow.is_float):
        raise call.unsupported(f"quantisation to {dtype}", "i8, u8, i16, u16, and integers and floats of fewer bits")
    expand = _expansion(call, x, scale, block)
    made = call.add("div", call.cast(x, "f32"), expand(call.cast(scale, "f32")))
    made = made if narrow is not None and narrow.is_float else call.add("round", made)
    if zero is not None:
        made = call.add("add", made, expand(call.cast(zero, "f32")))
    if narrow is not None and narrow.is_float:
        return cast_narrow(call.add, made, narrow, call.attr_bool("saturate", True))
    whole = np.iinfo(DTYPES[dtype])
    lo, hi = bounds_of(narrow) if narrow is not None else (int(whole.min), int(whole.max))
    made = call.cast(call.add("clip", made, lo=float(lo), hi=float(hi)), dtype)
    return made if narrow is None else replace(made, narrow=narrow.name)


def _expansion(call: OnnxCall, x: Value, scale: Value, block: int) -> Callable[[Value], Value]:
    """Return a function that gives scales or zero points a shape that broadcasts to x's."""
    if not scale.rank or scale.type.elements == 1:
        return lambda value: call.reshape(value, ())
    axis = call.axis(call.attr_int("axis", 1), x.rank)
    if block:
        return _along_blocks(call, x, scale, block, axis)
    if scale.shape != x.shape[axis : axis + 1]:
        raise call.fail(f"scale {scale.type} along axis {axis} of {x.type}")
    return lambda value: call.reshape(value, [n if i == axis else 1 for i, n in enumerate(x.shape)])


def dequantize_linear(call: OnnxCall) -> Results:
    """Import DequantizeLinear; by blocks, and of floats, as arithmetic."""
    x, scale, zero, axis = call.input(0), call.input(1), call.maybe(2), call.attr_int("axis", 1)
    number, block = call.attr_int("output_dtype", 0), call.attr_int("block_size", 0)
    if block:
        kept = _kept_blocks(x, scale, zero, block, call.axis(axis, x.rank))
        expand = _along_blocks(call, x, scale, block, call.axis(axis, x.rank))
        made = kept if kept is not None else _difference_times_scale(call, x, scale, zero, expand)
    elif x.narrow and NARROW[x.narrow].is_float:
        made = _difference_times_scale(call, x, scale, zero, _expansion(call, x, scale, block))
    else:
        made = dequantize_values(call, x, scale, zero, axis)
    if number in BY_NUMBER:
        return cast_narrow(call.add, made, BY_NUMBER[number])
    if not number and scale.narrow:
        return cast_narrow(call.add, made, NARROW[scale.narrow])
    return call.cast(made, dtype_of(number, call.location) if number else scale.dtype)


def _difference_times_scale(
    call: OnnxCall, x: Value, scale: Value, zero: Value | None, expand: Callable[[Value], Value]
) -> Value:
    """Return (x - zero) * scale in f32, of integers or of floats. expand: gives a scale a shape that broadcasts."""
    wide = x if x.dtype == "f32" else call.cast(x, "i32")
    if zero is not None:
        wide = call.add("sub", wide, expand(call.cast(zero, wide.dtype)))
    return call.add("mul", call.cast(wide, "f32"), expand(call.cast(scale, "f32")))


def _kept_blocks(x: Value, scale: Value, zero: Value | None, block: int, axis: int) -> Value | None:
    """Return known numbers of at most 8 bits as dequantised weights whose packed form a product may take; else None."""
    if x.known is None or scale.known is None or (zero is not None and zero.known is None):
        return None
    if x.dtype not in ("i8", "u8"):
        return None
    scales = scale.known.astype(np.float32)
    zeros = np.zeros(scales.shape, x.known.dtype) if zero is None else np.asarray(zero.known)
    quantised = Quantised(x.known, scales, zeros, axis, block)
    return Value(TensorType("f32", x.shape), quantised=quantised, stem=x.stem)


def dynamic_range(call: OnnxCall, x: Value) -> tuple[Value, Value]:
    """Return (scale, zero point) of u8 for a range that includes zero and every element of x.

    The scale is 1 if all of x is 0, as in onnxruntime; ONNX would divide by a scale of 0.
    """
    both = call.add("dynamic_range", call.cast(x, "f32"))
    scale, point = (call.reshape(call.add("slice", both, starts=(i,), stops=(i + 1,), steps=(1,)), ()) for i in (0, 1))
    return scale, call.cast(point, "u8")


def dynamic_quantize_linear(call: OnnxCall) -> Results:
    """Import DynamicQuantizeLinear: to u8."""
    x = call.input(0)
    scale, point = dynamic_range(call, x)
    return quantize_values(call, x, scale, point), scale, point


def qlinear_conv(call: OnnxCall) -> Results:
    """Import QLinearConv; its bias is in units of the product of the scales of x and w."""
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
    """Import QLinearMatMul, with a single scale or one per row of a, and a single scale or one per column of b."""
    a, b = call.input(0, rank_min=1), call.input(3, rank_min=1)
    made = multiply(
        call,
        dequantize_values(call, a, call.input(1), call.input(2), -2 if a.rank > 1 else -1),
        dequantize_values(call, b, call.input(4), call.input(5), -1),
    )
    return quantize_values(call, made, call.input(6), call.input(7), -2 if made.rank > 1 else -1)


def _zero_along(call: OnnxCall, x: Value, zero: Value, axis: int) -> Value:
    """Return a zero point, a scalar or one per position of the axis, in a shape that broadcasts to x."""
    if zero.dtype != x.dtype:
        raise call.fail(f"zero point {zero.type} for {x.type}")
    if zero.type.elements == 1:
        return call.reshape(zero, ())
    if zero.rank != 1:
        return zero
    axis = call.axis(axis, x.rank)
    return call.reshape(zero, [zero.shape[0] if i == axis else 1 for i in range(x.rank)])


def _subtract_zero(call: OnnxCall, x: Value, zero: Value | None, axis: int, dtype: str) -> Value:
    """Return x - zero in a wider integer type or as floats. axis: of a zero point per position."""
    if x.dtype not in ("i8", "u8"):
        raise call.unsupported(f"elements of type {x.dtype}", "i8, u8")
    wide = call.cast(x, dtype)
    if zero is None or (zero.array is not None and not zero.array.any()):
        return wide
    return call.add("sub", wide, call.cast(_zero_along(call, x, zero, axis), dtype))


def _scalar_zero(call: OnnxCall, x: Value, zero: Value | None) -> Value | None:
    """Return the zero point of a tensor as a scalar; None if there are several."""
    if x.dtype not in ("i8", "u8"):
        raise call.unsupported(f"elements of type {x.dtype}", "i8, u8")
    if zero is None:
        return constant(np.zeros((), DTYPES[x.dtype]), stem="zero")
    return _zero_along(call, x, zero, 0) if zero.type.elements == 1 else None


def matmul_integer(call: OnnxCall) -> Results:
    """Import MatMulInteger, on 8-bit numbers if one matrix is known and the other has a single zero point."""
    a, b = call.input(0, rank_min=1), call.input(1, rank_min=1)
    left_axis = -2 if a.rank > 1 else -1
    weights = _subtract_zero(call, b, call.maybe(3), -1, "i16")
    zero = _scalar_zero(call, a, call.maybe(2))
    if weights.is_constant and weights.rank == 2 and zero is not None and weights.type.elements:
        rows = a if a.rank > 1 else call.reshape(a, (1, *a.shape))
        made = call.add("imatmul", rows, weights, zero)
        return call.reshape(made, (*a.shape[:-1], b.shape[1]))
    left = _subtract_zero(call, a, call.maybe(2), left_axis, "i32")
    return multiply(call, left, call.cast(weights, "i32"))


def conv_integer(call: OnnxCall) -> Results:
    """Import ConvInteger, on 8-bit numbers if the weights are known and the image has a single zero point.

    Otherwise it becomes a convolution of floats that represent every sum exactly.
    """
    x, w = call.input(0, rank_min=3), call.input(1, rank_min=3)
    weights = _subtract_zero(call, w, call.maybe(3), 0, "i16")
    zero = _scalar_zero(call, x, call.maybe(2))
    if weights.is_constant and zero is not None and weights.type.elements:
        return convolve_integers(call, x, weights, zero)
    # 255 is the largest difference of two 8-bit numbers. Partial sums are below the bound in any order.
    dtype = "f32" if 255 * 255 * prod(w.shape[1:]) < _EXACT_F32 else "f64"
    image = _subtract_zero(call, x, call.maybe(2), 1, dtype)
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
