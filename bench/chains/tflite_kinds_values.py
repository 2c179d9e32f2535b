"""Operators of random TFLite chains that compute: element by element, windows, products, sums, 8 bits."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.chains.growing import UnsuitableError
from bench.chains.tflite_growing import F32, INT8, Kind, TfliteGrowing
from bench.differential.part import Array
from bench.tflite_file import Quantised

_FIXED: Mapping[str, Quantised] = {
    "LOGISTIC": Quantised(np.float32(1 / 256), -128),
    "TANH": Quantised(np.float32(1 / 128), 0),
    "SOFTMAX": Quantised(np.float32(1 / 256), -128),
}


def unary(op: str, options: str = "", **fields: Any) -> Kind:
    return lambda g: g.arithmetic(op, [g.tensor()], _FIXED.get(op), options=options, **fields)


def binary(op: str, options: str = "") -> Kind:
    def add_to(g: TfliteGrowing) -> None:
        x = g.tensor()
        y = g.tensor(lambda v: v.ndim <= g.real[x].ndim)
        other, shape = g.shape(y), g.shape(x)
        offset = len(shape) - len(other)
        unlike = [at for at, n in enumerate(other) if n not in (1, shape[offset + at])]
        if unlike:
            y = g.arithmetic(g.pick("MEAN", "SUM"), [y, g.ints(unlike)], options="ReducerOptions", keepDims=True)
        if op == "DIV":
            y = g.arithmetic(
                "ADD", [g.move("ABS", y), g.constant(0.5, np.float32)], options="AddOptions", fusedActivationFunction=0
            )
        fields = {"fusedActivationFunction": g.pick(0, 0, 1, 3)} if options else {}
        given = [x, y] if op == "DIV" or g.pick(0, 1) else [y, x]
        g.arithmetic(op, given, options=options, **fields)

    return add_to


def extreme(g: TfliteGrowing) -> None:
    """MAXIMUM and MINIMUM of tensors with the same parameters."""
    x = g.tensor()
    y = g.tensor(lambda v: v.shape == g.shape(x))
    if g.kind == INT8 and g.quantised[x] != g.quantised[y]:
        raise UnsuitableError("parameters")
    g.add(g.pick("MAXIMUM", "MINIMUM"), [x, y], g.dtypes[x], "MaximumMinimumOptions", g.quantised.get(x))


def reduction(g: TfliteGrowing) -> None:
    x = g.tensor()
    rank = g.real[x].ndim
    axes = [int(a) for a in g.rng.permutation(rank)[: int(g.rng.integers(1, rank + 1))]]
    axes = [a - rank if g.rng.random() < 0.3 else a for a in axes]
    op = g.pick("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
    q = g.quantised.get(x) if op.startswith("REDUCE") else None
    g.arithmetic(op, [x, g.ints(axes)], q, options="ReducerOptions", keepDims=bool(g.pick(0, 1)))


def _window(g: TfliteGrowing, shape: Sequence[int], most: int = 3) -> tuple[tuple[int, int], dict[str, Any]]:
    kernel = (min(g.pick(1, 2, 3), shape[1], most), min(g.pick(1, 2, 3), shape[2], most))
    return kernel, {"padding": g.pick(0, 0, 1), "strideH": g.pick(1, 2, 3), "strideW": g.pick(1, 2)}


def _filter(g: TfliteGrowing, w: Array, x: str, axis: int) -> tuple[str, Callable[[Array], str]]:
    """Add a filter; returns it and what adds its bias."""
    if g.kind != INT8:
        return g.weights(w), g.weights
    scales = np.asarray(np.abs(w).max(tuple(a for a in range(w.ndim) if a != axis)) / 127, np.float32)
    columns = [-1 if a == axis else 1 for a in range(w.ndim)]
    whole = np.clip(np.rint(w / scales.reshape(columns)), -127, 127)
    of_bias = np.asarray(scales * np.float32(g.quantised[x].scale), np.float32)

    def bias(b: Array) -> str:
        q = Quantised(of_bias, 0, 0)
        return g.constant(np.clip(np.rint(b / of_bias), -(2**30), 2**30), np.int32, q)

    return g.constant(whole, np.int8, Quantised(scales, 0, axis)), bias


def conv(g: TfliteGrowing) -> None:
    x = g.of_rank(4)
    shape = g.shape(x)
    kernel, fields = _window(g, shape)
    depthwise = bool(g.pick(0, 1))
    dilated = bool(g.rng.random() < 0.2) and fields["padding"] == 0
    if dilated:
        fields |= {"strideH": 1, "strideW": 1}
    dilation = 2 if dilated else 1
    fields |= {"dilationHFactor": dilation, "dilationWFactor": dilation, "fusedActivationFunction": g.pick(0, 1, 3)}
    multiplier, out = g.pick(1, 1, 2), g.pick(1, 3, 8)
    w_shape = (1, *kernel, shape[3] * multiplier) if depthwise else (out, *kernel, shape[3])
    fan = kernel[0] * kernel[1] * (1 if depthwise else shape[3])
    w, bias = _filter(g, g.rng.uniform(-1, 1, w_shape) / math.sqrt(fan), x, 3 if depthwise else 0)
    if depthwise:
        fields |= {"depthMultiplier": multiplier, "strideW": fields["strideH"]}
    given = [x, w, bias(g.rng.uniform(-1, 1, w_shape[3] if depthwise else out))]
    op, options = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
    g.arithmetic(op, given, options=options, **fields)


def pool(g: TfliteGrowing) -> None:
    x = g.of_rank(4)
    (height, width), fields = _window(g, g.shape(x))
    fields |= {"filterHeight": height, "filterWidth": width, "fusedActivationFunction": g.pick(0, 0, 1)}
    op = g.pick("MAX_POOL_2D", "AVERAGE_POOL_2D")
    g.arithmetic(op, [x], g.quantised.get(x), options="Pool2DOptions", **fields)


def fully_connected(g: TfliteGrowing) -> None:
    x = g.of_rank(2)
    inner, out = g.shape(x)[1], g.pick(1, 5, 8)
    w, bias = _filter(g, g.rng.uniform(-1, 1, (out, inner)) / math.sqrt(inner), x, 0)
    if g.kind == INT8:  # with one scale, as older files have it
        scale = np.float32(0.01)
        w = g.constant(g.rng.integers(-100, 101, (out, inner)), np.int8, Quantised(scale, 0))
        of_bias = scale * np.float32(g.quantised[x].scale)
        b = g.constant(g.rng.integers(-500, 501, out), np.int32, Quantised(of_bias, 0))
    else:
        b = bias(g.rng.uniform(-1, 1, out))
    activation = g.pick(0, 0, 1, 3)
    g.arithmetic("FULLY_CONNECTED", [x, w, b], options="FullyConnectedOptions", fusedActivationFunction=activation)


def matmul(g: TfliteGrowing) -> None:
    if g.kind == INT8:
        raise UnsuitableError("f32 only")
    x = g.of_rank(3)
    y = g.tensor(lambda v: v.ndim == 3 and v.shape[0] == g.shape(x)[0])
    fields: dict[str, Any] | None = next(
        (
            {"adjX": bool(a), "adjY": bool(b)}
            for a in (0, 1)
            for b in (0, 1)
            if g.shape(x)[1 if a else 2] == g.shape(y)[2 if b else 1]
        ),
        None,
    )
    if fields is None:
        raise UnsuitableError("lengths")
    g.arithmetic("BATCH_MATMUL", [x, y], options="BatchMatMulOptions", **fields)


def axis_operator(g: TfliteGrowing) -> None:
    op = g.pick("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION") if g.kind != INT8 else "SOFTMAX"
    x = g.of_rank(g.pick(2, 4))
    if op == "SOFTMAX":
        g.arithmetic(op, [x], _FIXED.get(op) if g.kind == INT8 else None, options="SoftmaxOptions", beta=1.0)
    elif op == "LOG_SOFTMAX":
        g.arithmetic(op, [x])
    else:
        g.arithmetic(op, [x], options="L2NormOptions", fusedActivationFunction=0)


def choose(g: TfliteGrowing) -> None:
    if g.kind == INT8:
        raise UnsuitableError("f32 only")
    x = g.tensor()
    y = g.tensor(lambda v: v.shape == g.shape(x))
    [condition] = g.add(g.pick("LESS", "GREATER"), [x, y], "bool")
    g.arithmetic("SELECT_V2", [condition, y, x])


def indices(g: TfliteGrowing) -> None:
    x = g.tensor(lambda v: bool(np.isfinite(v).all()) and v.ndim >= 1)
    if g.pick(0, 1):
        op, options = g.pick(("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions"))
        g.add(op, [x, g.ints(int(g.rng.integers(g.real[x].ndim)))], "int32", options, outputType=2)
    elif g.kind != INT8:
        k = g.ints(int(g.rng.integers(1, g.shape(x)[-1] + 1)))
        g.add("TOPK_V2", [x, k], F32, "TopKV2Options", results=2)


def requantise(g: TfliteGrowing) -> None:
    """Give an 8-bit tensor other parameters, or go through f32."""
    if g.kind != INT8:
        raise UnsuitableError("8 bits only")
    x = g.tensor()
    if g.pick(0, 1):
        g.add("QUANTIZE", [x], INT8)
        return
    [y] = g.add("DEQUANTIZE", [x], F32)
    [z] = g.add(g.pick("ABS", "SQUARE", "EXP"), [y], F32)
    g.add("QUANTIZE", [z], INT8)
