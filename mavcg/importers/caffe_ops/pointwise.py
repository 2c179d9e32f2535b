"""Handlers of element-wise layers, LRN, BatchNorm, Scale, Bias and Softmax."""

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from mavcg.importers.caffe_ops.call import CaffeCall, LayerType, Results
from mavcg.importers.value import Value, constant


def lrn(call: CaffeCall) -> Results:
    """Import LRN, x / (k + alpha * mean of squares) ^ beta, across channels or over a square of pixels of a channel."""
    x = call.image()
    size = call.at_least(1, "local_size", call.options.integer("local_size", 5))
    if size % 2 == 0:
        raise call.fail(f"local_size is {size}; an odd number is needed")
    alpha, beta = call.options.number("alpha", 1.0), call.options.number("beta", 0.75)
    if call.options.choice("norm_region", ("ACROSS_CHANNELS", "WITHIN_CHANNEL")) == "ACROSS_CHANNELS":
        size = min(size, 2 * x.shape[1] + 1) if x.shape[1] else size
        alpha *= size / call.options.integer("local_size", 5)  # lrn divides alpha by size, Caffe by local_size
        bias = call.options.number("k", 1.0)
        return call.nchw(call.add("lrn", call.nhwc(x), size=size, alpha=alpha, beta=beta, bias=bias))
    pads = (size // 2,) * 4
    image = call.nhwc(x)
    mean = call.add("avg_pool2d", call.add("mul", image, image), kernel=(size, size), pads=pads, count_pads=pads)
    spread = call.linear(mean, alpha, 1.0)
    return call.nchw(call.add("mul", image, call.add("pow", spread, call.scalar(-beta, spread))))


def batch_norm(call: CaffeCall) -> Results:
    """Import BatchNorm with stored statistics: blobs are sums of means and of variances, and their common divisor."""
    x = call.input(0, rank_min=1)
    if not call.options.boolean("use_global_stats", True):
        raise call.unsupported("use_global_stats is false", "the means and variances that training kept")
    channels = x.shape[1:2] if x.rank > 1 else (1,)
    mean, variance, factor = (
        call.blob(i, channels if i < 2 else (1,), description).known
        for i, description in enumerate(("mean", "variance", "factor"))
    )
    assert mean is not None and variance is not None and factor is not None
    times = 0.0 if factor[0] == 0 else 1.0 / float(factor[0])
    with np.errstate(all="ignore"):  # invalid numbers in a file give NaN, as in Caffe
        spread = np.sqrt(variance.astype(np.float64) * times + call.options.number("eps", 1e-5))
        offset = (-mean.astype(np.float64) * times / spread).astype(np.float32)
        slope = (1 / spread).astype(np.float32)
    axis = 1 if x.rank > 1 else 0
    scaled = call.add("mul", x, call.along(constant(slope, stem=f"{call.origin}.scale"), x, axis))
    return call.add("add", scaled, call.along(constant(offset, stem=f"{call.origin}.offset"), x, axis))


def _operand(call: CaffeCall, x: Value, description: str) -> tuple[Value, int]:
    """Return (factor or addend, its axis in x): the second bottom, or blob 0 with num_axes dimensions."""
    axis = call.axis_option(max(x.rank, 1), 1 if x.rank > 1 else 0)
    if len(call.inputs) > 1:
        operand = call.input(1)
        if operand.rank == 0:
            axis = x.rank
    else:
        axes = call.options.integer("num_axes", 1)
        if not -1 <= axes <= x.rank - axis:
            raise call.fail(f"num_axes is {axes} where {x.type} has {x.rank - axis} dimensions from axis {axis} on")
        operand = call.blob(0, x.shape[axis:] if axes == -1 else x.shape[axis : axis + axes], description)
        axis = x.rank if operand.rank == 0 else axis
    if x.shape[axis : axis + operand.rank] != operand.shape:
        raise call.fail(f"{operand.type} at axis {axis} of {x.type}; equal lengths are needed")
    return operand, axis


def scale(call: CaffeCall) -> Results:
    """Import Scale: a product with the second bottom or a blob, plus an optional bias."""
    x = call.input(0)
    factor, axis = _operand(call, x, "scale")
    made = call.add("mul", x, call.along(factor, x, axis))
    if not call.options.boolean("bias_term", False):
        return made
    bias = call.blob(0 if len(call.inputs) > 1 else 1, factor.shape, "bias")
    return call.add("add", made, call.along(bias, x, axis))


def bias(call: CaffeCall) -> Results:
    """Import Bias: a sum with the second bottom or a blob."""
    x = call.input(0)
    addend, axis = _operand(call, x, "bias")
    return call.add("add", x, call.along(addend, x, axis))


def softmax(call: CaffeCall) -> Results:
    """Import Softmax along an axis."""
    x = call.input(0, rank_min=1)
    return call.add("softmax", x, axis=call.axis_option(x.rank, 1 if x.rank > 1 else 0))


_NORMALISATION: Mapping[str, LayerType] = {
    "BatchNorm": LayerType(batch_norm, "batch_norm_param", ("use_global_stats", "eps"), ("moving_average_fraction",)),
    "Bias": LayerType(bias, "bias_param", ("axis", "num_axes"), ("filler",)),
    "LRN": LayerType(lrn, "lrn_param", ("local_size", "alpha", "beta", "norm_region", "k")),
    "Scale": LayerType(scale, "scale_param", ("axis", "num_axes", "bias_term"), ("filler", "bias_filler")),
    "Softmax": LayerType(softmax, "softmax_param", ("axis",)),
}


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
_POINTWISE: Mapping[str, LayerType] = {
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

LAYERS: Mapping[str, LayerType] = {**_NORMALISATION, **_POINTWISE}
