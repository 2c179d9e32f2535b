"""Handlers of pooling over windows and over whole images, of reductions, ArgMax and ArgMin."""

import math
from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES
from mavcg.graph.ops.op import FLOATS
from mavcg.importers.call import known_at_build
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.onnx_ops.images import PaddedWindow, from_nhwc, spatial_rank, to_nhwc, window, windows
from mavcg.importers.onnx_ops.placing import indices_of_largest
from mavcg.importers.onnx_ops.volumes import convolve_volume, is_volume, pool_volume
from mavcg.importers.value import Value, constant

# ONNX's operator -> (operator on the elements, reduction, operator on its result).
_FORMS: Mapping[str, tuple[str, str, str]] = {
    "ReduceSum": ("", "reduce_sum", ""),
    "ReduceMean": ("", "reduce_mean", ""),
    "ReduceMax": ("", "reduce_max", ""),
    "ReduceMin": ("", "reduce_min", ""),
    "ReduceProd": ("", "reduce_prod", ""),
    "ReduceL1": ("abs", "reduce_sum", ""),
    "ReduceL2": ("square", "reduce_sum", "sqrt"),
    "ReduceSumSquare": ("square", "reduce_sum", ""),
    "ReduceLogSum": ("", "reduce_sum", "log"),
}
_AXES_ARE_AN_INPUT = {"ReduceSum": 13}  # opset since which axes are an input; 18 for other operators


@round_once
@known_at_build("axes")
def reduce(call: OnnxCall) -> Results:
    """Import any reduction but ReduceLogSumExp."""
    x = call.input(0)
    before, op, after = _FORMS[call.op]
    axes = _axes(call, x)
    real = x.dtype
    if real == "bool":
        x = call.cast(x, "u8")
    if before == "square":
        x = call.add("mul", x, x)
    elif before:
        x = call.add(before, x)
    if axes is not None:
        x = _reduce(call, op, x, axes)
    if after and x.dtype not in FLOATS:
        x = call.add(after, call.cast(x, "f32"))
    elif after:
        x = call.add(after, x)
    return call.cast(x, real)


def _reduce(call: OnnxCall, op: str, x: Value, axes: tuple[int, ...]) -> Value:
    keep = call.attr_bool("keepdims", True)
    if op in ("reduce_max", "reduce_min") and any(x.shape[a] == 0 for a in axes):
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes)
        return call.add("broadcast_to", constant(_identity(x.dtype, op == "reduce_max")), shape=shape)
    return call.add(op, x, axes=axes, keepdims=keep)


def _identity(dtype: str, least: bool) -> np.generic:
    """Return the identity of max, or min: the least, or greatest, value of the type (ONNX: reduction over an empty
    axis)."""
    kind = DTYPES[dtype]
    if kind.kind == "f":
        value: float = -np.inf if least else np.inf
    else:
        value = np.iinfo(kind).min if least else np.iinfo(kind).max
    return kind.type(value)  # type: ignore[no-any-return]


def _axes(call: OnnxCall, x: Value) -> tuple[int, ...] | None:
    """Return the axes to reduce in increasing order; None if the operator is the identity."""
    if call.version >= _AXES_ARE_AN_INPUT.get(call.op, 18):
        given = call.maybe_ints(1, "axes")
    else:
        given = call.maybe_ints_attr("axes")
    if not given:
        return None if call.attr_bool("noop_with_empty_axes") else tuple(range(x.rank))
    return tuple(sorted(call.axes(given, x.rank)))


@round_once
@known_at_build("axes")
def log_sum_exp(call: OnnxCall) -> Results:
    """Import ReduceLogSumExp; the largest element is subtracted first to prevent overflow."""
    x = call.input(0)
    axes = _axes(call, x)
    real = x.dtype
    x = x if real in FLOATS else call.cast(x, "f32")
    if axes is None:
        return call.cast(x, real)
    if any(x.shape[a] == 0 for a in axes):
        return call.cast(call.add("log", _reduce(call, "reduce_sum", x, axes)), real)
    # Clamped, since infinity - infinity is NaN.
    bound = float(np.finfo(DTYPES[x.dtype]).max)
    largest = call.add("clip", call.add("reduce_max", x, axes=axes, keepdims=True), lo=-bound, hi=bound)
    total = call.add("reduce_sum", call.add("exp", call.add("sub", x, largest)), axes=axes, keepdims=True)
    made = call.add("add", call.add("log", total), largest)
    if not call.attr_bool("keepdims", True):
        made = call.reshape(made, [n for i, n in enumerate(made.shape) if i not in axes])
    return call.cast(made, real)


def arg(call: OnnxCall) -> Results:
    """Import ArgMax and ArgMin."""
    x = call.input(0, rank_min=1)
    return call.add(
        "arg_max" if call.op == "ArgMax" else "arg_min",
        x,
        axis=call.axis(call.attr_int("axis", 0), x.rank),
        keepdims=call.attr_bool("keepdims", True),
        last=call.attr_bool("select_last_index"),
    )


