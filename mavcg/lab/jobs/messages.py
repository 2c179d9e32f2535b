"""Messages between processes as data: frozen values in JSON and bytes, whose classes the reader expects.

Unlike a pickle, a message cannot name code that runs when it is read. It is a table of rows; each is a tuple, a
mapping, an array, or an object of a class with typed fields, and refers to earlier rows, so that shared values stay
shared and a message has no cycles. A reader is given a type; only classes that occur in it, or are derived from those,
are made, and each field is compared with its type.
"""

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path, PurePath
from types import FunctionType
from typing import Annotated, Any, cast

import msgspec
import numpy as np

from mavcg.errors import MavcgError
from mavcg.lab.jobs.message_types import MessageClasses, fits, type_name

MARK = b"mavcg-message-1\n"
MOST_BYTES = 4_000_000_000  # of a message
_SIZES = struct.Struct("<Q")
_DIGEST_BYTES = 32
_PLAIN = (str, int, float, bool, type(None))
_ARRAY_KINDS = "biuf"  # booleans, integers, floating point; no Python objects
_MOST_AXES = 64  # of a NumPy array


class MessageError(MavcgError):
    """A message that is damaged, or is not what its reader expects."""


def pack_message(value: Any, **labels: str) -> bytes:
    """Return a value as a message: a mark, the SHA-256 of the rest, the size of the JSON, the JSON, and the blobs.

    labels: texts that can be read before the type of the value is known. Raises: TypeError for a value of a kind that
    messages do not have.
    """
    rows = _Rows()
    root = rows.reference(value)
    document = {"labels": labels, "rows": rows.rows, "root": root, "blobs": [len(blob) for blob in rows.blobs]}
    head = json.dumps(document, separators=(",", ":")).encode()
    content = b"".join((_SIZES.pack(len(head)), head, *rows.blobs))
    return MARK + hashlib.sha256(content).digest() + content


@dataclass
class _Rows:
    """The rows of a message that is written, and its blobs; `known` has the row of each value that is kept alive."""

    rows: list[list[Any]] = field(default_factory=list)
    blobs: list[bytes] = field(default_factory=list)
    known: dict[int, tuple[int, Any]] = field(default_factory=dict)

    def reference(self, value: Any) -> Any:
        """Return a plain value as it is, and any other as [number of its row], which is added."""
        if type(value) in _PLAIN:
            return value
        if id(value) not in self.known:
            row = self._row(value)
            self.rows.append(row)
            self.known[id(value)] = len(self.rows) - 1, value
        return [self.known[id(value)][0]]

    def _row(self, value: Any) -> list[Any]:
        match value:
            case Enum():
                return ["enum", type_name(type(value)), value.name]
            case PurePath():
                return ["path", str(value)]
            case bytes():
                return ["bytes", self._blob(value)]
            case np.ndarray():
                return self._array("array", value)
            case np.generic():
                return self._array("number", value)
            case _ if is_dataclass(value) and not isinstance(value, type):
                members = (self.reference(getattr(value, f.name)) for f in fields(value))
                return ["object", type_name(type(value)), *members]
            case tuple() if hasattr(value, "_fields"):
                return ["object", type_name(type(value)), *map(self.reference, value)]
            case tuple() | list():
                return [type(value).__name__, *map(self.reference, value)]
            case frozenset():
                return ["frozenset", *map(self.reference, sorted(value, key=repr))]
            case Mapping():
                return ["mapping", *(self.reference(item) for pair in value.items() for item in pair)]
            case FunctionType():
                return ["function", f"{value.__module__}:{value.__qualname__}"]
        raise TypeError(f"a message has no values of class {type_name(type(value))}")

    def _array(self, kind: str, value: Any) -> list[Any]:
        if value.dtype.kind not in _ARRAY_KINDS:
            raise TypeError(f"a message has no arrays of {value.dtype}")
        return [kind, value.dtype.str, list(value.shape), self._blob(value.tobytes())]

    def _blob(self, content: bytes) -> int:
        self.blobs.append(content)
        return len(self.blobs) - 1


