"""Requantization of exact sums to 8 bits by one f32 product, rounded half to even, in few instructions."""

from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import Node
from mavcg.kernels.builder.emit import I8, I16, I32, intrinsic
from mavcg.kernels.builder.nest import shuffle
from mavcg.kernels.builder.quantize import limits
from mavcg.specs.kernel import Machine
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value

SHORT = (-(1 << 15), (1 << 15) - 1)
# Beyond i16, so that the conversion to i16 saturates, and far within i32, outside of which x86 converts to the lowest
# number.
TOP = 65536.0


@spec_format("int8_epilogue")
@dataclass(frozen=True)
class Int8Epilogue:
    """The requantization of a sum: clamp(round_half_even(f32(sum) * multiplier) + zero, lo, hi) as type `to`, i8 or
    u8."""

    zero: int
    lo: int
    hi: int
    to: str


def epilogue_of(node: Node) -> Int8Epilogue:
    """Return the requantization of a node's sums, from its attributes."""
    return Int8Epilogue(node.attr("out_zero"), node.attr("lo"), node.attr("hi"), node.attr("to"))


def to_eight_bits(b: ir.IRBuilder, machine: Machine, sums: Value, multiplier: Value, epilogue: Int8Epilogue) -> Value:
    """Return a vector of i32 sums, of at least four lanes, requantized by a vector of f32 multipliers to 8 bits.

    Rounded numbers saturate to i16 first, which changes only numbers far beyond lo and hi.
    """
    count = sums.type.count
    real = b.fmul(b.sitofp(sums, multiplier.type), multiplier, name="real")
    short = _saturate(b, _round(b, machine, real), SHORT, I16)
    short = intrinsic(b, "sadd.sat", [short, _all(short, epilogue.zero)]) if epilogue.zero else short
    least, most = limits(epilogue.to)
    result = _saturate(b, short, (least, most), I8)
    sign = "s" if epilogue.to == "i8" else "u"
    if epilogue.lo > least:
        result = intrinsic(b, f"{sign}max", [result, _all(result, epilogue.lo)])
    if epilogue.hi < most:
        result = intrinsic(b, f"{sign}min", [result, _all(result, epilogue.hi)])
    assert result.type == ir.VectorType(I8, count)
    return result


def _round(b: ir.IRBuilder, machine: Machine, real: Value) -> Value:
    """Return f32 lanes rounded half to even, as i32."""
    # Register by register: LLVM does not split these intrinsics for shorter registers.
    arm = machine.arch == "aarch64"
    lanes = 4 if arm else min(real.type.count, 16 if machine.vector_registers >= 32 else 8)
    parts = [shuffle(b, real, real, range(i, i + lanes)) for i in range(0, real.type.count, lanes)]
    if arm:
        # Rounds and saturates in one instruction; LLVM needs two for the generic form.
        return concatenate(b, [_convert(b, "llvm.aarch64.neon.fcvtns.v4i32.v4f32", part) for part in parts])
    top = ir.Constant(parts[0].type, [TOP] * lanes)
    bounded = [b.select(b.fcmp_ordered("<", part, top), part, top) for part in parts]
    # Uses the processor's rounding mode, half to even: any other mode would change all f32 arithmetic too.
    return concatenate(b, [_convert(b, f"llvm.lrint.v{lanes}i32.v{lanes}f32", part) for part in bounded])


def _convert(b: ir.IRBuilder, name: str, x: Value) -> Value:
    kind = ir.FunctionType(ir.VectorType(I32, x.type.count), [x.type])
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    return b.call(function, [x])


def concatenate(b: ir.IRBuilder, parts: list[Value]) -> Value:
    """Return the concatenation of vectors of one length, whose number is a power of two."""
    while len(parts) > 1:
        count = 2 * parts[0].type.count
        parts = [shuffle(b, x, y, range(count)) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _saturate(b: ir.IRBuilder, x: Value, bounds: tuple[int, int], element: ir.Type) -> Value:
    """Return lanes clamped to two bounds and truncated to the element type."""
    x = intrinsic(b, "smax", [x, _all(x, bounds[0])])
    return b.trunc(intrinsic(b, "smin", [x, _all(x, bounds[1])]), ir.VectorType(element, x.type.count))


def _all(x: Value, value: int) -> ir.Constant:
    return ir.Constant(x.type, [value] * x.type.count)
