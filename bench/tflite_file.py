"""Builder of a .tflite file: tensors and operators of one subgraph (schema.fbs of LiteRT, version 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.graph import Array

_TYPES = {"f32": "FLOAT32", "f16": "FLOAT16", "i32": "INT32", "i64": "INT64", "i8": "INT8", "bool": "BOOL"}
_VERSIONS = {  # the first that know signed 8 bits
    "DEPTHWISE_CONV_2D": 3,
    "CONV_2D": 3,
    "FULLY_CONNECTED": 4,
    "PAD": 2,
    "MAX_POOL_2D": 2,
    "ADD": 2,
    "MEAN": 2,
    "DEQUANTIZE": 2,
    "CONCATENATION": 2,
}


@dataclass(frozen=True)
class Quantised:
    """Quantisation: real = scale * (stored - zero), with one scale, or one for each position of `axis`."""

    scale: Array | np.floating[Any]
    zero: int
    axis: int = 0


class File:
    """Builder of a file; tensors are represented by their indices."""

    def __init__(self) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self._schema: Any = schema
        self._model = schema.ModelT()
        self._model.version, self._model.operatorCodes, self._model.buffers = 3, [], [schema.BufferT()]
        self._graph = schema.SubGraphT()
        self._graph.tensors, self._graph.operators = [], []
        self._model.subgraphs = [self._graph]
        self._codes: dict[str, int] = {}

    def tensor(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        quantised: Quantised | None = None,
        data: Array | None = None,
    ) -> int:
        """Add a tensor; with data, a constant."""
        made = self._schema.TensorT()
        made.name, made.shape, made.buffer = name, list(shape), 0
        made.type = getattr(self._schema.TensorType, _TYPES[dtype])
        if data is not None:
            buffer = self._schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            made.buffer = len(self._model.buffers)
            self._model.buffers.append(buffer)
        if quantised is not None:
            made.quantization = self._schema.QuantizationParametersT()
            scales = np.atleast_1d(np.asarray(quantised.scale, np.float32))
            made.quantization.scale = scales
            made.quantization.zeroPoint = np.full(len(scales), quantised.zero, np.int64)
            made.quantization.quantizedDimension = quantised.axis
        self._graph.tensors.append(made)
        return len(self._graph.tensors) - 1

    def constant(self, name: str, data: Array, quantised: Quantised | None = None) -> int:
        """Add a constant of f32, i32 or i8."""
        dtype = {"f": "f32", "i": "i32"}[data.dtype.kind] if data.dtype.itemsize == 4 else "i8"
        return self.tensor(name, dtype, data.shape, quantised, data)

    def operator(self, name: str, inputs: Sequence[int], *outputs: int, options: str = "", **fields: Any) -> None:
        """Add an operator.

        options: the table's name; fields: as the schema's Python classes name them.
        """
        schema = self._schema
        if name not in self._codes:
            code, number = schema.OperatorCodeT(), getattr(schema.BuiltinOperator, name)
            code.builtinCode, code.deprecatedBuiltinCode = number, min(number, 127)
            code.version = _VERSIONS.get(name, 1)
            self._codes[name] = len(self._model.operatorCodes)
            self._model.operatorCodes.append(code)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = self._codes[name], list(inputs), list(outputs)
        if options:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            made.builtinOptions = getattr(schema, f"{options}T")()
            for field, value in fields.items():
                setattr(made.builtinOptions, field, value)
        self._graph.operators.append(made)

    def activation(self, name: str) -> int:
        """Return the number of a fused activation: NONE, RELU, RELU6."""
        return int(getattr(self._schema.ActivationFunctionType, name))

    def padding(self, name: str) -> int:
        """Return the number of SAME or VALID."""
        return int(getattr(self._schema.Padding, name))

    def to_bytes(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """Return the file's bytes."""
        import flatbuffers

        self._graph.inputs, self._graph.outputs = list(inputs), list(outputs)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), b"TFL3")
        return bytes(builder.Output())
