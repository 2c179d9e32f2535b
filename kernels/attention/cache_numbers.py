"""Loads of elements of keys and values as f32, of every type that a cache has.

Numbers of 4 bits lie two in a byte, the first in the lower half, and are less 8. Floats of 8 bits are float8e4m3fn:
ONNX, "Float stored in 8 bits".
"""

from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import DTYPES
from mavcg.kernels.builder.arithmetic import convert
from mavcg.kernels.builder.emit import F32, I8, I32, TYPES, address, const, number, scale_index, vector, with_element
from mavcg.kernels.builder.lanes import broadcast_lane, i32_lanes, load_vector, shuffle, splat
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value
UINT4, FLOAT8 = "uint4", "float8e4m3fn"
_OF_BYTES = ("i8", UINT4, FLOAT8)
_MIDDLE = 8  # of numbers of 4 bits
_FRACTION, _BIAS = 3, 7  # of FLOAT8: bits, and the exponent's
_NAN = 0x7F


def item_bytes(dtype: str) -> int:
    """Return the bytes from an element to the next, and of a pair of numbers of 4 bits."""
    return 1 if dtype in _OF_BYTES else DTYPES[dtype].itemsize


def element_place(b: ir.IRBuilder, dtype: str, row: Value, index: Value, stride: int) -> Value:
    """Return the address of an element of a head. index: its number, even for numbers of 4 bits. stride: between two
    elements."""
    if dtype == UINT4:
        return address(b, row, b.lshr(index, const(1)))
    return address(b, row, scale_index(b, index, stride * item_bytes(dtype)))


def load_in_all_lanes(
    b: ir.IRBuilder, machine: Machine, dtype: str, place: Value, count: int, stride: int, lanes: int
) -> list[Value]:
    """Return `count` neighbouring elements as f32, each in all lanes."""
    if dtype == UINT4:
        found = _load_halves_of_bytes(b, place, count)
        return [broadcast_lane(b, found, lane, lanes) for lane in range(count)]
    typ, size = I8 if dtype in _OF_BYTES else TYPES[dtype], item_bytes(dtype)
    # AArch64 multiplies by a lane of a register; elsewhere broadcasts are loads, but of bytes, which are converted.
    if count > 1 and stride == 1 and (machine.arch != "x86_64" or dtype in _OF_BYTES):
        found = _as_f32(b, load_vector(b, place, vector(typ, count)), dtype)
        return [broadcast_lane(b, found, lane, lanes) for lane in range(count)]
    places = [address(b, place, i * stride * size) for i in range(count)]
    return [splat(b, _as_f32(b, load_vector(b, each, typ), dtype), lanes) for each in places]


def _load_halves_of_bytes(b: ir.IRBuilder, place: Value, count: int) -> Value:
    """Return `count` numbers of 4 bits, and perhaps one more, as a vector of f32."""
    count += count % 2
    bytes = load_vector(b, place, vector(I8, count // 2))
    if count == 2:
        bytes = splat(b, bytes, 2)
    wide = b.zext(shuffle(b, bytes, bytes, [i // 2 for i in range(count)]), ir.VectorType(I32, count))
    halves = b.and_(b.lshr(wide, i32_lanes(tuple(4 * (i % 2) for i in range(count)))), number(wide, 15))
    return b.sitofp(b.sub(halves, number(halves, _MIDDLE)), ir.VectorType(F32, count))


def _as_f32(b: ir.IRBuilder, x: Value, dtype: str) -> Value:
    return _from_float8(b, x) if dtype == FLOAT8 else convert(b, x, dtype, "f32")


def _from_float8(b: ir.IRBuilder, x: Value) -> Value:
    """Return floats of 8 bits as f32, which holds each of them exactly."""
    bits, floats = b.zext(x, with_element(x, I32)), with_element(x, F32)
    size = b.and_(bits, number(bits, _NAN))
    normal = b.add(b.shl(size, number(bits, 23 - _FRACTION)), number(bits, (127 - _BIAS) << 23))
    # Not as an f32 that is subnormal too, which some cores compute slowly.
    small = b.fmul(b.sitofp(size, floats), number(ir.Constant(floats, ir.Undefined), 2.0 ** (1 - _BIAS - _FRACTION)))
    least = b.icmp_signed("<", size, number(bits, 1 << _FRACTION))
    positive = b.select(least, b.bitcast(small, bits.type), normal)
    positive = b.select(b.icmp_signed("==", size, number(bits, _NAN)), number(bits, 0x7FC00000), positive)
    return b.bitcast(b.or_(positive, b.shl(b.lshr(bits, number(bits, 7)), number(bits, 31))), floats)
