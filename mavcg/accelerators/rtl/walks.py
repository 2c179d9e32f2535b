"""Walks: counters that give the addresses of a tile's words one after another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth import Const, Module, Mux, Signal

from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, RtlSizes

COUNT_BITS = 20  # of rows, columns and channels, as in the instructions


@dataclass(frozen=True)
class TileWalk:
    """A walk over a tile: row by row, pixel by pixel, block of channels by block.

    begin: set to 1 for a cycle to begin. step: set to 1 to go to the next word. active: 1 while `address` is a word of
    the tile. pixel_ends, row_ends, last: 1 at the last word of a pixel, of a row, of the tile.
    """

    begin: Any
    step: Any
    active: Any
    address: Any
    pixel_ends: Any
    row_ends: Any
    last: Any


def blocks_of(count: Any, sizes: RtlSizes) -> Any:
    """Return the number of words that hold `count` channels: a division by a constant as a product and a shift."""
    raised = count + (sizes.word - 1)
    if sizes.word & (sizes.word - 1) == 0:
        return (raised >> (sizes.word.bit_length() - 1))[:COUNT_BITS]
    scale = 2 * COUNT_BITS + 1  # exact for counts below 2^21: the reciprocal's error is below 2^-(2 * COUNT_BITS)
    reciprocal = -(-(1 << scale) // sizes.word)
    return ((raised * reciprocal) >> scale)[:COUNT_BITS]


def tile_fields(v: Mapping[str, Any], side: str) -> tuple[Any, Any, Any]:
    """Return the three address fields of a tile: first word, words between rows, words between blocks."""
    return v[side], v[f"{side}_row"], v[f"{side}_block"]


def tile_walk(
    m: Module,
    name: str,
    tile: tuple[Any, Any, Any],
    size: tuple[Any, Any, Any],
    repeat: Mapping[str, Any] | None = None,
) -> TileWalk:
    """Build the walk over a tile.

    Args:
        tile: first word, words between rows, words between blocks.
        size: rows, columns, blocks of channels.
        repeat: the fields factor_rows, factor_columns, phase_row and phase_column of misc.upsample: the size is that
            of the result, and the addresses are those of its input. None to read every pixel once.
    """
    first, row, block = tile
    rows, columns, blocks = size
    begin, step, active = (Signal(name=f"{name}_{part}") for part in ("begin", "step", "active"))
    at, pixel_at, row_at = (Signal(ADDRESS_BITS, name=f"{name}_{part}") for part in ("at", "pixel_at", "row_at"))
    rows_left, columns_left, blocks_left = (
        Signal(COUNT_BITS, name=f"{name}_{part}_left") for part in ("rows", "columns", "blocks")
    )
    next_pixel, next_row = _distances(m, name, row, repeat, begin, step & (blocks_left == 1), columns_left == 1)
    pixel_ends = blocks_left == 1
    row_ends = pixel_ends & (columns_left == 1)
    last = row_ends & (rows_left == 1)
    with m.If(begin):
        m.d.sync += [at.eq(first), pixel_at.eq(first), row_at.eq(first), active.eq(1)]
        m.d.sync += [rows_left.eq(rows), columns_left.eq(columns), blocks_left.eq(blocks)]
    with m.Elif(step):
        m.d.sync += [at.eq(at + block), blocks_left.eq(blocks_left - 1)]
        with m.If(pixel_ends):
            pixel = pixel_at + next_pixel
            m.d.sync += [at.eq(pixel), pixel_at.eq(pixel), blocks_left.eq(blocks), columns_left.eq(columns_left - 1)]
        with m.If(row_ends):
            start = row_at + next_row
            m.d.sync += [at.eq(start), pixel_at.eq(start), row_at.eq(start)]
            m.d.sync += [columns_left.eq(columns), rows_left.eq(rows_left - 1)]
        with m.If(last):
            m.d.sync += active.eq(0)
    return TileWalk(begin, step, active, at, pixel_ends, row_ends, last)


def _distances(
    m: Module, name: str, row: Any, repeat: Mapping[str, Any] | None, begin: Any, pixel_step: Any, in_last_column: Any
) -> tuple[Any, Any]:
    """Return the words from a pixel and from a row to the next; 0 while the same pixel or row is repeated."""
    if repeat is None:
        return Const(1), row
    column_phase, row_phase = Signal(10, name=f"{name}_column_phase"), Signal(10, name=f"{name}_row_phase")
    new_column = column_phase + 1 == repeat["factor_columns"]
    new_row = row_phase + 1 == repeat["factor_rows"]
    with m.If(begin):
        m.d.sync += [column_phase.eq(repeat["phase_column"]), row_phase.eq(repeat["phase_row"])]
    with m.Elif(pixel_step):
        m.d.sync += column_phase.eq(Mux(new_column, 0, column_phase + 1))
        with m.If(in_last_column):
            m.d.sync += [column_phase.eq(repeat["phase_column"]), row_phase.eq(Mux(new_row, 0, row_phase + 1))]
    return new_column, Mux(new_row, row, 0)


def block_walk(m: Module, v: Mapping[str, Any], blocks: Any) -> TileWalk:
    """Build the walk. v: fields of misc.reorganise. blocks: words of a pixel's channels."""
    first, row, block = tile_fields(v, "from")
    begin, step, active = (Signal(name=f"block_{part}") for part in ("begin", "step", "active"))
    # Addresses: of the word, of its pixel, of its row of the block, of the block, of the row of blocks.
    at, pixel_at, line_at, block_at, row_at = (
        Signal(ADDRESS_BITS, name=f"block_{part}") for part in ("at", "pixel_at", "line_at", "block_at", "row_at")
    )
    words, columns, rows, across, down = (
        Signal(COUNT_BITS, name=f"block_{part}_left") for part in ("words", "columns", "rows", "across", "down")
    )
    pixel_ends = words == 1
    line_ends = pixel_ends & (columns == 1)
    block_ends = line_ends & (rows == 1)
    row_ends = block_ends & (across == 1)
    last = row_ends & (down == 1)
    sizes = ((words, blocks), (columns, v["factor_columns"]), (rows, v["factor_rows"]), (across, v["out_columns"]))
    with m.If(begin):
        m.d.sync += [left.eq(size) for left, size in (*sizes, (down, v["out_rows"]))]
        m.d.sync += [one.eq(first) for one in (at, pixel_at, line_at, block_at, row_at)] + [active.eq(1)]
    with m.Elif(step):
        m.d.sync += [at.eq(at + block), words.eq(words - 1)]
        with m.If(pixel_ends):
            m.d.sync += [at.eq(pixel_at + 1), pixel_at.eq(pixel_at + 1), words.eq(blocks), columns.eq(columns - 1)]
        with m.If(line_ends):
            m.d.sync += [one.eq(line_at + row) for one in (at, pixel_at, line_at)]
            m.d.sync += [columns.eq(v["factor_columns"]), rows.eq(rows - 1)]
        with m.If(block_ends):
            following = block_at + v["factor_columns"]
            m.d.sync += [one.eq(following) for one in (at, pixel_at, line_at, block_at)]
            m.d.sync += [rows.eq(v["factor_rows"]), across.eq(across - 1)]
        with m.If(row_ends):
            below = (row_at + row * v["factor_rows"])[:ADDRESS_BITS]
            m.d.sync += [one.eq(below) for one in (at, pixel_at, line_at, block_at, row_at)]
            m.d.sync += [across.eq(v["out_columns"]), down.eq(down - 1)]
        with m.If(last):
            m.d.sync += active.eq(0)
    return TileWalk(begin, step, active, at, pixel_ends, row_ends, last)
