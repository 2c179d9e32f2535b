"""Handlers of element-wise operators, softmax and normalisations.

Source of their definitions: TensorFlow's API documentation (tf.math, tf.nn).
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from mavcg.graph import DTYPES
from mavcg.graph.ops.op import FLOATS
from mavcg.importers.tflite_ops.call import Handler, Results, TfliteCall
from mavcg.importers.value import Value, constant


def _unary(op: str, call: TfliteCall, **attrs: float) -> Results:
    return call.add(op, call.operand(0), **attrs)


def _binary(op: str, call: TfliteCall, **attrs: bool) -> Results:
    a, b = call.operand(0), call.operand(1)
    if op in ("and", "or") and a.dtype != "bool":
        raise call.fail(f"{a.type} and {b.type}; bools are needed")
    return call.activate(call.add(op, a, b, **attrs))


def add_n(call: TfliteCall) -> Results:
    """Import ADD_N."""
    total = call.operand(0)
    for i in call.all_inputs()[1:]:
        total = call.add("add", total, call.operand(i))
    return total


def square(call: TfliteCall) -> Results:
    """Import SQUARE."""
    x = call.operand(0)
    return call.add("mul", x, x)


def squared_difference(call: TfliteCall) -> Results:
    """Import SQUARED_DIFFERENCE."""
    difference = call.add("sub", call.operand(0), call.operand(1))
    return call.add("mul", difference, difference)


def rsqrt(call: TfliteCall) -> Results:
    """Import RSQRT."""
    return call.add("reciprocal", call.add("sqrt", call.operand(0)))


def floor_div(call: TfliteCall) -> Results:
    """Import FLOOR_DIV: division rounded down, for floats and integers."""
    a, b = call.operand(0), call.operand(1)
    if a.dtype in FLOATS:
        return call.add("floor", call.add("div", a, b))
    # a - mod(a, b) is a multiple of b, so that it does not matter how div rounds.
    return call.add("div", call.add("sub", a, call.add("mod", a, b, fmod=False)), b)


def not_equal(call: TfliteCall) -> Results:
    """Import NOT_EQUAL."""
    return call.add("not", call.add("equal", call.operand(0), call.operand(1)))


def prelu(call: TfliteCall) -> Results:
    """Import PRELU: slopes broadcast along the leading dimensions."""
    return call.add("prelu", call.operand(0), call.operand(1))


def leaky_relu(call: TfliteCall) -> Results:
    """Import LEAKY_RELU."""
    return call.add("leaky_relu", call.operand(0), alpha=float(call.option("Alpha")))


def gelu(call: TfliteCall) -> Results:
    """Import GELU, exact or approximated by tanh."""
    return call.add("gelu", call.operand(0), tanh=bool(call.option("Approximate", False)))


def softmax(call: TfliteCall) -> Results:
    """Import SOFTMAX over the last dimension of the input times beta."""
    x = call.operand(0, rank_min=1)
    beta = float(call.option("Beta", 1.0))
    if beta != 1.0:
        x = call.add("mul", x, call.scalar(beta, x))
    return call.add("softmax", x, axis=x.rank - 1)


def log_softmax(call: TfliteCall) -> Results:
    """Import LOG_SOFTMAX over the last dimension."""
    x = call.operand(0, rank_min=1)
    return call.add("log_softmax", x, axis=x.rank - 1)


def l2_normalization(call: TfliteCall) -> Results:
    """Import L2_NORMALIZATION: divide by the L2 norm along the last dimension, or by 1e-6 if the norm is less."""
    x = call.operand(0, rank_min=1)
    squares = call.add("reduce_sum", call.add("mul", x, x), axes=(x.rank - 1,), keepdims=True)
    length = call.add("clip", call.add("sqrt", squares), lo=1e-6)
    return call.activate(call.add("div", x, length))


def local_response_normalization(call: TfliteCall) -> Results:
    """Import LOCAL_RESPONSE_NORMALIZATION over 2 * radius + 1 channels.

    TFLite's alpha multiplies the sum of squares, that of the graph's lrn (as in ONNX) their mean.
    """
    radius = int(call.option("Radius"))
    x = call.operand(0, rank_min=1)
    if radius < 0:
        raise call.fail(f"its option Radius is {radius}; at least 0 is needed")
    size = 2 * min(radius, max(1, x.shape[-1])) + 1  # a wider window contains no more channels
    alpha, beta, plus = (float(call.option(name)) for name in ("Alpha", "Beta", "Bias"))
    return call.add("lrn", x, size=size, alpha=alpha * size, beta=beta, bias=plus)


def select(call: TfliteCall) -> Results:
    """Import SELECT; a 1-D condition selects along the first dimension of the other inputs."""
    condition, a = call.input(0), call.input(1)
    if condition.rank == 1 and a.rank > 1:
        condition = call.reshape(condition, (*condition.shape, *(1,) * (a.rank - 1)))
    return _choose_elements(call, condition)


def select_v2(call: TfliteCall) -> Results:
    """Import SELECT_V2: SELECT with broadcast of all inputs."""
    return _choose_elements(call, call.input(0))


def _choose_elements(call: TfliteCall, condition: Value) -> Value:
    a, b = call.stored_inputs(1, 2)
    ranks = max(v.rank for v in (condition, a, b))
    shapes = [(1,) * (ranks - v.rank) + v.shape for v in (condition, a, b)]
    call.check_shape([max(lengths) for lengths in zip(*shapes, strict=True)], a)
    return call.add("where", condition, a, b)


def cast(call: TfliteCall) -> Results:
    """Import CAST of the stored numbers to the result's type."""
    to = call.results[0].dtype
    if to not in DTYPES:
        raise call.unsupported(f"a cast to {call.results[0].kind}", ", ".join(DTYPES))
    return call.cast(call.input(0), to)


