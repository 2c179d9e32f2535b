"""Handlers of convolutions and matrix products. Images are N, H, W, C, as in graphs.

Source of the shapes and of SAME and VALID: TensorFlow's documentation of tf.nn.convolution and of the operators of
TensorFlow Lite.
"""

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from mavcg.graph.ops.spatial import same_pads
from mavcg.importers.block_weights import multiply_blocks
from mavcg.importers.call import known_at_build
from mavcg.importers.tflite_ops.call import Handler, Results, TfliteCall
from mavcg.importers.value import Value, constant

SAME, VALID = 0, 1  # schema.fbs, Padding


def conv_2d(call: TfliteCall) -> Results:
    """Import CONV_2D with filters [O, KH, KW, I]; an image with n * I channels makes a convolution of n groups."""
    x, w = call.operand(0, rank=4), call.operand(1, rank=4)
    if not w.shape[3] or x.shape[3] % w.shape[3]:
        raise call.fail(f"the channels of the image {x.type} are not a multiple of those of the filters {w.type}")
    return _convolve(call, x, w, x.shape[3] // w.shape[3])


def depthwise_conv_2d(call: TfliteCall) -> Results:
    """Import DEPTHWISE_CONV_2D with filters [1, KH, KW, C * multiplier].

    Output channel c * multiplier + m reads input channel c.
    """
    x, w = call.operand(0, rank=4), call.operand(1, rank=4)
    if w.shape[0] != 1 or not x.shape[3] or w.shape[3] % x.shape[3]:
        raise call.fail(
            f"filters {w.type} for an image {x.type} are not [1, height, width, a multiple of the image's channels]"
        )
    return _convolve(call, x, call.transpose(w, (3, 1, 2, 0)), x.shape[3])


def _convolve(call: TfliteCall, x: Value, w: Value, groups: int) -> Value:
    stride = call.positive("StrideH", "StrideW")
    dilation = call.positive("DilationHFactor", "DilationWFactor")
    attrs = {
        "stride": stride,
        "dilation": dilation,
        "pads": pads_of(call, x.shape[1:3], w.shape[1:3], stride, dilation),
    }
    return call.activate(call.add("conv2d", x, w, bias(call, 2, 0, 1, w.shape[0]), groups=groups, **attrs))


def pads_of(
    call: TfliteCall,
    lengths: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int] = (1, 1),
) -> tuple[int, int, int, int]:
    """Return the pads (top, left, bottom, right) of the operator's option Padding.

    VALID: none. SAME: pads for ceil(length / stride) windows; an odd total has its larger part at the bottom or right.
    lengths, kernel, stride, dilation: of rows and columns.
    """
    padding = call.option("Padding")
    if padding not in (SAME, VALID):
        raise call.fail(f"unknown padding {padding}; known: SAME (0), VALID (1)")
    if padding == VALID:
        return 0, 0, 0, 0
    (top, left), (bottom, right) = same_pads(lengths, kernel, stride, dilation)
    return top, left, bottom, right


def bias(call: TfliteCall, i: int, image: int, weights: int, channels: int) -> Value | None:
    """Return the bias, input i, as [channels]; None if absent. image, weights: indices of those inputs.

    The bias of an operator on 8-bit integers is i32 with the product of image's and weights' scales as its scale; it is
    dequantized.
    """
    value = call.maybe(i)
    if value is None:
        return None
    if value.type.elements != channels:
        raise call.fail(f"a bias {value.type} does not have {channels} elements, one for each output channel")
    value = call.reshape(value, (channels,))
    x, w = call.tensor(image), call.tensor(weights)
    if value.dtype == "f16":
        return call.cast(value, "f32")
    if value.dtype != "i32" or not x.eight_bit or not w.eight_bit:
        return value
    assert x.quant is not None and w.quant is not None
    scale = (x.quant.scale * w.quant.scale).astype(np.float32)
    if not bool((np.isfinite(scale) & (scale > 0)).all()):
        raise call.fail("the product of the scales of image and weights is not a positive number")
    if scale.size not in (1, channels):
        raise call.fail(f"{scale.size} scales do not match {channels} output channels")
    shape = () if scale.size == 1 else scale.shape
    parts = constant(scale.reshape(shape), stem="scale"), constant(np.zeros(shape), "i32", stem="zero")
    return call.add("dequantize", value, *parts, axis=0)


