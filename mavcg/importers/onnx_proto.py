"""Conversion of ONNX's protobuf messages (file, tensors, attributes) to checked plain values.

The file is not trusted: sizes are compared with the existing bytes before anything is allocated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mavcg.errors import MavcgError, import_problem
from mavcg.files.bounded_read import read_bounded
from mavcg.graph import Array
from mavcg.importers.limits import MOST_FILE_BYTES, Unsupported
from mavcg.importers.onnx_narrow import BY_NUMBER, packed_bytes, unpack_elements

if TYPE_CHECKING:
    import onnx

LARGEST_DIMENSION = 1 << 31
_DEEPEST_PATH = 4096

# TensorProto.DataType -> element type. Graphs do not have the other types: strings, complex numbers, and those of
# onnx_narrow.py.
DTYPE_NAMES: Mapping[int, str] = {
    1: "f32",
    2: "u8",
    3: "i8",
    4: "u16",
    5: "i16",
    6: "i32",
    7: "i64",
    9: "bool",
    10: "f16",
    11: "f64",
    12: "u32",
    13: "u64",
}
_NUMPY = {
    "f32": "<f4",
    "u8": "u1",
    "i8": "i1",
    "u16": "<u2",
    "i16": "<i2",
    "i32": "<i4",
    "i64": "<i8",
    "bool": "u1",
    "f16": "<f2",
    "f64": "<f8",
    "u32": "<u4",
    "u64": "<u8",
}
# The field of the elements if raw_data is empty. int32_data has the bits of f16.
_FIELDS = {
    "f32": "float_data",
    "f64": "double_data",
    "i64": "int64_data",
    "u32": "uint64_data",
    "u64": "uint64_data",
}


def onnx_module() -> Any:
    """Return the onnx package. Raises: MavcgError if it is not installed."""
    try:
        import onnx
        import onnx.defs
        import onnx.external_data_helper
    except ImportError as error:
        absent = f"ONNX files need the onnx package ({error}); pip install mavcg[models]"
        raise import_problem(error, absent) from error
    return onnx


def load_model(path: Path) -> onnx.ModelProto:
    """Return the model of a file, without external data. Raises: MavcgError for an unreadable file or another
    format."""
    onnx = onnx_module()
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        data = read_bounded(path, MOST_FILE_BYTES)
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); name an ONNX file") from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise MavcgError(f"{path}: is not an ONNX model, or is damaged ({one_line(error)})") from error
    _check_text(model, str(path))
    if not model.HasField("graph"):
        raise MavcgError(f"{path}: has no graph; is it an ONNX model?")
    return model  # type: ignore[no-any-return]


def _check_text(message: Any, location: str) -> None:
    """Check that all names are UTF-8, since the parser returns bytes for others. Raises: MavcgError."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            for text in [value] if isinstance(value, str | bytes) else value:
                if isinstance(text, bytes):
                    raise MavcgError(f"{location}: {text[:40]!r}, a {field.name}, is not UTF-8; the file is damaged")
        elif field.type == field.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                _check_text(inner, location)


def one_line(error: object) -> str:
    """Return an exception's message on one line, shortened."""
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else text[:197] + "..."


def data_type_name(number: int) -> str:
    """Return ONNX's name of an element type, for messages."""
    with contextlib.suppress(ValueError):
        return str(onnx_module().TensorProto.DataType.Name(number)).lower()
    return f"type {number}"


def dtype_of(number: int, location: str) -> str:
    """Return the element type of a TensorProto.DataType. Raises: Unsupported for a type that graphs do not have."""
    name = DTYPE_NAMES.get(number)
    if name is None:
        raise Unsupported(
            f"{location}: elements of type {data_type_name(number)}; supported: {', '.join(DTYPE_NAMES.values())}"
        )
    return name


def read_tensor(tensor: onnx.TensorProto, location: str, folder: Path | None) -> Array:
    """Return the array of a tensor message.

    location: the tensor's name in messages. folder: folder of external data; None if external data is not allowed. The
    array is of a type of ml_dtypes where graphs lack the tensor's (onnx_narrow.py).
    Raises: MavcgError for dims that do not match the bytes, and for an unsupported element type.
    """
    if tensor.HasField("segment"):
        raise MavcgError(f"{location}: it is a segment of a tensor; not supported")
    narrow = BY_NUMBER.get(tensor.data_type)
    dtype = narrow.name if narrow is not None else dtype_of(tensor.data_type, location)
    shape = tuple(tensor.dims)
    if any(not 0 <= d < LARGEST_DIMENSION for d in shape):
        raise MavcgError(f"{location}: dimensions {list(shape)}; each must be from 0 to {LARGEST_DIMENSION - 1}")
    count = 1
    for d in shape:
        count *= d
    numpy_type = np.dtype(_NUMPY[dtype]) if narrow is None else narrow.dtype
    size = count * numpy_type.itemsize if narrow is None else packed_bytes(narrow, count)
    if tensor.data_location == 1:
        raw = _external(tensor, location, folder, size)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        if narrow is None:
            return _from_field(tensor, dtype, shape, count, location)
        # An entry has the bits of a float, or a byte of smaller elements.
        raw = np.array(tensor.int32_data, np.int64).astype("<u2" if narrow.bits == 16 else np.uint8).tobytes()
    if len(raw) != size:
        raise MavcgError(
            f"{location}: {len(raw)} bytes of data where {dtype}{list(shape)} takes {size}; the file is damaged"
        )
    if narrow is not None:
        return unpack_elements(raw, narrow, count).reshape(shape)
    return _finish_array(np.frombuffer(raw, numpy_type), dtype, shape)


