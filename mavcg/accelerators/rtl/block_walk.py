"""The walk of misc.reorganise over its input: for each pixel of the result, a block of pixels of the input."""

from collections.abc import Mapping
from typing import Any

from amaranth import Module, Signal

from mavcg.accelerators.rtl.sizes import ADDRESS_BITS
from mavcg.accelerators.rtl.walks import COUNT_BITS, TileWalk, tile_fields


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
