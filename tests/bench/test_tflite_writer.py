"""Files written for LiteRT, against onnxruntime on what they are made of."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.tflite_writer import tflite_model
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.importers.onnx_file import import_onnx

onnx = pytest.importorskip("onnx", reason="the models are made with it")
ort = pytest.importorskip("onnxruntime", reason="it is the reference")
interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="it runs what is written")


class Net:
    """An ONNX model while it grows: each call adds a node and gives its output."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(3)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op}{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def draw(self, *shape: int) -> str:
        return self.constant((self.random.standard_normal(shape) / 3).astype(np.float32))

    def conv(self, x: str, out_ch: int, in_ch: int, kernel: int = 3, **attributes: Any) -> str:
        return self("Conv", x, self.draw(out_ch, in_ch, kernel, kernel), self.draw(out_ch), **attributes)

    def save(self, path: Path, last: str, shape: tuple[int, ...]) -> Path:
        made, kind = onnx.helper, onnx.TensorProto.FLOAT
        inputs = [made.make_tensor_value_info("x", kind, shape)]
        outputs = [made.make_tensor_value_info(last, kind, None)]
        graph = made.make_graph(self.nodes, "net", inputs, outputs, self.constants)
        onnx.save(made.make_model(graph, opset_imports=[made.make_opsetid("", 13)], ir_version=8), path)
        return path


def both(path: Path) -> tuple[Array, Array]:
    """What LiteRT makes of the written file, and onnxruntime of the model."""
    session = ort.InferenceSession(str(path))
    (own,) = session.get_inputs()
    x = np.random.default_rng(0).standard_normal(own.shape).astype(np.float32)
    ran = interpreter.Interpreter(model_content=tflite_model(import_onnx(path)), num_threads=1)
    ran.allocate_tensors()
    ran.set_tensor(ran.get_input_details()[0]["index"], np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
    ran.invoke()
    return ran.get_tensor(ran.get_output_details()[0]["index"]), session.run(None, {own.name: x})[0]


def test_a_network_of_floats(tmp_path: Path) -> None:
    net = Net()
    a = net("Relu", net.conv("x", 8, 3, strides=[2, 2], pads=[1, 1, 1, 1]))  # 9 -> 5: as SAME pads
    b = net(
        "Clip", net.conv(a, 8, 1, group=8, pads=[1, 1, 1, 1]), net.constant(np.float32(0)), net.constant(np.float32(6))
    )
    c = net("Relu", net("Add", net.conv(b, 8, 8, 1), a))
    d = net.conv(c, 8, 4, group=2, pads=[0, 0, 1, 1])  # not as SAME pads; grouped
    e = net("LRN", net("Relu", d), size=5, alpha=0.1, beta=0.75, bias=1.0)
    f = net("MaxPool", e, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    g = net("Concat", f, net("MaxPool", e, kernel_shape=[2, 2], strides=[2, 2]), axis=1)
    h = net("Flatten", net("GlobalAveragePool", g))
    last = net("Softmax", net("Gemm", h, net.draw(16, 6), net.draw(6)), axis=1)
    found, wanted = both(net.save(tmp_path / "a.onnx", last, (1, 3, 9, 9)))

    assert found.shape == wanted.shape == (1, 6)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("inside", [(2, 2), (3, 2)])
def test_a_mean_whose_window_sticks_out(tmp_path: Path, inside: tuple[int, int]) -> None:
    net = Net()
    last = net(
        "AveragePool",
        net("Relu", net.conv("x", 4, 3, 1)),
        kernel_shape=[3, 3],
        pads=[0, 0, 3 - inside[0], 3 - inside[1]],
    )
    found, wanted = both(net.save(tmp_path / "a.onnx", last, (1, 3, *inside)))

    np.testing.assert_allclose(found.ravel(), wanted.ravel(), rtol=1e-5)


def quantised(net: Net, x: str, scale: float, zero: int) -> str:
    """Down to 8 bits and up again."""
    parameters = net.constant(np.float32(scale)), net.constant(np.uint8(zero))
    return net("DequantizeLinear", net("QuantizeLinear", x, *parameters), *parameters)


def conv_8_bit(net: Net, x: str, shape: tuple[int, ...], x_scale: float, **attributes: Any) -> str:
    weights = net.random.integers(-60, 61, shape).astype(np.int8)
    scales = net.random.uniform(0.005, 0.01, shape[0]).astype(np.float32)
    bias = net.random.integers(-500, 500, shape[0]).astype(np.int32)
    zeros = net.constant(np.zeros(shape[0], np.int8)), net.constant(np.zeros(shape[0], np.int32))
    w = net("DequantizeLinear", net.constant(weights), net.constant(scales), zeros[0], axis=0)
    b = net("DequantizeLinear", net.constant(bias), net.constant(scales * np.float32(x_scale)), zeros[1], axis=0)
    return net("Conv", x, w, b, **attributes)


def test_a_network_of_8_bits(tmp_path: Path) -> None:
    net = Net()
    x = quantised(net, "x", 0.03, 120)
    a = quantised(net, conv_8_bit(net, x, (8, 3, 3, 3), 0.03, strides=[2, 2], pads=[1, 1, 1, 1]), 0.02, 0)
    b = quantised(net, conv_8_bit(net, a, (8, 1, 3, 3), 0.02, group=8, pads=[1, 1, 1, 1]), 0.04, 128)
    c = quantised(net, net("Relu", net("Add", a, b)), 0.03, 0)
    d = quantised(net, net("MaxPool", c, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 0.03, 0)
    e = quantised(net, conv_8_bit(net, d, (5, 8, 1, 1), 0.03), 0.05, 100)
    last = net("Flatten", net("GlobalAveragePool", e))
    path = net.save(tmp_path / "a.onnx", last, (1, 3, 10, 10))
    found, wanted = both(path)

    # An element may round to the next quantum, and that goes on through the layers after it.
    assert found.shape == wanted.shape == (1, 5)
    assert np.abs(found - wanted).max() <= 0.05
    assert np.ptp(wanted) > 10 * 0.05
    kinds = {d["dtype"] for d in _tensors(tflite_model(import_onnx(path)))}
    assert np.int8 in kinds


def _tensors(data: bytes) -> list[dict[str, Any]]:
    made = interpreter.Interpreter(model_content=data)
    made.allocate_tensors()
    details: list[dict[str, Any]] = made.get_tensor_details()
    return details


def test_what_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    net = Net()
    path = net.save(tmp_path / "a.onnx", net("Elu", "x"), (1, 3, 4, 4))
    with pytest.raises(MavcgError, match="Elu0.*cannot be written"):
        tflite_model(import_onnx(path))
    net = Net()
    path = net.save(tmp_path / "b.onnx", net("MaxPool", "x", kernel_shape=[3, 3], pads=[2, 2, 0, 0]), (1, 3, 4, 4))
    with pytest.raises(MavcgError, match="may be negative"):
        tflite_model(import_onnx(path))
