"""Handlers of normalisations and softmax."""

import math
from collections.abc import Mapping

import numpy as np

from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.value import Value, constant


def per_channel(call: OnnxCall, values: Value, x: Value) -> Value:
    """Return values, one per channel, in x's type and a shape that broadcasts to x [N, C, ..]."""
    if values.shape != (x.shape[1],):
        raise call.fail(f"{values.type} where {x.type} has {x.shape[1]} channels")
    return call.cast(call.reshape(values, (x.shape[1], *(1,) * (x.rank - 2))), x.dtype)


def batch_normalization(call: OnnxCall) -> Results:
    """Import BatchNormalization: x * factor + offset, in inference both computed at import from constants.

    With training_mode, since opset 14, mean and variance are those of the batch, and the running ones are results.
    """
    x = call.input(0, rank_min=2)
    scale, bias, mean, var = (call.input(i) for i in range(1, 5))
    running: tuple[Value, ...] = ()
    if call.version >= 14 and call.attr_bool("training_mode"):
        kept = call.attr_float("momentum", 0.9)
        batch = _batch_moments(call, x)
        running = tuple(
            call.add(
                "add", call.add("mul", old, call.scalar(kept, old)), call.add("mul", new, call.scalar(1 - kept, old))
            )
            for old, new in zip((mean, var), (call.cast(moment, mean.dtype) for moment in batch), strict=True)
        )
        mean, var = batch
    elif any(call.required[1:]):
        raise call.unsupported("outputs of training are read", "the output Y alone, or training_mode since opset 14")
    if call.version < 9 and not call.attr_bool("spatial", True):
        raise call.unsupported("spatial is 0", "one mean and variance a channel")
    spread = call.add("sqrt", call.add("add", var, call.scalar(call.attr_float("epsilon", 1e-5), var)))
    scale, bias = call.cast(scale, var.dtype), call.cast(bias, var.dtype)
    # As onnxruntime rounds: the reciprocal first. A dynamic quantization behind it may depend on the last bit.
    factor = call.add("mul", scale, call.add("div", call.scalar(1.0, var), spread))
    offset = call.add("sub", bias, call.add("mul", call.cast(mean, var.dtype), factor))
    made = call.add("add", call.add("mul", x, per_channel(call, factor, x)), per_channel(call, offset, x))
    return (made, *running)


def _batch_moments(call: OnnxCall, x: Value) -> tuple[Value, Value]:
    """Return the mean and the variance of each channel of a batch."""
    axes = (0, *range(2, x.rank))
    mean = call.add("reduce_mean", x, axes=axes, keepdims=True)
    apart = call.add("sub", x, mean)
    variance = call.add("reduce_mean", call.add("mul", apart, apart), axes=axes, keepdims=True)
    return call.reshape(mean, x.shape[1:2]), call.reshape(variance, x.shape[1:2])


@round_once
def instance_normalization(call: OnnxCall) -> Results:
    """Import InstanceNormalization, of each channel of each image separately."""
    x = call.input(0, rank_min=3)
    made = _normalise(call, x, (*x.shape[:2], math.prod(x.shape[2:])), call.attr_float("epsilon", 1e-5))
    scaled = call.add("mul", made, per_channel(call, call.input(1), x))
    return call.add("add", scaled, per_channel(call, call.input(2), x))


