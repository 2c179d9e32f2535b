"""Operators on 8-bit integers, and those that convert between them and real numbers."""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import TensorType
from mavcg.graph.ops.elementwise import check_activation
from mavcg.graph.ops.op import Attr, Operator, TypedNode
from mavcg.graph.ops.spatial import ACT, divisors, window_counts


def _check_scale(case: TypedNode, shape: tuple[int, ...]) -> None:
    """Check that scale and zero are both scalars, or both have an element per position along the axis."""
    scale, zero = case.type("scale", ("f32",)), case.type("zero")
    if scale.shape != zero.shape:
        raise case.fail("scale and zero differ in shape")
    if scale.shape and scale.shape != (shape[case.axis(len(shape))],):
        raise case.fail(f"scale {scale} is neither a scalar nor as long as axis {case.attr('axis')}")


def _dynamic_range(case: TypedNode) -> tuple[TensorType, ...]:
    case.type("x", ("f32",))
    return (TensorType("f32", (2,)),)


def _quantize(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", ("f32",))
    _check_scale(case, x.shape)
    if case.type("zero").dtype != case.attr("to"):
        raise case.fail(f"zero is not {case.attr('to')}, the type of the result")
    return (TensorType(case.attr("to"), x.shape),)


def _dequantize(case: TypedNode) -> tuple[TensorType, ...]:
    # i32 is the type of an 8-bit convolution's bias.
    x = case.type("x", ("i8", "u8", "i16", "u16", "i32"))
    _check_scale(case, x.shape)
    case.same_dtype("x", "zero")
    return (TensorType("f32", x.shape),)


_AXIS = Attr("int", 0)  # has no meaning if scale and zero are scalars
_QUANTIZATION = (
    # Scale and zero point of u8 for a range that includes 0 and all of x; the scale is 1 if all of x is 0.
    Operator("dynamic_range", ("x",), _dynamic_range, {}),
    Operator("quantize", ("x", "scale", "zero"), _quantize, {"axis": _AXIS, "to": Attr("str", choices=("i8", "u8"))}),
    Operator("dequantize", ("x", "scale", "zero"), _dequantize, {"axis": _AXIS}),
)


EIGHT = ("i8", "u8")
_INT = Attr("int")
_RESULT: Mapping[str, Attr] = {"out_zero": _INT, "lo": _INT, "hi": _INT, "to": Attr("str", choices=EIGHT)}


def limits(dtype: str) -> tuple[int, int]:
    """Return (smallest, largest) value of i8 or u8."""
    return (-128, 127) if dtype == "i8" else (0, 255)


def _result(case: TypedNode, shape: tuple[int, ...]) -> tuple[TensorType, ...]:
    """Return the type of an 8-bit result of this shape, after a check of its attributes."""
    least, most = limits(case.attr("to"))
    if not least <= case.attr("lo") <= case.attr("hi") <= most:
        raise case.fail(f"lo {case.attr('lo')} and hi {case.attr('hi')}; {least} <= lo <= hi <= {most} is needed")
    if not least <= case.attr("out_zero") <= most:
        raise case.fail(f"out_zero {case.attr('out_zero')} is not {case.attr('to')}")
    return (TensorType(case.attr("to"), shape),)


def _zero(case: TypedNode, name: str, tensor: TensorType) -> None:
    least, most = limits(tensor.dtype)
    if not least <= case.attr(name) <= most:
        raise case.fail(f"{name} {case.attr(name)} is not {tensor.dtype}")


def _channels(case: TypedNode, count: int) -> None:
    """Check that bias, multiplier and shift have an element per output channel."""
    for name, dtype in (("bias", "i32"), ("multiplier", "f32")):
        if case.type(name, (dtype,)).shape != (count,):
            raise case.fail(f"{name} {case.type(name)} where {count} elements are needed")
    if case.maybe("shift") is not None and case.type("shift", ("f32",)).shape != (count,):
        raise case.fail(f"shift {case.maybe('shift')} where {count} elements are needed")


def _qconv2d(case: TypedNode) -> tuple[TensorType, ...]:
    x, w = case.type("x", EIGHT, rank=4), case.type("w", ("i8",), rank=4)
    case.at_least(1, "groups")
    groups, out_ch, in_ch = case.attr("groups"), w.shape[0], x.shape[3]
    if in_ch % groups or out_ch % groups or w.shape[3] * groups != in_ch:
        raise case.fail(f"{out_ch} output and {w.shape[3]} input channels of w with {in_ch} of x in {groups} groups")
    _channels(case, out_ch)
    _zero(case, "x_zero", x)
    out_h, out_w = window_counts(case, w.shape[1:3], x.shape[1:3])
    shape = (x.shape[0], out_h, out_w, out_ch)
    if case.maybe("residual") is not None:
        residual = case.type("residual", EIGHT)
        if residual.shape != shape:
            raise case.fail(f"residual {residual} where {shape} is needed")
        _zero(case, "residual_zero", residual)
    if case.attr("own_lo") > case.attr("own_hi"):
        raise case.fail(f"own_lo {case.attr('own_lo')} is above own_hi {case.attr('own_hi')}")
    return _result(case, shape)


def _qmatmul(case: TypedNode) -> tuple[TensorType, ...]:
    a, b = case.type("a", EIGHT, rank_min=2), case.type("b", ("i8",), rank_min=2)
    depth, width = b.shape[-2:] if not case.attr("transpose_b") else b.shape[:-3:-1]
    if a.shape[-1] != depth:
        raise case.fail(f"rows of a have {a.shape[-1]} elements where columns of b have {depth}")
    _channels(case, width)
    _zero(case, "x_zero", a)
    return _result(case, (*case.broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], width))


