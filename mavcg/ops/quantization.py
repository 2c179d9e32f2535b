"""Operators that convert between real numbers and 8-bit integers; eight_bit.py has arithmetic on 8-bit integers."""

from mavcg.graph import TensorType
from mavcg.ops.op import Attr, Operator, TypedNode


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
OPS = (
    # Scale and zero point of u8 for a range that includes 0 and all of x; the scale is 1 if all of x is 0.
    Operator("dynamic_range", ("x",), _dynamic_range, {}),
    Operator("quantize", ("x", "scale", "zero"), _quantize, {"axis": _AXIS, "to": Attr("str", choices=("i8", "u8"))}),
    Operator("dequantize", ("x", "scale", "zero"), _dequantize, {"axis": _AXIS}),
)
