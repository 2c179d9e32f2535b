"""The loops of a macro-tile: a task's rows and output channels in blocks, in the order that it says."""

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import const, repeat
from mavcg.specs.tile_plan import MacroTile, Order

Value: TypeAlias = ir.Value
Block = Callable[[Value, int, Value, Value], None]  # (first channel, how many, first row, row after the last)


def row_blocks(
    b: ir.IRBuilder, begin: Value, end: Value, rows: int | None, body: Callable[[Value, Value], None]
) -> None:
    """Emit body(first, last) of each block of `rows` rows from begin to end, the last one shorter; None: one block."""
    if rows is None:
        body(begin, end)
        return

    def block(first: Value) -> None:
        last = b.add(first, const(rows))
        body(first, b.select(b.icmp_signed("<", last, end), last, end))

    repeat(b, begin, end, block, "block", rows)


def channel_blocks(b: ir.IRBuilder, count: int, step: int | None, body: Callable[[Value, int], None]) -> None:
    """Emit body(first, channels) of each block of `step` output channels, the last one shorter; None: all at once."""
    step = min(count, step or count)
    whole = count // step * step
    if whole == step:
        body(const(0), step)
    else:
        repeat(b, 0, whole, lambda first: body(first, step), "channels", step)
    if count > whole:
        body(const(whole), count - whole)


def block_channels(macro: MacroTile, lanes: int) -> int | None:
    """Return the output channels of a block: whole panels of `lanes`; None: all."""
    return None if macro.nc is None else -(-macro.nc // lanes) * lanes


def blocks(b: ir.IRBuilder, macro: MacroTile, channels: int, lanes: int, begin: Value, end: Value, body: Block) -> None:
    """Emit body for each block of a group's output channels and of the rows from begin to end, channels inside or
    outside."""
    step = block_channels(macro, lanes)
    if macro.order is Order.ROWS:

        def rows(first: Value, last: Value) -> None:
            channel_blocks(b, channels, step, lambda channel, count: body(channel, count, first, last))

        row_blocks(b, begin, end, macro.mc, rows)
        return

    def outside(channel: Value, count: int) -> None:
        row_blocks(b, begin, end, macro.mc, lambda first, last: body(channel, count, first, last))

    channel_blocks(b, channels, step, outside)
