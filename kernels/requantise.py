"""The way back from exact sums to 8 bits: one f32 product, rounded half to even, in as few instructions as can be."""

from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import Node
from mavcg.kernel import Machine
from mavcg.kernels.emit import I8, I16, I32, intrinsic
from mavcg.kernels.nest import shuffle
from mavcg.kernels.quantize import limits

Value: TypeAlias = ir.Value

SHORT = (-(1 << 15), (1 << 15) - 1)
# Beyond i16, so that it becomes i16's end, and far within i32, beyond which x86 has no defined number but the lowest.
TOP = 65536.0


@dataclass(frozen=True)
class Ending:
    """What becomes of a sum: clamp(round_half_even(f32(sum) * multiplier) + zero, lo, hi), i8 or u8 as `to` says."""

    zero: int
    lo: int
    hi: int
    to: str


def ending_of(node: Node) -> Ending:
    """The end of a node's sums."""
    return Ending(node.attr("out_zero"), node.attr("lo"), node.attr("hi"), node.attr("to"))


def to_eight_bits(b: ir.IRBuilder, machine: Machine, sums: Value, multiplier: Value, ending: Ending) -> Value:
    """Vectors of i32 and f32, of four lanes at least -> a vector of 8-bit numbers.

    Rounded numbers are kept in i16 with saturation: where that changes one it is beyond lo or hi by far.
    """
    count = sums.type.count
    real = b.fmul(b.sitofp(sums, multiplier.type), multiplier, name="real")
    short = _saturated(b, _rounded(b, machine, real), SHORT, I16)
    short = intrinsic(b, "sadd.sat", [short, _all(short, ending.zero)]) if ending.zero else short
    least, most = limits(ending.to)
    result = _saturated(b, short, (least, most), I8)
    sign = "s" if ending.to == "i8" else "u"
    if ending.lo > least:
        result = intrinsic(b, f"{sign}max", [result, _all(result, ending.lo)])
    if ending.hi < most:
        result = intrinsic(b, f"{sign}min", [result, _all(result, ending.hi)])
    assert result.type == ir.VectorType(I8, count)
    return result


def _rounded(b: ir.IRBuilder, machine: Machine, real: Value) -> Value:
    """f32 as i32, half to even."""
    # In registers: LLVM does not cut these operations into shorter ones.
    arm = machine.arch == "aarch64"
    lanes = 4 if arm else min(real.type.count, 16 if machine.vector_registers >= 32 else 8)
    parts = [shuffle(b, real, real, range(i, i + lanes)) for i in range(0, real.type.count, lanes)]
    if arm:
        # Rounds and saturates in one; LLVM makes two of the general form.
        return joined(b, [_converted(b, "llvm.aarch64.neon.fcvtns.v4i32.v4f32", part) for part in parts])
    top = ir.Constant(parts[0].type, [TOP] * lanes)
    bounded = [b.select(b.fcmp_ordered("<", part, top), part, top) for part in parts]
    # As the processor rounds, which is half to even: nobody sets it otherwise, and all f32 arithmetic would change.
    return joined(b, [_converted(b, f"llvm.lrint.v{lanes}i32.v{lanes}f32", part) for part in bounded])


def _converted(b: ir.IRBuilder, name: str, x: Value) -> Value:
    kind = ir.FunctionType(ir.VectorType(I32, x.type.count), [x.type])
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    return b.call(function, [x])


def joined(b: ir.IRBuilder, parts: list[Value]) -> Value:
    """Vectors of one length, a power of two of them, one after the other."""
    while len(parts) > 1:
        count = 2 * parts[0].type.count
        parts = [shuffle(b, x, y, range(count)) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _saturated(b: ir.IRBuilder, x: Value, bounds: tuple[int, int], element: ir.Type) -> Value:
    """Between two bounds, in shorter lanes."""
    x = intrinsic(b, "smax", [x, _all(x, bounds[0])])
    return b.trunc(intrinsic(b, "smin", [x, _all(x, bounds[1])]), ir.VectorType(element, x.type.count))


def _all(x: Value, value: int) -> ir.Constant:
    return ir.Constant(x.type, [value] * x.type.count)