def _from_field(tensor: onnx.TensorProto, dtype: str, shape: tuple[int, ...], count: int, location: str) -> Array:
    values = getattr(tensor, _FIELDS.get(dtype, "int32_data"))
    if len(values) != count:
        raise MavcgError(
            f"{location}: {len(values)} elements of data where {dtype}{list(shape)} has {count}; the file is damaged"
        )
    if dtype == "f16":
        bits = np.array(values, np.int64).astype(np.uint16)
        return _finish_array(bits.view(np.float16), dtype, shape)
    # Through int64: a number that does not fit wraps around, as in the C++ parsers.
    first = np.uint64 if dtype in ("u32", "u64") else np.int64 if dtype not in _FIELDS else _NUMPY[dtype]
    wide = np.array(values, first)
    return _finish_array(wide.astype(_NUMPY[dtype]), dtype, shape)


def _finish_array(flat: Array, dtype: str, shape: tuple[int, ...]) -> Array:
    if dtype == "bool":
        flat = flat != 0
    array: Array = flat.astype(flat.dtype.newbyteorder("="), copy=False).reshape(shape)
    return array


def _external(tensor: onnx.TensorProto, location: str, folder: Path | None, size: int) -> bytes:
    """Return the bytes of a tensor's external data, which must be in the model's folder."""
    info = {entry.key: entry.value for entry in tensor.external_data}
    file_name = info.get("location", "")
    if folder is None or not file_name or len(file_name) > _DEEPEST_PATH or "\0" in file_name:
        raise MavcgError(f"{location}: external data without a usable location")
    numbers = {}
    for key in ("offset", "length"):
        text = info.get(key, "0" if key == "offset" else str(size))
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise MavcgError(f"{location}: external data: {key} is {text[:40]!r}; a number of bytes is needed")
        numbers[key] = int(text)
    if numbers["length"] != size:
        raise MavcgError(f"{location}: external data of {numbers['length']} bytes where {size} are needed")
    base = folder.resolve()
    try:
        target = (base / file_name).resolve()
        if not target.is_relative_to(base):
            raise MavcgError(f"{location}: external data in {file_name!r}, outside the model's folder; not read")
        if not target.is_file():
            raise MavcgError(f"{location}: its external data {file_name!r} is missing; put it beside the model")
        with target.open("rb") as file:
            end = file.seek(0, 2)
            if numbers["offset"] + size > end:
                raise MavcgError(f"{location}: external data {file_name!r} has {end} bytes; it should lie beyond them")
            file.seek(numbers["offset"])
            data: bytes = file.read(size)
            return data
    except (OSError, RuntimeError, ValueError) as error:
        raise MavcgError(f"{location}: external data {file_name!r} cannot be read ({one_line(error)})") from error


def read_attributes(node: onnx.NodeProto, location: str, folder: Path | None) -> dict[str, Any]:
    """Return the attributes of a node: int, float, str, Array, GraphProto, TypeProto, or tuples of the first
    three.

    Raises: MavcgError for a repeated attribute, and for unsupported kinds.
    """
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.name in attributes:
            raise MavcgError(f"{location}: its attribute {attribute.name} is given twice")
        attributes[attribute.name] = _attribute(attribute, f"{location}: attribute {attribute.name}", folder)
    return attributes


def _attribute(attribute: onnx.AttributeProto, location: str, folder: Path | None) -> Any:
    match attribute.type:
        case 1:  # FLOAT
            return float(attribute.f)
        case 2:  # INT
            return int(attribute.i)
        case 3:  # STRING
            return attribute.s.decode("utf-8", "replace")
        case 4:  # TENSOR
            return read_tensor(attribute.t, location, folder)
        case 5:  # GRAPH
            return attribute.g
        case 6:  # FLOATS
            return tuple(float(v) for v in attribute.floats)
        case 7:  # INTS
            return tuple(int(v) for v in attribute.ints)
        case 8:  # STRINGS
            return tuple(s.decode("utf-8", "replace") for s in attribute.strings)
        case 13:  # TYPE_PROTO
            return attribute.tp
    raise MavcgError(f"{location}: of a kind ({attribute.type}) that is not supported")
