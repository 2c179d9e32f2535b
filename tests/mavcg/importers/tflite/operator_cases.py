"""A file of one operator for each operator of TFLite, in its forms."""

from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[[Any], tuple[int, ...]]
SAME, VALID = 0, 1


def rnd(*shape: int) -> Any:
    """Weights, the same every time."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def conv(x: tuple[int, ...], w: tuple[int, ...], **options: Any) -> Case:
    def case(m: Any) -> tuple[int, ...]:
        inputs = [m.input(x), m.constant(rnd(*w)), m.constant(rnd(w[0]))]
        return (m.op("CONV_2D", inputs, options="Conv2DOptions", **options),)

    return case


def depthwise(x: tuple[int, ...], w: tuple[int, ...], **options: Any) -> Case:
    def case(m: Any) -> tuple[int, ...]:
        inputs = [m.input(x), m.constant(rnd(*w)), m.constant(rnd(w[3]))]
        multiplier = w[3] // x[3]
        return (
            m.op("DEPTHWISE_CONV_2D", inputs, options="DepthwiseConv2DOptions", depthMultiplier=multiplier, **options),
        )

    return case


def transposed(out: tuple[int, ...], w: tuple[int, ...], x: tuple[int, ...], bias: bool = False, **o: Any) -> Case:
    def case(m: Any) -> tuple[int, ...]:
        inputs = [m.constant(list(out)), m.constant(rnd(*w)), m.input(x), *([m.constant(rnd(w[0]))] if bias else [])]
        return (m.op("TRANSPOSE_CONV", inputs, options="TransposeConvOptions", **o),)

    return case


def simple(name: str, *given: Any, out: Any = "f32", options: str = "", **fields: Any) -> Case:
    """given: a tuple is an input of that shape, with its dtype at the end where it is not f32; else a constant."""

    def case(m: Any) -> tuple[int, ...]:
        inputs = []
        for g in given:
            if isinstance(g, tuple) and g and isinstance(g[-1], str):
                inputs.append(m.input(g[:-1], g[-1]))
            else:
                inputs.append(m.input(g) if isinstance(g, tuple) else m.constant(g))
        if isinstance(out, list):
            return tuple(m.ops(name, inputs, out, options, **fields))
        return (m.op(name, inputs, out, options, **fields),)

    return case


def pool(
    name: str, x: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int], padding: int, act: int
) -> Case:
    fields = {"filterHeight": kernel[0], "filterWidth": kernel[1], "strideH": stride[0], "strideW": stride[1]}
    return simple(name, x, options="Pool2DOptions", padding=padding, fusedActivationFunction=act, **fields)


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


ONE = {"strideH": 1, "strideW": 1}
CONVOLUTIONS = {
    "1x1": conv((1, 5, 4, 3), (8, 1, 1, 3), padding=VALID, **ONE),
    "3x3-same": conv((2, 7, 6, 3), (5, 3, 3, 3), padding=SAME, **ONE),
    "3x3-same-2-even": conv((1, 8, 6, 2), (4, 3, 3, 2), padding=SAME, strideH=2, strideW=2),
    "3x3-same-2-odd": conv((1, 7, 9, 2), (4, 3, 3, 2), padding=SAME, strideH=2, strideW=2),
    "5x2-valid-3x1": conv((1, 11, 6, 2), (4, 5, 2, 2), padding=VALID, strideH=3, strideW=1),
    "2x2-same": conv((1, 5, 5, 1), (1, 2, 2, 1), padding=SAME, **ONE),
    "dilated": conv((1, 9, 9, 2), (3, 3, 3, 2), padding=SAME, dilationHFactor=2, dilationWFactor=3, **ONE),
    "dilated-valid": conv((1, 9, 9, 2), (3, 3, 3, 2), padding=VALID, dilationHFactor=2, dilationWFactor=2, **ONE),
    "groups": conv((1, 5, 4, 6), (8, 3, 3, 3), padding=SAME, **ONE),
    "relu": conv((1, 5, 4, 3), (8, 3, 3, 3), padding=SAME, fusedActivationFunction=1, **ONE),
    "relu-n1-1": conv((1, 5, 4, 3), (8, 3, 3, 3), padding=SAME, fusedActivationFunction=2, **ONE),
    "relu6": conv((1, 5, 4, 3), (8, 3, 3, 3), padding=SAME, fusedActivationFunction=3, **ONE),
    "stride-beyond-kernel": conv((1, 10, 10, 1), (2, 1, 1, 1), padding=SAME, strideH=3, strideW=4),
    "depthwise": depthwise((1, 7, 7, 4), (1, 3, 3, 4), padding=SAME, strideH=2, strideW=2),
    "depthwise-multiplier": depthwise((1, 6, 5, 3), (1, 3, 3, 6), padding=VALID, **ONE),
    "depthwise-one-channel": depthwise((1, 6, 5, 1), (1, 3, 2, 4), padding=SAME, **ONE),
    "depthwise-dilated": depthwise(
        (1, 9, 9, 2), (1, 3, 3, 2), padding=SAME, dilationHFactor=2, dilationWFactor=2, fusedActivationFunction=3, **ONE
    ),
    "transposed-same": transposed((1, 8, 8, 3), (3, 3, 3, 2), (1, 4, 4, 2), padding=SAME, strideH=2, strideW=2),
    "transposed-same-odd": transposed((1, 7, 9, 3), (3, 2, 4, 2), (1, 4, 5, 2), padding=SAME, strideH=2, strideW=2),
    "transposed-valid": transposed((1, 9, 9, 3), (3, 3, 3, 2), (1, 4, 4, 2), padding=VALID, strideH=2, strideW=2),
    "transposed-valid-more": transposed((1, 10, 9, 1), (1, 3, 3, 2), (1, 4, 4, 2), padding=VALID, strideH=2, strideW=2),
    "transposed-gap": transposed((1, 8, 8, 2), (2, 1, 1, 2), (1, 4, 4, 2), padding=SAME, strideH=2, strideW=2),
    "transposed-bias": transposed((1, 6, 6, 4), (4, 3, 3, 2), (1, 6, 6, 2), bias=True, padding=SAME, **ONE),
}
FULL = "FullyConnectedOptions"
PRODUCTS = {
    "fully-connected": simple("FULLY_CONNECTED", (3, 8), rnd(5, 8), rnd(5), options=FULL),
    "fully-connected-flattens": simple("FULLY_CONNECTED", (2, 2, 4), rnd(5, 8), rnd(5), options=FULL),
    "fully-connected-keeps": simple(
        "FULLY_CONNECTED", (2, 3, 8), rnd(5, 8), rnd(5), options=FULL, keepNumDims=True, fusedActivationFunction=1
    ),
    "fully-connected-two-inputs": simple("FULLY_CONNECTED", (3, 8), (5, 8), options=FULL),
    "batch-matmul": simple("BATCH_MATMUL", (2, 3, 4), (2, 4, 5), options="BatchMatMulOptions"),
    "batch-matmul-x": simple("BATCH_MATMUL", (2, 4, 3), (4, 5), options="BatchMatMulOptions", adjX=True),
    "batch-matmul-y": simple("BATCH_MATMUL", (2, 2, 3, 4), (2, 1, 5, 4), options="BatchMatMulOptions", adjY=True),
}
P = (1, 7, 6, 3)
POOLS = {
    f"{name.split('_')[0].lower()}-{kernel[0]}{kernel[1]}{stride[0]}{stride[1]}{padding}{act}": pool(
        name, P, kernel, stride, padding, act
    )
    for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
    for kernel, stride, padding, act in (
        ((2, 2), (2, 2), VALID, 0),
        ((3, 2), (2, 1), SAME, 0),
        ((3, 3), (3, 3), SAME, 3),
        ((7, 6), (1, 1), VALID, 1),
    )
}
UNARY = {
    name.lower(): simple(name, (2, 3, 5))
    for name in (
        "RELU",
        "RELU6",
        "RELU_N1_TO_1",
        "RELU_0_TO_1",
        "LOGISTIC",
        "TANH",
        "HARD_SWISH",
        "EXP",
        "NEG",
        "ABS",
        "FLOOR",
        "CEIL",
        "ROUND",
        "SIN",
        "COS",
        "SIGN",
        "ELU",
        "SQUARE",
        "ZEROS_LIKE",
    )
}
ACTIVATIONS = {
    "leaky": simple("LEAKY_RELU", (2, 7), options="LeakyReluOptions", alpha=0.3),
    "prelu": simple("PRELU", (1, 4, 3, 5), rnd(1, 1, 5)),
    "prelu-all": simple("PRELU", (2, 4, 3, 5), rnd(4, 3, 5)),
    "gelu": simple("GELU", (2, 7), options="GeluOptions"),
    "gelu-tanh": simple("GELU", (2, 7), options="GeluOptions", approximate=True),
    "softmax": simple("SOFTMAX", (2, 3, 7), options="SoftmaxOptions", beta=1.0),
    "softmax-beta": simple("SOFTMAX", (3, 7), options="SoftmaxOptions", beta=0.5),
    "log-softmax": simple("LOG_SOFTMAX", (3, 7)),
    "l2": simple("L2_NORMALIZATION", (2, 3, 4, 7), options="L2NormOptions"),
    "lrn": simple(
        "LOCAL_RESPONSE_NORMALIZATION",
        (1, 3, 2, 9),
        options="LocalResponseNormalizationOptions",
        radius=2,
        bias=1.5,
        alpha=0.3,
        beta=0.75,
    ),
    "lrn-wide": simple(
        "LOCAL_RESPONSE_NORMALIZATION",
        (1, 1, 2, 3),
        options="LocalResponseNormalizationOptions",
        radius=9,
        bias=1.0,
        alpha=0.1,
        beta=0.5,
    ),
}
SHAPES = (((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 1)), ((2, 3, 4), rnd(4)), (rnd(1, 3, 1), (2, 3, 4)))
BINARY = {
    f"{name.lower()}-{i}": simple(name, *shapes)
    for name in ("SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD")
    for i, shapes in enumerate(SHAPES)
} | {
    "add": simple("ADD", (2, 3), (2, 3), options="AddOptions"),
    "add-relu6": simple("ADD", (2, 3), (3,), options="AddOptions", fusedActivationFunction=3),
    "sub-relu": simple("SUB", (2, 3), (3,), options="SubOptions", fusedActivationFunction=1),
    "mul-relu1": simple("MUL", (2, 3), (2, 1), options="MulOptions", fusedActivationFunction=2),
    "div-relu": simple("DIV", (2, 3), (2, 3), options="DivOptions", fusedActivationFunction=1),
    "add-n": simple("ADD_N", (2, 3), (2, 3), (2, 3)),
    "add-i32": simple("ADD", (4, "i32"), (4, "i32"), out="i32", options="AddOptions"),
    "div-i32": simple("DIV", ints(7, -7, 7, -7), (4, "i32"), out="i32", options="DivOptions"),
    "floor-div-i32": simple("FLOOR_DIV", ints(7, -7, 9, -9), (4, "i32"), out="i32"),
    "floor-mod-i32": simple("FLOOR_MOD", ints(7, -7, 9, -9), (4, "i32"), out="i32"),
}
LOGIC = {
    **{
        name.lower(): simple(name, (2, 3, "i32"), (2, 3, "i32"), out="bool")
        for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    },
    "less-f32": simple("LESS", (2, 3), (3,), out="bool"),
    "and": simple("LOGICAL_AND", (6, "bool"), (6, "bool"), out="bool"),
    "or": simple("LOGICAL_OR", (6, "bool"), (6, "bool"), out="bool"),
    "not": simple("LOGICAL_NOT", (6, "bool"), out="bool"),
    "select": simple("SELECT", (2, 3, "bool"), (2, 3), (2, 3)),
    "select-rows": simple("SELECT", (4, "bool"), (4, 3), (4, 3)),
    "select-v2": simple("SELECT_V2", (2, 1, "bool"), (3,), (2, 3)),
    "all": simple("REDUCE_ALL", (2, 3, "bool"), ints(1), out="bool", options="ReducerOptions", keepDims=True),
    "any": simple("REDUCE_ANY", (2, 3, "bool"), ints(0), out="bool", options="ReducerOptions"),
}
REDUCTIONS = {
    f"{name.lower()}-{i}": simple(name, (2, 3, 4, 5), ints(*axes), options="ReducerOptions", keepDims=keep)
    for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
    for i, (axes, keep) in enumerate((((1, 2), True), ((-1,), False), ((0, 1, 2, 3), False), ((2, 2, -2), True)))
} | {
    "argmax": simple("ARG_MAX", (2, 3, 5), ints(-1), out="i64", options="ArgMaxOptions", outputType=4),
    "argmin": simple("ARG_MIN", (2, 3, 5), ints(1), out="i32", options="ArgMinOptions", outputType=2),
    "cumsum": simple("CUMSUM", (2, 3, 5), ints(-1), options="CumsumOptions"),
    "cumsum-others": simple("CUMSUM", (2, 3, 5), ints(1), options="CumsumOptions", exclusive=True, reverse=True),
}
STRIDED = "StridedSliceOptions"


def strided(begin: Any, end: Any, strides: Any, **masks: int) -> Case:
    return simple("STRIDED_SLICE", (4, 5, 6), ints(*begin), ints(*end), ints(*strides), options=STRIDED, **masks)


MOVES = {
    "reshape": simple("RESHAPE", (2, 3, 4), ints(4, -1), options="ReshapeOptions"),
    "reshape-option": simple("RESHAPE", (2, 3, 4), options="ReshapeOptions", newShape=[6, 4]),
    "squeeze": simple("SQUEEZE", (1, 3, 1, 4), options="SqueezeOptions"),
    "squeeze-one": simple("SQUEEZE", (1, 3, 1, 4), options="SqueezeOptions", squeezeDims=[-2]),
    "expand": simple("EXPAND_DIMS", (3, 4), ints(-1)),
    "expand-1": simple("EXPAND_DIMS", (3, 4), ints(1)),
    "transpose": simple("TRANSPOSE", (2, 3, 4), ints(2, 0, 1)),
    "concat": simple("CONCATENATION", (2, 3), rnd(2, 4), (2, 1), options="ConcatenationOptions", axis=-1),
    "split": simple("SPLIT", ints(-1), (2, 6), out=["f32"] * 3, options="SplitOptions", numSplits=3),
    "split-v": simple(
        "SPLIT_V", (7, 2), ints(2, -1, 1), ints(0), out=["f32"] * 3, options="SplitVOptions", numSplits=3
    ),
    "pack": simple("PACK", (2, 3), (2, 3), options="PackOptions", valuesCount=2, axis=-1),
    "unpack": simple("UNPACK", (2, 3, 4), out=["f32"] * 3, options="UnpackOptions", num=3, axis=1),
    # LiteRT compares with the shape that the file gives here.
    "slice": simple("SLICE", (4, 5, 6), ints(1, 0, 2), ints(2, -1, 3), shape=(2, 5, 3)),
    "strided": strided((1, 0, 5), (3, 5, 0), (1, 2, -2)),
    "strided-negative": strided((-3, -1, 0), (-1, -4, 100), (1, -1, 1)),
    "strided-masks": strided((1, 2, 1), (2, 3, 4), (1, 1, 2), beginMask=1, endMask=2),
    "strided-shrink": strided((1, 0, -2), (2, 5, 0), (1, 1, 1), shrinkAxisMask=5),
    "strided-ellipsis": strided((0, 1), (0, 4), (1, 1), ellipsisMask=1),
    "strided-new": strided((1, 0, 2), (3, 0, 4), (1, 1, 1), newAxisMask=2),
    "strided-short": strided((1,), (3,), (1,)),
    "strided-turned": strided((0, 0, 0), (0, 0, 0), (-1, 1, -1), beginMask=7, endMask=7),
    "reverse": simple("REVERSE_V2", (2, 3, 4), ints(1)),
    "pad": simple("PAD", (2, 3), np.array([[1, 0], [2, 3]], np.int32)),
    "pad-v2": simple("PADV2", (2, 3), np.array([[1, 0], [2, 3]], np.int32), np.array([1.5], np.float32)),
    "mirror": simple("MIRROR_PAD", (3, 4), np.array([[1, 2], [3, 0]], np.int32), options="MirrorPadOptions"),
    "mirror-symmetric": simple(
        "MIRROR_PAD", (3, 4), np.array([[1, 3], [4, 0]], np.int32), options="MirrorPadOptions", mode=1
    ),
    "gather": simple("GATHER", (4, 3, 2), ints(2, 0, 2), options="GatherOptions", axis=1),
    "gather-matrix": simple("GATHER", (5, 3), np.array([[1, 2], [3, 4]], np.int32), options="GatherOptions", axis=0),
    "gather-nd": simple("GATHER_ND", (4, 3, 2), np.array([[2, 0], [3, 1]], np.int32)),
    "dynamic-update-slice": simple("DYNAMIC_UPDATE_SLICE", (4, 3, 2), (2, 3, 2), np.array([1, 0, 0], np.int32)),
    "scatter-nd": simple("SCATTER_ND", np.array([[2], [0], [2]], np.int32), (3, 5), ints(4, 5)),
    "lookup": simple("EMBEDDING_LOOKUP", ints(2, 0, 1), (4, 3)),
    "top": simple("TOPK_V2", (2, 3, 7), np.int32(3), out=["f32", "i32"]),
    "tile": simple("TILE", (2, 3), ints(2, 3)),
    "broadcast": simple("BROADCAST_TO", (3, 1), ints(2, 3, 4)),
    "fill": simple("FILL", ints(2, 3), np.float32(2.5)),
    "cast-i32": simple("CAST", (7,), out="i32", options="CastOptions", inDataType=0, outDataType=2),
    "cast-f32": simple("CAST", (7, "i32"), options="CastOptions", inDataType=2, outDataType=0),
    "cast-bool": simple("CAST", (7, "bool"), options="CastOptions", inDataType=6, outDataType=0),
    "shape": simple("SHAPE", (7, 2, 3), out="i32", options="ShapeOptions", outType=2),
    "range": simple("RANGE", np.int32(3), np.int32(17), np.int32(4), out="i32"),
    "range-down": simple("RANGE", np.float32(2.5), np.float32(-1), np.float32(-0.5)),
    "rank": simple("RANK", (7, 2, 3), out="i32"),
}
RESIZES = {
    f"{kind}-{i}": simple(
        "RESIZE_BILINEAR" if kind == "bilinear" else "RESIZE_NEAREST_NEIGHBOR",
        x,
        ints(*size),
        options="ResizeBilinearOptions" if kind == "bilinear" else "ResizeNearestNeighborOptions",
        alignCorners=mode == 1,
        halfPixelCenters=mode == 2,
    )
    for kind in ("bilinear", "nearest")
    for i, (x, size, mode) in enumerate(
        (x, size, mode)
        for x, size in (
            ((1, 4, 5, 3), (8, 10)),
            ((2, 5, 7, 1), (3, 4)),
            ((1, 3, 3, 2), (7, 3)),
            ((1, 6, 5, 1), (1, 1)),
            ((1, 1, 1, 2), (3, 2)),
            ((1, 4, 6, 2), (5, 11)),
        )
        for mode in (0, 1, 2)
    )
}
BLOCKS = {
    "depth-to-space": simple("DEPTH_TO_SPACE", (1, 2, 3, 12), options="DepthToSpaceOptions", blockSize=2),
    "space-to-depth": simple("SPACE_TO_DEPTH", (1, 4, 6, 3), options="SpaceToDepthOptions", blockSize=2),
    "space-to-batch": simple("SPACE_TO_BATCH_ND", (2, 4, 6, 3), ints(2, 3), np.array([[0, 0], [0, 0]], np.int32)),
    "space-to-batch-pads": simple("SPACE_TO_BATCH_ND", (1, 3, 6, 2), ints(2, 2), np.array([[1, 0], [1, 1]], np.int32)),
    "space-to-batch-3d": simple("SPACE_TO_BATCH_ND", (1, 4, 2), ints(2), np.array([[1, 1]], np.int32)),
    "batch-to-space": simple("BATCH_TO_SPACE_ND", (8, 2, 3, 2), ints(2, 2), np.array([[1, 0], [0, 2]], np.int32)),
}
CHOICES = {
    "suppressed": simple(
        "NON_MAX_SUPPRESSION_V4", (9, 4), (9,), ints(4)[0], np.float32(0.5), np.float32(0.1), out=["i32", "i32"]
    ),
    "suppressed-scores": simple(
        "NON_MAX_SUPPRESSION_V5",
        (9, 4),
        (9,),
        ints(4)[0],
        np.float32(0.5),
        np.float32(0.1),
        np.float32(0),
        out=["i32", "f32", "i32"],
    ),
}
CASES = {
    **CHOICES,
    **CONVOLUTIONS,
    **PRODUCTS,
    **POOLS,
    **UNARY,
    **ACTIVATIONS,
    **BINARY,
    **LOGIC,
    **REDUCTIONS,
    **MOVES,
    **RESIZES,
    **BLOCKS,
}
