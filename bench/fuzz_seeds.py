"""Valid model files for the fuzzer to damage: small networks of both formats, written here, and known ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.onnx_node_cases import cases
from bench.onnx_node_tests import with_constants
from bench.wheels import cache_folder

NODE_TESTS_EVERY = 4  # of the node tests that have small models: enough that each operator is there
LARGEST_NODE_TEST_BYTES = 20_000
_SHORT = 16  # elements: an input of a node test that is shorter and of whole numbers is likely a shape or an axis


@dataclass(frozen=True)
class Seed:
    """A valid model file. suffix: .onnx or .tflite."""

    name: str
    data: bytes
    suffix: str


def seeds(node_tests: bool = True) -> tuple[Seed, ...]:
    """Return all available seeds.

    Node tests take half a minute to collect; blazeface is included if bench.models has it.
    """
    available = [
        Seed("float_network", float_network(), ".onnx"),
        Seed("qdq_network", qdq_network(), ".onnx"),
        Seed("tflite_float_network", tflite_network(False), ".tflite"),
        Seed("tflite_int8_network", tflite_network(True), ".tflite"),
        Seed("squeezenet", _light("squeezenet"), ".onnx"),
    ]
    blazeface = cache_folder() / "blazeface.tflite"
    if blazeface.is_file():
        available.append(Seed("blazeface", blazeface.read_bytes(), ".tflite"))
    return (*available, *(_node_tests() if node_tests else ()))


def _light(name: str) -> bytes:
    import onnx

    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    return (folder / f"light_{name}.onnx").read_bytes()


def _node_tests() -> list[Seed]:
    node_tests = []
    for case in cases()[::NODE_TESTS_EVERY]:
        values = {i.name: v for i, v in zip(case.model.graph.input, case.inputs, strict=False)}
        known = {
            name: np.asarray(value)
            for number, (name, value) in enumerate(values.items())
            if number
            and isinstance(value, np.ndarray | np.generic)
            and value.dtype.kind in "iu"
            and value.size < _SHORT
        }
        data = with_constants(case.model, known).SerializeToString()
        if len(data) <= LARGEST_NODE_TEST_BYTES:
            node_tests.append(Seed(case.name, data, ".onnx"))
    return node_tests


class _Onnx:
    """Builder of an ONNX graph."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []

    def weights(self, *shape: int) -> str:
        return self.constant((self.random.standard_normal(shape) / 4).astype(np.float32))

    def constant(self, array: Any) -> str:
        from onnx import numpy_helper

        self.tensors.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.tensors)}"))
        return f"w{len(self.tensors) - 1}"

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], f"{op}_{name}", **attributes))
        return name

    def bytes(self, shape: Sequence[int | str], output: str) -> bytes:
        from onnx import TensorProto, helper

        values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), (output, None))]
        graph = helper.make_graph(self.nodes, "network", values[:1], values[1:], self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return bytes(model.SerializeToString())


def float_network() -> bytes:
    """Return a residual network of f32 with most kinds of layers, including shapes that the graph computes."""
    m = _Onnx()
    x = m.add("Conv", "x", m.weights(8, 3, 3, 3), m.weights(8), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    ones = m.constant(np.ones(8, np.float32))
    x = m.add("Relu", m.add("BatchNormalization", x, ones, m.weights(8), m.weights(8), ones, epsilon=1e-5))
    y = m.add("Conv", x, m.weights(8, 1, 3, 3), group=8, pads=[1, 1, 1, 1])
    y = m.add("Clip", y, m.constant(np.float32(0)), m.constant(np.float32(6)))
    x = m.add("Add", m.add("Conv", y, m.weights(8, 8, 1, 1)), x)
    low, high = m.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), m.add("Sigmoid", x)
    low = m.add("Resize", low, "", m.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    x = m.add("Concat", low, high, axis=1)
    x = m.add("ConvTranspose", x, m.weights(16, 4, 2, 2), strides=[2, 2])
    x = m.add("Pad", x, m.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])), mode="reflect")
    x = m.add("AveragePool", m.add("Transpose", x, perm=[0, 1, 3, 2]), kernel_shape=[3, 3], ceil_mode=1)
    x = m.add("Slice", x, *(m.constant(np.array([v])) for v in (1, 9, 2)))
    shape = m.add("Gather", m.add("Shape", x), m.constant(np.array([0])))
    shape = m.add("Concat", shape, m.constant(np.array([-1])), axis=0)
    flat = m.add("Reshape", m.add("GlobalAveragePool", x), shape)
    return m.bytes(["N", 3, 16, 16], m.add("Softmax", m.add("Gemm", flat, m.weights(10, 4), m.weights(10), transB=1)))


