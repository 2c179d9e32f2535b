"""Quantization and dequantization of lanes, with the same rounding in every kernel that stores 8 bits."""

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.graph import Node
from mavcg.kernels.builder.emit import F32, I8, I32, SIGNED, intrinsic, number, with_element
from mavcg.specs.serialize import spec_format


def limits(dtype: str) -> tuple[int, int]:
    """Return (smallest, largest) value of i8 or u8."""
    return (-128, 127) if dtype == "i8" else (0, 255)


def widen(b: ir.IRBuilder, x: ir.Value, dtype: str) -> ir.Value:
    """Return integer lanes of at most 32 bits, extended to i32 by the signedness of `dtype`."""
    typ = with_element(x, I32)
    if x.type == typ:
        return x
    return b.sext(x, typ) if dtype in SIGNED else b.zext(x, typ)


def narrow(b: ir.IRBuilder, value: ir.Value, zero: ir.Value, low: float, high: float) -> ir.Value:
    """Return round_half_even(value) + zero, clamped to low .. high, as 8-bit lanes; NaN gives `low`.

    value, zero: lanes of f32. A sum beyond 2^24 is inexact, but is clamped anyway.
    """
    total = b.fadd(intrinsic(b, "roundeven", [value]), zero)
    bound = number(total, float(low))
    total = b.select(b.fcmp_ordered(">", total, bound), total, bound)
    bound = number(total, float(high))
    total = b.select(b.fcmp_ordered("<", total, bound), total, bound)
    return b.trunc(b.fptosi(total, with_element(total, I32)), with_element(total, I8))


def requantize_value(b: ir.IRBuilder, value: ir.Value, out_zero: int, low: int, high: int) -> ir.Value:
    """Return `narrow` with a constant zero point, as every operator with 8-bit outputs ends."""
    return narrow(b, value, number(value, float(out_zero)), low, high)


def quantize_value(b: ir.IRBuilder, to: str, x: ir.Value, scale: ir.Value, zero: ir.Value) -> ir.Value:
    """Return saturate(round_half_even(x / scale) + zero) as lanes of type `to`. zero: integer lanes."""
    shift = b.sitofp(widen(b, zero, to), x.type)
    return narrow(b, b.fdiv(x, scale), shift, *limits(to))


def dequantize_value(b: ir.IRBuilder, dtype: str, x: ir.Value, scale: ir.Value, zero: ir.Value) -> ir.Value:
    """Return (x - zero) * scale as f32 lanes. x, zero: integer lanes of `dtype`."""
    return b.fmul(b.sitofp(b.sub(widen(b, x, dtype), widen(b, zero, dtype)), scale.type), scale)


def subtract_zero(b: ir.IRBuilder, x: ir.Value, dtype: str, zero: int) -> ir.Value:
    """Return x - zero as i32 lanes."""
    wide = widen(b, x, dtype)
    return b.sub(wide, number(wide, zero)) if zero else wide


def add_quantized(
    b: ir.IRBuilder, args: Sequence[float], dtypes: Sequence[str], values: Sequence[ir.Value]
) -> ir.Value:
    """Return the result of operator qadd. args: a_scale, a_zero, b_scale, b_zero, out_zero, lo, hi."""
    products = []
    for x, dtype, scale, zero in zip(values, dtypes, args[0:4:2], args[1:4:2], strict=False):
        real = b.sitofp(subtract_zero(b, x, dtype, int(zero)), with_element(x, F32))
        products.append(b.fmul(real, number(real, scale)))
    return requantize_value(b, b.fadd(*products), int(args[4]), int(args[5]), int(args[6]))


def multiply_quantized(
    b: ir.IRBuilder, args: Sequence[float], dtypes: Sequence[str], values: Sequence[ir.Value]
) -> ir.Value:
    """Return the result of operator qmul. args: multiplier, a_zero, b_zero, out_zero, lo, hi."""
    factors = [subtract_zero(b, x, dtype, int(zero)) for x, dtype, zero in zip(values, dtypes, args[1:3], strict=False)]
    exact = b.sitofp(b.mul(*factors), with_element(factors[0], F32))
    return requantize_value(b, b.fmul(exact, number(exact, args[0])), int(args[3]), int(args[4]), int(args[5]))


@spec_format("int8_epilogue")
@dataclass(frozen=True)
class Int8Epilogue:
    """The requantization of a sum: clamp(round_half_even(f32(sum) * multiplier) + zero, lo, hi) as type `to`, i8 or
    u8."""

    zero: int
    lo: int
    hi: int
    to: str


@spec_format("quantized_sum")
@dataclass(frozen=True)
class QuantizedSum:
    """The sum of a sum's own result and an 8-bit residual, if there is one: clamp(round_half_even(r), lo, hi) * scale +
    (residual - residual_zero) * residual_scale, where r is the own result before it is rounded."""

    lo: int
    hi: int
    scale: float
    residual_scale: float
    residual_zero: int

    def value(self, b: ir.IRBuilder, own: ir.Value, residual: ir.Value | None, dtype: str) -> ir.Value:
        """Return lanes of f32. own: before it is rounded, not NaN. residual: integer lanes of `dtype`, or None."""
        total = intrinsic(b, "roundeven", [own])
        for sign, end in ((">", self.lo), ("<", self.hi)):
            bound = number(total, float(end))
            total = b.select(b.fcmp_ordered(sign, total, bound), total, bound)
        scaled = b.fmul(total, number(total, self.scale))
        if residual is None:
            return scaled
        added = b.sitofp(subtract_zero(b, residual, dtype, self.residual_zero), total.type)
        return b.fadd(scaled, b.fmul(added, number(total, self.residual_scale)))


def sum_of(node: Node) -> QuantizedSum | None:
    """Return the sum of a qconv2d with a residual or a scale of its own, from its attributes; None for others."""
    if not node.inputs[5] and not node.attr("own_scale"):
        return None
    return QuantizedSum(
        node.attr("own_lo"),
        node.attr("own_hi"),
        node.attr("own_scale"),
        node.attr("residual_scale"),
        node.attr("residual_zero"),
    )


def epilogue_of(node: Node) -> Int8Epilogue:
    """Return the requantization of a node's sums, from its attributes."""
    return Int8Epilogue(node.attr("out_zero"), node.attr("lo"), node.attr("hi"), node.attr("to"))