_REDUCTION: Mapping[str, Handler] = {
    **dict.fromkeys(_FORMS, reduce),
    "ReduceLogSumExp": log_sum_exp,
    "ArgMax": arg,
    "ArgMin": arg,
}


def _window(call: OnnxCall, x: Value) -> PaddedWindow:
    spatial = spatial_rank(call, x)
    kernel = call.attr_ints("kernel_shape", length=spatial)
    return window(call, x.shape[2:], kernel, ceil=call.attr_bool("ceil_mode"))


def max_pool(call: OnnxCall) -> Results:
    """Import MaxPool."""
    x = call.input(0)
    read = len(call.required) > 1 and call.required[1]
    if is_volume(x) and not read:
        return pool_volume(call, x, "max_pool2d")
    view = _window(call, x)
    made = call.add("max_pool2d", to_nhwc(call, x), kernel=view.kernel, **view.steps)
    return from_nhwc(call, made, x.rank - 2), indices_of_largest(call, x, view) if read else None


def average_pool(call: OnnxCall) -> Results:
    """Import AveragePool."""
    return average_windows(call, call.input(0))


def average_windows(call: OnnxCall, x: Value) -> Value:
    """Return the means over windows by the node's attributes. x: [N, C, spatial..]."""
    if is_volume(x):
        return pool_volume(call, x, "avg_pool2d", call.attr_bool("count_include_pad"))
    view = _window(call, x)
    counted = view.given_pads if call.attr_bool("count_include_pad") else (0, 0, 0, 0)
    made = call.add("avg_pool2d", to_nhwc(call, x), kernel=view.kernel, **view.steps, count_pads=counted)
    return from_nhwc(call, made, x.rank - 2)


@round_once
def lp_pool(call: OnnxCall) -> Results:
    """Import LpPool: sums of |x|^p by a depthwise convolution with ones, then the p-th root."""
    x = call.input(0)
    power, channels = _power(call), x.shape[1]
    if is_volume(x):
        view3 = windows(call, x.shape[2:], call.attr_ints("kernel_shape", length=3), call.attr_bool("ceil_mode"))
        call.count_size(channels * math.prod(view3.kernel), 8)
        filter = constant(np.ones((channels, 1, *view3.kernel)), x.dtype, "ones")
        made = convolve_volume(call, _raise_to_power(call, x, power), filter, None, view3, channels)
        return _root(call, made, power)
    view = _window(call, x)
    call.count_size(channels * math.prod(view.kernel), 8)
    ones = constant(np.ones((channels, *view.kernel, 1)), x.dtype, "ones")
    powers = to_nhwc(call, _raise_to_power(call, x, power))
    sums = call.add("conv2d", powers, ones, **view.steps, groups=channels)
    return from_nhwc(call, _root(call, sums, power), x.rank - 2)


def _power(call: OnnxCall) -> int:
    power = call.attr_int("p", 2)
    if power < 1:
        raise call.fail(f"p is {power}; at least 1 is needed")
    return power


def _raise_to_power(call: OnnxCall, x: Value, power: int) -> Value:
    if power == 2:
        return call.add("mul", x, x)
    size = call.add("abs", x)
    return size if power == 1 else call.add("pow", size, call.scalar(power, x))


def _root(call: OnnxCall, x: Value, power: int) -> Value:
    if power == 1:
        return x
    return call.add("sqrt", x) if power == 2 else call.add("pow", x, call.scalar(1 / power, x))


def global_average_pool(call: OnnxCall) -> Results:
    """Import GlobalAveragePool."""
    return over_image(call, call.input(0), "reduce_mean")


def global_max_pool(call: OnnxCall) -> Results:
    """Import GlobalMaxPool."""
    return over_image(call, call.input(0), "reduce_max")


@round_once
def global_lp_pool(call: OnnxCall) -> Results:
    """Import GlobalLpPool."""
    x, power = call.input(0), _power(call)
    return _root(call, over_image(call, _raise_to_power(call, x, power), "reduce_sum"), power)


def over_image(call: OnnxCall, x: Value, op: str) -> Value:
    """Return a reduction over all spatial dimensions of x [N, C, spatial..], which stay with length 1."""
    if x.rank < 3:
        raise call.fail(f"its input is {x.type}; batch, channels and at least one spatial dimension are needed")
    if x.rank > 4:
        return call.add(op, x, axes=tuple(range(2, x.rank)), keepdims=True)
    return from_nhwc(call, call.add(op, to_nhwc(call, x), axes=(1, 2), keepdims=True), x.rank - 2)


_POOLING: Mapping[str, Handler] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "GlobalLpPool": global_lp_pool,
}

HANDLERS: Mapping[str, Handler] = {**_REDUCTION, **_POOLING}
