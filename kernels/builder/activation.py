"""Unary operators on values in registers, used in epilogues of kernels and by element-wise kernels."""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, pi, sqrt
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.kernels.builder.arithmetic import DOUBLE_UNARY, WHOLE_UNARY, larger, round_to, smaller, widen_half
from mavcg.kernels.builder.emit import HALVES, intrinsic, number
from mavcg.kernels.builder.float_math import (
    erf,
    exp,
    expm1,
    like,
    log_,
    sigmoid,
    softplus,
    tanh,
)
from mavcg.kernels.builder.rational_math import sigmoid_quotient, tanh_quotient
from mavcg.kernels.builder.trigonometry import cos, sin, tan
from mavcg.specs.primitive import Epilogue

Value: TypeAlias = ir.Value


def at_least(b: ir.IRBuilder, x: Value, low: Value) -> Value:
    """Return max(x, low) in one instruction of the target; NaN where x is NaN, on x86 not where low is."""
    if b.module.triple.startswith("aarch64"):
        return intrinsic(b, "maximum", [x, low])
    return b.select(b.fcmp_ordered("<", x, low), low, x)


def at_most(b: ir.IRBuilder, x: Value, high: Value) -> Value:
    """Return min(x, high) in one instruction of the target; NaN where x is NaN, on x86 not where high is."""
    if b.module.triple.startswith("aarch64"):
        return intrinsic(b, "minimum", [x, high])
    return b.select(b.fcmp_ordered(">", x, high), high, x)


def clip(b: ir.IRBuilder, x: Value, low: float, high: float) -> Value:
    """Return min(max(x, low), high); either bound may be infinite."""
    x = at_least(b, x, like(x, low)) if low > -inf else x
    return at_most(b, x, like(x, high)) if high < inf else x


def _where_positive(b: ir.IRBuilder, x: Value, positive: Value, negative: Value) -> Value:
    """Return `positive` where x >= 0 (also -0), else `negative`; NaN selects `negative`."""
    return b.select(b.fcmp_ordered(">=", x, like(x, 0.0)), positive, negative)


def _leaky(b: ir.IRBuilder, x: Value, alpha: float) -> Value:
    return b.select(b.fcmp_ordered("<", x, like(x, 0.0)), b.fmul(x, like(x, alpha)), x)


