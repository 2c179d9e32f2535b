"""Vectors by lanes: broadcasts, shuffles, whole vectors and the first lanes of one loaded and stored."""

from collections.abc import Sequence
from functools import lru_cache

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    F32,
    I1,
    I32,
    PTR,
    address,
    const,
    element_bytes,
    lanes_and_element,
    type_suffix,
    vector,
)
from mavcg.kernels.builder.module_text import UncheckedInsertion, UncheckedLoad, UncheckedShuffle, insert


def splat(b: ir.IRBuilder, value: ir.Value, lanes: int, name: str = "") -> ir.Value:
    """Return a vector with the scalar `value` in all lanes."""
    if lanes == 1:
        return value
    if isinstance(value, ir.Constant):
        return ir.Constant(vector(value.type, lanes), [value.constant] * lanes)
    anything = _undef_constant(vector(value.type, lanes))
    first_lane = insert(b, UncheckedInsertion(b.block, anything, value, const(0, I32)))
    return insert(b, UncheckedShuffle(b.block, anything.type, first_lane, anything, i32_lanes((0,) * lanes), name))


def broadcast_lane(b: ir.IRBuilder, x: ir.Value, lane: int, lanes: int) -> ir.Value:
    """Return a vector of `lanes` lanes that all hold one lane of x."""
    return b.shuffle_vector(x, _undef_constant(x.type), i32_lanes((lane,) * lanes))


@lru_cache(256)
def _undef_constant(typ: ir.Type) -> ir.Constant:
    return ir.Constant(typ, ir.Undefined)


@lru_cache(4096)
def i32_lanes(lanes: tuple[int, ...]) -> ir.Constant:
    """Return a constant vector of i32, such as a shuffle's mask."""
    return ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))


def f32_splat(value: float, lanes: int) -> ir.Constant:
    """Return a constant f32 vector with the value in all lanes."""
    return _f32_splat(float(value).hex(), lanes)


@lru_cache(4096)
def _f32_splat(spelt: str, lanes: int) -> ir.Constant:
    """Return f32_splat of a value given as text of its bits: as a cache key 0.0 equals -0.0, and NaN equals nothing."""
    value = float.fromhex(spelt)
    return ir.Constant(F32, value) if lanes == 1 else ir.Constant(vector(F32, lanes), [value] * lanes)


@lru_cache(4096)
def tail_mask(lanes: int, used: int) -> ir.Constant:
    """Return a constant i1 mask that is true in the first `used` lanes."""
    return ir.Constant(vector(I1, lanes), [int(lane < used) for lane in range(lanes)])


def load_vector(
    b: ir.IRBuilder, pointer: ir.Value, typ: ir.Type, used: int | None = None, name: str = "", align: int = 0
) -> ir.Value:
    """Return a vector loaded from an address aligned to its elements.

    used: number of lanes to load, the others being 0; None: all. align: known alignment in bytes; 0: the element's.
    """
    lanes, element_type = lanes_and_element(typ)
    align = align or element_bytes(element_type)
    if used is None or used == lanes:
        return insert(b, UncheckedLoad(b.block, pointer, typ, align, name))
    zero = ir.Constant(typ, [0] * lanes)
    full = f"llvm.masked.load.{type_suffix(typ)}.p0"
    kind = ir.FunctionType(typ, [PTR, vector(I1, lanes), typ])
    function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
    return b.call(function, [pointer, tail_mask(lanes, used), zero], name=name)


def store_vector(b: ir.IRBuilder, value: ir.Value, pointer: ir.Value, used: int | None = None, align: int = 0) -> None:
    """Emit a vector's store to an address aligned to its elements. used: number of lanes to store; None: all."""
    typ = value.type
    lanes, element_type = lanes_and_element(typ)
    align = align or element_bytes(element_type)
    if used is None or used == lanes:
        b.store(value, pointer, align=align)
        return
    full = f"llvm.masked.store.{type_suffix(typ)}.p0"
    kind = ir.FunctionType(ir.VoidType(), [typ, PTR, vector(I1, lanes)])
    function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
    b.call(function, [value, pointer, tail_mask(lanes, used)])


def load_lanes(b: ir.IRBuilder, pointer: ir.Value, typ: ir.Type, lanes: int, used: int, name: str = "") -> ir.Value:
    """Return a vector whose first `used` lanes are loaded, in powers of two; the other lanes are undefined."""
    if used == lanes:
        return load_vector(b, pointer, vector(typ, lanes), name=name)
    whole = ir.Constant(ir.VectorType(typ, lanes), ir.Undefined)
    at = 0
    for size in _powers_of_two(used):
        piece = load_vector(b, address(b, pointer, at * element_bytes(typ)), vector(typ, size), name=name)
        if size == 1:
            whole = b.insert_element(whole, piece, const(at, I32))
        else:
            wide = [i % size for i in range(lanes)]  # LLVM finds that the other lanes are not used
            spread = shuffle(b, piece, piece, wide)
            whole = shuffle(b, whole, spread, [i - at + lanes if at <= i < at + size else i for i in range(lanes)])
        at += size
    return whole


def store_lanes(b: ir.IRBuilder, value: ir.Value, pointer: ir.Value, lanes: int, used: int) -> None:
    """Emit stores of the first `used` lanes of a vector, in powers of two."""
    _, typ = lanes_and_element(value.type)
    size_of = element_bytes(typ)
    if used == lanes:
        b.store(value, pointer, align=size_of)
        return
    at = 0
    for size in _powers_of_two(used):
        if size == 1:
            piece = b.extract_element(value, const(at, I32))
        else:
            piece = shuffle(b, value, value, [at + i for i in range(size)])
        b.store(piece, address(b, pointer, at * size_of), align=size_of)
        at += size


def _powers_of_two(used: int) -> list[int]:
    """Return the powers of two whose sum is `used`, the largest first."""
    return [1 << bit for bit in range(used.bit_length() - 1, -1, -1) if used >> bit & 1]


def shuffle(b: ir.IRBuilder, x: ir.Value, y: ir.Value, lanes: Sequence[int], name: str = "") -> ir.Value:
    """Return a vector of the given lanes of x and y; y's lanes are numbered after x's."""
    return b.shuffle_vector(x, y, i32_lanes(tuple(lanes)), name)