def qdq_network() -> bytes:
    """Return such a network in 8 bits: quantize and dequantize around each operator, weights per channel."""
    m = _Onnx()

    def quantise(x: str, scale: float, zero: int) -> str:
        pair = m.constant(np.float32(scale)), m.constant(np.uint8(zero))
        return m.add("DequantizeLinear", m.add("QuantizeLinear", x, *pair), *pair)

    def weights(*shape: int) -> str:
        numbers = m.constant(m.random.integers(-64, 64, shape).astype(np.int8))
        scales = m.constant(m.random.uniform(0.01, 0.02, shape[0]).astype(np.float32))
        return m.add("DequantizeLinear", numbers, scales, m.constant(np.zeros(shape[0], np.int8)), axis=0)

    x = quantise("x", 0.02, 128)
    x = quantise(m.add("Relu", m.add("Conv", x, weights(8, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1])), 0.03, 0)
    y = quantise(m.add("Conv", x, weights(8, 1, 3, 3), group=8, pads=[1, 1, 1, 1]), 0.05, 120)
    x = quantise(m.add("Add", quantise(m.add("Conv", y, weights(8, 8, 1, 1)), 0.05, 128), x), 0.1, 100)
    x = m.add("Concat", x, quantise(m.add("MaxPool", x, kernel_shape=[1, 1]), 0.1, 100), axis=1)
    x = m.add("Flatten", quantise(m.add("GlobalAveragePool", x), 0.1, 100))
    x = quantise(m.add("Gemm", x, weights(10, 16), transB=1), 0.1, 128)
    return m.bytes([1, 3, 12, 12], x)


_CAFFE = """\
name: "network"
input: "x" input_shape { dim: 1 dim: 3 dim: 12 dim: 12 }
layer { name: "c" type: "Convolution" bottom: "x" top: "c"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 } }
layer { name: "b" type: "BatchNorm" bottom: "c" top: "c" }
layer { name: "s" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" relu_param { negative_slope: 0.1 } }
layer { name: "n" type: "LRN" bottom: "c" top: "n" lrn_param { local_size: 3 alpha: 0.1 } }
layer { name: "p" type: "Pooling" bottom: "n" top: "p"
  pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "d" type: "Deconvolution" bottom: "p" top: "d"
  convolution_param { num_output: 4 kernel_size: 2 stride: 2 group: 4 bias_term: false } }
layer { name: "e" type: "Eltwise" bottom: "d" bottom: "n" top: "e" eltwise_param { coeff: 1 coeff: -1 } }
layer { name: "part" type: "Slice" bottom: "e" top: "e1" top: "e2" slice_param { slice_point: 1 } }
layer { name: "u" type: "Concat" bottom: "e2" bottom: "e1" top: "u" }
layer { name: "m" type: "Pooling" bottom: "u" top: "m" pooling_param { pool: AVE global_pooling: true } }
layer { name: "f" type: "InnerProduct" bottom: "m" top: "f" inner_product_param { num_output: 5 } }
layer { name: "a" type: "Reshape" bottom: "f" top: "a" reshape_param { shape { dim: 0 dim: -1 } } }
layer { name: "y" type: "Softmax" bottom: "a" top: "y" }
"""
_OLD_CAFFE = """\
input: "x"
input_dim: 1 input_dim: 3 input_dim: 6 input_dim: 6
layers { name: "c" type: CONVOLUTION bottom: "x" top: "c" blobs_lr: 1
  convolution_param { num_output: 4 kernel_size: 3 group: 1 weight_filler { type: "xavier" } } }
layers { name: "d" type: DROPOUT bottom: "c" top: "c" dropout_param { dropout_ratio: 0.5 } }
layers { name: "f" type: INNER_PRODUCT bottom: "c" top: "f" inner_product_param { num_output: 2 } }
"""


def caffe_network(old: bool = False) -> bytes:
    """Return a prototxt, a NUL byte, and its caffemodel. old: in the format before 2015."""
    from mavcg.importers.caffe_weights import net_parameter

    numbers = np.random.default_rng(0)
    shapes: dict[str, list[tuple[int, ...]]] = {"c": [(4, 3, 3, 3), (4,)]}
    if old:
        shapes |= {"f": [(2, 64), (2,)]}
    else:
        shapes |= {"b": [(4,), (4,), (1,)], "s": [(4,), (4,)], "d": [(4, 1, 2, 2)], "f": [(5, 4), (5,)]}
    net = net_parameter()()
    for name, blobs in shapes.items():
        layer = (net.layers if old else net.layer).add(name=name.encode())
        for shape in blobs:
            made = layer.blobs.add(data=[np.abs(numbers.standard_normal(shape)).astype("<f4").tobytes()])
            made.shape.dim.extend(shape)
    return (_OLD_CAFFE if old else _CAFFE).encode() + b"\0" + bytes(net.SerializeToString())


def tflite_schema() -> Any:
    """Return the classes that read and write TFLite files. Raises: ImportError without ai-edge-litert."""
    from ai_edge_litert import schema_py_generated

    return schema_py_generated


