"""TFLite files made for tests, and what LiteRT computes from them: the reference, which knows nothing of ours."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph import DTYPES, Array, Graph
from mavcg.graph.ops.nodes import verify
from mavcg.graph.reference import run
from mavcg.importers.tflite_file import import_tflite

schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="ai-edge-litert writes and runs the models")
flatbuffers = pytest.importorskip("flatbuffers")

_TYPES = {
    "f32": "FLOAT32",
    "f16": "FLOAT16",
    "i32": "INT32",
    "u8": "UINT8",
    "i64": "INT64",
    "bool": "BOOL",
    "i16": "INT16",
    "i8": "INT8",
    "i4": "INT4",
    "i2": "INT2",
    "resource": "RESOURCE",
    "f64": "FLOAT64",
}

_VERSIONS = {"BROADCAST_TO": 2}  # the first that LiteRT has


class Writer:
    """A model of one subgraph while it grows; tensors are their indices."""

    def __init__(self) -> None:
        self.model = schema.ModelT()
        self.model.version, self.model.operatorCodes, self.model.buffers = 3, [], [schema.BufferT()]
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators, self.graph.inputs, self.graph.outputs = [], [], [], []
        self.model.subgraphs = [self.graph]

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str = "f32",
        scale: Any = None,
        zero: Any = 0,
        axis: int = 0,
        name: str | None = None,
        data: Array | None = None,
    ) -> int:
        """A tensor; with a scale (one, or one a position of `axis`) it is quantised."""
        tensor = schema.TensorT()
        tensor.shape, tensor.type = list(shape), getattr(schema.TensorType, _TYPES[dtype])
        tensor.name = f"t{len(self.graph.tensors)}" if name is None else name
        tensor.buffer = 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(np.asarray(scale, np.float32))
            zeros = np.broadcast_to(np.asarray(zero, np.int64), tensor.quantization.scale.shape)
            tensor.quantization.zeroPoint = np.ascontiguousarray(zeros)
            tensor.quantization.quantizedDimension = axis
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def input(
        self, shape: Sequence[int], dtype: str = "f32", scale: Any = None, zero: int = 0, name: Any = None
    ) -> int:
        """An input of the model."""
        index = self.tensor(shape, dtype, scale, zero, name=name)
        self.graph.inputs.append(index)
        return index

    def constant(self, array: Any, dtype: str = "", scale: Any = None, zero: Any = 0, axis: int = 0) -> int:
        """A constant; f64 and lists of floats become f32, lists of whole numbers i32."""
        values = np.asarray(array)
        if not dtype:
            dtype = {"f": "f32", "i": "i32", "b": "bool"}[values.dtype.kind] if values.dtype.itemsize == 8 else ""
        kind = DTYPES[dtype] if dtype else values.dtype
        names = {d: n for n, d in DTYPES.items()}
        return self.tensor(values.shape, names[np.dtype(kind)], scale, zero, axis, data=values.astype(kind))

    def four_bit(self, numbers: Array, scale: Any, block: int = 0, zeros: int = -1, bits: int = 4) -> int:
        """A constant of int4 with a scale for each row, or, in f16, for each `block` of one; zeros: their tensor. bits:
        2 for int2."""
        flat = (numbers.reshape(-1) & (1 << bits) - 1).astype(np.uint8)
        flat = np.append(flat, np.zeros(-flat.size % (8 // bits), np.uint8)).reshape(-1, 8 // bits)
        packed = np.bitwise_or.reduce(flat << np.arange(0, 8, bits, dtype=np.uint8), axis=1).astype(np.uint8)
        index = self.tensor(numbers.shape, f"i{bits}", None if block else scale, data=packed)
        if block:
            quantization = self.graph.tensors[index].quantization = schema.QuantizationParametersT()
            quantization.detailsType = schema.QuantizationDetails.BlockwiseQuantization
            details = quantization.details = schema.BlockwiseQuantizationT()
            details.scales = self.tensor(scale.shape, "f16", data=scale.astype(np.float16))
            details.zeroPoints, details.blockSize = zeros, block
        return index

    def op(self, name: str, inputs: Sequence[int], out: Any = "f32", options: str = "", **fields: Any) -> int:
        """An operator with one result. out: its dtype, or dtype, scale and zero. options: the table's name, fields: its
        fields, as the schema's Python classes call them; shape: of the results, where LiteRT looks at it."""
        (index,) = self.ops(name, inputs, [out], options, **fields)
        return index

    def ops(
        self,
        name: str,
        inputs: Sequence[int],
        outs: Sequence[Any],
        options: str = "",
        shape: tuple[int, ...] = (),
        **fields: Any,
    ) -> list[int]:
        """An operator with any number of results."""
        code = schema.OperatorCodeT()
        number = getattr(schema.BuiltinOperator, name)
        code.builtinCode, code.deprecatedBuiltinCode, code.version = number, min(number, 127), _VERSIONS.get(name, 1)
        self.model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.inputs = list(inputs)
        operator.outputs = [self.tensor(shape, *((o,) if isinstance(o, str) else o)) for o in outs]
        if options:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(schema, options + "T")()
            for field, value in fields.items():
                assert hasattr(operator.builtinOptions, field)
                setattr(operator.builtinOptions, field, value)
        self.graph.operators.append(operator)
        return list(operator.outputs)

    def body(self, make: "Callable[[Writer], Sequence[int]]") -> int:
        """A further subgraph, which `make` fills and whose outputs it returns. Returns its number."""
        main, self.graph = self.graph, schema.SubGraphT()
        self.graph.tensors, self.graph.operators, self.graph.inputs, self.graph.outputs = [], [], [], []
        self.graph.outputs = list(make(self))
        self.model.subgraphs.append(self.graph)
        self.graph = main
        return len(self.model.subgraphs) - 1

    def bytes(self, *outputs: int) -> bytes:
        """The file."""
        self.graph.outputs = list(outputs)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def litert(data: bytes, arrays: Sequence[Array], xnnpack: bool = False) -> list[Array]:
    """Return the outputs of a model by LiteRT's own kernels or XNNPACK's; arrays are its inputs, in order."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN if xnnpack else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=resolver, num_threads=1)
    for details, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.resize_tensor_input(details["index"], array.shape)
    interpreter.allocate_tensors()
    for details, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(details["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(details["index"]) for details in interpreter.get_output_details()]


def seeded(graph: Graph, low: float = -2.0, high: float = 2.0) -> list[Array]:
    """Inputs for a graph: floats in a range, 8-bit numbers of all sizes, other whole numbers small."""
    rng = np.random.default_rng(7)
    arrays = []
    for type in (graph.types[name] for name in graph.inputs):
        if type.dtype in ("i8", "u8"):
            limits = np.iinfo(DTYPES[type.dtype])
            values: Array = rng.integers(limits.min, limits.max + 1, type.shape)
        elif type.dtype == "bool":
            values = rng.integers(0, 2, type.shape)
        elif type.dtype.startswith("f"):
            values = rng.uniform(low, high, type.shape)
        else:
            values = rng.integers(1, 5, type.shape)
        arrays.append(np.asarray(values).astype(DTYPES[type.dtype]))
    return arrays


class Checker:
    """Imports files and compares."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "model.tflite"

    def load(self, data: bytes, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
        """The graph, which must be sound, and the same again when its text is parsed."""
        self.path.write_bytes(data)
        graph = import_tflite(self.path, {} if shapes is None else shapes)
        verify(graph)
        first = {state.input: state.initial for state in graph.states if state.initial is not None}
        assert Graph.parse(str(graph), {**graph.constants, **first}) == graph
        return graph

    def agrees(self, data: bytes, arrays: Sequence[Array] | None = None, quanta: int = 1, **range_: float) -> Graph:
        """The graph, computed as its definition says, agrees with LiteRT: 8-bit numbers within one quantum."""
        graph = self.load(data)
        given = list(arrays) if arrays is not None else seeded(graph, **range_)
        required, computed = litert(data, given), run(graph, *given)
        assert len(required) == len(computed)
        for ours, theirs in zip(computed, required, strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            if ours.dtype in (np.int8, np.uint8):
                difference = np.abs(ours.astype(int) - theirs.astype(int))
                assert difference.max(initial=0) <= quanta
            elif ours.dtype.kind == "f":
                np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5 * max(1.0, np.abs(theirs).max(initial=0)))
            else:
                np.testing.assert_array_equal(ours, theirs)
        return graph


@pytest.fixture
def writer() -> Writer:
    """A model to write into."""
    return Writer()


@pytest.fixture
def new_writer() -> Callable[[], Writer]:
    """Makes writers, for tests that write several models."""
    return Writer


@pytest.fixture
def check(tmp_path: Path) -> Checker:
    """Imports and compares in a folder of the test's own."""
    return Checker(tmp_path)
