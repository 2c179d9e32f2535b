"""Loops over the blocks of a macro-tile: rows and output channels of a call, in the macro-tile's loop order."""

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import const, repeat
from mavcg.specs.tile_plan import MacroTile, Order

Value: TypeAlias = ir.Value
Block = Callable[[Value, int, Value, Value], None]  # (first channel, channels, first row, end of rows)


def row_blocks(
    b: ir.IRBuilder, begin: Value, end: Value, rows: int | None, body: Callable[[Value, Value], None]
) -> None:
    """Emit body(first, end) for each block of `rows` rows from begin to end; the last may be shorter. None: one
    block."""
    if rows is None:
        body(begin, end)
        return

    def block(first: Value) -> None:
        last = b.add(first, const(rows))
        body(first, b.select(b.icmp_signed("<", last, end), last, end))

    repeat(b, begin, end, block, "block", rows)


def channel_blocks(b: ir.IRBuilder, count: int, step: int | None, body: Callable[[Value, int], None]) -> None:
    """Emit body(first, channels) for each block of `step` output channels; the last may be shorter. None: one block."""
    step = min(count, step or count)
    whole = count // step * step
    if whole == step:
        body(const(0), step)
    else:
        repeat(b, 0, whole, lambda first: body(first, step), "channels", step)
    if count > whole:
        body(const(whole), count - whole)


def block_channels(macro: MacroTile, lanes: int) -> int | None:
    """Return the output channels of a block, a multiple of `lanes` (whole panels); None: all channels."""
    return None if macro.nc is None else -(-macro.nc // lanes) * lanes


def blocks(b: ir.IRBuilder, macro: MacroTile, channels: int, lanes: int, begin: Value, end: Value, body: Block) -> None:
    """Emit body for each block of output channels and of the rows from begin to end, in the macro-tile's loop order."""
    step = block_channels(macro, lanes)
    if macro.order is Order.ROWS:

        def rows(first: Value, last: Value) -> None:
            channel_blocks(b, channels, step, lambda channel, count: body(channel, count, first, last))

        row_blocks(b, begin, end, macro.mc, rows)
        return

    def outside(channel: Value, count: int) -> None:
        row_blocks(b, begin, end, macro.mc, lambda first, last: body(channel, count, first, last))

    channel_blocks(b, channels, step, outside)
