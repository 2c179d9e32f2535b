"""Networks of 8-bit files keep their scales, zero points and integers: results of onnxruntime, or a step off."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.models import model_path
from mavcg.accelerators.build import FILE_SCALES, ProgramRequest, build_program
from mavcg.accelerators.fixed_point import evaluate, multiplier_of, reals_of
from mavcg.accelerators.float_reference import arrange_inputs
from mavcg.accelerators.host.cpu_graph import cpu_graph
from mavcg.accelerators.images import seeded_images
from mavcg.accelerators.load import load_xgraph, xgraph_of
from mavcg.accelerators.target import find_target
from mavcg.accelerators.validate import integer_images, validate_program
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.graph.reference.evaluate import run as run_graph
from mavcg.importers.load import import_model

SMALL = find_target("small")


class QdqNet:
    """An ONNX network under construction, each of whose tensors is quantized and dequantized."""

    def __init__(self, shape: tuple[int, ...], scale: float = 0.02, zero: int = 120, dtype: str = "uint8") -> None:
        self.onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'mavcg[models]'")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.chance = np.random.default_rng(7)
        self.shape = shape
        self.x = self.quantized("x", scale, zero, dtype)

    def constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def op(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(op, list(inputs), [name], **attrs))
        return name

    def quantized(self, x: str, scale: float, zero: int, dtype: str = "uint8") -> str:
        given = (self.constant(np.asarray(scale, np.float32)), self.constant(np.asarray(zero, dtype)))
        return self.op("DequantizeLinear", self.op("QuantizeLinear", x, *given), *given)

    def conv(self, x: str, out_ch: int, in_ch: int, kernel: int, **attrs: Any) -> str:
        weights = self.chance.integers(-127, 128, (out_ch, in_ch, kernel, kernel)).astype(np.int8)
        scales = self.chance.uniform(0.001, 0.01, out_ch).astype(np.float32)
        bias = self.chance.uniform(-1, 1, out_ch).astype(np.float32)
        zeros = self.constant(np.zeros(out_ch, np.int8))
        filters = self.op("DequantizeLinear", self.constant(weights), self.constant(scales), zeros, axis=0)
        return self.op("Conv", x, filters, self.constant(bias), **attrs)

    def map(self) -> str:
        """A feature map of the accelerator: the input is the model's, in another order."""
        return self.quantized(self.conv(self.x, 4, 4, 1), 0.02, 120)

    def as_map(self, y: str, scale: float, zero: int) -> str:
        """Quantized elements that a pool reads, so that they are a feature map of the accelerator."""
        pooled = self.op("MaxPool", self.quantized(y, scale, zero), kernel_shape=[1, 1])
        return self.quantized(pooled, scale, zero)

    def model(self, y: str) -> Any:
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info("x", kind, list(self.shape))]
        outputs = [helper.make_tensor_value_info(y, kind, None)]
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolution(net: QdqNet) -> str:
    made = net.conv(net.x, 5, 4, 3, pads=[2, 1, 0, 1], strides=[2, 1])
    return net.quantized(made, 0.05, 131)


def relu(net: QdqNet) -> str:
    return net.quantized(net.op("Relu", net.conv(net.x, 7, 4, 1)), 0.01, 0)


def signed_limits(net: QdqNet) -> str:
    limits = (net.constant(np.asarray(0, np.float32)), net.constant(np.asarray(0.9, np.float32)))
    return net.quantized(net.op("Clip", net.conv(net.x, 4, 4, 3), *limits), 0.02, -100, "int8")


def depthwise(net: QdqNet) -> str:
    return net.quantized(net.conv(net.x, 4, 1, 3, pads=[1] * 4, group=4), 0.03, 90)


def two_groups(net: QdqNet) -> str:
    return net.quantized(net.conv(net.x, 6, 2, 3, pads=[1] * 4, group=2), 0.03, 128)


def of_two(op: str) -> Callable[[QdqNet], str]:
    def made(net: QdqNet) -> str:
        first = net.map()
        other = net.quantized(net.conv(first, 4, 4, 1), 0.047, 60)
        return net.as_map(net.op(op, first, other), 0.06, 100)

    return made


