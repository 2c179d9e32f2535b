"""Old and new forms of operators, and 8-bit ones, against onnxruntime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph import Graph
from mavcg.graph.ops.nodes import verify
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx
from mavcg.passes.graph.pipeline import optimise

onnx = pytest.importorskip("onnx", reason="the importer reads files by the onnx package")
onnxruntime = pytest.importorskip("onnxruntime", reason="results are compared with onnxruntime's")
from onnx import helper, numpy_helper  # noqa: E402

I64 = np.int64
SEEDED = np.random.default_rng(7)
MICROSOFT = "com.microsoft"


def f32(*shape: int) -> Any:
    return SEEDED.standard_normal(shape).astype(np.float32)


def whole(dtype: Any, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return SEEDED.integers(max(info.min, -1000), min(info.max, 1000), shape, endpoint=True).astype(dtype)


def weights(*shape: int) -> Any:
    """Of 7 bits: onnxruntime's sums of two products of full ones saturate on x86 without VNNI."""
    return SEEDED.integers(-60, 60, shape).astype(np.int8)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def build(
    op: str, version: int, inputs: Sequence[Any], constants: Mapping[int, Any], outputs: int, domain: str, attrs: Any
) -> Any:
    """One node; inputs at the places in `constants` are initializers, None is absent."""
    names = [f"i{i}" if a is not None else "" for i, a in enumerate(inputs)]
    node = helper.make_node(op, names, [f"o{i}" for i in range(outputs)], domain=domain, **attrs)
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for i, (n, a) in enumerate(zip(names, inputs, strict=True))
        if n and i not in constants
    ]
    kept = [numpy_helper.from_array(np.asarray(inputs[i]), names[i]) for i in constants]
    outs = [onnx.ValueInfoProto(name=n) for n in node.output]
    graph = helper.make_graph([node], "g", given, outs, kept)
    opsets = [helper.make_opsetid("", version)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=7)


def compare(tmp_path: Path, message: Any, arrays: Sequence[Any], rtol: float = 1e-5, quanta: int = 0) -> Graph:
    """The graph, after its results are found to be onnxruntime's. quanta: by how much whole numbers may differ."""
    arrays = [np.asarray(a) for a in arrays]
    path = tmp_path / "m.onnx"
    path.write_bytes(message.SerializeToString())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    required = session.run(None, dict(zip([i.name for i in session.get_inputs()], arrays, strict=True)))
    graph = import_onnx(path)
    verify(graph)
    made = run(graph, *arrays)
    assert len(made) == len(required)
    for have, want in zip(made, required, strict=True):
        assert have.dtype == want.dtype and have.shape == want.shape
        if have.dtype.kind == "f":
            np.testing.assert_allclose(have, want, rtol=rtol, atol=1e-5)
        else:
            assert np.abs(have.astype(np.int64) - want.astype(np.int64)).max(initial=0) <= quanta
    return graph


