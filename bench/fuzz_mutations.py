"""Damage to model files: to their bytes, and to the messages in them, so that the damage lies deeper."""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bench.fuzz_seeds import Seed, packed, tflite_schema

Bytes = Callable[[random.Random, bytes], bytes]

NUMBERS = (
    -(1 << 63),
    -(1 << 31),
    -129,
    -3,
    -2,
    -1,
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    16,
    127,
    128,
    255,
    256,
    1000,
    65535,
    1 << 20,
    1 << 24,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 63) - 1,
)
REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, 1e-7, 1e30, -1e30, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "",
    "x",
    "Conv",
    "Relu",
    "Reshape",
    "Concat",
    "Loop",
    "\n",
    "a" * 5000,
    "../../etc/passwd",
    "\u2028",
    "ai.onnx",
)
LARGEST_COPIES = 3  # messages that one mutation may add


def mutated(source: random.Random, seed: Seed) -> bytes:
    """Return the seed's file with one to four kinds of damage."""
    data = seed.data
    for _ in range(source.choice((1, 1, 1, 2, 2, 3, 4))):
        deep = onnx_fields if seed.suffix == ".onnx" else tflite_fields
        kinds: Sequence[Bytes] = (flipped, cut, doubled, removed, words, *(deep,) * 20)
        data = source.choice(kinds)(source, data)
    return data


def flipped(source: random.Random, data: bytes) -> bytes:
    """Return the file with some bytes changed."""
    made = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 4, 16, 64))):
        if made:
            made[source.randrange(len(made))] = source.choice((source.randrange(256), 0, 255, 127, 128))
    return bytes(made)


def cut(source: random.Random, data: bytes) -> bytes:
    """Return the file without its end."""
    return data[: source.randrange(len(data) + 1)]


def _chunk(source: random.Random, data: bytes) -> tuple[int, int]:
    start = source.randrange(len(data) + 1)
    return start, min(len(data), start + source.choice((1, 2, 4, 8, 64, 512)))


def doubled(source: random.Random, data: bytes) -> bytes:
    """Return the file with a piece inserted a second time, anywhere."""
    start, end = _chunk(source, data)
    at = source.choice((end, source.randrange(len(data) + 1)))
    return data[:at] + data[start:end] + data[at:]


def removed(source: random.Random, data: bytes) -> bytes:
    """Return the file without a piece."""
    start, end = _chunk(source, data)
    return data[:start] + data[end:]


