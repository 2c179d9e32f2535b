"""Dynamically quantized networks have onnxruntime's bits: one other rounding would change outputs by percents."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg as product
from mavcg.cli.app import run
from mavcg.toolchain.target import host_target

onnxruntime = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")
encoder = pytest.importorskip("tests.mavcg.model.dynamic_encoder")


def session(path: Path, optimised: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options)


@pytest.mark.parametrize(
    ("layers", "width", "length", "inputs"),
    [(1, 32, 16, 4), pytest.param(6, 128, 32, 24, marks=pytest.mark.long)],
)
def test_an_encoder_has_the_bits_of_onnxruntime(
    tmp_path: Path, layers: int, width: int, length: int, inputs: int
) -> None:
    if "avx512f" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("without AVX-512 onnxruntime adds the exponentials of Softmax in other parts")
    path, library = tmp_path / "encoder.onnx", tmp_path / "libencoder.so"
    encoder.write_encoder(tmp_path / "f32.onnx", layers, width, 4, length)
    quantization.quantize_dynamic(tmp_path / "f32.onnx", path, weight_type=quantization.QuantType.QInt8)
    assert run(["build", str(path), "--target", "x86_64-linux-gnu", "-o", str(library)]) == 0
    plain, fused = session(path, optimised=False), session(path, optimised=True)
    of_itself = []
    with product.load(str(library)) as model:
        for seed in range(inputs):
            ids = np.random.default_rng(seed).integers(0, encoder.VOCABULARY, (1, length))
            (theirs,), (by_fused,) = plain.run(None, {"ids": ids}), fused.run(None, {"ids": ids})
            (ours,) = model.run(ids)
            np.testing.assert_array_equal(ours, theirs)
            of_itself.append(float(np.abs(by_fused - theirs).max() / np.abs(theirs).max()))
    assert min(of_itself) < 1e-6  # where it agrees with itself, all three agree


def write_images(path: Path, seed: int) -> None:
    """Convolutions with batch norms, hard swish spelled out, a gate of means as in squeeze-and-excite."""
    onnx = pytest.importorskip("onnx")
    random, helper = np.random.default_rng(seed), onnx.helper
    weights, nodes = [], []

    def constant(name: str, values: Any) -> str:
        weights.append(onnx.numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def node(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def block(x: str, name: str, out: int, channels: int, kernel: int) -> str:
        w = constant(name + "w", random.standard_normal((out, channels, kernel, kernel)) / (channels**0.5 * kernel))
        made = node("Conv", [x, w], name + "conv", pads=[kernel // 2] * 4)
        drawn = {
            "gain": random.random(out) + 0.5,
            "bias": random.standard_normal(out),
            "mean": random.standard_normal(out),
            "var": random.random(out) + 0.1,
        }
        norms = [constant(name + key, values) for key, values in drawn.items()]
        made = node("BatchNormalization", [made, *norms], name + "norm")
        gate = node("Clip", [node("Add", [made, "three"], name + "sum"), "zero", "six"], name + "clip")
        return node("Div", [node("Mul", [made, gate], name + "product"), "six"], name + "swish")

    for name, number in (("zero", 0), ("three", 3), ("six", 6)):
        constant(name, number)
    x = block("x", "first_", 16, 3, 3)
    w = constant("gate_w", random.standard_normal((16, 16, 1, 1)) / 4)
    gate = node("HardSigmoid", [node("Conv", [node("GlobalAveragePool", [x], "means"), w], "gate_conv")], "gate")
    x = block(block(node("Mul", [x, gate], "gated"), "second_", 24, 16, 1), "third_", 16, 24, 3)
    node("GlobalAveragePool", [x], "y")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "images", [value("x", 1, [1, 3, 18, 22])], [value("y", 1, [1, 16, 1, 1])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


@pytest.mark.long
def test_a_network_of_images_has_the_bits_of_onnxruntime(tmp_path: Path) -> None:
    if host_target().arch != "x86_64":
        pytest.skip("onnxruntime adds in another order on other processors")
    path, library = tmp_path / "images.onnx", tmp_path / "libimages.so"
    write_images(tmp_path / "f32.onnx", 2)
    quantization.quantize_dynamic(tmp_path / "f32.onnx", path, weight_type=quantization.QuantType.QUInt8)
    assert run(["build", str(path), "--target", "x86_64-linux-gnu", "-o", str(library)]) == 0
    with product.load(str(library)) as model:
        for seed in range(6):
            x = np.random.default_rng(seed).standard_normal((1, 3, 18, 22)).astype(np.float32)
            (theirs,) = session(path, optimised=False).run(None, {"x": x})
            np.testing.assert_array_equal(model.run(x)[0], theirs)