class _Tflite:
    """Builder of a TFLite model of one subgraph; tensors are represented by their indices."""

    def __init__(self) -> None:
        self.schema = tflite_schema()
        self.model, self.graph = self.schema.ModelT(), self.schema.SubGraphT()
        self.model.version, self.model.operatorCodes, self.model.buffers = 3, [], [self.schema.BufferT()]
        self.graph.tensors, self.graph.operators = [], []
        self.model.subgraphs = [self.graph]
        self.random = np.random.default_rng(0)

    def tensor(self, shape: Sequence[int], kind: str, scales: Any = None, zero: int = 0, data: Any = None) -> int:
        tensor = self.schema.TensorT()
        tensor.shape, tensor.name, tensor.buffer = list(shape), f"t{len(self.graph.tensors)}", 0
        tensor.type = getattr(self.schema.TensorType, kind)
        if data is not None:
            tensor.buffer = len(self.model.buffers)
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
        if scales is not None:
            tensor.quantization = self.schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(np.asarray(scales, np.float32))
            tensor.quantization.zeroPoint = np.full(tensor.quantization.scale.shape, zero, np.int64)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def add(self, op: str, inputs: Sequence[int], output: int, options: str = "", **fields: Any) -> int:
        code, operator = self.schema.OperatorCodeT(), self.schema.OperatorT()
        code.builtinCode = getattr(self.schema.BuiltinOperator, op)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        operator.opcodeIndex = len(self.model.operatorCodes)
        operator.inputs, operator.outputs = list(inputs), [output]
        if options:
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(self.schema, f"{options}T")()
            for name, value in fields.items():
                setattr(operator.builtinOptions, name, value)
        self.model.operatorCodes.append(code)
        self.graph.operators.append(operator)
        return output

    def bytes(self, x: int, y: int) -> bytes:
        self.graph.inputs, self.graph.outputs = [x], [y]
        return packed(self.model)


def packed(model: Any) -> bytes:
    """Return the bytes of a ModelT's file."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def tflite_network(eight_bit: bool) -> bytes:
    """Return a network of convolutions, a residual sum, padding, pooling, resizing, a dense layer and softmax."""
    m = _Tflite()
    kind = "INT8" if eight_bit else "FLOAT32"

    def tensor(shape: Sequence[int], scale: float = 0.05) -> int:
        return m.tensor(shape, kind, scale if eight_bit else None, -3)

    def weights(channels: int, *shape: int) -> int:
        if eight_bit:
            numbers = m.random.integers(-100, 100, shape).astype(np.int8)
            return m.tensor(shape, kind, np.linspace(0.01, 0.02, channels), 0, numbers)
        return m.tensor(shape, kind, data=m.random.standard_normal(shape).astype(np.float32))

    def bias(length: int) -> int:
        if eight_bit:
            return m.tensor([length], "INT32", np.linspace(5e-4, 1e-3, length), 0, np.arange(length, dtype=np.int32))
        return m.tensor([length], "FLOAT32", data=np.arange(length, dtype=np.float32))

    def whole(*values: Any) -> int:
        return m.tensor(np.shape(values), "INT32", data=np.array(values, np.int32))

    conv: dict[str, Any] = {"options": "Conv2DOptions", "padding": 0, "strideH": 1, "strideW": 1}
    x = tensor([1, 8, 8, 3])
    a = m.add("CONV_2D", [x, weights(8, 8, 3, 3, 3), bias(8)], tensor([1, 8, 8, 8]), **conv, fusedActivationFunction=3)
    b = m.add(
        "DEPTHWISE_CONV_2D",
        [a, weights(1, 1, 3, 3, 8), bias(8)],
        tensor([1, 8, 8, 8]),
        "DepthwiseConv2DOptions",
        padding=0,
        strideH=1,
        strideW=1,
        depthMultiplier=1,
    )
    c = m.add("ADD", [a, b], tensor([1, 8, 8, 8]), "AddOptions")
    c = m.add("PAD", [c, whole([0, 0], [1, 1], [1, 1], [0, 0])], tensor([1, 10, 10, 8]))
    pool: dict[str, Any] = {
        "options": "Pool2DOptions",
        "padding": 1,
        "strideH": 2,
        "strideW": 2,
        "filterHeight": 2,
        "filterWidth": 2,
    }
    c = m.add("MAX_POOL_2D", [c], tensor([1, 5, 5, 8]), **pool)
    c = m.add("RESIZE_BILINEAR", [c, whole(7, 7)], tensor([1, 7, 7, 8]), "ResizeBilinearOptions")
    c = m.add("CONCATENATION", [c, c], tensor([1, 7, 7, 16]), "ConcatenationOptions", axis=3)
    c = m.add("MEAN", [c, whole(1, 2)], tensor([1, 16]), "ReducerOptions")
    c = m.add("RESHAPE", [c, whole(1, 16)], tensor([1, 16]), "ReshapeOptions", newShape=[1, 16])
    c = m.add("FULLY_CONNECTED", [c, weights(1, 4, 16), bias(4)], tensor([1, 4]), "FullyConnectedOptions")
    return m.bytes(x, m.add("SOFTMAX", [c], tensor([1, 4], 1 / 256), "SoftmaxOptions", beta=1.0))
