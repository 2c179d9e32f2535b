"""Rows of work cut into parts: a range of parts, those of a row one after the other, as rectangles of rows by parts.

A thread's range begins and ends in the middle of a row where rows alone are too few to be shared out fairly. Parts of a
row of pixels are output channels; where a row of work is a panel of these, its parts are rows of pixels. This is the
same for convolutions of all types; what they compute of a rectangle is their own loops' affair.
"""

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.kernels.builder.block_loops import block_channels
from mavcg.kernels.builder.emit import const, kernel_name, repeat
from mavcg.kernels.conv.spec import Convolution
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.tile_plan import MacroTile

Value: TypeAlias = ir.Value
Rectangle = Callable[[Value, Value, Value, Value], None]  # (first row, row after the last, first part, part after)
Run = Callable[[Value, int], None]  # (first channel, how many)


def parts_of(spec: Convolution, macro: MacroTile) -> int:
    """Return the number of parts that a row of work really has for a macro-tile's `parts`: 1 where there are groups.

    Of a row of pixels parts are `macro.nc` each; of a panel they are rows of pixels, as evenly as can be.
    """
    if spec.groups > 1:
        return 1
    if spec.by_channels:
        return -(-spec.pixel_rows // part_rows(spec, macro))
    channels = block_channels(macro, spec.lanes)
    return -(-spec.out_channels // channels) if channels is not None else 1


def part_rows(spec: Convolution, macro: MacroTile) -> int:
    """Return the number of rows of pixels of a panel's parts."""
    return -(-spec.pixel_rows // macro.parts)


def check_parts(spec: Convolution, macro: MacroTile) -> None:
    """Raise MavcgError where the macro-tile's parts are not those that a row of work has."""
    if macro.parts > 1 and macro.parts != parts_of(spec, macro):
        raise MavcgError(f"{kernel_name(spec)}: has no {macro.parts} parts of {macro.nc} channels in a row")


def rows_of_parts(b: ir.IRBuilder, spec: Convolution, macro: MacroTile, low: Value, high: Value) -> tuple[Value, Value]:
    """Return (first, after the last) of the rows of pixels that a panel's parts from low to high are."""
    rows = part_rows(spec, macro)
    begin, end = b.mul(low, const(rows)), b.mul(high, const(rows))
    if spec.pixel_rows % rows:
        every = const(spec.pixel_rows)
        end = b.select(b.icmp_signed("<", end, every), end, every)
    return begin, end


def rectangles(b: ir.IRBuilder, parts: int, begin: Value, end: Value, body: Rectangle) -> None:
    """Emit body for the rest of a row begun in the middle, for the whole rows, and for the beginning of the next row.

    Each of them only where there is any; whole rows are one rectangle, whose order of blocks is body's affair. The body
    is emitted once.
    """
    per_row, one, two = const(parts), const(1), const(2)
    first_row, first_part = b.udiv(begin, per_row), b.urem(begin, per_row)
    last_row, last_part = b.udiv(end, per_row), b.urem(end, per_row)
    begun = b.icmp_signed("!=", first_part, const(0), name="begun")
    whole_from = b.select(begun, b.add(first_row, one), first_row)
    inside = b.and_(begun, b.icmp_signed("==", first_row, last_row))  # begins and ends in the middle of one row
    no_whole = b.icmp_signed(">=", whole_from, last_row)
    left = b.and_(b.icmp_signed("!=", last_part, const(0)), b.xor(inside, const(1, ir.IntType(1))))
    # 0: the row begun; 1: whole rows, an empty iteration where there are none; 2: the row that is left in the middle.
    start = b.select(begun, const(0), b.select(no_whole, two, one))
    stop = b.select(inside, one, b.select(left, const(3), two))

    def iteration(which: Value) -> None:
        head, tail = b.icmp_signed("==", which, const(0)), b.icmp_signed("==", which, two)
        first = b.select(head, first_row, b.select(tail, last_row, whole_from))
        last = b.select(b.or_(head, tail), b.add(first, one), last_row)
        low = b.select(head, first_part, const(0))
        high = b.select(b.or_(tail, b.and_(head, inside)), last_part, per_row)
        body(first, last, low, high)

    repeat(b, start, stop, iteration, "rectangle")


def part_runs(
    b: ir.IRBuilder, macro: MacroTile, channels: int, lanes: int, chunk: int, low: Value, high: Value, body: Run
) -> None:
    """Emit the body for the parts from low to high, in order, as runs of channels.

    chunk: channels of a register tile. Parts of whole tiles are runs of one tile each, and the last of all channels is
    what no tile is filled by: the same tiles as if there were no parts. Of narrower parts neighbours that such a tile
    is wider than are one run, as far as whole tiles fit; what is left then is a run each.
    """
    count = block_channels(macro, lanes) or channels
    together = chunk // count if chunk % count == 0 and count < chunk <= channels // count * count else 1
    sizes = (chunk,) if count % chunk == 0 else tuple(dict.fromkeys((together * count, count)))
    first, last = b.mul(low, const(count)), b.mul(high, const(count))
    whole = channels // sizes[-1] * sizes[-1]
    stop = b.select(b.icmp_signed("<", last, const(whole)), last, const(whole))
    at: Value = first
    for size in sizes:
        # Where nothing is left of whole parts the division gives 0 or less, and `upto` is not above `at`.
        upto = b.add(at, b.mul(b.sdiv(b.sub(stop, at), const(size)), const(size))) if len(sizes) > 1 else stop

        def run(channel: Value, size: int = size) -> None:
            body(channel, size)

        repeat(b, at, upto, run, "part", size)
        at = b.select(b.icmp_signed(">", upto, at), upto, at)
    if rest := channels - whole:
        with b.if_then(b.icmp_signed(">", last, const(whole))):
            body(const(whole), rest)


def channel_groups(
    b: ir.IRBuilder, macro: MacroTile, channels: int, begin: Value, end: Value, body: Rectangle
) -> None:  # fmt: skip
    """Emit body(first row, row after, first channel, channel after) for a range of parts of a depthwise kernel.

    Parts of a row of pixels are `macro.nc` channels each, of whatever groups they are.
    """
    nc = macro.nc or channels

    def part(first: Value, last: Value, low: Value, high: Value) -> None:
        after, every = b.mul(high, const(nc)), const(channels)
        after = b.select(b.icmp_signed("<", after, every), after, every)
        body(first, last, b.mul(low, const(nc)), after)

    rectangles(b, macro.parts, begin, end, part)


def check_groups(spec: KernelSpec, macro: MacroTile, channels: int, step: int) -> None:
    """Raise MavcgError where the macro-tile's parts are not groups of whole steps that are all channels."""
    nc = macro.nc
    whole = nc is not None and not nc % step and macro.parts == -(-channels // nc)
    if macro.parts > 1 and not whole:
        raise MavcgError(f"{kernel_name(spec)}: has no {macro.parts} parts of {macro.nc} channels in a row")


def channel_steps(
    b: ir.IRBuilder, channels: int, step: int, body: Run, between: tuple[Value, Value] | None = None
) -> None:
    """Emit body(first channel, count) for every `step` channels; the last ones may be fewer.

    between: the first of them and the one after the last, multiples of a step or the end; None: all.
    """
    whole = channels // step * step
    if between is None:
        if whole == step:
            body(const(0), step)
        elif whole:
            repeat(b, 0, whole, lambda channel: body(channel, step), "channel", step)
        if channels > whole:
            body(const(whole), channels - whole)
        return
    low, high = between
    stop = b.select(b.icmp_signed("<", high, const(whole)), high, const(whole))
    if whole:
        repeat(b, low, stop, lambda channel: body(channel, step), "channel", step)
    if channels > whole:
        with b.if_then(b.icmp_signed(">", high, const(whole))):
            body(const(whole), channels - whole)
