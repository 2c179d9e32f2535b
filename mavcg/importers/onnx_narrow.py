"""Element types of ONNX files that graphs lack: bfloat16, floats of 8 and 4 bits, integers of 4 and 2 bits.

A tensor of such a type is one of f32, i8 or u8 in the graph, which holds each of its values exactly; `Value.narrow`
has the type's name. Casts and quantisations to it round or wrap as ONNX says; operators between them compute in f32 and
do not round their results. What a run reads and returns are the bits of floats, as u16 or u8, and integers as i8 or u8,
one in a byte.

float8e8m0 has powers of two alone, from 2^-127 to 2^127, and NaN; scales of blocks are of it.

Source: ONNX's "Float stored in 8 bits", "4 bit integer types" and operators Cast and QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from mavcg.graph import Array
from mavcg.graph.reference.block_weights import unpack_bits, unpack_signed_bits
from mavcg.importers.emitter import Emitter
from mavcg.importers.value import Value, constant


@dataclass(frozen=True)
class NarrowType:
    """A type. number: of TensorProto.DataType. dtype: NumPy's, of ml_dtypes. bits: of an element. values: type in
    graphs. outside: type of a run's inputs and outputs."""

    name: str
    number: int
    dtype: np.dtype[Any]
    bits: int
    values: str
    outside: str

    @property
    def is_float(self) -> bool:
        """True if its elements are floats."""
        return self.values == "f32"


def _rows() -> list[tuple[str, int, Any, int, str, str]]:
    return [
        ("bfloat16", 16, ml_dtypes.bfloat16, 16, "f32", "u16"),
        ("float8e4m3fn", 17, ml_dtypes.float8_e4m3fn, 8, "f32", "u8"),
        ("float8e4m3fnuz", 18, ml_dtypes.float8_e4m3fnuz, 8, "f32", "u8"),
        ("float8e5m2", 19, ml_dtypes.float8_e5m2, 8, "f32", "u8"),
        ("float8e5m2fnuz", 20, ml_dtypes.float8_e5m2fnuz, 8, "f32", "u8"),
        ("uint4", 21, ml_dtypes.uint4, 4, "u8", "u8"),
        ("int4", 22, ml_dtypes.int4, 4, "i8", "i8"),
        ("float4e2m1", 23, ml_dtypes.float4_e2m1fn, 4, "f32", "u8"),
        ("float8e8m0", 24, ml_dtypes.float8_e8m0fnu, 8, "f32", "u8"),
        ("uint2", 25, ml_dtypes.uint2, 2, "u8", "u8"),
        ("int2", 26, ml_dtypes.int2, 2, "i8", "i8"),
    ]


NARROW: Mapping[str, NarrowType] = {
    row[0]: NarrowType(row[0], row[1], np.dtype(row[2]), row[3], row[4], row[5]) for row in _rows()
}
BY_NUMBER: Mapping[int, NarrowType] = {type.number: type for type in NARROW.values()}
POWERS = "float8e8m0"
ROUNDINGS = ("up", "down", "nearest")  # to powers of two: upwards, downwards, to the nearest one, upwards between two
_NAMES = {type.dtype: type.name for type in NARROW.values()}
Add = Callable[..., Value]  # (operator, inputs.., attributes..) -> result


def tensor_constant(array: Array, stem: str = "c") -> Value:
    """Return a known value of a file's tensor. array: may be of a type of ml_dtypes."""
    name = _NAMES.get(array.dtype)
    if name is None:
        return constant(array, stem=stem)
    values = {"f32": np.float32, "i8": np.int8, "u8": np.uint8}[NARROW[name].values]
    return replace(constant(array.astype(values), stem=stem), narrow=name)


def unpack_elements(raw: bytes, type: NarrowType, count: int) -> Array:
    """Return the elements of a tensor's bytes, which hold several elements each, the first in the lowest bits."""
    if type.bits >= 8:
        return np.frombuffer(raw, type.dtype)
    packed = np.frombuffer(raw, np.uint8)
    if type.values == "i8":
        return unpack_signed_bits(packed, type.bits, count).astype(type.dtype)
    return unpack_bits(packed, type.bits, count).view(type.dtype)  # ml_dtypes too has one in each byte


