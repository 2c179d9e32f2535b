"""Definitions of element-wise operators."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import DTYPES, Array, Node
from mavcg.graph.ops.elementwise import ACTIVATIONS


def _erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in x.reshape(-1).tolist()], dtype=x.dtype).reshape(x.shape)


def _in_double(function: Callable[[Array], Array], x: Array) -> Array:
    """Return a function's value computed in f64, exact to the last bit of f16 and f32 also for large arguments."""
    return np.asarray(function(x.astype(np.float64)).astype(x.dtype))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(0, x))


def _gelu(x: Array, tanh: float) -> Array:
    if tanh:
        return np.asarray(x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    return np.asarray(x / 2 * (1 + _erf(x / math.sqrt(2))))


def _clip(x: Array, lo: float, hi: float) -> Array:
    if np.issubdtype(x.dtype, np.integer):
        range_ = np.iinfo(x.dtype)
        # A bound beyond the type's range has no effect, as long as it excludes no value of the type.
        least = range_.min if lo <= range_.min else range_.max if lo >= range_.max else math.ceil(lo)
        most = range_.max if hi >= range_.max else range_.min if hi <= range_.min else math.floor(hi)
        return np.asarray(np.minimum(np.maximum(x, x.dtype.type(least)), x.dtype.type(most)))
    # hi is applied last, as in ONNX: it wins if lo is larger.
    return np.asarray(np.minimum(np.maximum(x, lo), hi))


_UNARY: Mapping[str, Callable[..., Any]] = {
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "erf": _erf,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "neg": np.negative,
    "abs": np.abs,
    "reciprocal": lambda x: 1 / x,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sign": np.sign,
    "softplus": _softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sin": lambda x: _in_double(np.sin, x),
    "cos": lambda x: _in_double(np.cos, x),
    "tan": lambda x: _in_double(np.tan, x),
    "silu": lambda x: x * _sigmoid(x),
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hard_swish_quotient": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "sigmoid_quotient": _sigmoid,
    "tanh_quotient": np.tanh,
    "clip": _clip,
    "leaky_relu": lambda x, alpha: np.where(x < 0, alpha * x, x),
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    "hard_sigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "gelu": _gelu,
    "selu": lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x)),
    "celu": lambda x, alpha: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha)),
    "thresholded_relu": lambda x, alpha: np.where(x > alpha, x, 0),
}


def activate(x: Array, act: str, args: Sequence[float]) -> Array:
    """Return the activation `act` of x, in the type of x; "" returns x."""
    return np.asarray(_UNARY[act](x, *args)) if act else x


def apply_activation(node: Node, x: Array) -> Array:
    """Return x after a node's fused activation."""
    return activate(x, node.attr("act"), node.attr("act_args"))


def _unary(node: Node, inputs: Sequence[Any]) -> Array:
    return activate(inputs[0], node.op, [node.attr(name) for name in ACTIVATIONS[node.op]])


def _divide(a: Array, b: Array) -> Array:
    if not np.issubdtype(a.dtype, np.integer):
        return np.asarray(a / b)
    # NumPy rounds down where C rounds towards 0.
    down = a // b
    inexact = down * b != a
    return np.asarray(down + (inexact & ((a < 0) != (b < 0)) & (b != 0)).astype(a.dtype))


def _power(a: Array, b: Array) -> Array:
    if not np.issubdtype(a.dtype, np.integer):
        return np.asarray(np.power(a, b))
    whole = np.power(a, np.maximum(b, b.dtype.type(0)))
    # 1 / a^-b truncated: only 1 and -1 have a result other than 0.
    inverse = np.where(np.abs(a) == 1, np.where(b % 2 == 0, a * a, a), a.dtype.type(0))
    return np.asarray(np.where(b < 0, inverse, whole))


_BINARY: Mapping[str, Callable[[Array, Array], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "pow": _power,
    "max": np.maximum,
    "min": np.minimum,
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _binary(node: Node, inputs: Sequence[Any]) -> Array:
    return np.asarray(_BINARY[node.op](inputs[0], inputs[1]))


def _mod(node: Node, inputs: Sequence[Any]) -> Array:
    return np.asarray((np.fmod if node.attr("fmod") else np.mod)(inputs[0], inputs[1]))


def _prelu(node: Node, inputs: Sequence[Any]) -> Array:
    x, slope = inputs
    return np.asarray(np.where(x < 0, slope * x, x))


def _cast(node: Node, inputs: Sequence[Any]) -> Array:
    x: Array = inputs[0]
    to = DTYPES[node.attr("to")]
    if np.issubdtype(x.dtype, np.floating) and np.issubdtype(to, np.integer) and to != np.uint64:
        # Through i64, so that a number out of range wraps around in the same way on every machine.
        return np.asarray(x.astype(np.int64).astype(to))
    return np.asarray(x.astype(to))


DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {
    **{name: _unary for name in _UNARY},
    **{name: _binary for name in _BINARY},
    "not": lambda node, inputs: np.logical_not(inputs[0]),
    "mod": _mod,
    "prelu": _prelu,
    "add_products": lambda node, inputs: np.asarray(inputs[0] * inputs[1] + inputs[2] * inputs[3]),
    "sub_products": lambda node, inputs: np.asarray(inputs[0] * inputs[1] - inputs[2] * inputs[3]),
    "where": lambda node, inputs: np.where(*inputs),
    "cast": _cast,
    "bitcast": lambda node, inputs: (
        np.ascontiguousarray(inputs[0]).view(DTYPES[node.attr("to")]).reshape(inputs[0].shape)
    ),
}
