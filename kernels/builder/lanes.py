"""Vectors by lanes: shuffles, and loads and stores of the first lanes of a vector in powers of two."""

from collections.abc import Sequence

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    I32,
    address,
    const,
    element_bytes,
    i32_lanes,
    lanes_and_element,
    load_vector,
    vector,
)


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