class Message:
    """A message that was received: its digest and sizes are right, its value is not read yet."""

    def __init__(self, content: Any) -> None:
        """Take the message apart. Raises: MessageError if it is none, or if sizes or the digest do not agree."""
        head, body = _head(content)
        self.labels = head.labels
        self._rows = head.rows
        self._root = head.root
        self._blobs: list[memoryview] = []
        for length in head.blobs:
            self._blobs.append(body[:length])
            body = body[length:]

    def value(self, expected: Any) -> Any:
        """Return the value. expected: its type, as in an annotation.

        Raises: MessageError if the value, or any value in it, is not of the type.
        """
        reader = _RowReader(MessageClasses(expected), self._blobs)
        for row in self._rows:
            reader.add(row)
        value = reader.value(self._root)
        if not fits(value, expected):
            raise MessageError(f"a value of class {type_name(type(value))} where {type_name(expected)} is expected")
        return value


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON of a message. labels: see pack_message. root: reference to its value. blobs: sizes in bytes."""

    labels: dict[str, str]
    rows: list[Any]
    root: Any
    blobs: list[Annotated[int, msgspec.Meta(ge=0)]]


def _head(content: Any) -> tuple[_Head, memoryview]:
    """Return the JSON of a message, and its blobs in a row. Raises: MessageError as Message."""
    if type(content) is not bytes or not content.startswith(MARK):
        raise MessageError("not a message of mavcg")
    if len(content) > MOST_BYTES:
        raise MessageError(f"a message of {len(content)} bytes; the most are {MOST_BYTES}")
    body = memoryview(content)[len(MARK) + _DIGEST_BYTES :]
    if hashlib.sha256(body).digest() != content[len(MARK) : len(MARK) + _DIGEST_BYTES]:
        raise MessageError("the digest of a message is not that of its content")
    try:
        (size,) = _SIZES.unpack_from(body)
        # Not json_document, because values that are not finite are sent too.
        head = msgspec.convert(json.loads(bytes(body[_SIZES.size : _SIZES.size + size])), _Head)
    except (struct.error, ValueError, RecursionError) as error:
        raise MessageError(f"the JSON of a message cannot be read ({error})") from None
    blobs = body[_SIZES.size + size :]
    if sum(head.blobs) != len(blobs):
        raise MessageError("the sizes of a message are not those of its content")
    return head, blobs


class _RowReader:
    """The values of a message's rows, in their order."""

    def __init__(self, classes: MessageClasses, blobs: list[memoryview]) -> None:
        self._classes = classes
        self._blobs = blobs
        self._values: list[Any] = []

    def value(self, reference: Any) -> Any:
        """Return a plain value, or that of an earlier row. Raises: MessageError for anything else."""
        if type(reference) in _PLAIN:
            return reference
        if isinstance(reference, list) and len(reference) == 1 and type(reference[0]) is int:
            if 0 <= reference[0] < len(self._values):
                return self._values[reference[0]]
        raise MessageError("a message refers to a value that it does not have")

    def add(self, row: Any) -> None:
        """Add the value of the next row. Raises: MessageError if it cannot be made."""
        if not isinstance(row, list) or not row or not isinstance(row[0], str):
            raise MessageError("a row of a message has no kind")
        try:
            self._values.append(self._make_value(row[0], row[1:]))
        except MessageError:
            raise
        except (TypeError, ValueError, AttributeError, KeyError, MavcgError) as error:
            raise MessageError(f"a row {row[0]!r} that cannot be read ({type(error).__name__})") from error

    def _make_value(self, kind: str, parts: list[Any]) -> Any:
        if kind in ("tuple", "list", "frozenset"):
            return {"tuple": tuple, "list": list, "frozenset": frozenset}[kind](map(self.value, parts))
        if kind == "mapping":
            values = list(map(self.value, parts))
            return dict(zip(values[::2], values[1::2], strict=True))
        if kind == "object":
            return self._object(parts[0] if parts else None, list(map(self.value, parts[1:])))
        if kind == "enum":
            name, member = parts
            return self._classes.enum(name)[member]
        if kind == "function":
            (name,) = parts
            return self._classes.function(name)
        if kind == "path":
            (text,) = parts
            return Path(_text(text))
        if kind == "bytes":
            (number,) = parts
            return bytes(self._blob(number))
        if kind in ("array", "number"):
            return self._array(kind, *parts)
        raise MessageError(f"a row of the unknown kind {kind!r}")

    def _object(self, name: Any, values: list[Any]) -> Any:
        made, types = self._classes.object(name)
        if len(values) != len(types):
            raise MessageError(f"{name} has {len(types)} fields, not {len(values)}")
        for (key, expected), value in zip(types.items(), values, strict=True):
            if not fits(value, expected):
                raise MessageError(
                    f"{name}.{key} is of class {type_name(type(value))} where {type_name(expected)} is expected"
                )
        return made(*values) if issubclass(made, tuple) else _frozen(made, dict(zip(types, values, strict=True)))

    def _array(self, kind: str, dtype: Any, shape: Any, number: Any) -> Any:
        element = np.dtype(_text(dtype))
        sizes = [size for size in shape if type(size) is int and size >= 0]
        if element.kind not in _ARRAY_KINDS or len(sizes) != len(shape) or len(sizes) > _MOST_AXES:
            raise MessageError("an array of another kind")
        array = np.frombuffer(bytearray(self._blob(number)), element)  # of its own, because arrays can be written
        if array.nbytes != len(self._blob(number)):
            raise MessageError("an array of another size")
        return array.reshape(sizes) if kind == "array" else array.reshape(())[()]

    def _blob(self, number: Any) -> memoryview:
        if type(number) is not int or not 0 <= number < len(self._blobs):
            raise MessageError("a message refers to a blob that it does not have")
        return self._blobs[number]


def _text(value: Any) -> str:
    if type(value) is not str:
        raise MessageError("a name that is not a text")
    return value


def _frozen(made: type, values: dict[str, Any]) -> Any:
    """Make an object of a dataclass by its constructor, which checks what it checks, then set its other fields."""
    parameters = {f.name: values[f.name] for f in fields(made) if f.init}
    value = made(**parameters)
    for name in (f.name for f in _others(made)):
        object.__setattr__(value, name, values[name])
    return value


def _others(made: type) -> Iterator[Any]:
    return (f for f in fields(cast(Any, made)) if not f.init)
