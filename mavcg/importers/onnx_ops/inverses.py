"""Inverse trigonometric and hyperbolic functions, and hyperbolic ones, by operators that graphs have.

Each is arranged so that no term cancels: results are within a few units in the last place, near zero too.
"""

import math
from collections.abc import Mapping

from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.value import Value

_LARGE = 2.0**28  # from here on, 1 beside the square of a number is nothing, in f64 too
_TERMS = {"f32": 10, "f64": 22}  # of the series of the arcus tangent up to tan(pi / 8)


def _unary(name: str) -> Handler:
    """Return the handler of a function in this module, computed in f32 if the input is f16."""

    @round_once
    def handler(call: OnnxCall) -> Results:
        return _FUNCTIONS[name](_Terms(call, call.input(0)))

    return handler


class _Terms:
    """The input of a function, and arithmetic on values of its type."""

    def __init__(self, call: OnnxCall, x: Value) -> None:
        self.call, self.x = call, x

    def number(self, number: float) -> Value:
        return self.call.scalar(number, self.x)

    def of(self, op: str, *values: Value | float) -> Value:
        """Return an operator's result; numbers become constants of the input's type."""
        return self.call.add(op, *(self.call.as_value(value, self.x) for value in values))

    def with_sign(self, size: Value) -> Value:
        """Return the result of an odd function. size: its result for the input's absolute value."""
        return self.of("where", self.of("less", self.x, 0.0), self.of("neg", size), size)


def _log1p(t: _Terms, u: Value) -> Value:
    """Return log(1 + u), also near 0: the rounding of 1 + u is divided out (Kahan)."""
    sum = t.of("add", u, 1.0)
    near = t.of("div", t.of("mul", t.of("log", sum), u), t.of("sub", sum, 1.0))
    made = t.of("where", t.of("equal", sum, 1.0), u, near)
    return t.of("where", t.of("greater", u, _LARGE), t.of("log", u), made)


def _atan_of(t: _Terms, x: Value) -> Value:
    """Return the arcus tangent of x from 0 on, reduced to at most tan(pi / 8) by 1 / x and by pi / 4."""
    beyond = t.of("greater", x, 1.0)
    small = t.of("where", beyond, t.of("div", 1.0, x), x)
    upper = t.of("greater", small, math.tan(math.pi / 8))
    reduced = t.of("where", upper, t.of("div", t.of("sub", small, 1.0), t.of("add", small, 1.0)), small)
    square = t.of("mul", reduced, reduced)
    count = _TERMS.get(t.x.dtype, _TERMS["f32"])
    series = t.number((-1) ** count / (2 * count + 1))
    for k in reversed(range(count)):
        series = t.of("add", t.of("mul", series, square), (-1) ** k / (2 * k + 1))
    made = t.of("mul", reduced, series)
    made = t.of("where", upper, t.of("add", made, math.pi / 4), made)
    return t.of("where", beyond, t.of("sub", math.pi / 2, made), made)


def _atan(t: _Terms) -> Value:
    return t.with_sign(_atan_of(t, t.of("abs", t.x)))


def _asin(t: _Terms) -> Value:
    size = t.of("abs", t.x)
    rest = t.of("sqrt", t.of("mul", t.of("sub", 1.0, size), t.of("add", 1.0, size)))
    return t.with_sign(_atan_of(t, t.of("div", size, rest)))


def _acos(t: _Terms) -> Value:
    ratio = t.of("sqrt", t.of("div", t.of("sub", 1.0, t.x), t.of("add", 1.0, t.x)))
    return t.of("mul", _atan_of(t, ratio), 2.0)


def _asinh(t: _Terms) -> Value:
    size = t.of("abs", t.x)
    square = t.of("mul", size, size)
    root = t.of("add", t.of("sqrt", t.of("add", square, 1.0)), 1.0)
    near = _log1p(t, t.of("add", size, t.of("div", square, root)))
    far = t.of("add", t.of("log", size), math.log(2))
    return t.with_sign(t.of("where", t.of("greater", size, _LARGE), far, near))


def _acosh(t: _Terms) -> Value:
    above = t.of("sub", t.x, 1.0)
    # Two roots, which are NaN for every number below 1.
    root = t.of("mul", t.of("sqrt", above), t.of("sqrt", t.of("add", t.x, 1.0)))
    near = _log1p(t, t.of("add", above, root))
    far = t.of("add", t.of("log", t.x), math.log(2))
    return t.of("where", t.of("greater", t.x, _LARGE), far, near)


def _atanh(t: _Terms) -> Value:
    size = t.of("abs", t.x)
    return t.with_sign(t.of("mul", _log1p(t, t.of("div", t.of("mul", size, 2.0), t.of("sub", 1.0, size))), 0.5))


def _halves(t: _Terms, size: Value) -> tuple[Value, Value]:
    """Return exp(size) / 2, which overflows only where it is too large, and exp(-size) / 2."""
    root = t.of("exp", t.of("mul", size, 0.5))
    return t.of("mul", t.of("mul", root, 0.5), root), t.of("mul", t.of("exp", t.of("neg", size)), 0.5)


def _cosh(t: _Terms) -> Value:
    return t.of("add", *_halves(t, t.of("abs", t.x)))


def _sinh(t: _Terms) -> Value:
    size = t.of("abs", t.x)
    less = t.call.add("elu", t.of("neg", size), alpha=1.0)  # exp(-size) - 1
    near = t.of("div", t.of("mul", less, t.of("add", less, 2.0)), t.of("mul", t.of("add", less, 1.0), -2.0))
    return t.with_sign(t.of("where", t.of("less", size, 1.0), near, t.of("sub", *_halves(t, size))))


_FUNCTIONS = {
    "Acos": _acos,
    "Acosh": _acosh,
    "Asin": _asin,
    "Asinh": _asinh,
    "Atan": _atan,
    "Atanh": _atanh,
    "Cosh": _cosh,
    "Sinh": _sinh,
}
HANDLERS: Mapping[str, Handler] = {name: _unary(name) for name in _FUNCTIONS}
