"""Tensors of a TFLite file: types, shapes, constants and quantization, checked against each other.

Scales of blocks are the schema's BlockwiseQuantization, which the tflite package does not know. Source: LiteRT,
schema.fbs, table BlockwiseQuantization (scales, zero_points, block_size); its kernels, which read the scales as f16 and
take the zero points to be 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flatbuffers.number_types import Int32Flags, UOffsetTFlags

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Array
from mavcg.graph.reference.block_weights import unpack_signed_bits
from mavcg.importers.tflite_model import Quant, TfliteTensor, shorten_name
from mavcg.importers.tflite_sparse import SparseData, read_layout
from mavcg.importers.tflite_tables import TfliteTables

MOST_RANK = 16
# TensorType of schema.fbs -> element type of graphs, which have no strings, complex numbers, ...; constants of int4
# and int2 are i8
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
_FEW_BITS: Mapping[int, tuple[str, int]] = {17: ("int4", 4), 19: ("int2", 2)}  # TensorType -> name, bits
_BLOCKWISE = 2  # QuantizationDetails
_SCALES, _ZERO_POINTS, _BLOCK_SIZE = 4, 6, 8  # places of the fields in the table's index


def read_tensor(file: TfliteTables, table: Any, i: int, buffers: list[memoryview]) -> TfliteTensor:
    """Return a tensor, of a number in its subgraph, without scales of blocks. Raises: MavcgError if it is damaged."""
    name = file.text(table.Name())
    file.location = f"tensor {i} '{shorten_name(name)}'"
    number = table.Type()
    dtype = DTYPE_NAMES.get(number, "")
    kinds = {value: key for key, value in vars(file.tflite.TensorType).items() if not key.startswith("_")}
    kinds |= {value: kind for value, (kind, _) in _FEW_BITS.items()}
    shape, signature = file.ints(table, "Shape"), file.ints(table, "ShapeSignature")
    if len(shape) > MOST_RANK:
        raise file.fail(f"{len(shape)} dimensions; at most {MOST_RANK} are read")
    free = tuple(d for d, length in enumerate(signature or shape) if length == -1)
    if len(signature) not in (0, len(shape)) or any(n < 0 and d not in free for d, n in enumerate(shape)):
        raise file.fail(f"its shape {list(shape)} contradicts its signature {list(signature)}")
    if table.Buffer() >= len(buffers):
        raise file.fail(f"refers to buffer {table.Buffer()}, but there are {len(buffers)}")
    raw, sparsity = buffers[table.Buffer()], table.Sparsity()
    if number in _FEW_BITS and len(raw) and sparsity is None:
        dtype, raw = "i8", _unpack(file, raw, shape, *_FEW_BITS[number])
    return TfliteTensor(
        i,
        name,
        dtype,
        str(kinds.get(number, f"type {number}")).lower(),
        shape,
        free,
        _quant(file, table.Quantization(), shape, dtype),
        _constant(file, raw, dtype, shape) if len(raw) and dtype and sparsity is None else None,
        bool(table.IsVariable()),
        _sparse(file, raw, dtype, sparsity) if dtype and sparsity is not None else None,
        # An empty shape is a scalar's or, without HasRank, an unknown one; some converters write 0 for unknown.
        tuple(n if n > 0 and d not in free else None for d, n in enumerate(shape))
        if shape or table.HasRank()
        else None,
    )


def _sparse(file: TfliteTables, raw: memoryview, dtype: str, sparsity: Any) -> SparseData:
    if len(raw) % DTYPES[dtype].itemsize:
        raise file.fail(f"{len(raw)} bytes are not a whole number of elements of {dtype}")
    layout = read_layout(sparsity, file)
    return SparseData(layout, _constant(file, raw, dtype, (len(raw) // DTYPES[dtype].itemsize,)))


def _unpack(file: TfliteTables, raw: memoryview, shape: tuple[int, ...], kind: str, bits: int) -> memoryview:
    """Return numbers of few bits in a byte each."""
    count = math.prod(shape)
    size = -(-count * bits // 8)
    if len(raw) != size:
        raise file.fail(f"{kind}{list(shape)} takes {size} bytes; its buffer has {len(raw)}")
    file.take(count)
    return memoryview(unpack_signed_bits(np.frombuffer(raw, np.uint8), bits, count).tobytes())


def _constant(file: TfliteTables, raw: memoryview, dtype: str, shape: tuple[int, ...]) -> Array:
    kind = DTYPES[dtype]
    required = kind.itemsize
    for length in shape:
        required *= length  # Python integers do not overflow
    if required != len(raw):
        raise file.fail(f"{dtype}{list(shape)} takes {required} bytes; its buffer has {len(raw)}")
    if dtype == "bool":
        file.take(len(raw))
        return np.asarray(np.frombuffer(raw, np.uint8).reshape(shape) != 0)
    stored = np.frombuffer(raw, kind.newbyteorder("<"))
    if not stored.flags.aligned:
        file.take(len(raw))  # NumPy needs elements aligned to their size; other data is copied
    return np.require(stored, requirements="A").reshape(shape)


def _quant(file: TfliteTables, table: Any, shape: tuple[int, ...], dtype: str) -> Quant | None:
    """Return a tensor's quantization; None if it has none, or only the range of real numbers."""
    if table is None or table.ScaleIsNone() or not table.ScaleLength() or dtype.startswith("f"):
        return None
    scale = file.vector(table, "Scale").astype(np.float32)
    zero = file.vector(table, "ZeroPoint").astype(np.int64)
    axis = table.QuantizedDimension()
    if scale.size == 1:
        axis = 0
    elif not 0 <= axis < len(shape) or shape[axis] != scale.size:
        raise file.fail(f"{scale.size} scales do not match dimension {axis} of {list(shape)}")
    if not zero.size:
        zero = np.zeros(scale.size, np.int64)
    if zero.size == 1:
        zero = np.repeat(zero, scale.size)
    if zero.size != scale.size:
        raise file.fail(f"{scale.size} scales, but {zero.size} zero points")
    if not bool((np.isfinite(scale) & (scale > 0)).all()):
        raise file.fail("a scale is not a positive number")
    if dtype:
        limits = np.iinfo(DTYPES[dtype]) if dtype != "bool" else np.iinfo(np.uint8)
        if int(zero.min()) < limits.min or int(zero.max()) > limits.max:
            raise file.fail(f"a zero point is outside of the range of {dtype}")
    return Quant(scale, zero, axis)


