"""Loops over lengths that are cut into tiles, blocks or parts of one size, the last of which may be shorter."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import const, repeat
from mavcg.kernels.builder.nest_loops import minimum

Value: TypeAlias = ir.Value


def repeat_tiles(
    b: ir.IRBuilder, tiles: Iterable[tuple[int, int]], body: Callable[[Value, int], Any], name: str = "i"
) -> None:
    """Emit body(begin, size) for tiles that lie one after the other from 0 on.

    tiles: (size, number of tiles of this size). A loop over them is emitted for each size that has several.
    """
    at = 0
    for size, count in tiles:
        if count == 1 and size:
            body(const(at), size)
        elif count > 1:
            repeat(b, at, at + size * count, lambda begin, size=size: body(begin, size), name, size)  # type: ignore[misc]
        at += size * count


def whole_and_rest(length: int, size: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return a length cut into tiles of a size and the rest, as repeat_tiles takes them."""
    return (size, length // size), (length % size, 1)


def emit_full_or_tail(b: ir.IRBuilder, last: Value, full: int, tail: int, body: Callable[[int], None]) -> None:
    """Emit body(tail) where `last` (i1) is true, else body(full); one body if both are equal."""
    if full == tail:
        body(full)
        return
    with b.if_else(last) as (then, otherwise):
        with then:
            body(tail)
        with otherwise:
            body(full)


def in_part(b: ir.IRBuilder, number: Value, length: int, size: int, body: Callable[[int], None]) -> None:
    """Emit body(elements) for part `number`, known at run time, of a length in parts of a size."""
    parts, rest = -(-length // size), length % size
    if parts == 1 or not rest:
        body(rest or size)
        return
    emit_full_or_tail(b, b.icmp_signed("==", number, const(parts - 1)), size, rest, body)


def row_blocks(
    b: ir.IRBuilder, begin: Value, end: Value, rows: int | None, body: Callable[[Value, Value], None]
) -> None:
    """Emit body(first, end) for each block of `rows` rows from begin to end; the last may be shorter. None: one
    block."""
    if rows is None:
        body(begin, end)
        return

    def block(first: Value) -> None:
        body(first, minimum(b, b.add(first, const(rows)), end))

    repeat(b, begin, end, block, "block", rows)


def row_tiles(b: ir.IRBuilder, begin: Value, end: Value, most: int, tile: Callable[[Value, int], None]) -> None:
    """Emit tile(first row, rows) for all rows from begin to end: `most` rows first, then 16, 8, 4, 2 and 1 for what is
    left."""
    at = begin
    for rows in (most, *(1 << bit for bit in range(4, -1, -1) if 1 << bit < most)):
        whole = b.mul(b.sdiv(b.sub(end, at), const(rows)), const(rows))
        stop = b.add(at, whole, name="tiles_end")
        repeat(b, at, stop, lambda row, rows=rows: tile(row, rows), "tile", rows)  # type: ignore[misc]
        at = stop
