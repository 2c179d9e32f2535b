"""Parser of TFLite files to checked plain values (tflite_model.py).

The file is not trusted. Flatbuffers' accessors follow any offset; accesses outside of the file, and contradictions
between its parts, become an error that names the location. Lengths are compared with the file's size before use.
"""

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from mavcg.errors import MavcgError, import_problem
from mavcg.graph import DTYPES, Array
from mavcg.importers.tflite_blocks import read_blocks, with_blocks
from mavcg.importers.tflite_model import Quant, TfliteModel, TfliteOperator, TfliteTensor, shorten_name
from mavcg.importers.tflite_sparse import SparseData, read_layout
from mavcg.reference.block_weights import unpack_signed_bits

CUSTOM_OPTIONS = "CustomOptions"
MARK = b"TFL3"  # a flatbuffer's file identifier, at bytes 4 to 8
WITHOUT_OUTPUTS = ("CALL_ONCE", "ASSIGN_VARIABLE")  # they change the state of the interpreter
RUNS: Mapping[str, tuple[str, ...]] = {  # options that are numbers of subgraphs, by operator
    "CALL_ONCE": ("InitSubgraphIndex",),
    "IF": ("ThenSubgraphIndex", "ElseSubgraphIndex"),
    "WHILE": ("CondSubgraphIndex", "BodySubgraphIndex"),
}
MOST_TABLES = 1 << 16  # maximum tensors, operators, buffers or subgraphs of a file
MOST_COMPARED = 1 << 18  # maximum tensors of the subgraphs beside the main one
MOST_IN_BODIES = 1 << 17  # maximum tensors and operators of the subgraphs that operators run
MOST_INTS = 1 << 16  # maximum entries of a list: a shape, an operator's inputs, scales
MOST_RANK = 16
_READS_PER_BYTE = 4  # maximum bytes of lists and names that are read per byte of the file: tables may share them
_FEWEST_READS = 1 << 16

# TensorType of schema.fbs -> element type of graphs, which have no strings, complex numbers, ...; constants of int4 are
# i8
DTYPE_NAMES: Mapping[int, str] = {
    0: "f32",
    1: "f16",
    2: "i32",
    3: "u8",
    4: "i64",
    6: "bool",
    7: "i16",
    9: "i8",
    10: "f64",
    12: "u64",
    15: "u32",
    16: "u16",
}
_INT4 = 17  # TensorType
_DAMAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError)
_T = TypeVar("_T")


def tflite_module() -> Any:
    """Return the tflite package. Raises: MavcgError if it is not installed."""
    try:
        import tflite
    except ImportError as error:
        absent = f"TFLite files need the tflite package ({error}); pip install mavcg[models]"
        raise import_problem(error, absent) from error
    return tflite


def parse_model(data: bytes) -> TfliteModel:
    """Parse a TFLite file. Raises: MavcgError if it is not one, is damaged, or has no subgraph."""
    if len(data) < 8 or data[4:8] != MARK:
        raise MavcgError(
            f"is not a TFLite file, or is cut short: {len(data)} bytes, with {data[4:8]!r} where {MARK!r} should stand"
        )
    return _FlatBufferReader(data, tflite_module()).model()


