"""Handlers of element-wise layers.

Source of what they compute: the layers' headers in BVLC's Caffe (include/caffe/layers).
"""

import math
from collections.abc import Mapping
from functools import partial

from mavcg.importers.caffe_ops.call import CaffeCall, LayerType, Results


def _unary(op: str, call: CaffeCall) -> Results:
    return call.add(op, call.input(0))


def relu(call: CaffeCall) -> Results:
    """Import ReLU, which is leaky with a negative_slope."""
    slope = call.options.number("negative_slope", 0.0)
    return call.add("relu", call.input(0)) if slope == 0.0 else call.add("leaky_relu", call.input(0), alpha=slope)


def elu(call: CaffeCall) -> Results:
    """Import ELU."""
    return call.add("elu", call.input(0), alpha=call.options.number("alpha", 1.0))


def prelu(call: CaffeCall) -> Results:
    """Import PReLU, with a slope per channel or one for all."""
    x = call.input(0, rank_min=2)
    if call.options.boolean("channel_shared", False):
        shape: tuple[int, ...] = (1,) if call.blob_shape(0) == (1,) else ()
        return call.add("prelu", x, call.reshape(call.blob(0, shape, "slope"), (1,) * (x.rank - 1)))
    return call.add("prelu", x, call.along(call.blob(0, x.shape[1:2], "slope"), x, 1))


def power(call: CaffeCall) -> Results:
    """Import Power: (shift + scale * x) ^ power."""
    x = call.linear(call.input(0), call.options.number("scale", 1.0), call.options.number("shift", 0.0))
    exponent = call.options.number("power", 1.0)
    return x if exponent == 1.0 else call.add("pow", x, call.scalar(exponent, x))


def _base(call: CaffeCall) -> float:
    """Return the natural logarithm of the parameter base, where -1 means e."""
    base = call.options.number("base", -1.0)
    if base == -1.0:
        return 1.0
    if not 0 < base < math.inf:
        raise call.fail(f"base is {base}; -1, which is e, or a number above 0 is needed")
    return math.log(base)


def exp(call: CaffeCall) -> Results:
    """Import Exp: base ^ (shift + scale * x)."""
    factor = _base(call)
    scale, shift = call.options.number("scale", 1.0), call.options.number("shift", 0.0)
    return call.add("exp", call.linear(call.input(0), factor * scale, factor * shift))


def log(call: CaffeCall) -> Results:
    """Import Log: the logarithm of shift + scale * x to a base."""
    factor = _base(call)
    if factor == 0.0:
        raise call.fail("base is 1; there are no logarithms to it")
    x = call.linear(call.input(0), call.options.number("scale", 1.0), call.options.number("shift", 0.0))
    return call.linear(call.add("log", x), 1 / factor, 0.0)


def threshold(call: CaffeCall) -> Results:
    """Import Threshold: 1 where an element is above the threshold, else 0."""
    x = call.input(0)
    return call.cast(call.add("greater", x, call.scalar(call.options.number("threshold", 0.0), x)), "f32")


def dropout(call: CaffeCall) -> Results:
    """Import Dropout, which is the identity in inference."""
    return call.input(0)


def split(call: CaffeCall) -> Results:
    """Import Split: a copy of its input for each top."""
    return (call.input(0),) * call.tops


def silence(call: CaffeCall) -> Results:
    """Import Silence, which only marks blobs as read."""
    return ()


def eltwise(call: CaffeCall) -> Results:
    """Import Eltwise: product, maximum, or sum with a coefficient for each bottom."""
    values = call.values(2)
    call.same_shapes(values)
    operation = call.options.choice("operation", ("PROD", "SUM", "MAX")) if call.options.has("operation") else "SUM"
    coefficients = call.options.numbers("coeff")
    if coefficients and operation != "SUM":
        raise call.fail(f"coeff with the operation {operation}; it is for SUM")
    if coefficients and len(coefficients) != len(values):
        raise call.fail(f"{len(coefficients)} coeff for {len(values)} bottoms; one for each is needed")
    if coefficients:
        values = tuple(call.linear(value, c, 0.0) for value, c in zip(values, coefficients, strict=True))
    total = values[0]
    for value in values[1:]:
        total = call.add({"PROD": "mul", "SUM": "add", "MAX": "max"}[operation], total, value)
    return total


_LINEAR = ("base", "scale", "shift")
LAYERS: Mapping[str, LayerType] = {
    "AbsVal": LayerType(partial(_unary, "abs")),
    "BNLL": LayerType(partial(_unary, "softplus")),
    "Dropout": LayerType(dropout, "dropout_param", (), ("dropout_ratio",)),
    "ELU": LayerType(elu, "elu_param", ("alpha",)),
    "Eltwise": LayerType(eltwise, "eltwise_param", ("operation", "coeff"), ("stable_prod_grad",)),
    "Exp": LayerType(exp, "exp_param", _LINEAR),
    "Log": LayerType(log, "log_param", _LINEAR),
    "PReLU": LayerType(prelu, "prelu_param", ("channel_shared",), ("filler",)),
    "Power": LayerType(power, "power_param", ("power", "scale", "shift")),
    "ReLU": LayerType(relu, "relu_param", ("negative_slope",)),
    "Sigmoid": LayerType(partial(_unary, "sigmoid"), "sigmoid_param"),
    "Silence": LayerType(silence),
    "Split": LayerType(split),
    "TanH": LayerType(partial(_unary, "tanh"), "tanh_param"),
    "Threshold": LayerType(threshold, "threshold_param", ("threshold",)),
}
