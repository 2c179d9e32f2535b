"""Handlers of Convolution, Deconvolution and InnerProduct."""

import math
from collections.abc import Mapping

from mavcg.importers.caffe_ops.call import LARGEST_STEP, CaffeCall, LayerType, Results
from mavcg.importers.emitter import Value

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
    w = call.reshape(w, (group, in_ch // group, out_ch // group, *kernel))
    w = call.reshape(call.transpose(w, (0, 2, 3, 4, 1)), (out_ch, *kernel, in_ch // group))
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


LAYERS: Mapping[str, LayerType] = {
    "Convolution": LayerType(convolution, "convolution_param", _FIELDS, _FILLERS),
    "Deconvolution": LayerType(convolution, "convolution_param", _FIELDS, _FILLERS),
    "InnerProduct": LayerType(
        inner_product, "inner_product_param", ("num_output", "bias_term", "axis", "transpose"), _FILLERS
    ),
}