class _FlatBufferReader:
    """A reader of one file. location: the part that is being read, for error messages."""

    def __init__(self, data: bytes, tflite: Any) -> None:
        self.data = data
        self.tflite = tflite
        self.location = "the header"
        self.left = _READS_PER_BYTE * len(data) + _FEWEST_READS

    def model(self) -> TfliteModel:
        try:
            return self._model()
        except _DAMAGE as error:
            raise MavcgError(
                f"{self.location}: points beyond the end of the file, or cannot be read; the file is damaged"
            ) from error

    def fail(self, problem: str) -> MavcgError:
        return MavcgError(f"{self.location}: {problem}; the file is damaged")

    def _model(self) -> TfliteModel:
        model = self.tflite.Model.GetRootAs(self.data, 0)
        version = model.Version()
        if version != 3:
            raise MavcgError(f"the header: version {version} of the format is not supported; supported: 3")
        subgraphs = self.count(model.SubgraphsLength(), "subgraphs")
        if not subgraphs:
            raise MavcgError("the file has 0 subgraphs; nothing would be computed")
        codes = self.tables(model.OperatorCodes, model.OperatorCodesLength(), "operator code", self.code)
        buffers = self.tables(model.Buffers, model.BuffersLength(), "buffer", self.buffer)
        main = self.subgraph(model, 0, codes, buffers)  # the runtime starts with it
        bodies = self.bodies(model, main, lambda number: self.subgraph(model, number, codes, buffers))
        return replace(main, subgraphs=subgraphs, shared=self.shared_tensors(model, subgraphs), bodies=bodies)

    def bodies(self, model: Any, main: TfliteModel, read: Callable[[int], TfliteModel]) -> dict[int, TfliteModel]:
        """Return the subgraphs that operators of the main one run, and of these, by number; absent ones are left out.

        read: returns a subgraph.
        """
        bodies, left, waiting = dict[int, TfliteModel](), MOST_IN_BODIES, list(_runs(main))
        while waiting:
            number = waiting.pop()
            if number in bodies or not 0 < number < model.SubgraphsLength():
                continue
            table = model.Subgraphs(number)
            left -= table.TensorsLength() + table.OperatorsLength()
            if left < 0:  # subgraphs of a hostile file may all be one table
                raise self.fail(
                    f"the subgraphs that operators run have more than {MOST_IN_BODIES} tensors and operators"
                )
            body = read(number)
            waiting += _runs(body)
            bodies[number] = replace(body, bodies=bodies)
        return bodies

    def subgraph(self, model: Any, number: int, codes: list[str], buffers: list[memoryview]) -> TfliteModel:
        """Return one subgraph; the main one has number 0."""
        where = f"subgraph {number}" if number else "the subgraph"
        self.location = where
        graph = model.Subgraphs(number)
        name = self.text(graph.Name())
        self.location = f"{where}'s inputs and outputs"
        inputs, outputs = self.ints(graph, "Inputs"), self.ints(graph, "Outputs")
        tensors = self.tables(
            graph.Tensors, graph.TensorsLength(), "tensor", lambda table, i: self.tensor(table, i, buffers)
        )
        for i, read in enumerate(tensors):
            self.location = read.label
            if (blocks := read_blocks(graph.Tensors(i).Quantization())) is not None:
                tensors[i] = with_blocks(read, blocks, tensors, self.fail)
        operators = self.tables(
            graph.Operators, graph.OperatorsLength(), "operator", lambda table, i: self.operator(table, i, codes)
        )
        for operator in operators:
            self.location = f"operator {operator.index} ({operator.op})"
            if not operator.outputs and operator.op not in WITHOUT_OUTPUTS:
                raise self.fail("it has no outputs")
            self.check_indices(operator.inputs, -1, len(tensors))
            self.check_indices(operator.outputs, 0, len(tensors))
        self.location = f"{where}'s inputs and outputs"
        self.check_indices((*inputs, *outputs), 0, len(tensors))
        return TfliteModel(name, tuple(tensors), tuple(operators), inputs, outputs)

    def shared_tensors(self, model: Any, subgraphs: int) -> frozenset[int]:
        """Return the indices of tensors that have one buffer in the main subgraph and in another one."""
        shared: set[int] = set()
        compared = 0
        main = model.Subgraphs(0)
        for number in range(1, subgraphs):
            self.location = f"subgraph {number}"
            other = model.Subgraphs(number)
            both = min(main.TensorsLength(), self.count(other.TensorsLength(), "tensors"))
            compared += both
            if compared > MOST_COMPARED:  # subgraphs of a hostile file may all be one table
                raise self.fail(f"the subgraphs have more than {MOST_COMPARED} tensors")
            shared |= {i for i in range(both) if main.Tensors(i).Buffer() == other.Tensors(i).Buffer()}
        return frozenset(shared)

    def check_indices(self, indices: tuple[int, ...], least: int, tensors: int) -> None:
        for index in indices:
            if not least <= index < tensors:
                raise self.fail(f"refers to tensor {index}, but there are {tensors}")

    def count(self, length: int, label: str) -> int:
        """Check and return a number of tables, each of which has an offset of 4 bytes in the file."""
        if length > MOST_TABLES or length * 4 > len(self.data):
            raise MavcgError(
                f"the file declares {length} {label}; at most {MOST_TABLES} are read, "
                f"and {len(self.data)} bytes must hold them; the file is damaged"
            )
        return length

    def tables(self, get: Callable[[int], Any], length: int, label: str, read: Callable[[Any, int], _T]) -> list[_T]:
        tables = []
        for i in range(self.count(length, f"{label}s")):
            self.location = f"{label} {i}"
            tables.append(read(get(i), i))
        return tables

    def text(self, data: bytes | None) -> str:
        """Return a name, on one line."""
        self.take(len(data or b""))
        text = (data or b"").decode("utf-8", "replace")
        return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)

    def take(self, count: int) -> None:
        """Count bytes that are copied out of the file. Raises: MavcgError if tables share so much that a small file
        would fill the memory."""
        self.left -= count
        if self.left < 0:
            raise self.fail(
                f"names and lists that several tables share make more than {_READS_PER_BYTE} times the file"
            )

    def vector(self, table: Any, name: str) -> Array:
        """Return a list of numbers."""
        if getattr(table, name + "IsNone")():
            return np.zeros(0, np.int64)
        length = getattr(table, name + "Length")()
        if length > MOST_INTS:
            raise self.fail(f"{name} has {length} entries; at most {MOST_INTS} are read")
        numbers = np.asarray(getattr(table, name + "AsNumpy")())
        self.take(numbers.nbytes)
        return numbers

    def ints(self, table: Any, name: str) -> tuple[int, ...]:
        return tuple(self.vector(table, name).tolist())

    def code(self, table: Any, i: int) -> str:
        """Return the name of an operator. Codes up to 127 may be in the older field only."""
        number = max(table.BuiltinCode(), table.DeprecatedBuiltinCode())
        custom = table.CustomCode()
        name = self.tflite.utils.BUILTIN_OPCODE2NAME.get(number, f"operator code {number}")
        return f"CUSTOM {shorten_name(self.text(custom))}" if name == "CUSTOM" else str(name)

    def buffer(self, table: Any, i: int) -> memoryview:
        """Return the bytes of a buffer; large ones follow the flatbuffer, at an offset from the file's start."""
        start, length = table.Offset(), table.Size()
        if start > 1:
            if start + length > len(self.data):
                raise self.fail(f"{length} bytes at {start} end after the {len(self.data)} bytes of the file")
            return memoryview(self.data)[start : start + length]
        return memoryview(table.DataAsNumpy()) if table.DataLength() else memoryview(b"")

    def tensor(self, table: Any, i: int, buffers: list[memoryview]) -> TfliteTensor:
        name = self.text(table.Name())
        self.location = f"tensor {i} '{shorten_name(name)}'"
        number = table.Type()
        dtype = DTYPE_NAMES.get(number, "")
        kinds = {value: key for key, value in vars(self.tflite.TensorType).items() if not key.startswith("_")}
        shape, signature = self.ints(table, "Shape"), self.ints(table, "ShapeSignature")
        if len(shape) > MOST_RANK:
            raise self.fail(f"{len(shape)} dimensions; at most {MOST_RANK} are read")
        free = tuple(d for d, length in enumerate(signature or shape) if length == -1)
        if len(signature) not in (0, len(shape)) or any(n < 0 and d not in free for d, n in enumerate(shape)):
            raise self.fail(f"its shape {list(shape)} contradicts its signature {list(signature)}")
        if table.Buffer() >= len(buffers):
            raise self.fail(f"refers to buffer {table.Buffer()}, but there are {len(buffers)}")
        raw, sparsity = buffers[table.Buffer()], table.Sparsity()
        if number == _INT4 and len(raw) and sparsity is None:
            dtype, raw = "i8", self.unpack(raw, shape)
        return TfliteTensor(
            i,
            name,
            dtype,
            str(kinds.get(number, f"type {number}")).lower(),
            shape,
            free,
            self.quant(table.Quantization(), shape, dtype),
            self.constant(raw, dtype, shape) if len(raw) and dtype and sparsity is None else None,
            bool(table.IsVariable()),
            self.sparse(raw, dtype, sparsity) if dtype and sparsity is not None else None,
            # An empty shape is a scalar's or, without HasRank, an unknown one; some converters write 0 for unknown.
            tuple(n if n > 0 and d not in free else None for d, n in enumerate(shape))
            if shape or table.HasRank()
            else None,
        )

    def sparse(self, raw: memoryview, dtype: str, sparsity: Any) -> SparseData:
        if len(raw) % DTYPES[dtype].itemsize:
            raise self.fail(f"{len(raw)} bytes are not a whole number of elements of {dtype}")
        layout = read_layout(sparsity, self.tflite, len(self.data), self.take)
        return SparseData(layout, self.constant(raw, dtype, (len(raw) // DTYPES[dtype].itemsize,)))

    def unpack(self, raw: memoryview, shape: tuple[int, ...]) -> memoryview:
        """Return numbers of 4 bits in a byte each."""
        count = math.prod(shape)
        if len(raw) != (count + 1) // 2:
            raise self.fail(f"int4{list(shape)} takes {(count + 1) // 2} bytes; its buffer has {len(raw)}")
        self.take(count)
        return memoryview(unpack_signed_bits(np.frombuffer(raw, np.uint8), 4, count).tobytes())

    def constant(self, raw: memoryview, dtype: str, shape: tuple[int, ...]) -> Array:
        kind = DTYPES[dtype]
        required = kind.itemsize
        for length in shape:
            required *= length  # Python integers do not overflow
        if required != len(raw):
            raise self.fail(f"{dtype}{list(shape)} takes {required} bytes; its buffer has {len(raw)}")
        if dtype == "bool":
            self.take(len(raw))
            return np.asarray(np.frombuffer(raw, np.uint8).reshape(shape) != 0)
        stored = np.frombuffer(raw, kind.newbyteorder("<"))
        if not stored.flags.aligned:
            self.take(len(raw))  # NumPy needs elements aligned to their size; other data is copied
        return np.require(stored, requirements="A").reshape(shape)

    def quant(self, table: Any, shape: tuple[int, ...], dtype: str) -> Quant | None:
        """Return a tensor's quantization; None if it has none, or only the range of real numbers."""
        if table is None or table.ScaleIsNone() or not table.ScaleLength() or dtype.startswith("f"):
            return None
        scale = self.vector(table, "Scale").astype(np.float32)
        zero = self.vector(table, "ZeroPoint").astype(np.int64)
        axis = table.QuantizedDimension()
        if scale.size == 1:
            axis = 0
        elif not 0 <= axis < len(shape) or shape[axis] != scale.size:
            raise self.fail(f"{scale.size} scales do not match dimension {axis} of {list(shape)}")
        if not zero.size:
            zero = np.zeros(scale.size, np.int64)
        if zero.size == 1:
            zero = np.repeat(zero, scale.size)
        if zero.size != scale.size:
            raise self.fail(f"{scale.size} scales, but {zero.size} zero points")
        if not bool((np.isfinite(scale) & (scale > 0)).all()):
            raise self.fail("a scale is not a positive number")
        if dtype:
            limits = np.iinfo(DTYPES[dtype]) if dtype != "bool" else np.iinfo(np.uint8)
            if int(zero.min()) < limits.min or int(zero.max()) > limits.max:
                raise self.fail(f"a zero point is outside of the range of {dtype}")
        return Quant(scale, zero, axis)

    def operator(self, table: Any, i: int, codes: list[str]) -> TfliteOperator:
        if table.OpcodeIndex() >= len(codes):
            raise self.fail(f"refers to operator code {table.OpcodeIndex()}, but there are {len(codes)}")
        op = codes[table.OpcodeIndex()]
        self.location = f"operator {i} ({op})"
        return TfliteOperator(i, op, self.ints(table, "Inputs"), self.ints(table, "Outputs"), self.options(table))

    def options(self, operator: Any) -> Mapping[str, Any]:
        """Return an operator's options by the accessor's name; a custom operator has its bytes as CustomOptions."""
        number = operator.BuiltinOptionsType()
        at = operator.BuiltinOptions()
        if not number or at is None:
            length = operator.CustomOptionsLength()
            if length > len(self.data):
                raise self.fail(f"its {length} bytes of options are more than the file's {len(self.data)}")
            self.take(length)
            return MappingProxyType({CUSTOM_OPTIONS: bytes(operator.CustomOptionsAsNumpy())} if length else {})
        kinds = {value: key for key, value in vars(self.tflite.BuiltinOptions).items() if not key.startswith("_")}
        if number not in kinds:
            raise self.fail(f"options of unknown kind {number} (update the tflite package if the file is newer)")
        kind = getattr(self.tflite, kinds[number])
        options = kind()
        options.Init(at.Bytes, at.Pos)
        names = [
            n for n in vars(kind) if n != "Init" and not n.startswith(("_", "GetRootAs")) and "BufferHasIdent" not in n
        ]
        lists = {n.removesuffix("Length") for n in names if n.endswith("Length")}
        plain = [n for n in names if not any(n.startswith(listed) for listed in lists)]
        scalars = {n: getattr(options, n)() for n in plain}
        return scalars | {n: self.ints(options, n) for n in lists}


def _runs(model: TfliteModel) -> Iterator[int]:
    """Yield the numbers of the subgraphs that a subgraph's operators run."""
    for operator in model.operators:
        for option in RUNS.get(operator.op, ()):
            yield operator.options.get(option, 0)


def read_file(path: Path) -> bytes:
    """Return the bytes of a file. Raises: MavcgError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise MavcgError(f"cannot be read ({error.strerror}); name a TFLite file") from error