@dataclass(frozen=True)
class BlockwiseScales:
    """A blockwise quantization. scales, zeros: indices of tensors. size: elements of a block."""

    scales: int
    zeros: int
    size: int


def read_blocks(quantization: Any) -> BlockwiseScales | None:
    """Return the blockwise quantization of QuantizationParameters; None if there is none."""
    if quantization is None or quantization.DetailsType() != _BLOCKWISE or quantization.Details() is None:
        return None
    table = quantization.Details()

    def number(field: int) -> int:
        offset = UOffsetTFlags.py_type(table.Offset(field))
        return int(table.Get(Int32Flags, offset + table.Pos)) if offset else 0

    return BlockwiseScales(number(_SCALES), number(_ZERO_POINTS), number(_BLOCK_SIZE))


def with_blocks(
    tensor: TfliteTensor, blocks: BlockwiseScales, tensors: Sequence[TfliteTensor], fail: Callable[[str], MavcgError]
) -> TfliteTensor:
    """Return a tensor with its scales, which are another one's elements. fail: returns the error for a problem.

    Raises: MavcgError for a tensor that is computed, blocks that do not divide its last dimension, scales that are not
    positive f16 constants, one for each block, and zero points other than 0.
    """
    if tensor.data is None or tensor.dtype != "i8":
        raise fail(f"it is {tensor.kind} with scales of blocks; constants of int2, int4 and int8 may have them")
    depth = tensor.shape[-1] if tensor.shape else 0
    if blocks.size < 1 or not depth or depth % blocks.size:
        raise fail(f"blocks of {blocks.size} do not divide the last dimension of {list(tensor.shape)}")
    if not 0 <= blocks.scales < len(tensors):
        raise fail(f"its scales are tensor {blocks.scales}, but there are {len(tensors)}")
    given, shape = tensors[blocks.scales], (*tensor.shape[:-1], depth // blocks.size)
    if given.data is None or given.dtype != "f16" or given.data.size != int(np.prod(shape)):
        raise fail(f"its scales, {given.label}, are {given.kind}{list(given.shape)}; a constant f16{shape} is needed")
    scale = given.data.reshape(shape).astype(np.float32)
    if not bool((np.isfinite(scale) & (scale > 0)).all()):
        raise fail("a scale is not a positive number")
    if 0 < blocks.zeros < len(tensors):  # 0 is what a file has that names none
        zeros = tensors[blocks.zeros].data
        if zeros is None or zeros.any():
            raise fail(f"its zero points, {tensors[blocks.zeros].label}, are not all 0")
    return replace(tensor, quant=Quant(scale, np.zeros(shape, np.int64), len(shape) - 1, blocks.size))
