"""Messages as data: values come back with their types and sharing; nothing that was not expected is ever made."""

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mavcg.kernels.gemm.tile import pack
from mavcg.lab.jobs.messages import MARK, Message, MessageError, pack_message
from tests.conftest import examples


class Colour(Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    name: str
    number: int


@dataclass(frozen=True)
class Shape:
    sides: tuple[int, ...] = ()


@dataclass(frozen=True)
class Square(Shape):
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Picture:
    """Has a field of each kind; `area` is not a parameter of the constructor."""

    shapes: tuple[Shape, ...]
    pairs: Mapping[str, Pair]
    array: NDArray[Any] | None = None
    where: Path | None = None
    code: bytes = b""
    kinds: frozenset[str] = frozenset()
    scale: float = 1.0
    mode: Literal["fast", "slow"] = "fast"
    anything: Any = None
    area: int = field(default=0, init=False)


@dataclass(frozen=True)
class Unrelated:
    sides: tuple[int, ...] = ()


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner), max_leaves=8
)
SHAPES = st.builds(Shape, st.lists(st.integers()).map(tuple)) | st.builds(
    Square, st.lists(st.integers()).map(tuple), st.sampled_from(Colour)
)
PICTURES = st.builds(
    Picture,
    st.lists(SHAPES).map(tuple),
    st.dictionaries(st.text(), st.builds(Pair, st.text(), st.integers())),
    where=st.none() | st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1).map(Path),
    code=st.binary(),
    kinds=st.frozensets(st.text()),
    scale=st.floats(allow_nan=False),
    mode=st.sampled_from(("fast", "slow")),
    anything=ANYTHING,
)


@settings(max_examples=examples(30, 7))
@given(PICTURES)
def test_what_is_sent_arrives(picture: Picture) -> None:
    message = Message(pack_message(picture, task="draw"))
    received = message.value(Picture)

    assert received == picture and message.labels == {"task": "draw"}
    assert [type(shape) for shape in received.shapes] == [type(shape) for shape in picture.shapes]
    assert pack_message(received) == pack_message(picture)