def _integer_result(case: TypedNode, shape: tuple[int, ...]) -> tuple[TensorType, ...]:
    """Return the type of exact sums, or of the epilogue's results, after a check of the other inputs."""
    x, zero = case.type("x", EIGHT), case.type("zero", EIGHT, rank=0)
    if zero.dtype != x.dtype:
        raise case.fail(f"zero {zero} for {x}")
    for name, dtype in (("bias", "i32"), ("shift", "f32")):
        if case.maybe(name) is not None and case.type(name, (dtype,)).shape != (shape[-1],):
            raise case.fail(f"{name} {case.maybe(name)} where {shape[-1]} elements are needed")
    if case.maybe("multiplier") is None:
        if case.maybe("shift") is not None or case.maybe("residual") is not None or case.attr("act"):
            raise case.fail("shift, residual or act without a multiplier")
        return (TensorType("i32", shape),)
    if case.type("multiplier", ("f32",)).shape not in ((), (shape[-1],)):
        raise case.fail(f"multiplier {case.maybe('multiplier')} where 1 or {shape[-1]} elements are needed")
    result = TensorType("f32", shape)
    residual = case.maybe("residual")
    if residual is not None and residual != result:
        raise case.fail(f"residual {residual} where {result} is needed")
    check_activation(case)
    return (result,)


def _iconv2d(case: TypedNode) -> tuple[TensorType, ...]:
    x, w = case.type("x", EIGHT, rank=4), case.type("w", ("i16",), rank=4)
    case.at_least(1, "groups")
    groups, out_ch, in_ch = case.attr("groups"), w.shape[0], x.shape[3]
    if in_ch % groups or out_ch % groups or w.shape[3] * groups != in_ch:
        raise case.fail(f"{out_ch} output and {w.shape[3]} input channels of w with {in_ch} of x in {groups} groups")
    return _integer_result(case, (x.shape[0], *window_counts(case, w.shape[1:3], x.shape[1:3]), out_ch))


def _imatmul(case: TypedNode) -> tuple[TensorType, ...]:
    x, w = case.type("x", EIGHT, rank_min=2), case.type("w", ("i16",), rank=2)
    depth, width = w.shape if not case.attr("transpose_b") else w.shape[::-1]
    if x.shape[-1] != depth:
        raise case.fail(f"rows of x have {x.shape[-1]} elements where columns of w have {depth}")
    return _integer_result(case, (*x.shape[:-1], width))


def _pair(case: TypedNode) -> tuple[TensorType, ...]:
    a, b = case.type("a", EIGHT), case.type("b", EIGHT)
    _zero(case, "a_zero", a)
    _zero(case, "b_zero", b)
    return _result(case, case.broadcast(a.shape, b.shape))