def real(call: TfliteCall) -> Results:
    """Import QUANTIZE and DEQUANTIZE: return the operand's real numbers; the importer quantizes an 8-bit result.

    Constants of 4 bits keep their form for a reader that can use it.
    """
    value, tensor = call.input(0), call.tensor(0)
    return call.dequantize(value, tensor) if tensor.packed and value.is_constant else call.operand(0)


def zeros_like(call: TfliteCall) -> Results:
    """Import ZEROS_LIKE."""
    x = call.input(0)
    return call.add("broadcast_to", constant(np.asarray(call.zero_of(0)), x.dtype), shape=x.shape)


_UNARY = {
    "RELU": "relu",
    "LOGISTIC": "sigmoid",
    "TANH": "tanh",
    "HARD_SWISH": "hard_swish",
    "EXP": "exp",
    "LOG": "log",
    "SQRT": "sqrt",
    "NEG": "neg",
    "ABS": "abs",
    "FLOOR": "floor",
    "CEIL": "ceil",
    "ROUND": "round",
    "SIN": "sin",
    "COS": "cos",
    "SIGN": "sign",
    "LOGICAL_NOT": "not",
    "ELU": "elu",
}
_BINARY = {
    "ADD": "add",
    "SUB": "sub",
    "MUL": "mul",
    "DIV": "div",
    "POW": "pow",
    "MAXIMUM": "max",
    "MINIMUM": "min",
    "EQUAL": "equal",
    "LESS": "less",
    "LESS_EQUAL": "less_equal",
    "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal",
    "LOGICAL_AND": "and",
    "LOGICAL_OR": "or",
    "FLOOR_MOD": "mod",
}
HANDLERS: Mapping[str, Handler] = {
    **{name: partial(_unary, op) for name, op in _UNARY.items()},
    **{name: partial(_binary, op) for name, op in _BINARY.items()},
    "RELU6": partial(_unary, "clip", lo=0.0, hi=6.0),
    "RELU_N1_TO_1": partial(_unary, "clip", lo=-1.0, hi=1.0),
    "RELU_0_TO_1": partial(_unary, "clip", lo=0.0, hi=1.0),
    "ADD_N": add_n,
    "CAST": cast,
    "DEQUANTIZE": real,
    "FLOOR_DIV": floor_div,
    "GELU": gelu,
    "L2_NORMALIZATION": l2_normalization,
    "LEAKY_RELU": leaky_relu,
    "LOCAL_RESPONSE_NORMALIZATION": local_response_normalization,
    "LOG_SOFTMAX": log_softmax,
    "NOT_EQUAL": not_equal,
    "PRELU": prelu,
    "QUANTIZE": real,
    "RSQRT": rsqrt,
    "SELECT": select,
    "SELECT_V2": select_v2,
    "SOFTMAX": softmax,
    "SQUARE": square,
    "SQUARED_DIFFERENCE": squared_difference,
    "ZEROS_LIKE": zeros_like,
}