@round_once
def group_normalization(call: OnnxCall) -> Results:
    """Import GroupNormalization, with scale and bias per group up to opset 20, per channel since opset 21."""
    x, groups = call.input(0, rank_min=3), call.attr_int("num_groups")
    channels = x.shape[1]
    if groups < 1 or channels % groups:
        raise call.fail(f"{channels} channels in {groups} groups")
    made = _normalise(call, x, (x.shape[0], groups, math.prod(x.shape[1:]) // groups), call.attr_float("epsilon", 1e-5))
    scale, bias = call.input(1), call.input(2)
    if call.version < 21:
        scale, bias = (_repeat(call, v, groups, channels // groups) for v in (scale, bias))
    return call.add("add", call.add("mul", made, per_channel(call, scale, x)), per_channel(call, bias, x))


def _repeat(call: OnnxCall, values: Value, groups: int, times: int) -> Value:
    if values.shape != (groups,):
        raise call.fail(f"{values.type} where there are {groups} groups")
    return call.reshape(
        call.add("broadcast_to", call.reshape(values, (groups, 1)), shape=(groups, times)), (groups * times,)
    )


def _normalise(call: OnnxCall, x: Value, rows: tuple[int, ...], epsilon: float) -> Value:
    """Return x normalised to mean 0 and variance 1 along the last dimension of the shape `rows`."""
    ones = constant(np.ones(1), x.dtype, "ones")
    made = call.add("layer_norm", call.reshape(x, rows), ones, axis=len(rows) - 1, epsilon=epsilon)
    return call.reshape(made, x.shape)


@round_once
def layer_normalization(call: OnnxCall) -> Results:
    """Import LayerNormalization, with its outputs mean and 1/deviation if they are read."""
    x, scale, bias = call.input(0, rank_min=1), call.input(1), call.maybe(2)
    axis = call.axis(call.attr_int("axis", -1), x.rank)
    epsilon = call.attr_float("epsilon", 1e-5)
    rest = x.shape[axis:]
    if all(v is None or v.rank <= len(rest) for v in (scale, bias)):
        made = call.add("layer_norm", x, scale, bias, axis=axis, epsilon=epsilon)
    else:
        # The scale varies also before the axis: ONNX allows any scale that broadcasts to x.
        ones = constant(np.ones(1), x.dtype, "ones")
        made = call.add("mul", call.add("layer_norm", x, ones, axis=axis, epsilon=epsilon), scale)
        made = call.add("add", made, bias) if bias is not None else made
        if made.shape != x.shape:
            raise call.fail(f"scale {scale.type} does not broadcast to {x.type}")
    if not any(call.required[1:]):
        return made
    axes = tuple(range(axis, x.rank))
    mean = call.add("reduce_mean", x, axes=axes, keepdims=True)
    centred = call.add("sub", x, mean)
    variance = call.add("reduce_mean", call.add("mul", centred, centred), axes=axes, keepdims=True)
    inverse = call.add("reciprocal", call.add("sqrt", call.add("add", variance, call.scalar(epsilon, variance))))
    return made, mean, inverse


@round_once
def rms_normalization(call: OnnxCall) -> Results:
    """Import RMSNormalization: x / sqrt(mean of squares + epsilon) * scale."""
    x, scale = call.input(0, rank_min=1), call.input(1)
    axis = call.axis(call.attr_int("axis", -1), x.rank)
    return over_mean_square(call, x, call.cast(scale, x.dtype), axis, call.attr_float("epsilon", 1e-5))


def over_mean_square(call: OnnxCall, x: Value, scale: Value, axis: int, epsilon: float) -> Value:
    """Return x / sqrt(mean of squares + epsilon) * scale, the mean over the axis and those after it."""
    if x.dtype == "f64":  # no kernel of norms is for it
        axes = tuple(range(axis, x.rank))
        squares = call.add("reduce_mean", call.add("mul", x, x), axes=axes, keepdims=True)
        root = call.add("sqrt", call.add("add", squares, call.scalar(epsilon, squares)))
        return call.add("mul", call.add("div", x, root), scale)
    attrs = {"axis": axis, "epsilon": epsilon, "centred": False}
    if scale.rank <= x.rank - axis:
        return call.add("layer_norm", x, scale, **attrs)
    made = call.add("mul", call.add("layer_norm", x, constant(np.ones(1), x.dtype, "ones"), **attrs), scale)
    if made.shape != x.shape:
        raise call.fail(f"scale {scale.type} does not broadcast to {x.type}")
    return made


@round_once
def lp_normalization(call: OnnxCall) -> Results:
    """Import LpNormalization: x divided by its norm along an axis; vectors of norm 0 stay 0."""
    x, power = call.input(0, rank_min=1), call.attr_int("p", 2)
    axes = (call.axis(call.attr_int("axis", -1), x.rank),)
    if power not in (1, 2):
        raise call.fail(f"p is {power}; 1 or 2 is needed")
    if power == 1:
        norm = call.add("reduce_sum", call.add("abs", x), axes=axes, keepdims=True)
    else:
        norm = call.add("sqrt", call.add("reduce_sum", call.add("mul", x, x), axes=axes, keepdims=True))
    zero = call.add("equal", norm, call.scalar(0, norm))
    return call.add("div", x, call.add("where", zero, call.scalar(1, norm), norm))


def lrn(call: OnnxCall) -> Results:
    """Import LRN over neighbouring channels, which are dimension 1 in ONNX, the last one in graphs."""
    x = call.input(0, rank_min=2)
    made = call.add(
        "lrn",
        call.transpose(x, (0, *range(2, x.rank), 1)),
        size=call.attr_int("size"),
        alpha=call.attr_float("alpha", 1e-4),
        beta=call.attr_float("beta", 0.75),
        bias=call.attr_float("bias", 1.0),
    )
    return call.transpose(made, (0, x.rank - 1, *range(1, x.rank - 1)))


def softmax(call: OnnxCall) -> Results:
    """Import Softmax or LogSoftmax: up to opset 12 over all dimensions from `axis` (1) on, later over `axis` (-1)
    alone."""
    x, op = call.input(0), {"Softmax": "softmax", "LogSoftmax": "log_softmax"}[call.op]
    if call.version >= 13:
        if not x.rank:
            raise call.fail("its input is a scalar; it needs a dimension")
        return call.add(op, x, axis=call.axis(call.attr_int("axis", -1), x.rank))
    axis = call.attr_int("axis", 1)
    if axis != x.rank:
        axis = call.axis(axis, x.rank)
    if axis == x.rank - 1:
        return call.add(op, x, axis=axis)
    rows = call.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return call.reshape(call.add(op, rows, axis=1), x.shape)


HANDLERS: Mapping[str, Handler] = {
    "BatchNormalization": batch_normalization,
    "InstanceNormalization": instance_normalization,
    "GroupNormalization": group_normalization,
    "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization,
    "SimplifiedLayerNormalization": rms_normalization,  # onnxruntime's own, in the domain of ONNX
    "LpNormalization": lp_normalization,
    "LRN": lrn,
    "Softmax": softmax,
    "LogSoftmax": softmax,
}
