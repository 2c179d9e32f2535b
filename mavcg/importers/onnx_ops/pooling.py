"""Handlers of pooling over windows and over whole images."""

import math
from collections.abc import Mapping

import numpy as np

from mavcg.importers.emitter import Value, constant
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.onnx_ops.images import PaddedWindow, from_nhwc, spatial_rank, to_nhwc, window
from mavcg.importers.onnx_ops.shape import count_size


def _window(call: OnnxCall, x: Value) -> PaddedWindow:
    spatial = spatial_rank(call, x)
    kernel = call.attr_ints("kernel_shape", length=spatial)
    return window(call, x.shape[2:], kernel, ceil=call.attr_bool("ceil_mode"))


def max_pool(call: OnnxCall) -> Results:
    """Import MaxPool; storage_order affects only the unsupported second output."""
    x = call.input(0)
    if len(call.required) > 1 and call.required[1]:
        raise call.unsupported("its output Indices is read", "the output Y alone")
    view = _window(call, x)
    made = call.add(
        "max_pool2d", to_nhwc(call, x), kernel=view.kernel, stride=view.stride, dilation=view.dilation, pads=view.pads
    )
    return from_nhwc(call, made, x.rank - 2)


def average_pool(call: OnnxCall) -> Results:
    """Import AveragePool."""
    return average_windows(call, call.input(0))


def average_windows(call: OnnxCall, x: Value) -> Value:
    """Return the means over windows by the node's attributes. x: [N, C, spatial..]."""
    view = _window(call, x)
    counted = view.given_pads if call.attr_bool("count_include_pad") else (0, 0, 0, 0)
    made = call.add(
        "avg_pool2d",
        to_nhwc(call, x),
        kernel=view.kernel,
        stride=view.stride,
        dilation=view.dilation,
        pads=view.pads,
        count_pads=counted,
    )
    return from_nhwc(call, made, x.rank - 2)


@round_once
def lp_pool(call: OnnxCall) -> Results:
    """Import LpPool: sums of |x|^p by a depthwise convolution with ones, then the p-th root."""
    x = call.input(0)
    power = _power(call)
    view = _window(call, x)
    channels = x.shape[1]
    count_size(call, channels * math.prod(view.kernel), 8)
    ones = constant(np.ones((channels, *view.kernel, 1)), x.dtype, "ones")
    sums = call.add(
        "conv2d",
        to_nhwc(call, _raise_to_power(call, x, power)),
        ones,
        stride=view.stride,
        dilation=view.dilation,
        pads=view.pads,
        groups=channels,
    )
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


HANDLERS: Mapping[str, Handler] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "GlobalLpPool": global_lp_pool,
}
