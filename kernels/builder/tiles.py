"""Loops over lengths that are cut into tiles, blocks or parts of one size, the last of which may be shorter."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import const, index_value, repeat
from mavcg.kernels.builder.nest_loops import maximum, minimum
from mavcg.kernels.builder.run_numbers import Number, fixed_number

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


def emit_cases(
    b: ir.IRBuilder, number: Value, cases: Mapping[int, Callable[[], None]], otherwise: Callable[[], None]
) -> None:
    """Emit the body of the case that is equal to `number`, or otherwise() where none is."""
    other, after = (b.append_basic_block(name) for name in ("otherwise", "after_cases"))
    switch = b.switch(number, other)
    for case, body in cases.items():
        block = b.append_basic_block(f"case_{case}")
        switch.add_case(case, block)
        b.position_at_end(block)
        body()
        b.branch(after)
    b.position_at_end(other)
    otherwise()
    b.branch(after)
    b.position_at_end(after)


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


def row_pixel_tiles(
    b: ir.IRBuilder,
    columns: Number,
    tiles: Iterable[tuple[int, int]],
    most: int,
    tile: Callable[[Value, int], None],
    short: int | None = None,
) -> None:
    """Emit tile(first pixel, pixels) for the pixels of a row, as the build has cut it or, of any length, by row_tiles.

    tiles: as repeat_tiles takes them, where the number of columns is known. most, short: of row_tiles.
    """
    if fixed_number(columns) is not None:
        repeat_tiles(b, tiles, tile, "pixel")
    else:
        row_tiles(b, const(0), index_value(columns), most, tile, SHORT_TILE if short is None else short)


# A table of the counts of tiles by the rows that are left has two bits for each number of rows.
COUNT_BITS = 2
ROWS_OF_TABLE = 32
# Rows up to which a tile takes about as long as one of so many, as multiply-adds wait for each other: with two vectors
# on a core that starts two multiply-adds in a cycle and ends them after four.
SHORT_TILE = 4
TILE_COST = 1  # of a tile's beginning and end, in rows
MOST_JOINED = 2  # tiles that are cut together with a rest: with SHORT_TILE, 13 rows are 5 + 4 + 4 in place of 6 + 4 + 3


def tail_widths(most: int) -> tuple[int, ...]:
    """Return the rows of the tiles narrower than `most` that a kernel has code for: all of a few, else some."""
    return tuple(rows for rows in range(most - 1, 0, -1) if most <= 8 or rows <= 4 or rows in (6, 8, 12, 16, 24))


@cache
def tail_tiles(rows: int, most: int, short: int = SHORT_TILE) -> tuple[int, ...]:
    """Return the tiles, widest first, narrower than `most` rows, that take least time for some rows.

    short: as SHORT_TILE. With 4 a tile of a single row takes as long as four rows: 7 rows are 4 + 3, and not 6 + 1.
    """
    if not rows:
        return ()
    cut = [(width, *tail_tiles(rows - width, most, short)) for width in tail_widths(most) if width <= rows]
    return min(
        (tuple(sorted(tiles, reverse=True)) for tiles in cut), key=lambda tiles: (tiles_cost(tiles, short), tiles)
    )


def tiles_cost(tiles: Iterable[int], short: int = SHORT_TILE) -> int:
    """Return the modelled time of tiles, in the time of a row of a wide tile."""
    return sum(max(rows, short) + TILE_COST for rows in tiles)


def joined_tiles(rest: int, most: int, short: int = SHORT_TILE) -> int:
    """Return how many of the last tiles of `most` rows are best cut together with a rest: as many as take no longer so,
    at most MOST_JOINED. Of equal times the evener ones count: the narrowest tile may wait for its weights."""
    joined, rows = 0, rest + most
    while rest and joined < MOST_JOINED and rows < ROWS_OF_TABLE:
        alone = tiles_cost((most, *tail_tiles(rows - most, most, short)), short)
        if tiles_cost(tail_tiles(rows, most, short), short) > alone:
            break
        joined, rows = joined + 1, rows + most
    return joined


def row_tiles(
    b: ir.IRBuilder,
    begin: Value,
    end: Value,
    most: int,
    tile: Callable[[Value, int], None],
    short: int = SHORT_TILE,
) -> None:
    """Emit tile(first row, rows) for all rows from begin to end: tiles of `most` rows, then the best narrower ones.

    A small rest and the last tiles of `most` rows before it are cut evenly. short: as SHORT_TILE.
    """
    rest = b.urem(b.sub(end, begin), const(most), name="rest")
    middle, joined = b.sub(end, rest), [joined_tiles(rows, most, short) for rows in range(most)]
    if any(joined):
        counts = ir.Constant(ir.IntType(64), sum(number << COUNT_BITS * rows for rows, number in enumerate(joined)))
        number = b.and_(b.lshr(counts, b.mul(rest, const(COUNT_BITS))), const((1 << COUNT_BITS) - 1))
        middle = maximum(b, b.sub(middle, b.mul(number, const(most))), begin)
        middle.name = "tiles_end"
    repeat(b, begin, middle, lambda row: tile(row, most), "tile", most)
    lengths = range(max(rows + number * most for rows, number in enumerate(joined)) + 1)
    table = ir.IntType(COUNT_BITS * max(ROWS_OF_TABLE, most))
    place = b.mul(b.sub(end, middle), const(COUNT_BITS))
    place = b.zext(place, table) if table.width > 64 else place
    at = middle
    for rows in tail_widths(most):
        counts = sum(tail_tiles(length, most, short).count(rows) << COUNT_BITS * length for length in lengths)
        count = b.and_(b.lshr(ir.Constant(table, counts), place), ir.Constant(table, (1 << COUNT_BITS) - 1))
        count = b.trunc(count, ir.IntType(64)) if table.width > 64 else count
        stop = b.add(at, b.mul(count, const(rows)), name="tiles_end")
        repeat(b, at, stop, lambda row, rows=rows: tile(row, rows), "tile", rows)  # type: ignore[misc]
        at = stop