def _hard_swish_quotient(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return x * clip(x + 3, 0, 6) / 6, rounded after each operator as a network that spells it out is."""
    clipped = at_most(b, at_least(b, b.fadd(x, like(x, 3.0)), like(x, 0.0)), like(x, 6.0))
    return b.fdiv(b.fmul(x, clipped), like(x, 6.0))


def _hard_sigmoid(b: ir.IRBuilder, x: Value, alpha: float, beta: float) -> Value:
    return clip(b, b.fadd(b.fmul(x, like(x, alpha)), like(x, beta)), 0.0, 1.0)


def _gelu(b: ir.IRBuilder, x: Value, approximate: float) -> Value:
    half = b.fmul(x, like(x, 0.5))
    if approximate:
        cube = b.fmul(b.fmul(x, x), x)
        inner = b.fmul(b.fadd(b.fmul(cube, like(x, 0.044715)), x), like(x, sqrt(2 / pi)))
        return b.fadd(b.fmul(half, tanh(b, inner)), half)
    return b.fadd(b.fmul(half, erf(b, b.fmul(x, like(x, 1 / sqrt(2))))), half)


def _celu(b: ir.IRBuilder, x: Value, alpha: float) -> Value:
    return _where_positive(b, x, x, b.fmul(expm1(b, b.fdiv(x, like(x, alpha))), like(x, alpha)))


def _sign(b: ir.IRBuilder, x: Value) -> Value:
    unsigned = b.fadd(x, like(x, 0.0))  # -0 becomes 0; NaN stays
    below = b.select(b.fcmp_ordered("<", x, like(x, 0.0)), like(x, -1.0), unsigned)
    return b.select(b.fcmp_ordered(">", x, like(x, 0.0)), like(x, 1.0), below)


_ACTIVATIONS: dict[str, Callable[..., Value]] = {
    "relu": lambda b, x: at_least(b, x, like(x, 0.0)),
    "clip": clip,
    "leaky_relu": _leaky,
    "elu": lambda b, x, alpha: _where_positive(b, x, x, b.fmul(expm1(b, x), like(x, alpha))),
    "selu": lambda b, x, alpha, gamma: b.fmul(
        _where_positive(b, x, x, b.fmul(expm1(b, x), like(x, alpha))), like(x, gamma)
    ),
    "celu": _celu,
    "thresholded_relu": lambda b, x, alpha: b.select(b.fcmp_unordered("<=", x, like(x, alpha)), like(x, 0.0), x),
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": lambda b, x: b.fmul(x, _hard_sigmoid(b, x, 1 / 6, 0.5)),
    "hard_swish_quotient": _hard_swish_quotient,
    "sigmoid": sigmoid,
    "sigmoid_quotient": sigmoid_quotient,
    "silu": lambda b, x: b.fmul(x, sigmoid(b, x)),
    "tanh": tanh,
    "tanh_quotient": tanh_quotient,
    "gelu": _gelu,
    "mish": lambda b, x: b.fmul(x, tanh(b, softplus(b, x))),
    "softplus": softplus,
    "softsign": lambda b, x: b.fdiv(x, b.fadd(intrinsic(b, "fabs", [x]), like(x, 1.0))),
    "erf": erf,
    "exp": exp,
    "log": log_,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "sqrt": lambda b, x: intrinsic(b, "sqrt", [x]),
    "neg": lambda b, x: b.fneg(x),
    "abs": lambda b, x: intrinsic(b, "fabs", [x]),
    "reciprocal": lambda b, x: b.fdiv(like(x, 1.0), x),
    "floor": lambda b, x: intrinsic(b, "floor", [x]),
    "ceil": lambda b, x: intrinsic(b, "ceil", [x]),
    "round": lambda b, x: intrinsic(b, "roundeven", [x]),
    "sign": _sign,
}


# Unary operators that are computed in f16 where the tensor is f16. A bound of clip that f16 does not represent is
# rounded, as the f32 result would be.
_HALF_UNARY = ("relu", "clip", "neg", "abs", "sqrt", "reciprocal", "floor", "ceil", "round")


def activation(
    b: ir.IRBuilder, act: str, act_args: tuple[float, ...], dtype: str = "f32"
) -> Callable[[ir.Value], ir.Value]:
    """Return the emitter of `output`, for tiles that know nothing of activations."""
    return partial(output, b, act, act_args, dtype)


def output(b: ir.IRBuilder, act: str, args: Sequence[float], dtype: str, x: Value) -> Value:
    """Return the activation of lanes of f32, or of f16, as an output of type f32, f16 or bf16, rounded once.

    The choice between x and a bound is the same after the rounding, in half as many vectors of f16.
    """
    if dtype == "f16" and act in ("", "relu", "clip"):
        return activate(b, act, args, round_to(b, x, dtype))
    return round_to(b, activate(b, act, args, widen_half(b, x)), dtype)


def activate(b: ir.IRBuilder, act: str, args: Sequence[float], x: Value) -> Value:
    """Return the activation `act` of f32 lanes; "" returns x. args: its parameters (graph/ops/elementwise.py).

    The operations are the same on every core, so that results are bit-identical. NaN gives NaN.
    """
    return _ACTIVATIONS[act](b, x, *args) if act else x


def unary(b: ir.IRBuilder, op: str, args: Sequence[float], dtype: str, x: ir.Value) -> ir.Value:
    """Return the result of a unary operator that `supported_unary` accepts.

    Of f16, operators that are one operation or choose an operand are computed in f16, all others, and those of bf16, in
    f32 and rounded once: the bits are the same, as f32 has more than twice the bits of f16.
    """
    if dtype == "f32" or (dtype == "f16" and op in _HALF_UNARY):
        return activate(b, op, args, x)
    if dtype in HALVES:
        return round_to(b, activate(b, op, args, widen_half(b, x)), dtype)
    if dtype == "f64":
        return _clip_double(b, x, *args) if op == "clip" else DOUBLE_UNARY[op](b, x)
    return _clip_whole(b, dtype, x, *args) if op == "clip" else WHOLE_UNARY[op](b, dtype, x)


def supported_unary(op: str, dtype: str) -> bool:
    """Return True if there is a kernel of a unary operator for a tensor type."""
    if dtype == "f64":
        return op in DOUBLE_UNARY or op == "clip"
    return dtype == "f32" or dtype in HALVES or op in WHOLE_UNARY or op == "clip"


def _clip_whole(b: ir.IRBuilder, dtype: str, x: ir.Value, low: float, high: float) -> ir.Value:
    """Return integer x clamped to low .. high, rounded inwards; a bound beyond the type's range has no effect."""
    info = np.iinfo(dtype.replace("u", "uint") if dtype[0] == "u" else dtype.replace("i", "int"))
    if low > info.min:
        x = larger(b, dtype, x, number(x, info.max if low > info.max else int(np.ceil(low))))
    if high < info.max:
        x = smaller(b, dtype, x, number(x, info.min if high < info.min else int(np.floor(high))))
    return x


def _clip_double(b: ir.IRBuilder, x: ir.Value, low: float, high: float) -> ir.Value:
    """Return f64 x clamped to low .. high; NaN stays NaN."""
    x = b.select(b.fcmp_ordered("<", x, number(x, low)), number(x, low), x)
    return b.select(b.fcmp_ordered(">", x, number(x, high)), number(x, high), x)


def finish(b: ir.IRBuilder, epilogue: Epilogue, value: Value, residual: Value | None) -> Value:
    """Return activation(value + residual). value: the sum, bias included. residual: None if the epilogue has no
    residual."""
    if residual is not None:
        value = b.fadd(value, residual, name="with_residual")
    return activate(b, "" if epilogue.act == "none" else epilogue.act, epilogue.act_args, value)