def maximum(net: QdqNet) -> str:
    pooled = net.op("MaxPool", net.x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    return net.quantized(pooled, 0.02, 120)


def average(counts: int) -> Callable[[QdqNet], str]:
    def made(net: QdqNet) -> str:
        pooled = net.op("AveragePool", net.x, kernel_shape=[3, 2], pads=[1, 0, 1, 1], count_include_pad=counts)
        return net.quantized(pooled, 0.013, 77)

    return made


def squeeze_and_excite(net: QdqNet) -> str:
    first = net.map()
    mean = net.quantized(net.op("GlobalAveragePool", first), 0.004, 118)
    factor = net.quantized(net.op("Relu", net.conv(mean, 4, 4, 1)), 0.004, 0)
    return net.as_map(net.op("Mul", first, factor), 0.01, 110)


def joined(net: QdqNet) -> str:
    """A concat of two scales: the file's tensors become others by a table, which is a multiplication."""
    first = net.map()
    other = net.quantized(net.conv(first, 3, 4, 1), 0.047, 60)
    return net.as_map(net.op("Concat", first, other, axis=1), 0.05, 70)


OPERATORS = {
    "convolution": (convolution, {"conv"}),
    "relu": (relu, {"conv"}),
    "limits of signed numbers": (signed_limits, {"conv"}),
    "depthwise": (depthwise, {"depthwise"}),
    "groups": (two_groups, {"conv"}),
    "sum": (of_two("Add"), {"conv", "eltwise", "max_pool"}),
    "difference": (of_two("Sub"), {"conv", "eltwise", "max_pool"}),
    "product": (of_two("Mul"), {"conv", "eltwise", "max_pool"}),
    "maximum": (maximum, {"max_pool"}),
    "average without pads": (average(0), {"avg_pool"}),
    "average with pads": (average(1), {"avg_pool"}),
    "squeeze and excite": (squeeze_and_excite, {"avg_pool", "conv", "upsample", "eltwise", "max_pool"}),
    "concat": (joined, {"conv", "eltwise", "concat", "max_pool"}),
}


def kept(path: Path) -> XGraph:
    return load_xgraph(str(path), SMALL, {}, file_scales=True)


def reals(graph: XGraph, inputs: dict[str, Array]) -> tuple[Array, float]:
    """The network's first output as real numbers, and its scale."""
    values = evaluate(graph, integer_images(graph, arrange_inputs(graph, inputs)), "half_up")
    output = graph.model_outputs[0]
    node = graph.by_name()[output.tensor]
    tensor = values[node.name]
    real = reals_of(node, tensor) if node.radix is not None else tensor
    return output.in_its_order(real), node.scale or 1.0


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_at_most_a_step_from_onnxruntime(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'mavcg[models]'")
    build, kinds = OPERATORS[name]
    net = QdqNet((1, 4, 9, 8))
    model = net.model(build(net))
    net.onnx.save(model, tmp_path / "net.onnx")
    x = np.random.default_rng(1).uniform(-2.6, 2.8, (1, 4, 9, 8)).astype(np.float32)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (expected,) = runtime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})

    graph = kept(tmp_path / "net.onnx")
    made, scale = reals(graph, {"x": x})

    assert {node.kind for node in graph.nodes} == kinds | {"input"}
    steps = np.rint((made - expected) / scale)
    assert np.abs(steps).max() <= 1
    assert (steps != 0).mean() < 0.02


def test_a_program_has_the_references_bits(tmp_path: Path) -> None:
    """A network with nodes of the CPU between, whose library computes what the reference does."""
    net = QdqNet((1, 4, 9, 8))
    first = net.map()
    gate = net.quantized(net.op("Sigmoid", first), 1 / 256, 0)
    total = net.quantized(net.op("Add", first, gate), 0.03, 115)
    net.onnx.save(net.model(net.quantized(net.conv(total, 6, 4, 3), 0.04, 128)), tmp_path / "net.onnx")
    request = ProgramRequest(str(tmp_path / "net.onnx"), SMALL, "greedy", granularity=FILE_SCALES)

    built = build_program(request, lambda message: None)
    images = seeded_images(built.graph, 1)[0]
    expected = evaluate(built.graph, integer_images(built.graph, images), SMALL.rounding)

    assert [built.graph.by_name()[name].op for name in built.program.cpu_nodes] == ["lookup"]
    assert not validate_program(built.program, built.graph, images).differences
    nodes, part = built.graph.by_name(), built.program.host.parts[0]
    (made,) = run_graph(cpu_graph(built.graph, part, "part", SMALL.rounding), *(expected[n] for n in part.inputs))
    np.testing.assert_array_equal(made, reals_of(nodes[part.outputs[0]], expected[part.outputs[0]]))


@pytest.mark.parametrize("factor", [2.0**-40, 1e-9, 0.3, 0.99999999, 1.0, 3.5, 30000.0])
def test_multipliers_are_the_nearest(factor: float) -> None:
    multiplier, shift = multiplier_of(factor)

    assert 1 <= multiplier < 1 << 16 and shift <= 47
    assert abs(multiplier * 2.0**-shift - factor) <= max(factor * 2.0**-16, 2.0**-33)


def test_files_without_8_bit_numbers_are_refused(tmp_path: Path) -> None:
    net = QdqNet((1, 4, 9, 8))
    model = net.model(net.op("Relu", net.conv("x", 4, 4, 1)))
    net.onnx.save(model, tmp_path / "net.onnx")

    with pytest.raises(MavcgError, match="no operator on 8-bit numbers of the file"):
        kept(tmp_path / "net.onnx")
    with pytest.raises(MavcgError, match="--file-scales: squeezenet is a built-in network in f32"):
        load_xgraph("squeezenet", SMALL, {}, file_scales=True)
    with pytest.raises(MavcgError, match="--file-scales: VTA has shifts alone"):
        load_xgraph(str(tmp_path / "net.onnx"), find_target("vta"), {}, file_scales=True)


@pytest.mark.long
@pytest.mark.parametrize("name", ["squeezenet-random-int8", "mobilenet_v2-int8", "resnet50-random-int8"])
def test_files_in_onnx(name: str) -> None:
    """The classes' order at the top, and the correlation of all outputs, are onnxruntime's."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'mavcg[models]'")
    path = path_of(name)
    session = runtime.InferenceSession(str(path))
    given = session.get_inputs()[0]
    x = np.random.default_rng(0).standard_normal([n if isinstance(n, int) else 1 for n in given.shape], np.float32)
    (expected,) = session.run(None, {given.name: x})

    made, _ = reals(xgraph_of(import_model(path, {given.name: x.shape}), file_scales=True), {given.name: x})

    assert np.corrcoef(made.ravel(), expected.ravel())[0, 1] > 0.99


def path_of(name: str) -> Path:
    """The file of a model, or a skip of the test where it was not made."""
    try:
        return model_path(name, fetch=False)
    except MavcgError as error:
        pytest.skip(str(error))
