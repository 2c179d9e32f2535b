"""Random TFLite graphs for bench.differential: one operator each, in f32, 8 bits or integers, odd shapes."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench.differential.tflite_part import TfliteMaker, TflitePart
from bench.tflite_file import Quantised

UNARY = (
    *("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOG", "LOGISTIC", "NEG", "RELU", "RELU6"),
    *("RELU_N1_TO_1", "RELU_0_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "TANH", "ZEROS_LIKE"),
    *("GELU", "LEAKY_RELU"),
)
BINARY = ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD", "POW")
COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
REDUCTIONS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
QUANTISED = (
    *("ADD", "MUL", "CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "AVERAGE_POOL_2D", "LOGISTIC", "TANH"),
    *("QUANTIZE", "DEQUANTIZE", "MEAN", "SOFTMAX", "RELU", "CONCATENATION"),
)
_OPTIONS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}


def random_tflite_part(seed: int, number: int) -> TflitePart:
    """Return TFLite graph `number`; number and seed determine it."""
    rng = np.random.default_rng([seed, number, 1])
    part = TflitePart(f"g{number}_", hard=bool(rng.random() < 0.2))
    kinds = list(KINDS)
    KINDS[kinds[int(rng.integers(len(kinds)))]](TfliteMaker(part, rng))
    return part


def _unary(op: str) -> Callable[[TfliteMaker], None]:
    def make(m: TfliteMaker) -> None:
        x = m.input(m.shape(), low=0.1 if op in ("LOG", "SQRT", "RSQRT") else -3)
        options = {"GELU": "GeluOptions", "LEAKY_RELU": "LeakyReluOptions"}.get(op, "")
        fields: dict[str, dict[str, Any]] = {
            "GELU": {"approximate": bool(m.pick(0, 1))},
            "LEAKY_RELU": {"alpha": 0.1},
        }
        m.operator(op, [x], options=options, **fields.get(op, {}))

    return make


def _binary(op: str) -> Callable[[TfliteMaker], None]:
    def make(m: TfliteMaker) -> None:
        shape = m.shape()
        operand_shape = tuple(m.pick(n, n, 1) for n in shape)
        whole = op in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD") and m.pick(0, 0, 1)
        dtype = np.int32 if whole else np.float32
        name = "i32" if whole else "f32"
        b: Any = m.input
        x = m.input(shape, dtype, low=0.1 if op == "POW" else -3)
        if op in ("FLOOR_DIV", "FLOOR_MOD"):
            b = (np.asarray(m.rng.integers(1, 9, operand_shape), dtype), None)
        else:
            b = m.input(operand_shape, dtype)
        m.operator(op, [x, b], name, options=_OPTIONS.get(op, ""))

    return make


def _comparison(op: str) -> Callable[[TfliteMaker], None]:
    def make(m: TfliteMaker) -> None:
        shape, dtype = m.shape(), m.pick(np.float32, np.int32, np.int64)
        m.operator(op, [m.input(shape, dtype), m.input(shape, dtype)], "bool")

    return make


def _logical(op: str) -> Callable[[TfliteMaker], None]:
    def make(m: TfliteMaker) -> None:
        shape = m.shape()
        m.operator(op, [m.input(shape, np.bool_) for _ in range(1 if op == "LOGICAL_NOT" else 2)], "bool")

    return make


def _reduction(op: str) -> Callable[[TfliteMaker], None]:
    def make(m: TfliteMaker) -> None:
        shape = m.shape()
        axes = np.array(sorted({int(m.rng.integers(len(shape))) for _ in range(2)}), np.int32)
        m.operator(op, [m.input(shape), (axes, None)], options="ReducerOptions", keepDims=bool(m.pick(0, 1)))

    return make


def _conv(m: TfliteMaker, op: str, bits8: bool = False) -> None:
    channels, out = m.pick(1, 3, 8), m.pick(1, 4, 17)
    shape = (1, m.pick(5, 9), m.pick(4, 11), channels)
    kernel = (m.pick(1, 3), m.pick(1, 2, 3))
    depthwise = op == "DEPTHWISE_CONV_2D"
    w_shape = (1, *kernel, channels) if depthwise else (out, *kernel, channels)
    out = channels if depthwise else out
    fields = {
        "padding": m.pick(0, 1),
        "strideH": m.pick(1, 2),
        "strideW": 1,
        "dilationHFactor": 1,
        "dilationWFactor": 1,
        "fusedActivationFunction": m.pick(0, 1, 3),
    }
    fields["strideW"] = fields["strideH"]
    if depthwise:
        fields["depthMultiplier"] = 1
    options = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    if not bits8:
        w = m.rng.uniform(-1, 1, w_shape).astype(np.float32)
        given = [m.input(shape), (w, None), (m.rng.uniform(-1, 1, out).astype(np.float32), None)]
        m.operator(op, given, options=options, **fields)
        return
    own, scales = m.scale(), m.rng.uniform(0.01, 0.05, out).astype(np.float32)
    filters = (m.rng.integers(-127, 128, w_shape).astype(np.int8), Quantised(scales, 0, 0))
    bias = (m.rng.integers(-500, 500, out).astype(np.int32), Quantised(scales * own.scale, 0, 0))
    m.operator(
        op,
        [m.input(shape, np.int8, quantised=own), filters, bias],
        "i8",
        options=options,
        quantised=Quantised(np.float32(0.2), 3),
        **fields,
    )


def _pool(op: str) -> Callable[[TfliteMaker], None]:
    def make(m: TfliteMaker) -> None:
        x = m.input((1, m.pick(5, 9), m.pick(4, 11), m.pick(1, 3, 17)))
        m.operator(
            op,
            [x],
            options="Pool2DOptions",
            padding=m.pick(0, 1),
            filterHeight=m.pick(1, 2, 3),
            filterWidth=m.pick(2, 3),
            strideH=m.pick(1, 2),
            strideW=m.pick(1, 2),
        )

    return make


def _fully_connected(m: TfliteMaker) -> None:
    inner, out = m.pick(1, 7, 33), m.pick(1, 8, 31)
    w = (m.rng.uniform(-1, 1, (out, inner)).astype(np.float32), None)
    bias = (m.rng.uniform(-1, 1, out).astype(np.float32), None)
    m.operator("FULLY_CONNECTED", [m.input((m.pick(1, 5), inner)), w, bias], options="FullyConnectedOptions")


def _eight_bits(op: str) -> Callable[[TfliteMaker], None]:
    def make(m: TfliteMaker) -> None:
        m.part.hard = False
        own, result, shape = m.scale(), m.scale(), m.shape(4)
        if op == "CONV_2D":
            _conv(m, op, bits8=True)
            return
        if op == "QUANTIZE":
            m.operator(op, [m.input(shape)], "i8", quantised=result)
            return
        x = m.input(shape, np.int8, quantised=own)
        if op == "DEQUANTIZE":
            m.operator(op, [x], "f32")
        elif op == "FULLY_CONNECTED":
            m.part.inputs.clear()
            inner, out = m.pick(7, 33), m.pick(1, 8, 31)
            x = m.input((3, inner), np.int8, quantised=own)
            w = (m.rng.integers(-127, 128, (out, inner)).astype(np.int8), Quantised(np.float32(0.02), 0))
            bias = (m.rng.integers(-500, 500, out).astype(np.int32), Quantised(own.scale * np.float32(0.02), 0))
            m.operator(op, [x, w, bias], "i8", options="FullyConnectedOptions", quantised=Quantised(np.float32(0.3), 1))
        elif op in ("ADD", "MUL"):
            y = m.input(shape, np.int8, quantised=m.scale())
            m.operator(op, [x, y], "i8", options=_OPTIONS[op], quantised=Quantised(np.float32(0.15), 2))
        elif op.endswith("POOL_2D"):
            m.operator(
                op,
                [x],
                "i8",
                options="Pool2DOptions",
                quantised=own,
                padding=0,
                filterHeight=2,
                filterWidth=m.pick(1, 2),
                strideH=1,
                strideW=m.pick(1, 2),
            )
        elif op == "MEAN":
            m.operator(op, [x, (np.array([1, 2], np.int32), None)], "i8", options="ReducerOptions", quantised=own)
        elif op == "CONCATENATION":
            y = m.input(shape, np.int8, quantised=own)
            m.operator(op, [x, y], "i8", options="ConcatenationOptions", quantised=own, axis=m.pick(0, 1, 3))
        elif op == "RELU":
            m.operator(op, [x], "i8", quantised=own)
        else:
            fixed = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0), "SOFTMAX": (1 / 256, -128)}[op]
            options = "SoftmaxOptions" if op == "SOFTMAX" else ""
            fields: dict[str, Any] = {"beta": 1.0} if options else {}
            quantised = Quantised(np.float32(fixed[0]), fixed[1])
            m.operator(op, [x], "i8", quantised=quantised, options=options, **fields)

    return make


def _moved(op: str) -> Callable[[TfliteMaker], None]:
    def make(m: TfliteMaker) -> None:
        dtype = m.pick(np.float32, np.int32, np.int8)
        shape = m.shape(3)
        x, name = m.input(shape, dtype), {np.float32: "f32", np.int32: "i32", np.int8: "i8"}[dtype]
        if op == "TRANSPOSE":
            m.operator(op, [x, (m.rng.permutation(3).astype(np.int32), None)], name)
        elif op == "RESHAPE":
            m.operator(op, [x, (np.array([-1, shape[0]], np.int32), None)], name, options="ReshapeOptions")
        elif op == "PAD":
            m.operator(op, [x, (m.rng.integers(0, 3, (3, 2)).astype(np.int32), None)], name)
        elif op == "TILE":
            m.operator(op, [x, (m.rng.integers(1, 3, 3).astype(np.int32), None)], name)
        elif op == "GATHER":
            indices = m.rng.integers(0, shape[1], 4).astype(np.int32)
            m.operator(op, [x, (indices, None)], name, options="GatherOptions", axis=1)
        elif op == "CONCATENATION":
            m.operator(op, [x, m.input(shape, dtype)], name, options="ConcatenationOptions", axis=m.pick(0, 1, 2))
        elif op == "REVERSE_V2":
            m.operator(op, [x, (np.array([m.pick(0, 1, 2)], np.int32), None)], name)
        elif op == "STRIDED_SLICE":
            begin, end = np.zeros(3, np.int32), np.array(shape, np.int32)
            strides = np.array([m.pick(1, 2) for _ in shape], np.int32)
            m.operator(op, [x, (begin, None), (end, None), (strides, None)], name, options="StridedSliceOptions")
        else:
            m.operator(op, [x, (np.array(0, np.int32), None)], name)

    return make


def _axis(op: str) -> Callable[[TfliteMaker], None]:
    def make(m: TfliteMaker) -> None:
        if op == "L2_NORMALIZATION":
            m.operator(op, [m.input(m.shape(4))], options="L2NormOptions")
        elif op == "SOFTMAX":
            m.operator(op, [m.input(m.shape(2))], options="SoftmaxOptions", beta=m.pick(1.0, 0.5))
        elif op == "LOG_SOFTMAX":
            m.operator(op, [m.input(m.shape(2))])
        else:
            shape = (1, m.pick(2, 5), m.pick(3, 7), m.pick(1, 3, 8))
            size = np.array([m.pick(3, 10), m.pick(4, 9)], np.int32)
            half = bool(m.pick(0, 1))
            options = "ResizeBilinearOptions" if op == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
            m.operator(op, [m.input(shape), (size, None)], options=options, halfPixelCenters=half)

    return make


KINDS: Mapping[str, Callable[[TfliteMaker], None]] = {
    **{op: _unary(op) for op in UNARY},
    **{op: _binary(op) for op in BINARY},
    **{op: _comparison(op) for op in COMPARISONS},
    **{op: _logical(op) for op in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT")},
    **{op: _reduction(op) for op in REDUCTIONS},
    **{op: _pool(op) for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D")},
    **{f"{op} in 8 bits": _eight_bits(op) for op in QUANTISED},
    **{
        op: _moved(op)
        for op in (
            *("TRANSPOSE", "RESHAPE", "PAD", "TILE", "GATHER", "CONCATENATION", "REVERSE_V2", "STRIDED_SLICE"),
            "EXPAND_DIMS",
        )
    },
    **{
        op: _axis(op)
        for op in ("L2_NORMALIZATION", "SOFTMAX", "LOG_SOFTMAX", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    },
    "CONV_2D": lambda m: _conv(m, "CONV_2D"),
    "DEPTHWISE_CONV_2D": lambda m: _conv(m, "DEPTHWISE_CONV_2D"),
    "FULLY_CONNECTED": _fully_connected,
}