def words(source: random.Random, data: bytes) -> bytes:
    """Return the file with aligned 32-bit words changed: in a flatbuffer these are offsets and lengths."""
    made = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 5))):
        size = source.choice((1, 2, 4, 4, 8))
        if len(made) >= 16:
            at = source.randrange(len(made) - 8) // size * size
            made[at : at + size] = (source.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(made)


def onnx_fields(source: random.Random, data: bytes) -> bytes:
    """Return an ONNX file with some fields of its messages changed; if it no longer parses, with bytes flipped."""
    import onnx

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:  # protobuf's own kinds of error, whatever they are called
        return flipped(source, data)
    messages = list(_messages(model))
    for _ in range(source.choice((1, 1, 2, 3))):
        _change_field(source, source.choice(messages), messages)
    try:
        return bytes(model.SerializeToString())
    except Exception:  # text that is no text
        return flipped(source, data)


def _messages(message: Any) -> Iterator[Any]:
    """Return the message and all messages within it."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in value if _repeated(value) else [value]:
                yield from _messages(inner)


def _repeated(value: Any) -> bool:
    return not hasattr(value, "ListFields") and not isinstance(value, str | bytes)


def _change_field(source: random.Random, message: Any, messages: Sequence[Any]) -> None:
    set_fields = message.ListFields()
    # Seldom a field that the file does not have.
    if not set_fields or source.random() < 0.1:
        field = source.choice(list(message.DESCRIPTOR.fields))
        value = getattr(message, field.name)
    else:
        field, value = source.choice(set_fields)
    if field.type == field.TYPE_MESSAGE:
        _change_messages(source, message, field, value, messages)
    elif _is_list(value):
        _change_list(source, value, field, messages)
    elif source.random() < 0.15:
        message.ClearField(field.name)
    else:
        _assign(message, field, _other(source, field, value, messages))


def _is_list(value: Any) -> bool:
    return hasattr(value, "append") or hasattr(value, "add")


def _change_messages(source: random.Random, message: Any, field: Any, value: Any, messages: Sequence[Any]) -> None:
    """Remove a message, repeat it, exchange two, or replace one by another of the same kind."""
    alike = [m for m in messages if m.DESCRIPTOR is field.message_type] or [value]
    if not _is_list(value):
        if source.random() < 0.3:
            message.ClearField(field.name)
        elif hasattr(alike[0], "CopyFrom"):
            value.CopyFrom(copy.deepcopy(source.choice(alike)))
        return
    if not len(value):
        return
    at, action = source.randrange(len(value)), source.randrange(4)
    if action == 0:
        del value[at]
    elif action == 1:
        for _ in range(source.randint(1, LARGEST_COPIES)):
            value.append(copy.deepcopy(value[at]))
    elif action == 2:
        second, kept = source.randrange(len(value)), copy.deepcopy(value[at])
        value[at].CopyFrom(copy.deepcopy(value[second]))
        value[second].CopyFrom(kept)
    else:
        value[at].CopyFrom(copy.deepcopy(source.choice(alike)))


def _change_list(source: random.Random, value: Any, field: Any, messages: Sequence[Any]) -> None:
    action = source.randrange(4)
    if len(value) and action == 0:
        del value[source.randrange(len(value))]
        return
    made = _other(source, field, value[0] if len(value) else None, messages)
    try:
        if action == 1 or not len(value):
            value.append(made)
        else:
            value[source.randrange(len(value))] = made
    except (ValueError, TypeError):  # a number that the field's type does not hold
        return


def _assign(message: Any, field: Any, value: Any) -> None:
    try:
        setattr(message, field.name, value)
    except (ValueError, TypeError):
        message.ClearField(field.name)


def _other(source: random.Random, field: Any, value: Any, messages: Sequence[Any]) -> Any:
    """Return another value of a field's type."""
    if field.type == field.TYPE_STRING:
        return source.choice((*TEXTS, *_texts(source, messages)))
    if field.type == field.TYPE_BYTES:
        return source.choice((flipped, cut, doubled, words))(source, value or b"Relu")
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return source.choice(REALS)
    return source.choice((*NUMBERS, (value or 0) + 1, (value or 0) - 1, source.randrange(24)))


def _texts(source: random.Random, messages: Sequence[Any]) -> list[str]:
    """Return some texts of the file: names of other tensors and operators."""
    texts: list[str] = []
    for message in source.sample(list(messages), min(8, len(messages))):
        for field, value in message.ListFields():
            if field.type == field.TYPE_STRING:
                texts += [value] if isinstance(value, str) else list(value)
    return texts


def tflite_fields(source: random.Random, data: bytes) -> bytes:
    """Return a TFLite file with some fields of its tables changed; if it no longer parses, with words changed."""
    schema = tflite_schema()
    try:
        model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data))
        for _ in range(source.choice((1, 1, 2, 3))):
            _change_table(source, source.choice(list(_tables(model, 0))))
        return packed(model)
    except Exception:  # the schema's classes trust their file: anything may go wrong
        return words(source, data)


def _tables(table: Any, depth: int) -> Iterator[Any]:
    yield table
    for value in vars(table).values():
        for inner in value if isinstance(value, list) else [value]:
            if hasattr(inner, "Pack") and depth < 6:
                yield from _tables(inner, depth + 1)


def _change_table(source: random.Random, table: Any) -> None:
    fields = [name for name, value in vars(table).items() if value is not None] or list(vars(table))
    if not fields:
        return
    name = source.choice(fields)
    value = getattr(table, name)
    setattr(table, name, _changed(source, value))


def _changed(source: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | np.integer):
        return int(source.choice((*NUMBERS, int(value) + 1, int(value) - 1, source.randrange(130))))
    if isinstance(value, float | np.floating):
        return source.choice(REALS)
    if isinstance(value, str | bytes):
        return source.choice(TEXTS)
    if isinstance(value, np.ndarray):
        made = value.copy()
        if made.dtype == np.uint8:
            return np.frombuffer(source.choice((flipped, cut, doubled, words))(source, made.tobytes()), np.uint8)
        if made.size and source.random() < 0.7:
            index = source.randrange(made.size)
            if made.dtype.kind == "f":
                made[index] = source.choice(REALS)
            else:
                bits = 8 * made.dtype.itemsize
                made[index] = (source.choice(NUMBERS) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
            return made
        return made[: source.randrange(made.size + 1)] if source.random() < 0.5 else np.concatenate([made, made[-1:]])
    if isinstance(value, list) and value:
        at, action = source.randrange(len(value)), source.randrange(4)
        if action == 0:
            return value[:at] + value[at + 1 :]
        if action == 1:
            return [*value, *([value[at]] * source.randint(1, LARGEST_COPIES))]
        if action == 2 or hasattr(value[at], "Pack"):
            second = source.randrange(len(value))
            return [value[second] if i == at else value[at] if i == second else v for i, v in enumerate(value)]
        return [_changed(source, v) if i == at else v for i, v in enumerate(value)]
    return None
