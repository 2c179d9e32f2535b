"""Handlers of Conv and ConvTranspose."""

from collections.abc import Mapping

from mavcg.importers.emitter import Value
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_ops.images import LARGEST_STEP, from_nhwc, pair, spatial_rank, to_nhwc, window


def conv(call: OnnxCall) -> Results:
    """Import Conv."""
    return convolve(call, call.input(0), call.input(1), call.maybe(2))


def convolve(call: OnnxCall, x: Value, w: Value, bias: Value | None, exact: bool = False) -> Value:
    """Return a convolution with the node's attributes. x: [N, C, spatial..]; w: [O, C/groups, spatial..]; bias: [O].

    exact: True for integers whose sums the type can hold; then no algorithm may round.
    """
    spatial = spatial_rank(call, x)
    check_filter(call, x, w)
    groups = call.attr_int("group", 1)
    view = window(call, x.shape[2:], kernel_shape(call, w))
    made = call.add(
        "conv2d",
        to_nhwc(call, x),
        to_nhwc(call, w),
        bias,
        stride=view.stride,
        dilation=view.dilation,
        pads=view.pads,
        groups=groups,
        exact=exact,
    )
    return from_nhwc(call, made, spatial)


def convolve_integers(call: OnnxCall, x: Value, w: Value, zero: Value) -> Value:
    """Return sums of (x - zero) * w as i32, with the node's attributes.

    x: 8 bits, [N, C, spatial..]; w: i16, [O, C/groups, spatial..]; zero: a scalar. Pads have the value of the zero
    point.
    """
    spatial = spatial_rank(call, x)
    check_filter(call, x, w)
    view = window(call, x.shape[2:], kernel_shape(call, w))
    made = call.add(
        "iconv2d",
        to_nhwc(call, x),
        to_nhwc(call, w),
        zero,
        stride=view.stride,
        dilation=view.dilation,
        pads=view.pads,
        groups=call.attr_int("group", 1),
    )
    return from_nhwc(call, made, spatial)


def check_filter(call: OnnxCall, x: Value, w: Value) -> None:
    """Check that image and filter have equally many dimensions. Raises: MavcgError."""
    if w.rank != x.rank:
        raise call.fail(f"a filter {w.type} for an image {x.type}; as many dimensions are needed")


def kernel_shape(call: OnnxCall, w: Value) -> tuple[int, ...]:
    """Return the filter's spatial dimensions. Raises: MavcgError if the attribute kernel_shape differs."""
    declared = call.attr_ints("kernel_shape", w.shape[2:])
    if declared != w.shape[2:]:
        raise call.fail(f"kernel_shape {list(declared)} with a filter {w.type}")
    return declared


def conv_transpose(call: OnnxCall) -> Results:
    """Import ConvTranspose. ONNX's filter is [C, O/groups, spatial..]."""
    x, w, bias = call.input(0), call.input(1), call.maybe(2)
    spatial = spatial_rank(call, x)
    check_filter(call, x, w)
    groups, kernel = call.attr_int("group", 1), kernel_shape(call, w)
    in_ch, out_ch = w.shape[:2]
    if groups < 1 or in_ch % groups or in_ch != x.shape[1]:
        raise call.fail(f"a filter {w.type} in {groups} groups for an image {x.type}")
    stride = call.attr_ints("strides", (1,) * spatial, length=spatial)
    dilation = call.attr_ints("dilations", (1,) * spatial, length=spatial)
    for attribute, values in (("kernel_shape", kernel), ("strides", stride), ("dilations", dilation)):
        if any(not 1 <= v <= LARGEST_STEP for v in values):
            raise call.fail(f"{attribute} {list(values)}; each must be from 1 to {LARGEST_STEP}")
    pads, extra = _transposed_pads(call, x.shape[2:], kernel, stride, dilation)
    if any(not 0 <= v <= LARGEST_STEP for v in (*pads, *extra)):
        raise call.unsupported(f"pads {list(pads)} with output_padding {list(extra)}", f"0 to {LARGEST_STEP}")
    if spatial == 1:
        w = call.reshape(w, (in_ch, out_ch, 1, *kernel))
    w = call.reshape(w, (groups, in_ch // groups, out_ch, *w.shape[2:]))
    w = call.transpose(w, (0, 2, 3, 4, 1))
    w = call.reshape(w, (groups * out_ch, *w.shape[2:]))
    made = call.add(
        "conv_transpose2d",
        to_nhwc(call, x),
        w,
        bias,
        stride=pair(stride, 1),
        dilation=pair(dilation, 1),
        groups=groups,
        output_pads=pair(extra, 0),
        pads=(*pair(pads[:spatial], 0), *pair(pads[spatial:], 0)),
    )
    return from_nhwc(call, made, spatial)


def _transposed_pads(
    call: OnnxCall, image: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return (pads, output_padding) of a ConvTranspose, explicit for every auto_pad and output_shape."""
    spatial = len(image)
    mode = call.attr_str("auto_pad", "NOTSET")
    extra = list(call.attr_ints("output_padding", (0,) * spatial, length=spatial))
    if "output_shape" in call.attrs:
        required = call.attr_ints("output_shape")[-spatial:]
        if len(required) != spatial:
            raise call.fail(f"output_shape has {len(required)} entries where {spatial} are needed")
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        required = tuple(n * s for n, s in zip(image, stride, strict=True))
    elif mode in ("NOTSET", "VALID", ""):
        given = call.attr_ints("pads", (0,) * (2 * spatial), length=2 * spatial)
        return (0,) * (2 * spatial) if mode == "VALID" else given, tuple(extra)
    else:
        raise call.fail(f"auto_pad {mode!r}; there are NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    starts, ends = [], []
    for i in range(spatial):
        total = stride[i] * (image[i] - 1) + extra[i] + dilation[i] * (kernel[i] - 1) + 1 - required[i]
        if total < 0:
            # The requested shape is larger than the windows cover: zeros fill the end.
            extra[i], total = extra[i] - total, 0
        start = total // 2 if mode == "SAME_UPPER" else total - total // 2
        starts.append(start)
        ends.append(total - start)
    return (*starts, *ends), tuple(extra)


HANDLERS: Mapping[str, Handler] = {"Conv": conv, "ConvTranspose": conv_transpose}
