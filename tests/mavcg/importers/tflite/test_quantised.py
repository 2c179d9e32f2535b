"""8-bit models: the form that graphs have for them, and the same numbers as LiteRT within one quantum."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mavcg.graph import Graph
from mavcg.graph.reference import run
from mavcg.passes.graph.quantized import eight_bit

SAME, VALID = 0, 1
CONV = {"options": "Conv2DOptions", "strideH": 1, "strideW": 1}
I8, U8 = ("i8", 0.05, 3), ("u8", 0.04, 131)


def weights(seed: int, *shape: int, dtype: str = "i8") -> Any:
    limits = (-127, 128) if dtype == "i8" else (0, 256)
    return np.random.default_rng(seed).integers(*limits, shape).astype("int8" if dtype == "i8" else "uint8")


def bias(seed: int, count: int) -> Any:
    return np.random.default_rng(seed).integers(-900, 900, count).astype(np.int32)


def ops(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


def int8_conv(m: Any, x: tuple[int, ...], w: tuple[int, ...], out: Any, **options: Any) -> int:
    scales = np.linspace(0.002, 0.01, w[0])
    inputs = [
        m.input(x, *I8),
        m.constant(weights(1, *w), "i8", scales, 0, 0),
        m.constant(bias(2, w[0]), "i32", scales * np.float32(0.05), 0, 0),
    ]
    return int(m.op("CONV_2D", inputs, out, **(CONV | options)))


@pytest.mark.parametrize("act", [0, 1, 3])
@pytest.mark.parametrize("padding", [SAME, VALID])
def test_int8_convolution_per_channel(writer: Any, check: Any, padding: int, act: int) -> None:
    y = int8_conv(writer, (1, 7, 6, 4), (6, 3, 3, 4), ("i8", 0.1, -5), padding=padding, fusedActivationFunction=act)
    graph = check.agrees(writer.bytes(y))
    assert [graph.types[n].dtype for n in (*graph.inputs, *graph.outputs)] == ["i8", "i8"]


def test_exact_form_that_the_pass_recognises(writer: Any, check: Any) -> None:
    y = int8_conv(writer, (1, 7, 6, 4), (6, 3, 3, 4), ("i8", 0.1, -5), padding=SAME, fusedActivationFunction=3)
    graph = check.load(writer.bytes(y))
    assert ops(graph) == {"dequantize": 3, "conv2d": 1, "clip": 1, "quantize": 1}
    assert ops(eight_bit(graph)) == {"qconv2d": 1}
    x = weights(5, 1, 7, 6, 4)
    (required,), (rewritten,) = run(graph, x), run(eight_bit(graph), x)
    assert np.abs(required.astype(int) - rewritten).max() <= 1


@pytest.mark.parametrize("multiplier", [1, 2])
def test_int8_depthwise_per_channel(writer: Any, check: Any, multiplier: int) -> None:
    channels = 4 * multiplier
    scales = np.linspace(0.004, 0.02, channels)
    inputs = [
        writer.input((1, 7, 6, 4), *I8),
        writer.constant(weights(1, 1, 3, 3, channels), "i8", scales, 0, 3),
        writer.constant(bias(2, channels), "i32", scales * np.float32(0.05), 0, 0),
    ]
    y = writer.op(
        "DEPTHWISE_CONV_2D",
        inputs,
        ("i8", 0.05, 0),
        options="DepthwiseConv2DOptions",
        padding=SAME,
        strideH=2,
        strideW=2,
        depthMultiplier=multiplier,
    )
    graph = check.agrees(writer.bytes(y))
    assert ops(graph) == {"dequantize": 3, "conv2d": 1, "quantize": 1}
    assert ops(eight_bit(graph)) == {"qconv2d": 1}


def test_uint8_convolution_and_pool(writer: Any, check: Any) -> None:
    w = writer.constant(weights(3, 5, 3, 3, 4, dtype="u8"), "u8", 0.006, 120)
    b = writer.constant(bias(4, 5), "i32", np.float32(0.04) * np.float32(0.006))
    x = writer.input((1, 8, 8, 4), *U8)
    y = writer.op("CONV_2D", [x, w, b], ("u8", 0.09, 110), **CONV, padding=SAME, fusedActivationFunction=1)
    window = {"filterHeight": 2, "filterWidth": 2, "strideH": 2, "strideW": 2}
    largest = writer.op("MAX_POOL_2D", [y], ("u8", 0.09, 110), options="Pool2DOptions", padding=VALID, **window)
    mean = writer.op("AVERAGE_POOL_2D", [y], ("u8", 0.09, 110), options="Pool2DOptions", padding=VALID, **window)
    graph = check.agrees(writer.bytes(largest, mean))
    # The largest is chosen among the 8-bit numbers themselves.
    (pool,) = (n for n in graph.nodes if n.op == "max_pool2d")
    assert graph.types[pool.output].dtype == "u8"


def test_transposed_convolution(writer: Any, check: Any) -> None:
    scales = np.linspace(0.004, 0.02, 3)
    inputs = [
        writer.constant([1, 8, 8, 3]),
        writer.constant(weights(1, 3, 3, 3, 4), "i8", scales, 0, 0),
        writer.input((1, 4, 4, 4), *I8),
    ]
    y = writer.op(
        "TRANSPOSE_CONV", inputs, ("i8", 0.06, 1), options="TransposeConvOptions", padding=SAME, strideH=2, strideW=2
    )
    check.agrees(writer.bytes(y))


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_fully_connected(writer: Any, check: Any, dtype: str) -> None:
    x = (dtype, 0.05, 3) if dtype == "i8" else U8
    w = writer.constant(weights(1, 6, 20, dtype=dtype), dtype, 0.01, 0 if dtype == "i8" else 128)
    b = writer.constant(bias(2, 6), "i32", np.float32(x[1]) * np.float32(0.01))
    y = writer.op(
        "FULLY_CONNECTED", [writer.input((2, 20), *x), w, b], (dtype, 0.2, x[2]), options="FullyConnectedOptions"
    )
    graph = check.agrees(writer.bytes(y))
    assert ops(eight_bit(graph)) == {"qmatmul": 1}


BINARY = ["ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"]


@pytest.mark.parametrize("name", BINARY)
def test_binary(writer: Any, check: Any, name: str) -> None:
    same = name in ("MAXIMUM", "MINIMUM")
    operand, out = (I8, I8) if same else (("i8", 0.02, -7), ("i8", 0.3 if "SQ" in name else 0.09, 11))
    options = {"options": f"{name.title()}Options"} if name in ("ADD", "SUB", "MUL") else {}
    y = writer.op(name, [writer.input((2, 3, 5), *I8), writer.input((2, 3, 5), *operand)], out, **options)
    check.agrees(writer.bytes(y))


UNARY: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "LOGISTIC": (I8, ("i8", 1 / 256, -128), {}),
    "TANH": (I8, ("i8", 1 / 128, 0), {}),
    "HARD_SWISH": (I8, ("i8", 0.04, -20), {}),
    "RELU": (I8, ("i8", 0.03, -128), {}),
    "RELU6": (U8, ("u8", 6 / 255, 0), {}),
    "LEAKY_RELU": (I8, I8, {"options": "LeakyReluOptions", "alpha": 0.2}),
    "SOFTMAX": (I8, ("i8", 1 / 256, -128), {"options": "SoftmaxOptions", "beta": 1.0}),
    "L2_NORMALIZATION": (I8, ("i8", 1 / 128, 0), {}),
    "EXP": (("i8", 0.01, 0), ("i8", 0.02, -100), {}),
    "QUANTIZE": (I8, ("i8", 0.08, -1), {}),
    "NEG": (I8, I8, {}),
}


@pytest.mark.parametrize("name", sorted(UNARY.keys() - {"NEG"}))
def test_unary(writer: Any, check: Any, name: str) -> None:
    x, out, options = UNARY[name]
    check.agrees(writer.bytes(writer.op(name, [writer.input((2, 16), *x)], out, **options)))


def test_mean_over_the_image(writer: Any, check: Any) -> None:
    axes = writer.constant([1, 2])
    y = writer.op(
        "MEAN", [writer.input((1, 4, 5, 3), *I8), axes], ("i8", 0.04, 0), options="ReducerOptions", keepDims=True
    )
    check.agrees(writer.bytes(y))


def test_prelu(writer: Any, check: Any) -> None:
    slope = writer.constant(weights(1, 1, 1, 3), "i8", 0.01, 2)
    check.agrees(writer.bytes(writer.op("PRELU", [writer.input((1, 4, 5, 3), *I8), slope], ("i8", 0.05, 0))))


def _move(name: str, *constants: Any, options: str = "", shape: tuple[int, ...] = (1, 4, 6, 8), **fields: Any) -> Any:
    return lambda m, x: m.op(name, [x, *map(m.constant, constants)], I8, options, **fields)


PAIRS = np.array([[0, 0], [1, 2], [2, 0], [0, 0]], np.int32)
MOVES: dict[str, Callable[[Any, int], int]] = {
    "reshape": _move("RESHAPE", [1, 24, 8], options="ReshapeOptions"),
    "pad": _move("PAD", PAIRS),
    "mirror": _move("MIRROR_PAD", PAIRS, options="MirrorPadOptions", mode=1),
    "strided": _move("STRIDED_SLICE", [0, 1], [1, 3], [1, 1], options="StridedSliceOptions"),
    "transpose": _move("TRANSPOSE", [0, 3, 1, 2]),
    "nearest": _move("RESIZE_NEAREST_NEIGHBOR", [7, 9], options="ResizeNearestNeighborOptions"),
    "depth": _move("DEPTH_TO_SPACE", options="DepthToSpaceOptions", blockSize=2),
    "batches": _move("SPACE_TO_BATCH_ND", np.array([2, 3], np.int32), np.array([[1, 1], [0, 3]], np.int32)),
    "gather": _move("GATHER", [2, 0], options="GatherOptions", axis=1),
    "max": _move("REDUCE_MAX", [1, 2], options="ReducerOptions"),
    "pool": _move(
        "MAX_POOL_2D", options="Pool2DOptions", padding=SAME, filterHeight=3, filterWidth=3, strideH=2, strideW=2
    ),
    "concat": lambda m, x: int(m.op("CONCATENATION", [x, x], I8, "ConcatenationOptions", axis=3)),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_stay_8_bit(writer: Any, check: Any, name: str) -> None:
    x = writer.input((1, 4, 6, 8), *I8)
    graph = check.agrees(writer.bytes(MOVES[name](writer, x)), quanta=0)
    assert {graph.types[name].dtype for node in graph.nodes for name in node.outputs} == {"i8"}


def test_concatenation_of_different_formats(writer: Any, check: Any) -> None:
    parts = [writer.input((2, 3), *U8), writer.input((2, 4), "u8", 0.07, 99)]
    check.agrees(writer.bytes(writer.op("CONCATENATION", parts, U8, "ConcatenationOptions", axis=1)))


def test_resize_bilinear(writer: Any, check: Any) -> None:
    size = writer.constant([7, 9])
    y = writer.op("RESIZE_BILINEAR", [writer.input((1, 4, 6, 3), *I8), size], I8, "ResizeBilinearOptions")
    check.agrees(writer.bytes(y))


def test_from_real_numbers_and_back(writer: Any, check: Any) -> None:
    q = writer.op("QUANTIZE", [writer.input((3, 40))], I8)
    unsigned = writer.op("QUANTIZE", [q], ("u8", 0.05, 131))
    graph = check.agrees(writer.bytes(writer.op("DEQUANTIZE", [unsigned]), unsigned), quanta=0, low=-9, high=9)
    assert [graph.types[n].dtype for n in graph.outputs] == ["f32", "u8"]


def test_f16_weights_become_f32(writer: Any, check: Any) -> None:
    w = np.random.default_rng(1).standard_normal((5, 3, 3, 2)).astype(np.float16)
    b = np.arange(5, dtype=np.float16)
    real = [writer.op("DEQUANTIZE", [writer.constant(a)]) for a in (w, b)]
    y = writer.op("CONV_2D", [writer.input((1, 6, 6, 2)), *real], **CONV, padding=SAME)
    graph = check.agrees(writer.bytes(y))
    assert ops(graph) == {"conv2d": 1}
    assert all(np.array_equal(graph.constants[n], a) for n, a in zip(graph.nodes[0].inputs[1:3], (w, b), strict=True))


def test_weights_in_8_bits_of_a_model_of_real_numbers_become_f32(writer: Any, check: Any) -> None:
    w = weights(1, 5, 8)
    scales = np.linspace(0.01, 0.02, 5, dtype=np.float32)
    plain = writer.op("DEQUANTIZE", [writer.constant(w, "i8", scales, 0, 0)])
    graph = check.load(
        writer.bytes(
            writer.op("FULLY_CONNECTED", [writer.input((2, 8)), plain, -1], options="FullyConnectedOptions"),
            writer.op("FULLY_CONNECTED", [0 + writer.graph.inputs[0], 0, -1], options="FullyConnectedOptions"),
        )
    )
    assert ops(graph) == {"matmul": 2}
    for node in graph.nodes:
        np.testing.assert_allclose(graph.constants[node.inputs[1]], w * scales[:, None], rtol=1e-6)


def test_bias_counts_in_units_of_the_sums(writer: Any, check: Any) -> None:
    """What the file says of the bias's scale is not looked at, as in LiteRT, where it must be the product anyway."""
    x, w = writer.input((1, 1), "i8", 0.5, 0), writer.constant(np.array([[2]], np.int8), "i8", 0.25)
    b = writer.constant(np.array([40], np.int32), "i32")
    y = writer.op("FULLY_CONNECTED", [x, w, b], ("i8", 0.125, 0), options="FullyConnectedOptions")
    (output,) = run(check.load(writer.bytes(y)), np.array([[4]], np.int8))
    assert output.tolist() == [[(4 * 2 + 40) * 0.125 / 0.125]]
