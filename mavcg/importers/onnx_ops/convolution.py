"""Handlers of Conv, ConvTranspose and matrix products."""

from collections.abc import Mapping

from mavcg.importers.block_weights import block_weights, multiply_blocks
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.onnx_ops.images import (
    Windows,
    from_nhwc,
    pair,
    spatial_rank,
    stride_and_dilation,
    to_nhwc,
    unknown_padding,
    window,
    windows,
)
from mavcg.importers.onnx_ops.volumes import convolve_volume, is_volume, transposed_volume
from mavcg.importers.value import Value
from mavcg.importers.windows import LARGEST_STEP, transposed_filter


def matmul(call: OnnxCall) -> Results:
    """Import MatMul."""
    return multiply(call, call.input(0), call.input(1))


def multiply(call: OnnxCall, a: Value, b: Value) -> Value:
    """Return the product as NumPy's matmul defines it, including vectors."""
    if not a.rank or not b.rank:
        raise call.fail(f"a product of {a.type} and {b.type}; each needs a dimension")
    weights = block_weights(b)
    if weights is not None and a.shape[-1] == b.shape[0] and a.dtype == "f32" and not a.is_constant:
        return multiply_blocks(call, a, weights)
    row, column = a.rank == 1, b.rank == 1
    if row:
        a = call.reshape(a, (1, *a.shape))
    if column:
        b = call.reshape(b, (*b.shape, 1))
    made = call.add("matmul", a, b)
    shape = list(made.shape)
    if column:
        del shape[-1]
    if row:
        del shape[-1 if column else -2]
    return call.reshape(made, shape)


@round_once
def gemm(call: OnnxCall) -> Results:
    """Import Gemm: alpha * A' * B' + beta * C."""
    return gemm_of(call, call.input(0, rank=2), call.input(1, rank=2), call.maybe(2))


def gemm_of(call: OnnxCall, a: Value, b: Value, c: Value | None) -> Value:
    """Return alpha * A' * B' + beta * C, with A and B transposed if transA and transB are set."""
    alpha, beta = call.attr_float("alpha", 1.0), call.attr_float("beta", 1.0)
    if call.attr_bool("transA"):
        a = call.transpose(a, (1, 0))
    transposed = call.attr_bool("transB")
    if transposed and b.is_constant:
        b, transposed = call.transpose(b, (1, 0)), False
    if alpha != 1.0:
        if b.is_constant:
            b = call.add("mul", b, call.scalar(alpha, b))
        else:
            a = call.add("mul", a, call.scalar(alpha, a))
    if c is None or beta == 0.0:
        return call.add("matmul", a, b, transpose_b=transposed)
    if beta != 1.0:
        c = call.add("mul", c, call.scalar(beta, c))
    width = b.shape[0 if transposed else 1]
    if c.shape == (width,) or (c.shape == (1, width) and c.is_constant):
        return call.add("matmul", a, b, call.reshape(c, (width,)), transpose_b=transposed)
    made = call.add("matmul", a, b, transpose_b=transposed)
    total = call.add("add", made, c)
    if total.shape != made.shape:
        raise call.fail(f"C {c.type} does not broadcast to the product's {made.type}")
    return total


_LINEAR: Mapping[str, Handler] = {"MatMul": matmul, "Gemm": gemm}


def conv(call: OnnxCall) -> Results:
    """Import Conv."""
    return convolve(call, call.input(0), call.input(1), call.maybe(2))


def convolve(call: OnnxCall, x: Value, w: Value, bias: Value | None, exact: bool = False) -> Value:
    """Return a convolution with the node's attributes. x: [N, C, spatial..]; w: [O, C/groups, spatial..]; bias: [O].

    exact: True for integers whose sums the type can hold; then no algorithm may round.
    """
    groups = call.attr_int("group", 1)
    check_filter(call, x, w)
    if is_volume(x) and not exact:
        return convolve_volume(call, x, w, bias, windows(call, x.shape[2:], kernel_shape(call, w)), groups)
    return _convolve_images(call, "conv2d", x, w, bias, groups=groups, exact=exact)


def convolve_integers(call: OnnxCall, x: Value, w: Value, zero: Value) -> Value:
    """Return sums of (x - zero) * w as i32, with the node's attributes.

    x: 8 bits, [N, C, spatial..]; w: i16, [O, C/groups, spatial..]; zero: a scalar. Pads have the value of the zero
    point.
    """
    check_filter(call, x, w)
    return _convolve_images(call, "iconv2d", x, w, zero, groups=call.attr_int("group", 1))


def _convolve_images(call: OnnxCall, op: str, x: Value, w: Value, third: Value | None, **attrs: int) -> Value:
    """Return conv2d or iconv2d of images and filters of one or two spatial dimensions. third: the third input."""
    spatial = spatial_rank(call, x)
    view = window(call, x.shape[2:], kernel_shape(call, w))
    made = call.add(op, to_nhwc(call, x), to_nhwc(call, w), third, **view.steps, **attrs)
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
    spatial = 3 if is_volume(x) else spatial_rank(call, x)
    check_filter(call, x, w)
    groups, kernel = call.attr_int("group", 1), kernel_shape(call, w)
    in_ch, out_ch = w.shape[:2]
    if groups < 1 or in_ch % groups or in_ch != x.shape[1]:
        raise call.fail(f"a filter {w.type} in {groups} groups for an image {x.type}")
    stride, dilation = stride_and_dilation(call, kernel)
    pads, extra = _transposed_pads(call, x.shape[2:], kernel, stride, dilation)
    if any(not 0 <= v <= LARGEST_STEP for v in (*pads, *extra)):
        raise call.unsupported(f"pads {list(pads)} with output_padding {list(extra)}", f"0 to {LARGEST_STEP}")
    if spatial == 3:
        view = Windows(kernel, stride, dilation, pads[:3], pads[3:], pads[3:], ())
        return transposed_volume(call, x, w, bias, view, extra, groups)
    if spatial == 1:
        w = call.reshape(w, (in_ch, out_ch, 1, *kernel))
    w = transposed_filter(call, w, groups)
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
        raise unknown_padding(call, mode)
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


_CONVOLUTION: Mapping[str, Handler] = {"Conv": conv, "ConvTranspose": conv_transpose}

HANDLERS: Mapping[str, Handler] = {**_LINEAR, **_CONVOLUTION}