X = f32(1, 4, 5, 6)
ALIGNED = {"coordinate_transformation_mode": "align_corners"}
# operator, opset, inputs, which of them are constants, attributes, number of outputs
FORMS: list[tuple[str, int, list[Any], tuple[int, ...], dict[str, Any], int]] = [
    ("Slice", 9, [X], (), {"starts": [1, -3], "ends": [4, 1 << 40], "axes": [1, 3]}, 1),
    ("Slice", 9, [X], (), {"starts": [0, 1], "ends": [1, 3]}, 1),
    ("Slice", 13, [X, ints(-1), ints(-(1 << 60)), ints(2), ints(-2)], (1, 2, 3, 4), {}, 1),
    ("Split", 7, [X], (), {"axis": 1, "split": [1, 3]}, 2),
    ("Split", 11, [X], (), {"axis": -1}, 3),
    ("Split", 13, [X, ints(2, 3)], (1,), {"axis": 2}, 2),
    ("Split", 18, [X], (), {"axis": 2, "num_outputs": 3}, 3),
    ("Pad", 7, [X], (), {"pads": [0, 0, 1, 2, 0, 0, 3, 0], "value": 1.5}, 1),
    ("Pad", 10, [X], (), {"pads": [0, 0, 1, 2, 0, 0, 3, 4], "mode": "reflect"}, 1),
    ("Pad", 13, [X, ints(0, 0, -1, 2, 0, 0, 1, -2), np.float32(3)], (1, 2), {}, 1),
    ("Pad", 18, [X, ints(1, 2), np.float32(0), ints(3)], (1, 2, 3), {"mode": "edge"}, 1),
    ("Pad", 19, [X, ints(0, 0, 2, 3, 0, 0, 5, 6)], (1,), {"mode": "wrap"}, 1),
    ("Clip", 7, [X], (), {"min": -0.5}, 1),
    ("Clip", 10, [X], (), {"min": 0.0, "max": 6.0}, 1),
    ("Clip", 12, [X, None, np.float32(0.3)], (2,), {}, 1),
    ("Clip", 13, [X, np.float32(0.1), np.float32(0.3)], (), {}, 1),
    ("Softmax", 9, [X], (), {}, 1),
    ("Softmax", 11, [X], (), {"axis": 2}, 1),
    ("Softmax", 13, [X], (), {"axis": 1}, 1),
    ("LogSoftmax", 11, [X], (), {"axis": -1}, 1),
    ("Squeeze", 11, [X], (), {"axes": [0]}, 1),
    ("Squeeze", 13, [X], (), {}, 1),
    ("Unsqueeze", 11, [X], (), {"axes": [0, -1]}, 1),
    ("Unsqueeze", 13, [X, ints(-1, 2)], (1,), {}, 1),
    ("Flatten", 9, [X], (), {"axis": 0}, 1),
    ("Flatten", 11, [X], (), {"axis": -1}, 1),
    ("Upsample", 7, [X], (), {"scales": [1.0, 1.0, 2.0, 3.0]}, 1),
    ("Upsample", 9, [X, np.array([1, 1, 2, 1.5], np.float32)], (1,), {"mode": "linear"}, 1),
    ("Resize", 10, [X, np.array([1, 1, 0.6, 2], np.float32)], (1,), {"mode": "nearest"}, 1),
    ("Resize", 11, [X, np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)], (1, 2), {"mode": "linear"}, 1),
    (
        "Resize",
        13,
        [X, None, None, ints(1, 4, 8, 3)],
        (3,),
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
        1,
    ),
    (
        "Resize",
        13,
        [X, None, None, ints(1, 4, 9, 9)],
        (3,),
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        1,
    ),
    (
        "Resize",
        13,
        [X, None, None, ints(1, 4, 7, 11)],
        (3,),
        {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
        1,
    ),
    *(
        ("Resize", 13, [X, None, np.array([1, 1, *scales], np.float32)], (2,), ALIGNED | {"mode": mode}, 1)
        for mode in ("linear", "cubic")
        for scales in ((0.6, 1.7), (1.3, 0.45), (2.5, 0.2))
    ),
    ("Resize", 18, [X, None, None, ints(3, 3)], (3,), {"mode": "linear", "antialias": 1, "axes": [2, 3]}, 1),
    ("ReduceMean", 11, [X], (), {"axes": [-1, 2], "keepdims": 0}, 1),
    ("ReduceSum", 13, [X, ints(2, -1)], (1,), {}, 1),
    ("ReduceMax", 18, [X, ints(1)], (1,), {"keepdims": 0}, 1),
    ("ReduceLogSumExp", 13, [f32(2, 3) + 500], (), {"axes": [1]}, 1),
    ("ReduceL2", 13, [X], (), {"axes": [1]}, 1),
    ("ArgMax", 12, [X], (), {"axis": -2}, 1),
    ("Dropout", 7, [X], (), {"ratio": 0.3}, 1),
    ("Dropout", 12, [X, np.float32(0.3), np.array(False)], (1, 2), {}, 2),
    ("BatchNormalization", 7, [X, f32(4), f32(4), f32(4), abs(f32(4))], (1, 2, 3, 4), {"epsilon": 0.01}, 1),
    ("BatchNormalization", 15, [X, f32(4), f32(4), f32(4), abs(f32(4))], (), {}, 1),
    ("BatchNormalization", 9, [f32(2, 3), f32(3), f32(3), f32(3), abs(f32(3))], (1, 2, 3, 4), {}, 1),
    ("InstanceNormalization", 7, [X, f32(4), f32(4)], (1, 2), {}, 1),
    ("LayerNormalization", 17, [X, f32(5, 6), f32(5, 6)], (1, 2), {"axis": -2}, 1),
    ("LRN", 13, [X], (), {"size": 3, "alpha": 0.2, "beta": 0.5, "bias": 2.0}, 1),
    ("Gemm", 7, [f32(3, 4), f32(5, 4), f32(5)], (1, 2), {"transB": 1, "alpha": 0.5, "beta": 2.0}, 1),
    ("Gemm", 11, [f32(4, 3), f32(5, 4), f32(3, 1)], (), {"transA": 1, "transB": 1}, 1),
    ("Gemm", 13, [f32(3, 4), f32(4, 5)], (), {"alpha": 0.25}, 1),
    ("MatMul", 9, [f32(4), f32(2, 4, 5)], (), {}, 1),
    ("MatMul", 9, [f32(2, 3, 4), f32(4)], (1,), {}, 1),
    (
        "Conv",
        11,
        [X, f32(6, 2, 3, 3), f32(6)],
        (1, 2),
        {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]},
        1,
    ),
    ("Conv", 11, [X, f32(8, 1, 3, 2)], (1,), {"group": 4, "auto_pad": "SAME_LOWER", "strides": [2, 2]}, 1),
    ("Conv", 11, [f32(1, 4, 9), f32(6, 4, 3), f32(6)], (1, 2), {"auto_pad": "SAME_UPPER", "strides": [2]}, 1),
    ("Conv", 11, [X, f32(2, 4, 2, 2)], (), {"auto_pad": "VALID"}, 1),
    (
        "ConvTranspose",
        11,
        [X, f32(4, 3, 3, 3), f32(6)],
        (1, 2),
        {"group": 2, "strides": [2, 3], "output_padding": [1, 2], "pads": [1, 0, 0, 1]},
        1,
    ),
    ("ConvTranspose", 11, [X, f32(4, 3, 3, 3)], (1,), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, 1),
    ("ConvTranspose", 11, [X, f32(4, 3, 3, 3)], (1,), {"strides": [2, 2], "output_shape": [10, 13]}, 1),
    ("ConvTranspose", 11, [f32(1, 4, 7), f32(4, 2, 3)], (1,), {"strides": [2], "dilations": [2]}, 1),
    ("MaxPool", 8, [X], (), {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1], "strides": [2, 2]}, 1),
    ("MaxPool", 12, [X], (), {"kernel_shape": [2, 2], "ceil_mode": 1, "strides": [2, 3], "dilations": [2, 1]}, 1),
    ("MaxPool", 12, [f32(1, 3, 11)], (), {"kernel_shape": [3], "auto_pad": "SAME_LOWER", "strides": [2]}, 1),
    ("MaxPool", 12, [whole(np.uint8, 1, 2, 6, 6)], (), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, 1),
    ("AveragePool", 7, [X], (), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, 1),
    ("AveragePool", 11, [X], (), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2], "ceil_mode": 1}, 1),
    ("AveragePool", 11, [X], (), {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, 1),
    ("LpPool", 11, [X], (), {"kernel_shape": [2, 2], "p": 3, "pads": [1, 0, 0, 1]}, 1),
    ("GlobalLpPool", 2 + 5, [X], (), {}, 1),
    ("DepthToSpace", 11, [f32(1, 8, 3, 2)], (), {"blocksize": 2}, 1),
    ("DepthToSpace", 13, [f32(1, 8, 3, 2)], (), {"blocksize": 2, "mode": "CRD"}, 1),
    ("SpaceToDepth", 7, [f32(1, 3, 4, 6)], (), {"blocksize": 2}, 1),
    ("Tile", 7, [f32(2, 3), ints(2, 3)], (1,), {}, 1),
    ("Expand", 8, [f32(3, 1), ints(2, 1, 4)], (1,), {}, 1),
    ("Gather", 13, [X, ints(-1, 0)], (1,), {"axis": 2}, 1),
    ("Pow", 12, [abs(X), np.int64(2)], (1,), {}, 1),
    ("Mod", 13, [whole(np.int32, 6), np.array([7, -7, 3, -3, 5, -5], np.int32)], (1,), {}, 1),
    ("Mod", 13, [X, f32(6)], (), {"fmod": 1}, 1),
    ("PRelu", 9, [X, f32(4, 1, 1)], (1,), {}, 1),
    ("Sum", 8, [X, f32(6), f32(4, 1, 1)], (), {}, 1),
    ("Mean", 8, [X, f32(6), f32(4, 1, 1)], (), {}, 1),
    ("MatMulInteger", 10, [whole(np.uint8, 3, 4), weights(4, 5), np.uint8(7), np.int8(-3)], (1, 2, 3), {}, 1),
    (
        "ConvInteger",
        10,
        [whole(np.uint8, 1, 3, 5, 5), whole(np.uint8, 2, 3, 3, 3), np.uint8(7), np.uint8(9)],
        (1, 2, 3),
        {"pads": [1, 1, 1, 1]},
        1,
    ),
    ("DynamicQuantizeLinear", 11, [X], (), {}, 3),
    ("DynamicQuantizeLinear", 11, [np.zeros_like(X)], (), {}, 3),
    ("DynamicQuantizeLinear", 11, [np.full((2, 3), 3, np.float32)], (), {}, 3),
    ("TopK", 11, [f32(3, 4), ints(2)], (0, 1), {}, 2),
    ("TopK", 11, [np.round(f32(3, 41, 2) * 2), ints(7)], (1,), {"axis": 1}, 2),
    ("TopK", 11, [np.round(f32(3, 41)), ints(41)], (1,), {"largest": 0}, 2),
    ("TopK", 11, [whole(np.int64, 5, 9), ints(1)], (1,), {"axis": 0}, 2),
    ("TopK", 9, [f32(3, 9)], (), {"k": 4}, 2),
    ("OneHot", 11, [ints(3, -1, 0, 4, -5), ints(4), f32(2)], (1,), {}, 1),
    ("OneHot", 11, [np.array([[1.0, 3.0], [-2.0, 9.0]], np.float32), ints(4), ints(7, 5)], (1, 2), {"axis": 0}, 1),
    ("MaxPool", 12, [f32(1, 3, 1)], (), {"kernel_shape": [2], "strides": [2], "ceil_mode": 1}, 1),
    ("AveragePool", 19, [f32(1, 3, 5, 2)], (), {"kernel_shape": [2, 4], "strides": [2, 3], "ceil_mode": 1}, 1),
]