def packed_bytes(type: NarrowType, count: int) -> int:
    """Return the bytes that a file has for so many elements."""
    return -(-count * type.bits // 8)


def read_bits(emitter: Emitter, x: Value, type: NarrowType, origin: str) -> Value:
    """Return the values of an input of bits."""
    if not type.is_float:
        return replace(x, narrow=type.name)
    if type.name == "bfloat16":
        wide = emitter.add("cast", [emitter.add("bitcast", [x], origin, to="bf16")], origin, to="f32")
    else:
        every = np.arange(256, dtype=np.uint8) & np.uint8((1 << type.bits) - 1)
        table = constant(every.view(type.dtype).astype(np.float32), stem=type.name)
        wide = emitter.add("gather", [table, emitter.add("cast", [x], origin, to="i32")], origin, axis=0)
    return replace(wide, narrow=type.name, bits=x if type.bits == 8 else None)


def to_bits(emitter: Emitter, x: Value, type: NarrowType, origin: str) -> Value:
    """Return the bits of values, as an output of a run; values that the type lacks are rounded as by Cast."""
    if not type.is_float or x.dtype != "f32":
        return x
    if x.narrow == type.name and x.bits is not None:
        return x.bits

    def add(op: str, *inputs: Value, **attrs: Any) -> Value:
        return emitter.add(op, list(inputs), origin, **attrs)

    if type.name == "bfloat16":
        return add("bitcast", add("cast", x, to="bf16"), to="u16")
    x = _round_values(add, x, type, saturate=True) if x.narrow != type.name else x
    if type.name == POWERS:  # the exponent of f32, in which 2^-127 is denormal, and NaN has the largest one
        return add("cast", _exponent(add, add("abs", x)), to="u8")
    form = _form(type)
    size = add("abs", x)
    negative = add("less", add("bitcast", x, to="i32"), _i32(0))
    # A normal number has its exponent, with another bias, and the first bits of its fraction; subnormal ones are
    # multiples of the least.
    fields = add("div", add("bitcast", size, to="i32"), _i32(1 << (23 - form.fraction)))
    normal = add("sub", fields, _i32((127 - form.bias) << form.fraction))
    least = add("cast", add("mul", size, _f32(2.0 ** (form.fraction - form.least))), to="i32")
    bits = add("where", add("less", size, _f32(2.0**form.least)), least, normal)
    if form.infinity is not None:
        bits = add("where", add("equal", size, _f32(np.inf)), _i32(form.infinity), bits)
    signed = add("add", bits, add("where", negative, _i32(1 << (type.bits - 1)), _i32(0)))
    if form.nan is not None:
        if not form.negative_zero:
            signed = add("where", add("equal", size, _f32(0.0)), _i32(0), signed)
        signed = add("where", add("equal", x, x), signed, _i32(form.nan))
    return add("cast", signed, to="u8")


def cast_narrow(add: Add, x: Value, type: NarrowType, saturate: bool = True, rounding: str = "up") -> Value:
    """Return values cast to a type, as ONNX's Cast does: floats rounded to nearest even, integers by their low bits.

    rounding: of float8e8m0, one of ROUNDINGS.
    """
    if type.is_float:
        wide = x if x.dtype == "f32" else add("cast", x, to="f32")
        return replace(_round_values(add, wide, type, saturate, rounding), narrow=type.name)
    whole = x if x.dtype == "i32" else add("cast", x, to="i32")
    top = 1 << (type.bits - 1) if type.values == "i8" else 0
    low = add("and", add("add", whole, _i32(top)), _i32((1 << type.bits) - 1))
    return replace(add("cast", add("sub", low, _i32(top)), to=type.values), narrow=type.name)


def bounds_of(type: NarrowType) -> tuple[int, int]:
    """Return the least and the largest integer of a type."""
    if type.values == "u8":
        return 0, (1 << type.bits) - 1
    return -(1 << (type.bits - 1)), (1 << (type.bits - 1)) - 1


@dataclass(frozen=True)
class _Form:
    """A float type. fraction: bits. least: exponent of the least normal number. bias: of the exponent. most: the
    largest number. nan, infinity: their bits; None if there is none. negative_zero: True if there is one."""

    fraction: int
    least: int
    bias: int
    most: float
    nan: int | None
    infinity: int | None
    negative_zero: bool


def _form(type: NarrowType) -> _Form:
    info = ml_dtypes.finfo(type.dtype)  # type: ignore[no-untyped-call]
    least = int(np.log2(float(info.smallest_normal)))
    inf = 0x7C if type.name == "float8e5m2" else None
    nan = {"float8e4m3fn": 0x7F, "float8e5m2": 0x7E, "float4e2m1": None}.get(type.name, 0x80)
    return _Form(info.nmant, least, 1 - least, float(info.max), nan, inf, not type.name.endswith("uz"))


def _round_values(add: Add, x: Value, type: NarrowType, saturate: bool, rounding: str = "up") -> Value:
    """Return the nearest values of a float type as f32, to even between two."""
    if type.name == "bfloat16":
        return add("cast", add("cast", x, to="bf16"), to="f32")
    if type.name == POWERS:
        return _round_to_power(add, x, saturate, rounding)
    form = _form(type)
    size = add("abs", x)
    # The step between numbers of an exponent is a power of two, so that quotient and product are exact.
    exponent = add("sub", _exponent(add, size), _i32(127))
    field = add("add", add("max", exponent, _i32(form.least)), _i32(127 - form.fraction))
    step = add("bitcast", add("mul", field, _i32(1 << 23)), to="f32")
    made = add("mul", add("round", add("div", x, step)), step)
    if saturate or form.nan is None:
        made = add("clip", made, lo=-form.most, hi=form.most)
    else:
        beyond = _f32(np.inf if form.infinity is not None else np.nan)
        signed = add("where", add("less", x, _f32(0.0)), add("neg", beyond), beyond)
        made = add("where", add("greater", add("abs", made), _f32(form.most)), signed, made)
        if form.infinity is None:
            made = add("where", add("equal", size, _f32(np.inf)), beyond, made)
    return made if form.nan is not None else add("where", add("equal", x, x), made, _f32(0.0))


def _exponent(add: Add, size: Value) -> Value:
    """Return the exponent's field of f32 numbers that are not negative, i32: 0 of denormal ones, 255 of NaN."""
    return add("div", add("bitcast", size, to="i32"), _i32(1 << 23))


def _round_to_power(add: Add, x: Value, saturate: bool, rounding: str) -> Value:
    """Return powers of two for f32 numbers: 2^-127 to 2^127, and NaN for NaN and numbers below 0.

    saturate: what is outside becomes the least or the largest, else NaN. rounding: one of ROUNDINGS.
    """
    least, most = _f32(2.0**-127), _f32(2.0**127)
    inside = add("min", add("max", x, least), most)
    # Denormal numbers too: the only power among them has half of the fraction's bits, as the next one has with the bit
    # above; so twice the number is normal, and has the same fraction.
    half = add("less", inside, _f32(2.0**-126))
    scaled = add("where", half, add("mul", inside, _f32(2.0)), inside)
    bits = add("bitcast", scaled, to="i32")
    # What is added reaches the next power from every fraction, from its half on, or never.
    bits = add("add", bits, _i32({"up": (1 << 23) - 1, "nearest": 1 << 22, "down": 0}[rounding]))
    field = add("mul", add("div", bits, _i32(1 << 23)), _i32(1 << 23))
    power = add("bitcast", field, to="f32")
    made = add("where", half, add("mul", power, _f32(0.5)), power)
    kept = add("greater_equal", x, _f32(0.0)) if saturate else add("equal", inside, x)
    return add("where", kept, made, _f32(np.nan))


def _i32(number: int) -> Value:
    return constant(np.array(number, np.int32))


def _f32(number: float) -> Value:
    return constant(np.array(number, np.float32))
