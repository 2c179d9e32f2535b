"""Flatbuffers whose vectors hold the same table many times, 4 bytes a time, as no converter writes them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
flatbuffers = pytest.importorskip("flatbuffers")

F32, I32, BOOL, I8, F64 = 0, 2, 6, 9, 10  # schema.fbs, TensorType
ADD, RELU, CUSTOM, SUM, PACK, ADD_N = 0, 19, 32, 74, 83, 106  # BuiltinOperator
COPIES = 15_000


class Tables:
    """A model while it grows; strings, lists and tables are their offsets."""

    def __init__(self) -> None:
        self.b: Any = flatbuffers.Builder(1024)

    def ints(self, numbers: Sequence[int]) -> int:
        return int(self.b.CreateNumpyVector(np.asarray(numbers, np.int32)))

    def text(self, text: str) -> int:
        return int(self.b.CreateString(text))

    def vector(self, start: Callable[..., Any], tables: Sequence[int]) -> int:
        start(self.b, len(tables))
        for table in reversed(tables):
            self.b.PrependUOffsetTRelative(table)
        return int(self.b.EndVector())

    def table(self, kind: str, **fields: int) -> int:
        """table("Tensor", Shape=..): a table with these fields."""
        getattr(schema, f"{kind}Start")(self.b)
        for field, value in fields.items():
            getattr(schema, f"{kind}Add{field}")(self.b, value)
        return int(getattr(schema, f"{kind}End")(self.b))

    def buffer(self, data: bytes) -> int:
        return self.table("Buffer", Data=int(self.b.CreateByteVector(data)))

    def scales(self, count: int) -> int:
        return self.table(
            "QuantizationParameters", Scale=int(self.b.CreateNumpyVector(np.full(count, 0.5, np.float32)))
        )

    def operator(self, inputs: int, outputs: Sequence[int], code: int = 0, **more: int) -> int:
        return self.table("Operator", Inputs=inputs, Outputs=self.ints(outputs), OpcodeIndex=code, **more)

    def rows(self, size: int, positions: Sequence[int]) -> int:
        """The layout of a sparse vector with elements at these positions."""
        lists = [self.table("Int32Vector", Values=self.ints(n)) for n in ([0, len(positions)], positions)]
        level = self.table(
            "DimensionMetadata",
            Format=1,
            ArraySegmentsType=1,
            ArraySegments=lists[0],
            ArrayIndicesType=1,
            ArrayIndices=lists[1],
        )
        levels = self.vector(schema.SparsityParametersStartDimMetadataVector, [level])
        return self.table("SparsityParameters", TraversalOrder=self.ints([0]), DimMetadata=levels)

    def file(
        self,
        tensors: Sequence[int],
        operators: Sequence[int],
        outputs: Sequence[int],
        codes: Sequence[int] = (RELU,),
        buffers: Sequence[int] = (),
        inputs: Sequence[int] = (0,),
    ) -> bytes:
        """The file; buffer 0 is empty, as every file has it."""
        graph = self.table(
            "SubGraph",
            Tensors=self.vector(schema.SubGraphStartTensorsVector, tensors),
            Inputs=self.ints(inputs),
            Outputs=self.ints(outputs),
            Operators=self.vector(schema.SubGraphStartOperatorsVector, operators),
        )
        of_codes = [self.table("OperatorCode", BuiltinCode=n, DeprecatedBuiltinCode=n, Version=1) for n in codes]
        made = self.table(
            "Model",
            Version=3,
            Subgraphs=self.vector(schema.ModelStartSubgraphsVector, [graph]),
            Buffers=self.vector(schema.ModelStartBuffersVector, [self.table("Buffer"), *buffers]),
            OperatorCodes=self.vector(schema.ModelStartOperatorCodesVector, of_codes),
        )
        self.b.Finish(made, b"TFL3")
        return bytes(self.b.Output())

    def relu_and(self, tensor: int, buffers: Sequence[int] = (), operators: Sequence[int] = ()) -> bytes:
        """relu(x), and a tensor many times that nothing reads."""
        four = self.table("Tensor", Shape=self.ints([4]))
        relu = self.operator(self.ints([0]), [1])
        return self.file([four, four, *[tensor] * COPIES], [relu, *operators], [1], buffers=buffers)


def names() -> bytes:
    t = Tables()
    return t.relu_and(t.table("Tensor", Name=t.text("n" * 60_000)))


def scales() -> bytes:
    t = Tables()
    quantised = {"Quantization": t.scales(15_000), "Shape": t.ints([15_000]), "Type": I8}
    return t.relu_and(t.table("Tensor", **quantised))


def unaligned_constants() -> bytes:
    """Elements of 8 bytes after a length of 4: every tensor copies them."""
    t = Tables()
    data = t.buffer(bytes(60_000))
    return t.relu_and(t.table("Tensor", Shape=t.ints([7500]), Type=F64, Buffer=1), [data])


def truths() -> bytes:
    t = Tables()
    data = t.buffer(bytes(60_000))
    return t.relu_and(t.table("Tensor", Shape=t.ints([60_000]), Type=BOOL, Buffer=1), [data])


def layouts() -> bytes:
    t = Tables()
    data, layout = t.buffer(bytes(60_000)), t.rows(15_000, range(15_000))
    return t.relu_and(t.table("Tensor", Shape=t.ints([15_000]), Buffer=1, Sparsity=layout), [data])


def operands() -> bytes:
    t = Tables()
    many = t.operator(t.ints([0] * 15_000), [1])
    return t.relu_and(t.table("Tensor"), operators=[many] * COPIES)


def options() -> bytes:
    t = Tables()
    bytes_ = int(t.b.CreateByteVector(bytes(60_000)))
    many = t.operator(t.ints([0]), [1], CustomOptions=bytes_)
    return t.relu_and(t.table("Tensor"), operators=[many] * COPIES)


def sums() -> bytes:
    """2,000 sums of 8,000 tensors each, of which the last sum needs all: 16 million nodes."""
    t, count = Tables(), 2000
    many, one = t.ints([0] * 8000), t.table("Tensor", Shape=t.ints([4]))
    operators = [t.operator(many, [1 + k]) for k in range(count)]
    operators.append(t.operator(t.ints(range(1, count + 1)), [count + 1]))
    return t.file([one] * (count + 2), operators, [count + 1], codes=(ADD_N,))


def inputs_of_one_name() -> bytes:
    t, count = Tables(), 20_000
    one = t.table("Tensor", Shape=t.ints([1]), Name=t.text("x"))
    return t.file([one] * (count + 1), [t.operator(t.ints([0]), [count])], [count], inputs=range(count))


def outputs_of_one_name() -> bytes:
    t, count = Tables(), 8000
    one = t.table("Tensor", Shape=t.ints([1]), Name=t.text("x"))
    return t.file([one] * 2, [t.operator(t.ints([0]), [1])], [1] * count)


def sparse(count: int, kind: int, size: int) -> bytes:
    """x plus the sums of sparse vectors, each of which has one element in the file."""
    t = Tables()
    layout, buffers = t.rows(size, [0]), [t.buffer(bytes(1 if kind == I8 else 4)), t.buffer(bytes(4))]
    quantised = {"Quantization": t.scales(1)} if kind == I8 else {}
    large = t.table("Tensor", Shape=t.ints([size]), Type=kind, Buffer=1, Sparsity=layout, **quantised)
    axes = t.table("Tensor", Shape=t.ints([1]), Type=I32, Buffer=2)
    x, one = t.table("Tensor", Shape=t.ints([4])), t.table("Tensor", Shape=t.ints([]))
    tensors, operators = [x, axes, *[large] * count], []
    for k in range(count):
        before, sum = 0 if not k else len(tensors) - 1, len(tensors)
        tensors += [one, x]
        operators.append(t.operator(t.ints([2 + k, 1]), [sum]))
        operators.append(t.operator(t.ints([before, sum]), [sum + 1], 1))
    return t.file(tensors, operators, [len(tensors) - 1], (SUM, ADD), buffers)