@known_at_build("output_shape")
def transpose_conv(call: TfliteCall) -> Results:
    """Import TRANSPOSE_CONV: input 0 is the result's shape, input 1 the filters, input 2 the image, input 3 the bias.

    Pads are those of the forward convolution that maps the result to the image.
    """
    sizes = call.ints(0, "output_shape", 4)
    w, x = call.operand(1, rank=4), call.operand(2, rank=4)
    stride = call.positive("StrideH", "StrideW")
    call.check_shape(sizes, x)
    pads = pads_of(call, sizes[1:3], w.shape[1:3], stride)
    after, extra = [], []
    for axis in (0, 1):
        full = (x.shape[1 + axis] - 1) * stride[axis] + w.shape[1 + axis]
        rest = full - pads[axis] - sizes[1 + axis]
        after.append(max(0, rest))
        extra.append(max(0, -rest))
    made = call.add(
        "conv_transpose2d",
        x,
        w,
        bias(call, 3, 2, 1, w.shape[0]),
        stride=stride,
        pads=(pads[0], pads[1], after[0], after[1]),
        output_pads=tuple(extra),
    )
    if made.shape != sizes:
        raise call.fail(f"the result is {made.type}, but output_shape says {list(sizes)}")
    return call.activate(made)


_CUSTOM = struct.Struct("<3i")  # TfLiteTransposeConvParams: padding, stride_width, stride_height
_PADDINGS = {1: "SAME", 2: "VALID"}  # TfLitePadding


def convolution_2d_transpose_bias(call: TfliteCall) -> Results:
    """Import MediaPipe's custom transposed convolution of an image, filters [out, height, width, in] and a bias.

    The result's size is the image's times the strides (SAME), or all that the filters reach (VALID). Forms that crop
    rows or columns are not supported, because no runtime was available to compare with.
    Source: options and inputs as in mediapipe/util/tflite/operations/transpose_conv_bias.cc (Apache 2.0 licence).
    """
    raw = call.options.get("CustomOptions", b"")
    if len(raw) != _CUSTOM.size:
        raise call.fail(f"its options have {len(raw)} bytes, not {_CUSTOM.size}")
    padding, stride_w, stride_h = _CUSTOM.unpack(raw)
    if padding not in _PADDINGS or stride_w < 1 or stride_h < 1:
        raise call.fail(
            f"its options are padding {padding} and strides {stride_h} x {stride_w}; "
            "padding must be 1 or 2, strides above 0"
        )
    x, w = call.operand(0, rank=4), call.operand(1, rank=4)
    stride = (stride_h, stride_w)
    if _PADDINGS[padding] == "SAME" and any(w.shape[1 + axis] != stride[axis] for axis in (0, 1)):
        given = f"SAME padding of {w.shape[1]}x{w.shape[2]} filters with strides {stride_h}x{stride_w}"
        raise call.unsupported(given, "filters as large as the strides, or VALID padding")
    return call.add(
        "conv_transpose2d", x, w, bias(call, 2, 0, 1, w.shape[0]), stride=stride, pads=(0, 0, 0, 0), output_pads=(0, 0)
    )


def fully_connected(call: TfliteCall) -> Results:
    """Import FULLY_CONNECTED: the input as rows of `depth` elements, times weights [units, depth] transposed.

    Weights of 4 bits, or with scales of blocks, stay packed. Beside an f32 input of this operator they multiply an
    input of 8 bits, quantised in the run, as in LiteRT; after a DEQUANTIZE the input stays f32.
    """
    x, w = call.operand(0), call.input(1, rank=2)
    if call.option("WeightsFormat", 0) != 0:
        raise call.unsupported("weights in a shuffled format", "the default format")
    units, depth = w.shape
    packed = call.packed_rows(1) if x.dtype == "f32" and not call.eight_bit else None
    if not depth or x.type.elements % depth:
        raise call.fail(f"{x.type} does not divide into rows of {depth} elements, as the weights {w.type} need")
    keep = bool(call.option("KeepNumDims", False))
    if keep and (not x.rank or x.shape[-1] != depth):
        raise call.fail(
            f"the last dimension of {x.type} does not have the {depth} elements that the weights {w.type} need"
        )
    rows, added = call.reshape(x, (x.type.elements // depth, depth)), bias(call, 2, 0, 1, units)
    if packed is not None:
        made = multiply_blocks(call, rows, packed, quantize=w.dtype == "i8", bias=added)
    else:
        made = call.add("matmul", rows, call.operand(1), added, transpose_b=True)
    return call.activate(call.reshape(made, (*x.shape[:-1], units)) if keep else made)


def batch_matmul(call: TfliteCall) -> Results:
    """Import BATCH_MATMUL: NumPy's matmul, with the last two dimensions of each side swapped if an option says so."""
    a, b = call.operand(0, rank_min=2), call.operand(1, rank_min=2)
    if call.option("AdjX", False):
        a = call.transpose(a, (*range(a.rank - 2), a.rank - 1, a.rank - 2))
    return call.add("matmul", a, b, transpose_b=bool(call.option("AdjY", False)))


HANDLERS: Mapping[str, Handler] = {
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "TRANSPOSE_CONV": transpose_conv,
    "CUSTOM Convolution2DTransposeBias": convolution_2d_transpose_bias,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": batch_matmul,
}
