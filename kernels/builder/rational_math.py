"""tanh and the logistic function of f32 vectors as quotients of polynomials, with the bits of onnxruntime.

For networks with dynamic quantization, where a last bit that differs from onnxruntime's before a rounding to 256 steps
changes all outputs (docs/models.md, "What differs from onnxruntime"). The coefficients are those of Eigen's
generic_fast_tanh_float and of MLAS (mlas/lib/tanh.cpp, logistic.cpp). Errors are 3e-7 and 1e-7, absolutely.
"""

from collections.abc import Sequence

from llvmlite import ir

from mavcg.kernels.builder.float_math import clamp, like, polynomial

# Of x^2, the constant term first. tanh(x) = x p(x^2) / q(x^2) for |x| <= 9, where it is 1.
_TANH_P = (
    4.89352455891786e-03,
    6.37261928875436e-04,
    1.48572235717979e-05,
    5.12229709037114e-08,
    -8.60467152213735e-11,
    2.00018790482477e-13,
    -2.76076847742355e-16,
)
_TANH_Q = (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06)
# 1 / (1 + e^-x) = 1/2 + x p(x^2) / q(x^2) for |x| <= 18.
_LOGISTIC_P = (
    2.48287947061529e-01,
    8.51377133304701e-03,
    6.08574864600143e-05,
    1.15627324459942e-07,
    4.37031012579801e-11,
)
_LOGISTIC_Q = (
    9.93151921023180e-01,
    1.16817656904453e-01,
    1.70198817374094e-03,
    6.29106785017040e-06,
    5.76102136993427e-09,
    6.10247389755681e-13,
)


def tanh_quotient(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the hyperbolic tangent; that of numbers near 9 may be 1 + 2^-22."""
    return _odd_quotient(b, clamp(b, x, -9.0, 9.0), _TANH_P, _TANH_Q)


def sigmoid_quotient(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the logistic function."""
    quotient = _odd_quotient(b, clamp(b, x, -18.0, 18.0), _LOGISTIC_P, _LOGISTIC_Q)
    return clamp(b, b.fadd(quotient, like(x, 0.5)), 0.0, 1.0)


def _odd_quotient(b: ir.IRBuilder, x: ir.Value, p: Sequence[float], q: Sequence[float]) -> ir.Value:
    """Return x p(x^2) / q(x^2), the product first."""
    square = b.fmul(x, x)
    return b.fdiv(b.fmul(polynomial(b, square, p), x), polynomial(b, square, q))