def _qavg_pool2d(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", EIGHT, rank=4)
    case.at_least(1, "kernel")
    case.at_least(0, "count_pads")
    _zero(case, "x_zero", x)
    counts = window_counts(case, case.attr("kernel"), x.shape[1:3])
    if not all(np.all(divisors(case.node, axis, x.shape[1 + axis], counts[axis])) for axis in (0, 1)):
        raise case.fail("a window that counts no element: it lies in the pads, and count_pads leaves these out")
    return _result(case, (x.shape[0], *counts, x.shape[3]))


def _qmean(case: TypedNode) -> tuple[TensorType, ...]:
    x, axes = case.type("x", EIGHT), case.attr("axes")
    _zero(case, "x_zero", x)
    if sorted(set(axes)) != list(axes) or any(not 0 <= axis < len(x.shape) or x.shape[axis] == 0 for axis in axes):
        raise case.fail(f"axes {axes} where dimensions are 0 to {len(x.shape) - 1}, each once, rising, not empty")
    kept = ((1 if i in axes else n) for i, n in enumerate(x.shape) if case.attr("keepdims") or i not in axes)
    return _result(case, tuple(kept))


def _lookup(case: TypedNode) -> tuple[TensorType, ...]:
    x, table = case.type("x", EIGHT), case.type("table", EIGHT)
    if table.shape != (256,):
        raise case.fail(f"table {table} where 256 elements are needed")
    return (TensorType(table.dtype, x.shape),)


_PADS = Attr("ints", (0, 0, 0, 0), length=4)
_STEPS = {"stride": Attr("ints", (1, 1), length=2), "dilation": Attr("ints", (1, 1), length=2), "pads": _PADS}
_POOL = {"kernel": Attr("ints", length=2), **_STEPS, "count_pads": _PADS}
_ONE = {"x_zero": _INT, **_RESULT}
_MULTIPLIER = {"multiplier": Attr("float")}
_ZEROS = {"a_zero": _INT, "b_zero": _INT, **_RESULT}
# With a multiplier the result is f32: act(f32(sum + bias) * multiplier + shift + residual).
_INTEGER = ("x", "w", "zero", "bias?", "multiplier?", "shift?", "residual?")
_SCALES = {"a_scale": Attr("float"), "b_scale": Attr("float")}
# Of requantized f32(sum + bias) * multiplier + shift.
_REAL = ("bias", "multiplier", "shift?")
# With a residual, or an own_scale other than 0, the convolution's own result less its zero point is within own_lo ..
# own_hi; the result is the requantized own * own_scale + (residual - residual_zero) * residual_scale, as of qadd.
_OWN = {
    "own_lo": Attr("int", 0),
    "own_hi": Attr("int", 0),
    "own_scale": Attr("float", 0.0),
    "residual_scale": Attr("float", 0.0),
    "residual_zero": Attr("int", 0),
}
_EIGHT_BIT = (
    Operator(
        "qconv2d", ("x", "w", *_REAL, "residual?"), _qconv2d, {**_STEPS, "groups": Attr("int", 1), **_OWN, **_ONE}
    ),
    Operator("qmatmul", ("a", "b", *_REAL), _qmatmul, {"transpose_b": Attr("bool", False), **_ONE}),
    Operator("iconv2d", _INTEGER, _iconv2d, {**_STEPS, "groups": Attr("int", 1), **ACT}),
    Operator("imatmul", _INTEGER, _imatmul, {"transpose_b": Attr("bool", False), **ACT}),
    Operator("qadd", ("a", "b"), _pair, {**_SCALES, **_ZEROS}),
    Operator("qmul", ("a", "b"), _pair, {**_MULTIPLIER, **_ZEROS}),
    Operator("qavg_pool2d", ("x",), _qavg_pool2d, {**_POOL, **_MULTIPLIER, **_ONE}),
    Operator("qmean", ("x",), _qmean, {"axes": Attr("ints"), "keepdims": Attr("bool", True), **_MULTIPLIER, **_ONE}),
    Operator("lookup", ("x", "table"), _lookup, {}),
)

OPS = (*_QUANTIZATION, *_EIGHT_BIT)