@pytest.mark.parametrize("form", FORMS, ids=[f"{f[0]}-{f[1]}-{i}" for i, f in enumerate(FORMS)])
def test_a_form_of_an_operator(
    tmp_path: Path, form: tuple[str, int, list[Any], tuple[int, ...], dict[str, Any], int]
) -> None:
    op, version, inputs, constants, attrs, outputs = form
    message = build(op, version, inputs, dict.fromkeys(constants), outputs, "", attrs)

    compare(tmp_path, message, [a for i, a in enumerate(inputs) if a is not None and i not in constants])


# 8-bit operators: dequantize, compute, quantize. onnxruntime has one rescaling factor for it: halves may round apart.
A, B = whole(np.uint8, 1, 4, 5, 6), whole(np.uint8, 1, 4, 5, 6)
SCALE, ZERO = np.float32(0.02), np.uint8(120)
OUT = (np.float32(0.05), np.uint8(100))
WIDE = (np.float32(4.0), np.uint8(128))
QUANTISED: list[tuple[str, str, list[Any], tuple[int, ...], dict[str, Any]]] = [
    (
        "QLinearConv",
        "",
        [A, SCALE, ZERO, weights(6, 4, 3, 3), np.float32(0.1), np.int8(0), *WIDE, whole(np.int32, 6)],
        tuple(range(1, 9)),
        {"pads": [1, 1, 1, 1]},
    ),
    (
        "QLinearConv",
        "",
        [A, SCALE, ZERO, weights(6, 4, 1, 1), abs(f32(6)) / 10, np.zeros(6, np.int8), *WIDE],
        tuple(range(1, 8)),
        {},
    ),
    (
        "QLinearMatMul",
        "",
        [whole(np.uint8, 3, 4), SCALE, ZERO, weights(4, 5), SCALE, np.int8(3), *OUT],
        tuple(range(1, 8)),
        {},
    ),
    ("QLinearAdd", MICROSOFT, [A, SCALE, ZERO, B, SCALE, ZERO, *OUT], (1, 2, 4, 5, 6, 7), {}),
    ("QLinearMul", MICROSOFT, [A, SCALE, ZERO, B, SCALE, ZERO, *OUT], (1, 2, 4, 5, 6, 7), {}),
    ("QLinearSigmoid", MICROSOFT, [A, SCALE, ZERO, np.float32(1 / 256), np.uint8(0)], (1, 2, 3, 4), {}),
    ("QLinearLeakyRelu", MICROSOFT, [A, SCALE, ZERO, *OUT], (1, 2, 3, 4), {"alpha": 0.1}),
    ("QLinearGlobalAveragePool", MICROSOFT, [A, SCALE, ZERO, *OUT], (1, 2, 3, 4), {"channels_last": 0}),
    ("QLinearAveragePool", MICROSOFT, [A, SCALE, ZERO, *OUT], (1, 2, 3, 4), {"kernel_shape": [2, 2]}),
    ("QLinearConcat", MICROSOFT, [*OUT, A, SCALE, ZERO, B, np.float32(0.03), ZERO], (0, 1, 3, 4, 6, 7), {"axis": 1}),
    (
        "QGemm",
        MICROSOFT,
        [whole(np.uint8, 3, 4), SCALE, ZERO, weights(5, 4), SCALE, np.int8(0), whole(np.int32, 5), *OUT],
        tuple(range(1, 9)),
        {"transB": 1},
    ),
    (
        "FusedConv",
        MICROSOFT,
        [X, f32(6, 4, 1, 1), f32(6)],
        (1, 2),
        {"activation": "LeakyRelu", "activation_params": [0.1]},
    ),
    ("FusedMatMul", MICROSOFT, [f32(3, 4), f32(5, 4)], (1,), {"transB": 1, "alpha": 0.5}),
    ("FastGelu", MICROSOFT, [f32(3, 4), f32(4)], (1,), {}),
    ("BiasGelu", MICROSOFT, [f32(3, 4), f32(4)], (1,), {}),
    ("QuickGelu", MICROSOFT, [f32(3, 4)], (), {}),
]


