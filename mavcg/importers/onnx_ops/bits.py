"""Handlers of casts, and of operators on the bits of numbers."""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES
from mavcg.graph.ops.elementwise import BIT_TYPES
from mavcg.graph.ops.op import FLOATS, UNSIGNED
from mavcg.importers.onnx_narrow import BY_NUMBER, NARROW, ROUNDINGS, NarrowType, cast_narrow
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_proto import dtype_of
from mavcg.importers.value import Value, constant

_BITWISE = {"BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor"}


def bitwise(call: OnnxCall) -> Results:
    """Import BitwiseAnd, BitwiseOr or BitwiseXor."""
    a = _whole(call, call.input(0))
    return call.add(_BITWISE[call.op], a, _whole(call, call.input(1)))


def bitwise_not(call: OnnxCall) -> Results:
    """Import BitwiseNot."""
    x = _whole(call, call.input(0))
    return call.add("xor", x, constant(np.array(~DTYPES[x.dtype].type(0))))


def bit_shift(call: OnnxCall) -> Results:
    """Import BitShift, as a product with or a quotient by a power of 2; to the right, bits of the sign move in.

    A shift by all bits of the type, by more, or by a negative number moves all of them out: the power is 0 there, as is
    an integer quotient by 0.
    """
    x, count = _whole(call, call.input(0)), _whole(call, call.input(1))
    direction = call.attr_str("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise call.fail(f"direction {direction!r}; there are LEFT and RIGHT")
    factor = call.add("pow", call.scalar(2, x), count)
    if direction == "LEFT":
        return call.add("mul", x, factor)
    if x.dtype in UNSIGNED:
        return call.add("div", x, factor)
    # The quotient is rounded towards 0: of x from 0 on, and of the complement of a negative x, whose result's it is.
    negative = call.add("less", x, call.scalar(0, x))
    sign = call.add("where", negative, call.scalar(-1, x), call.scalar(0, x))
    return call.add("xor", call.add("div", call.add("xor", x, sign), factor), sign)


def _whole(call: OnnxCall, x: Value) -> Value:
    """Return a value of whole numbers. Raises: MavcgError for another type."""
    if x.dtype in FLOATS or x.dtype == "bool":
        raise call.fail(f"{x.type}; whole numbers are needed")
    return x


def cast(call: OnnxCall) -> Results:
    """Import Cast."""
    number = call.attr_int("to")
    if number in BY_NUMBER:
        return _cast_narrow(call, BY_NUMBER[number])
    return call.cast(call.input(0), dtype_of(number, call.location))


def cast_like(call: OnnxCall) -> Results:
    """Import CastLike."""
    like = call.input(1)
    if like.narrow:
        return _cast_narrow(call, NARROW[like.narrow])
    return call.cast(call.input(0), like.dtype)


def _cast_narrow(call: OnnxCall, type: NarrowType) -> Value:
    rounding = call.attr_str("round_mode", "up")
    if rounding not in ROUNDINGS:
        raise call.fail(f"round_mode {rounding!r}; there are {', '.join(ROUNDINGS)}")
    return cast_narrow(call.add, call.input(0), type, call.attr_bool("saturate", True), rounding)


def bit_cast(call: OnnxCall) -> Results:
    """Import BitCast between types of equal width."""
    x, to = call.input(0), dtype_of(call.attr_int("to"), call.location)
    if x.dtype == to:
        return x
    if x.dtype == "bool" and to in ("u8", "i8"):
        return call.cast(x, to)
    if x.narrow or x.dtype not in BIT_TYPES or BIT_TYPES[x.dtype] != BIT_TYPES.get(to):
        raise call.unsupported(f"bits of {x.narrow or x.dtype} as {to}", "f32, f64 and integers, of equal width")
    return call.add("bitcast", x, to=to)


HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(_BITWISE, bitwise),
    "BitwiseNot": bitwise_not,
    "BitShift": bit_shift,
    "Cast": cast,
    "CastLike": cast_like,
    "BitCast": bit_cast,
}
