"""Handlers of Convolution, Deconvolution, InnerProduct and Pooling.

Caffe rounds the number of a pool's windows up; windows that extend beyond the image's end are cut off.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mavcg.importers.caffe_ops.call import CaffeCall, LayerType, Results
from mavcg.importers.value import Value
from mavcg.importers.windows import LARGEST_STEP, LARGEST_WINDOW, transposed_filter

_FILLERS = ("weight_filler", "bias_filler", "engine", "force_nd_im2col")
_FIELDS = (
    "num_output",
    "bias_term",
    "pad",
    "pad_h",
    "pad_w",
    "kernel_size",
    "kernel_h",
    "kernel_w",
    "group",
    "stride",
    "stride_h",
    "stride_w",
    "axis",
    "dilation",
)


def _outputs(call: CaffeCall) -> int:
    if not call.options.has("num_output"):
        raise call.fail("num_output is missing")
    return call.at_least(1, "num_output", call.options.integer("num_output", 0))


def _dilation(call: CaffeCall) -> tuple[int, int]:
    values = call.options.integers("dilation") or (1,)
    if len(values) > 2:
        raise call.fail(f"{len(values)} values of dilation; 1 or 2 are needed")
    for value in values:
        call.at_least(1, "dilation", value)
    return values[0], values[-1]


def _bias(call: CaffeCall, length: int) -> Value | None:
    return call.blob(1, (length,), "bias") if call.options.boolean("bias_term", True) else None


def convolution(call: CaffeCall) -> Results:
    """Import Convolution (blob 0: [O, C/group, KH, KW]) and Deconvolution, its transpose ([C, O/group, KH, KW])."""
    x, transposed = call.image(), call.op == "Deconvolution"
    if call.axis_option(x.rank, 1) != 1:
        raise call.unsupported(f"axis {call.options.integer('axis', 1)}", "axis 1, channels")
    out_ch, in_ch = _outputs(call), x.shape[1]
    group = call.at_least(1, "group", call.options.integer("group", 1))
    if in_ch % group or out_ch % group:
        raise call.fail(f"{in_ch} input and {out_ch} output channels in {group} groups")
    kernel = call.along_h_and_w("kernel_size", "kernel", None, 1)
    stride = call.along_h_and_w("stride", "stride", 1, 1)
    pad_h, pad_w = call.along_h_and_w("pad", "pad", 0, 0)
    steps = {"stride": stride, "dilation": _dilation(call), "pads": (pad_h, pad_w, pad_h, pad_w), "groups": group}
    if not transposed:
        w = call.blob(0, (out_ch, in_ch // group, *kernel), "weights")
        return call.nchw(call.add("conv2d", call.nhwc(x), call.nhwc(w), _bias(call, out_ch), **steps))
    w = call.blob(0, (in_ch, out_ch // group, *kernel), "weights")
    w = transposed_filter(call, w, group)
    return call.nchw(call.add("conv_transpose2d", call.nhwc(x), w, _bias(call, out_ch), **steps))


def inner_product(call: CaffeCall) -> Results:
    """Import InnerProduct: the product of all dimensions from an axis on with weights [O, K], or [K, O] if
    transposed."""
    x = call.input(0, rank_min=1)
    axis, outputs = call.axis_option(x.rank, 1), _outputs(call)
    depth = math.prod(x.shape[axis:])
    transpose = call.options.boolean("transpose", False)
    if depth > LARGEST_STEP:
        raise call.fail(f"rows of {depth} elements; at most {LARGEST_STEP}")
    w = call.blob(0, (depth, outputs) if transpose else (outputs, depth), "weights")
    rows = call.reshape(x, (math.prod(x.shape[:axis]), depth))
    made = call.add("matmul", rows, w, _bias(call, outputs), transpose_b=not transpose)
    return call.reshape(made, (*x.shape[:axis], outputs))


_CONVOLUTION: Mapping[str, LayerType] = {
    "Convolution": LayerType(convolution, "convolution_param", _FIELDS, _FILLERS),
    "Deconvolution": LayerType(convolution, "convolution_param", _FIELDS, _FILLERS),
    "InnerProduct": LayerType(
        inner_product, "inner_product_param", ("num_output", "bias_term", "axis", "transpose"), _FILLERS
    ),
}


@dataclass(frozen=True)
class _Windows:
    """The windows along one axis. count: their number. end: pad behind the image that the last window needs."""

    count: int
    end: int


def pooling(call: CaffeCall) -> Results:
    """Import Pooling by maximum or mean, in windows or over the whole image."""
    x = call.image()
    method = call.options.choice("pool", ("MAX", "AVE", "STOCHASTIC"))
    if method == "STOCHASTIC":
        raise call.unsupported("pool STOCHASTIC", "MAX, AVE")
    if any(call.read[1:]) or (call.tops > 1 and method != "MAX"):
        raise call.unsupported("its second top, the positions of the largest elements, is read", "the first top alone")
    if call.options.boolean("global_pooling", False):
        result = _over_image(call, x, method)
    else:
        result = _in_windows(call, x, method)
    return (result,) * call.tops


def _over_image(call: CaffeCall, x: Value, method: str) -> Value:
    for name in ("kernel_size", "kernel_h", "kernel_w"):
        if call.options.has(name):
            raise call.fail(f"global_pooling with {name}; the window is the image")
    pads, strides = call.along_h_and_w("pad", "pad", 0, 0), call.along_h_and_w("stride", "stride", 1, 1)
    if any(pads) or strides != (1, 1):
        raise call.fail(f"global_pooling with pads {list(pads)} and strides {list(strides)}; 0 and 1 are needed")
    op = "reduce_max" if method == "MAX" else "reduce_mean"
    return call.nchw(call.add(op, call.nhwc(x), axes=(1, 2), keepdims=True))


def _in_windows(call: CaffeCall, x: Value, method: str) -> Value:
    kernel = call.along_h_and_w("kernel_size", "kernel", None, 1)
    stride, pads = call.along_h_and_w("stride", "stride", 1, 1), call.along_h_and_w("pad", "pad", 0, 0)
    if any(p >= k for p, k in zip(pads, kernel, strict=True)):
        raise call.fail(f"pads {list(pads)} with a kernel of {list(kernel)}; smaller ones are needed")
    up = call.options.choice("round_mode", ("CEIL", "FLOOR")) == "CEIL"
    h, w = (_windows(call, x.shape[2 + i], kernel[i], stride[i], pads[i], up, cut=any(pads)) for i in (0, 1))
    attrs = {"kernel": kernel, "stride": stride, "pads": (*pads, h.end, w.end)}
    if method == "MAX":
        return call.nchw(call.add("max_pool2d", call.nhwc(x), **attrs))
    # A mean's divisor counts positions in the file's pads, but not those behind them.
    return call.nchw(call.add("avg_pool2d", call.nhwc(x), count_pads=(*pads, *pads), **attrs))


def _windows(call: CaffeCall, length: int, kernel: int, stride: int, pad: int, up: bool, cut: bool) -> _Windows:
    """Return the windows over an axis of `length`. up: round their number up. cut: omit a last window behind the
    image."""
    room = length + 2 * pad - kernel
    count = (-(-room // stride) if up else room // stride) + 1
    if cut and (count - 1) * stride >= length + pad:
        count -= 1
    if count < 1:
        raise call.fail(f"a window of {kernel} does not fit into {length} with pads of {pad}")
    if count * kernel > LARGEST_WINDOW:
        raise call.fail(f"{count} windows of {kernel}; at most {LARGEST_WINDOW} positions in all")
    last = (count - 1) * stride - pad
    if last >= length:
        raise call.unsupported(
            f"its last window begins at {last}, behind the {length} elements", "windows that contain an element"
        )
    return _Windows(count, max(last + kernel - length, 0))


_POOL_FIELDS = (
    "pool",
    "pad",
    "pad_h",
    "pad_w",
    "kernel_size",
    "kernel_h",
    "kernel_w",
    "stride",
    "stride_h",
    "stride_w",
    "global_pooling",
    "round_mode",
)
_POOLING: Mapping[str, LayerType] = {"Pooling": LayerType(pooling, "pooling_param", _POOL_FIELDS)}

LAYERS: Mapping[str, LayerType] = {**_CONVOLUTION, **_POOLING}