@pytest.mark.parametrize("form", QUANTISED, ids=[f"{f[0]}-{i}" for i, f in enumerate(QUANTISED)])
def test_an_operator_on_quantised_tensors(
    tmp_path: Path, form: tuple[str, str, list[Any], tuple[int, ...], dict[str, Any]]
) -> None:
    op, domain, inputs, constants, attrs = form
    message = build(op, 13, inputs, dict.fromkeys(constants), 1, domain, attrs)

    compare(tmp_path, message, [a for i, a in enumerate(inputs) if i not in constants], rtol=1e-4, quanta=1)


def test_quantised_weights_stay_quantised(tmp_path: Path) -> None:
    """QDQ and QLinearConv come to the same graph: 8-bit constants, dequantize, conv2d, quantize."""
    w, scales = weights(6, 4, 3, 3), (abs(f32(6)) / 10 + 0.01).astype(np.float32)
    bias = whole(np.int32, 6)
    inputs = [A, SCALE, ZERO, w, scales, np.zeros(6, np.int8), *WIDE, bias]
    qlinear = build("QLinearConv", 13, inputs, dict.fromkeys(range(1, 9)), 1, "", {})
    constants = {
        "sx": SCALE,
        "zx": ZERO,
        "w": w,
        "sw": scales,
        "zw": np.zeros(6, np.int8),
        "b": bias,
        "sb": SCALE * scales,
        "zb": np.zeros(6, np.int32),
        "sy": WIDE[0],
        "zy": WIDE[1],
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["i0", "sx", "zx"], ["x"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["dw"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "sb", "zb"], ["db"], axis=0),
        helper.make_node("Conv", ["x", "dw", "db"], ["y"]),
        helper.make_node("QuantizeLinear", ["y", "sy", "zy"], ["o0"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        list(qlinear.graph.input),
        list(qlinear.graph.output),
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    qdq = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    first = compare(tmp_path, qlinear, [A], quanta=1)
    second = compare(tmp_path, qdq, [A], quanta=1)

    for made in (first, second):
        producers = made.producers()
        (conv,) = [n for n in made.nodes if n.op == "conv2d"]
        filters, biases = producers[conv.inputs[1]], producers[conv.inputs[2]]
        assert filters.op == biases.op == "dequantize" and filters.attr("axis") == 0
        np.testing.assert_array_equal(made.constants[filters.inputs[0]], w.transpose(0, 2, 3, 1))
        assert made.types[biases.inputs[0]].dtype == "i32"
    np.testing.assert_array_equal(run(first, A)[0], run(second, A)[0])


def test_multipliers_are_rounded_as_onnxruntime_rounds_them(tmp_path: Path) -> None:
    """Sums that the multiplier's last bit rounds up or down: after the passes all bits are onnxruntime's."""
    rng = np.random.default_rng(3)
    channels, x_scale, y_scale = 4096, np.float32(0.0237), np.float32(0.0911)
    scales = rng.uniform(4e-5, 9e-5, channels).astype(np.float32)
    once = (scales.astype(np.float64) * x_scale / y_scale).astype(np.float32)  # rounded at the end only
    halves = rng.integers(60, 120, channels) + 0.5
    bias = np.rint(halves / once.astype(np.float64)).astype(np.int32)
    stepwise = (scales * x_scale) / y_scale
    assert (np.rint(bias.astype(np.float32) * once) != np.rint(bias.astype(np.float32) * stepwise)).any()
    x = np.full((1, 1, 1, 1), ZERO, np.uint8)  # at its zero point: a channel's sum is its bias
    inputs = [x, x_scale, ZERO, np.ones((channels, 1, 1, 1), np.int8), scales, np.zeros(channels, np.int8)]
    message = build("QLinearConv", 13, [*inputs, y_scale, np.uint8(0), bias], dict.fromkeys(range(1, 9)), 1, "", {})
    optimised = optimise(compare(tmp_path, message, [x], quanta=1))
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    assert "qconv2d" in {node.op for node in optimised.nodes}
    np.testing.assert_array_equal(run(optimised, x)[0], session.run(None, {"i0": x})[0])


HALF = np.array([[[[1000, -300, 6e-6], [2, 500, -4e-7]]]], np.float16)


@pytest.mark.parametrize(
    "op, version, inputs, attrs",
    [
        ("ReduceL2", 13, [HALF], {"axes": [3]}),
        ("ReduceLogSumExp", 13, [HALF], {"axes": [2]}),
        ("Gemm", 13, [HALF[0, 0], HALF[0, 0]], {"transB": 1, "alpha": 0.01}),
        ("LpPool", 11, [HALF], {"kernel_shape": [1, 2]}),
        ("RMSNormalization", 23, [HALF, np.array([1, 2, 0.5], np.float16)], {}),
        ("LpNormalization", 7, [HALF], {"axis": 3}),
        ("InstanceNormalization", 7, [HALF, np.array([2], np.float16), np.array([1], np.float16)], {}),
    ],
)
def test_half_precision_is_rounded_once(
    tmp_path: Path, op: str, version: int, inputs: list[Any], attrs: dict[str, Any]
) -> None:
    """Squares that are beyond half precision, and those below it; against ONNX's reference in double precision."""
    from onnx.reference import ReferenceEvaluator

    message = build(op, version, inputs, {}, 1, "", attrs)
    path = tmp_path / "m.onnx"
    path.write_bytes(message.SerializeToString())
    graph = import_onnx(path)
    (have,) = run(graph, *inputs)
    node = message.graph.node[0]
    wide = [a.astype(np.float64) for a in inputs]
    (exact,) = ReferenceEvaluator(node).run(None, dict(zip(node.input, wide, strict=True)))

    assert have.dtype == np.float16
    np.testing.assert_allclose(have.astype(np.float64), np.float16(exact).astype(np.float64), rtol=1e-3, atol=6e-8)
