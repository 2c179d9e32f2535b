"""Arithmetic of element-wise kernels on lanes of every tensor type.

Lanes of bool are bytes, 0 or 1. Cases that C leaves undefined give the same result on every core: integers wrap
around, a division by 0 gives 0, the conversion of a float to an integer type saturates, and NaN becomes 0.
"""

from collections.abc import Callable, Mapping

from llvmlite import ir

from mavcg.kernels.builder.double_math import exp64, fmod, fmod64, log64, power
from mavcg.kernels.builder.emit import (
    BF16,
    F16,
    F32,
    FLOATS,
    I8,
    I32,
    SIGNED,
    TYPES,
    intrinsic,
    lanes_and_element,
    number,
    type_suffix,
    with_element,
)


def is_float(dtype: str) -> bool:
    """Return True for the tensor types of floats."""
    return dtype in FLOATS


def is_signed(dtype: str) -> bool:
    """Return True for the tensor types of signed integers."""
    return dtype in SIGNED


def truth(b: ir.IRBuilder, flags: ir.Value) -> ir.Value:
    """Return i1 lanes as lanes of bool (i8, 0 or 1)."""
    return b.zext(flags, with_element(flags, I8))


def flags(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return lanes of bool (i8, 0 or 1) as i1 lanes."""
    return b.icmp_signed("!=", x, number(x, 0))


def compare(b: ir.IRBuilder, sign: str, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return the comparison as i1 lanes; false where either operand is NaN."""
    if is_float(dtype):
        return b.fcmp_ordered(sign, x, y)
    return b.icmp_signed(sign, x, y) if is_signed(dtype) else b.icmp_unsigned(sign, x, y)


def larger(b: ir.IRBuilder, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return the larger of x and y: NaN where either is NaN, y where they are equal."""
    return _extreme(b, ">", dtype, x, y)


def smaller(b: ir.IRBuilder, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return the smaller of x and y: NaN where either is NaN, y where they are equal."""
    return _extreme(b, "<", dtype, x, y)


def _extreme(b: ir.IRBuilder, sign: str, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    first = compare(b, sign, dtype, x, y)
    if is_float(dtype):
        first = b.or_(first, b.fcmp_unordered("uno", x, x))
    return b.select(first, x, y)


def _ints_or_floats(whole: str, floats: str) -> Callable[[ir.IRBuilder, str, ir.Value, ir.Value], ir.Value]:
    def emit(b: ir.IRBuilder, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
        return getattr(b, floats if is_float(dtype) else whole)(x, y)

    return emit


def _comparison(sign: str) -> Callable[[ir.IRBuilder, str, ir.Value, ir.Value], ir.Value]:
    return lambda b, dtype, x, y: truth(b, compare(b, sign, dtype, x, y))


def _safe_divisor(b: ir.IRBuilder, dtype: str, y: ir.Value) -> ir.Value:
    """Return y, with 1 in place of divisors that may trap: 0, and -1 (the quotient of the smallest number
    overflows)."""
    trap = b.icmp_signed("==", y, number(y, 0))
    if is_signed(dtype):
        trap = b.or_(trap, b.icmp_signed("==", y, number(y, -1)))
    return b.select(trap, number(y, 1), y)


def _divide(b: ir.IRBuilder, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    if is_float(dtype):
        return b.fdiv(x, y)
    safe = _safe_divisor(b, dtype, y)
    quotient = b.sdiv(x, safe) if is_signed(dtype) else b.udiv(x, safe)
    if is_signed(dtype):
        quotient = b.select(b.icmp_signed("==", y, number(y, -1)), b.sub(number(x, 0), x), quotient)
    return b.select(b.icmp_signed("==", y, number(y, 0)), number(x, 0), quotient)


def remainder(b: ir.IRBuilder, dtype: str, x: ir.Value, y: ir.Value, like_c: bool) -> ir.Value:
    """Return x mod y; 0 where an integer y is 0. like_c: the result has the sign of x, else the sign of y."""
    if is_float(dtype):
        rest = fmod64(b, x, y) if dtype == "f64" else fmod(b, x, y)
        below = b.fcmp_ordered("<", rest, number(x, 0.0))
        nothing = b.fcmp_ordered("==", rest, number(x, 0.0))
        negative = b.fcmp_ordered("<", y, number(x, 0.0))
        shifted = b.fadd(rest, y)
    else:
        safe = _safe_divisor(b, dtype, y)
        rest = b.srem(x, safe) if is_signed(dtype) else b.urem(x, safe)
        if not is_signed(dtype):
            return b.select(b.icmp_signed("==", y, number(y, 0)), number(x, 0), rest)
        below = b.icmp_signed("<", rest, number(x, 0))
        nothing = b.icmp_signed("==", rest, number(x, 0))
        negative = b.icmp_signed("<", y, number(x, 0))
        shifted = b.add(rest, y)
    if not like_c:
        other_side = b.and_(b.xor(below, negative), b.not_(nothing))
        rest = b.select(other_side, shifted, rest)
    if is_signed(dtype):
        rest = b.select(b.icmp_signed("==", y, number(y, 0)), number(x, 0), rest)
    return rest


BINARY: Mapping[str, Callable[[ir.IRBuilder, str, ir.Value, ir.Value], ir.Value]] = {
    "add": _ints_or_floats("add", "fadd"),
    "sub": _ints_or_floats("sub", "fsub"),
    "mul": _ints_or_floats("mul", "fmul"),
    "div": _divide,
    "pow": power,
    "max": larger,
    "min": smaller,
    "equal": _comparison("=="),
    "less": _comparison("<"),
    "less_equal": _comparison("<="),
    "greater": _comparison(">"),
    "greater_equal": _comparison(">="),
    "and": lambda b, dtype, x, y: b.and_(x, y),
    "or": lambda b, dtype, x, y: b.or_(x, y),
    "xor": lambda b, dtype, x, y: b.xor(x, y),
}


def _sign(b: ir.IRBuilder, dtype: str, x: ir.Value) -> ir.Value:
    above = b.zext(compare(b, ">", dtype, x, number(x, 0)), x.type)
    return b.sub(above, b.zext(compare(b, "<", dtype, x, number(x, 0)), x.type))


# Unary operators of integers; those of f32 are in activation.py.
WHOLE_UNARY: Mapping[str, Callable[[ir.IRBuilder, str, ir.Value], ir.Value]] = {
    "neg": lambda b, dtype, x: b.sub(number(x, 0), x),
    "abs": lambda b, dtype, x: b.select(b.icmp_signed("<", x, number(x, 0)), b.sub(number(x, 0), x), x),
    "sign": _sign,
    "relu": lambda b, dtype, x: larger(b, dtype, x, number(x, 0)),
}


def _exact_unary(stem: str) -> Callable[[ir.IRBuilder, ir.Value], ir.Value]:
    return lambda b, x: intrinsic(b, stem, [x])


# Unary operators of f64: those of one or two instructions, and those that compound operators use.
DOUBLE_UNARY: Mapping[str, Callable[[ir.IRBuilder, ir.Value], ir.Value]] = {
    "neg": lambda b, x: b.fneg(x),
    "abs": _exact_unary("fabs"),
    "sqrt": _exact_unary("sqrt"),
    "floor": _exact_unary("floor"),
    "ceil": _exact_unary("ceil"),
    "round": _exact_unary("roundeven"),
    "reciprocal": lambda b, x: b.fdiv(number(x, 1.0), x),
    "relu": lambda b, x: larger(b, "f64", x, number(x, 0.0)),
    "exp": exp64,
    "log": log64,
}


def convert(b: ir.IRBuilder, x: ir.Value, source: str, target: str) -> ir.Value:
    """Return x converted from tensor type `source` to `target`."""
    if source == target:
        return x
    if source == "bf16":
        return convert(b, widen_half(b, x), "f32", target)
    if target == "bf16":  # rounded once from a float; an integer of more than 24 bits is rounded twice
        odd = source == "f64"
        return round_to(b, _f32_to_odd(b, x) if odd else convert(b, x, source, "f32"), target)
    typ = with_element(x, TYPES[target])
    if target == "bool":
        return truth(b, b.fcmp_unordered("!=", x, number(x, 0.0)) if is_float(source) else flags(b, x))
    if is_float(source) and is_float(target):
        return _resize_float(b, x, source, target)
    if is_float(source):
        return _to_whole(b, x, typ, is_signed(target))
    if is_float(target):
        if target == "f16":  # through f32: exact for i16 and u16; larger ones overflow f16 or are rounded twice
            x = b.sitofp(x, with_element(x, F32)) if is_signed(source) else b.uitofp(x, with_element(x, F32))
            return b.fptrunc(x, typ)
        return b.sitofp(x, typ) if is_signed(source) else b.uitofp(x, typ)
    before, after = TYPES[source].width, TYPES[target].width
    if after < before:
        return b.trunc(x, typ)
    if after == before:
        return x
    return b.sext(x, typ) if is_signed(source) else b.zext(x, typ)


def widen_half(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return lanes of f16 or bf16 as f32, which holds each of them exactly; other lanes unchanged."""
    _, element = lanes_and_element(x.type)
    if element == BF16:
        bits = b.zext(x, with_element(x, I32))
        return b.bitcast(b.shl(bits, number(bits, 16)), with_element(x, F32))
    return b.fpext(x, with_element(x, F32)) if element == F16 else x


def widen_bf16(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return lanes of bf16 as f32; other lanes unchanged."""
    return widen_half(b, x) if lanes_and_element(x.type)[1] == BF16 else x


def half_of_pairs(b: ir.IRBuilder, pairs: ir.Value, which: int) -> ir.Value:
    """Return the first bf16 of each pair, of 32 bits, as f32 where `which` is 0, and the second where it is 1."""
    bits = b.bitcast(pairs, with_element(pairs, I32))
    half = b.and_(bits, number(bits, 0xFFFF0000)) if which else b.shl(bits, number(bits, 16))
    return b.bitcast(half, with_element(pairs, F32))


def round_to(b: ir.IRBuilder, x: ir.Value, dtype: str) -> ir.Value:
    """Return lanes of f32 rounded to f16 or bf16 where that is the tensor type; other lanes, and other types,
    unchanged."""
    if lanes_and_element(x.type)[1] != F32:
        return x
    if dtype == "bf16":
        return _round_to_bf16(b, x)
    return b.fptrunc(x, with_element(x, F16)) if dtype == "f16" else x


def _round_to_bf16(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return lanes of f32 rounded to the nearest bf16, to even between two; NaN stays NaN.

    In integers, and the same on every core: VCVTNEPS2BF16 would replace subnormal numbers by 0.
    """
    bits = b.bitcast(x, with_element(x, I32))
    odd = b.and_(b.lshr(bits, number(bits, 16)), number(bits, 1))
    rounded = b.add(bits, b.add(odd, number(bits, 0x7FFF)))
    quiet = b.or_(bits, number(bits, 0x400000))
    kept = b.select(b.fcmp_unordered("uno", x, x), quiet, rounded)
    return b.trunc(b.lshr(kept, number(bits, 16)), with_element(x, BF16))


def _resize_float(b: ir.IRBuilder, x: ir.Value, source: str, target: str) -> ir.Value:
    if source == "f64" and target == "f16":
        # Cores without a direct conversion would call a function. Rounding to odd first avoids double rounding.
        x = _f32_to_odd(b, x)
    elif source == "f16" and target == "f64":
        x = b.fpext(x, with_element(x, F32))
    typ = with_element(x, TYPES[target])
    sizes = {F16: 0, F32: 1}
    _, before = lanes_and_element(x.type)
    return b.fpext(x, typ) if sizes.get(before, 2) < sizes.get(TYPES[target], 2) else b.fptrunc(x, typ)


def _f32_to_odd(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return an f64 as f32, rounded to odd: between two f32 the one whose last bit is odd."""
    near = b.fptrunc(x, with_element(x, F32))
    back = b.fpext(near, x.type)
    bits = b.bitcast(near, with_element(x, I32))
    magnitude, exact = intrinsic(b, "fabs", [back]), intrinsic(b, "fabs", [x])
    down = b.sub(bits, b.zext(b.fcmp_ordered(">", magnitude, exact), bits.type))  # towards 0
    inexact = b.fcmp_ordered("!=", back, x)
    return b.bitcast(b.select(inexact, b.or_(down, number(bits, 1)), bits), near.type)


def _to_whole(b: ir.IRBuilder, x: ir.Value, typ: ir.Type, signed: bool) -> ir.Value:
    if lanes_and_element(x.type)[1] == F16:
        x = b.fpext(x, with_element(x, F32))
    stem = "llvm.fptosi.sat" if signed else "llvm.fptoui.sat"
    full = f"{stem}.{type_suffix(typ)}.{type_suffix(x.type)}"
    function = b.module.globals.get(full) or ir.Function(b.module, ir.FunctionType(typ, [x.type]), full)
    return b.call(function, [x])