@pytest.mark.parametrize("dtype", ["float32", "float16", ">i8", "uint8", "bool", "float64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 4)])
def test_arrays_keep_type_shape_and_bits(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(np.arange(math.prod(shape)).reshape(shape) * 1.5, dtype)
    received = Message(pack_message(array)).value(NDArray[Any])

    assert received.dtype == array.dtype and received.shape == shape and received.tobytes() == array.tobytes()
    assert received.flags.writeable


def test_numbers_that_are_not_finite_and_numbers_of_numpy() -> None:
    sent = (math.inf, -math.inf, -0.0, np.float32(0.1), np.int64(2**62))
    received = Message(pack_message(sent)).value(tuple[float, ...])
    assert received == sent and [type(value) for value in received] == [type(value) for value in sent]
    assert math.copysign(1, received[2]) == -1 and math.isnan(Message(pack_message((math.nan,))).value(tuple[Any])[0])


def test_a_shared_value_stays_shared() -> None:
    weights = np.ones(1000, np.float32)
    content = pack_message((weights, [weights, weights]))
    first, (second, third) = Message(content).value(tuple[Any, ...])
    assert first is second is third and len(content) < 4 * 1000 + 500


def test_functions_that_pack_constants_are_sent_by_name() -> None:
    assert Message(pack_message((pack,))).value(tuple[Any, ...]) == (pack,)


@pytest.mark.parametrize("value", [object(), int, {1, 2}, 1j, np.array([None]), bytearray(b"a")])
def test_other_values_are_not_sent(value: Any) -> None:
    with pytest.raises(TypeError, match="a message has no"):
        pack_message(value)


def sealed(rows: Any, root: Any, contents: tuple[bytes, ...] = (), **others: Any) -> bytes:
    """A message with a right digest, whatever it says."""
    lengths = [len(blob) for blob in contents]
    head = json.dumps({"labels": {}, "rows": rows, "root": root, "blobs": lengths, **others}).encode()
    content = struct.pack("<Q", len(head)) + head + b"".join(contents)
    return MARK + hashlib.sha256(content).digest() + content


HERE = __name__
HOSTILE: dict[str, Any] = {
    "a class that was not expected": ([["object", f"{HERE}:Unrelated", 0]], [0]),
    "a class of the standard library": ([["object", "subprocess:Popen", "true"]], [0]),
    "a module as a class": ([["object", "os:system", "true"]], [0]),
    "an enumeration as an object": ([["object", f"{HERE}:Colour", 1]], [0]),
    "a field of another type": ([["object", f"{HERE}:Shape", "sides"]], [0]),
    "a member of another type": ([["tuple", "1"], ["object", f"{HERE}:Shape", [0]]], [1]),
    "too few fields": ([["object", f"{HERE}:Square"]], [0]),
    "too many fields": ([["tuple"], ["object", f"{HERE}:Shape", [0], 1]], [1]),
    "a row that is not there yet": ([["tuple", [1]], ["tuple"]], [0]),
    "itself": ([["tuple", [0]]], [0]),
    "a negative row": ([["tuple"], ["tuple", [-1]]], [1]),
    "a row by a fraction": ([["tuple"]], [0.0]),
    "an unknown kind": ([["pickle", "cos\nsystem\n(S'true'\ntR."]], [0]),
    "no kind": ([[]], [0]),
    "a row that is no list": ([{"tuple": []}], [0]),
    "a function of the standard library": ([["function", "os:system"]], [0]),
    "a function of mavcg that packs nothing": ([["function", "mavcg.kernels.registry:supports"]], [0]),
    "a function beside a packing one": ([["function", "mavcg.kernels.gemm.tile:np"]], [0]),
    "a module that is not loaded": ([["function", "mavcg.kernels.evil:pack"]], [0]),
    "a class of an enumeration's member": ([["enum", f"{HERE}:Colour", "__class__"]], [0]),
    "an unknown member": ([["enum", f"{HERE}:Colour", "GREEN"]], [0]),
    "a blob that is not there": ([["bytes", 0]], [0]),
    "a path that is no text": ([["path", 3]], [0]),
    "Python objects in an array": ([["array", "|O", [0], 0]], [0], (b"",)),
    "another size of an array": ([["array", "<f4", [3], 0]], [0], (b"12345678",)),
    "a negative side": ([["array", "<f4", [-1, 2], 0]], [0], (b"12345678",)),
    "half an element": ([["array", "<f4", [1], 0]], [0], (b"12345",)),
    "a key that cannot be one": ([["list"], ["mapping", [0], 1]], [1]),
    "a key without a value": ([["mapping", "a"]], [0]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_message_is_refused(what: str) -> None:
    rows, root, *blobs = HOSTILE[what]
    with pytest.raises(MessageError):
        Message(sealed(rows, root, *blobs)).value(Shape | Picture | tuple[Any, ...] | NDArray[Any])


@pytest.mark.parametrize(
    "others", [{"labels": []}, {"labels": {"a": 1}}, {"rows": {}}, {"blobs": [1]}, {"blobs": [-1]}, {"more": 1}]
)
def test_a_message_of_another_form(others: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        Message(sealed(**({"rows": [], "root": None} | others)))


@given(st.data())
def test_no_changed_byte_is_accepted(data: st.DataObject) -> None:
    content = bytearray(pack_message(Picture((Shape((1, 2)),), {}, np.ones(3, np.float32))))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MessageError):
        Message(bytes(content))


@settings(max_examples=examples(60, 15))
@given(
    st.recursive(
        st.none()
        | st.integers(-3, 3)
        | st.text(max_size=8)
        | st.sampled_from(["object", "tuple", "array", f"{HERE}:Shape", "<f4"]),
        st.lists,
        max_leaves=12,
    ),
    st.binary(max_size=9),
)  # noqa: E501
def test_whatever_rows_say_the_error_is_one(rows: Any, blob: bytes) -> None:
    try:
        Message(sealed(rows if isinstance(rows, list) else [rows], [0], (blob,))).value(Picture)
    except MessageError:
        pass


def test_too_large_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    content = pack_message(b"x" * 100)
    monkeypatch.setattr("mavcg.lab.jobs.messages.MOST_BYTES", 100)
    with pytest.raises(MessageError, match=f"a message of {len(content)} bytes; the most are 100"):
        Message(content)


@pytest.mark.parametrize("content", [None, "text", b"", MARK, MARK + bytes(40), bytearray(MARK), {"a": 1}])
def test_what_is_no_message(content: Any) -> None:
    with pytest.raises(MessageError):
        Message(content)
