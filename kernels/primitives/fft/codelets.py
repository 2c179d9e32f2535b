"""Emitters of Fourier transforms of real numbers as straight-line code, one transform in each lane of a vector.

The length is n = 2^i. Coefficients 0 to n / 2 are kept; the others are their conjugates and are never computed. A
transform combines those of the even and of the odd numbers (Cooley and Tukey, 1965).
"""

from collections.abc import Sequence
from math import cos, pi, sin
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import fma
from mavcg.kernels.builder.float_math import like

Value: TypeAlias = ir.Value
# (real part, imaginary part); the imaginary part of coefficients 0 and n / 2 is 0, given as None.
Complex = tuple[Value, Value | None]


def forward(b: ir.IRBuilder, x: Sequence[Value]) -> list[Complex]:
    """Return the coefficients X[f] = sum over i of x[i] * exp(-2 pi j f i / n), f = 0 to n / 2.

    x: n values, n a power of two.
    """
    n = len(x)
    if n == 1:
        return [(x[0], None)]
    even, odd = forward(b, x[0::2]), forward(b, x[1::2])
    half = n // 2
    spectrum: list[Complex] = [(x[0], None)] * (half + 1)
    spectrum[0] = b.fadd(even[0][0], odd[0][0]), None
    spectrum[half] = b.fsub(even[0][0], odd[0][0]), None
    for f in range(1, (half + 1) // 2):
        (e_re, e_im), (t_re, t_im) = _both(even[f]), _rotate(b, _both(odd[f]), -f / n)
        spectrum[f] = b.fadd(e_re, t_re), b.fadd(e_im, t_im)
        spectrum[half - f] = b.fsub(e_re, t_re), b.fsub(t_im, e_im)
    if half % 2 == 0:  # a factor of -j
        spectrum[half // 2] = even[half // 2][0], b.fneg(odd[half // 2][0])
    return spectrum


def inverse(b: ir.IRBuilder, coefficients: Sequence[Complex]) -> list[Value]:
    """Return n times the n real numbers whose coefficients 0 to n / 2 are given."""
    half = len(coefficients) - 1
    (first, _), (last, _) = coefficients[0], coefficients[-1]
    if half == 0:
        return [first]
    even: list[Complex] = [(b.fadd(first, last), None)]
    odd: list[Complex] = [(b.fsub(first, last), None)]
    for f in range(1, (half + 1) // 2):
        (a_re, a_im), (c_re, c_im) = _both(coefficients[f]), _both(coefficients[half - f])
        even.append((b.fadd(a_re, c_re), b.fsub(a_im, c_im)))
        odd.append(_rotate(b, (b.fsub(a_re, c_re), b.fadd(a_im, c_im)), f / (2 * half)))
    if half % 2 == 0:
        re, im = _both(coefficients[half // 2])
        even.append((b.fmul(re, like(re, 2.0)), None))
        odd.append((b.fmul(im, like(im, -2.0)), None))
    evens, odds = inverse(b, even), inverse(b, odd)
    return [value for pair in zip(evens, odds, strict=True) for value in pair]


def _both(value: Complex) -> tuple[Value, Value]:
    re, im = value
    assert im is not None
    return re, im


def _rotate(b: ir.IRBuilder, value: tuple[Value, Value], fraction: float) -> tuple[Value, Value]:
    """Return value * exp(2 pi j fraction)."""
    (re, im), c, s = value, cos(2 * pi * fraction), sin(2 * pi * fraction)
    return (
        fma(b, im, like(im, -s), b.fmul(re, like(re, c))),
        fma(b, re, like(re, s), b.fmul(im, like(im, c))),
    )
