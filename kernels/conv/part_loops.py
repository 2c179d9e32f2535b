"""Loops over rows of work and parts of them, and over the blocks of a macro-tile, for convolutions of all types.

A range of parts becomes rectangles of rows by parts. Parts are numbered row by row. Where rows are too few to be shared
evenly by threads, a thread's range begins and ends in the middle of a row. The parts of a row of pixels are ranges of
output channels; where a row of work is a panel of channels, its parts are ranges of rows of pixels. Blocks are of the
rows and the output channels of a call, in the macro-tile's loop order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.kernels.builder.emit import const, kernel_name, repeat
from mavcg.kernels.builder.nest_loops import maximum, minimum
from mavcg.kernels.builder.tiles import repeat_tiles, row_blocks, whole_and_rest
from mavcg.kernels.conv.spec import Conv, Convolution
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.tile_plan import MacroTile, Order

Value: TypeAlias = ir.Value
Block = Callable[[Value, int, Value, Value], None]  # (first channel, channels, first row, end of rows)


def channel_blocks(b: ir.IRBuilder, count: int, step: int | None, body: Callable[[Value, int], None]) -> None:
    """Emit body(first, channels) for each block of `step` output channels; the last may be shorter. None: one block."""
    repeat_tiles(b, whole_and_rest(count, min(count, step or count)), body, "channels")


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


Rectangle = Callable[[Value, Value, Value, Value], None]  # (first row, end of rows, first part, end of parts)
Run = Callable[[Value, int], None]  # (first channel, number of channels)


def parts_of(spec: Convolution, macro: MacroTile) -> int:
    """Return the number of parts of a row of work under a macro-tile, number may differ from its `parts`.

    A convolution with groups has one part. A row of pixels has parts of `macro.nc` channels each, a panel has parts of
    rows of pixels, as even as possible.
    """
    if spec.groups > 1:
        return 1
    if spec.by_channels:
        return -(-spec.pixel_rows // part_rows(spec, macro))
    channels = block_channels(macro, spec.lanes)
    return -(-spec.out_channels // channels) if channels is not None else 1


def part_rows(spec: Convolution, macro: MacroTile) -> int:
    """Return the rows of pixels of each part of a panel."""
    return -(-spec.pixel_rows // macro.parts)


def _parts_error(spec: KernelSpec, macro: MacroTile) -> MavcgError:
    channels = "all" if macro.nc is None else macro.nc
    return MavcgError(f"{kernel_name(spec)}: a row cannot be cut into {macro.parts} parts of {channels} channels")


def check_parts(spec: Convolution, macro: MacroTile) -> None:
    """Check the macro-tile's number of parts. Raises: MavcgError where a row of work has another number."""
    if macro.parts > 1 and macro.parts != parts_of(spec, macro):
        raise _parts_error(spec, macro)


def rows_of_parts(b: ir.IRBuilder, spec: Convolution, macro: MacroTile, low: Value, high: Value) -> tuple[Value, Value]:
    """Return (first, end) of the rows of pixels of a panel's parts low to high."""
    rows = part_rows(spec, macro)
    begin, end = b.mul(low, const(rows)), b.mul(high, const(rows))
    if spec.pixel_rows % rows:
        every = const(spec.pixel_rows)
        end = minimum(b, end, every)
    return begin, end


def rectangles(b: ir.IRBuilder, parts: int, begin: Value, end: Value, body: Rectangle) -> None:
    """Emit body for the rectangles of parts begin to end: the end of a partial first row, whole rows, a partial last
    row.

    All whole rows are one rectangle. Rectangles without parts are skipped at run time; the body is emitted once.
    """
    per_row, unit, two = const(parts), const(1), const(2)
    first_row, first_part = b.udiv(begin, per_row), b.urem(begin, per_row)
    last_row, last_part = b.udiv(end, per_row), b.urem(end, per_row)
    begun = b.icmp_signed("!=", first_part, const(0), name="begun")
    whole_from = b.select(begun, b.add(first_row, unit), first_row)
    inside = b.and_(begun, b.icmp_signed("==", first_row, last_row))  # the range begins and ends inside one row
    no_whole = b.icmp_signed(">=", whole_from, last_row)
    left = b.and_(b.icmp_signed("!=", last_part, const(0)), b.xor(inside, const(1, ir.IntType(1))))
    # Iterations: 0: partial first row; 1: whole rows, possibly none; 2: partial last row.
    start = b.select(begun, const(0), b.select(no_whole, two, unit))
    stop = b.select(inside, unit, b.select(left, const(3), two))

    def iteration(number: Value) -> None:
        head, tail = b.icmp_signed("==", number, const(0)), b.icmp_signed("==", number, two)
        first = b.select(head, first_row, b.select(tail, last_row, whole_from))
        last = b.select(b.or_(head, tail), b.add(first, unit), last_row)
        low = b.select(head, first_part, const(0))
        high = b.select(b.or_(tail, b.and_(head, inside)), last_part, per_row)
        body(first, last, low, high)

    repeat(b, start, stop, iteration, "rectangle")


def part_runs(
    b: ir.IRBuilder, macro: MacroTile, channels: int, lanes: int, chunk: int, low: Value, high: Value, body: Run
) -> None:
    """Emit body(first channel, count) for the parts low to high, in order, as runs of channels.

    chunk: channels of a register tile. Parts that are multiples of a tile are emitted tile by tile; the last run is the
    tail of the channels, so that the tiles are the same as without parts. Narrower parts are joined into runs of a
    whole tile as far as possible; each remaining part is a run of its own.
    """
    count = block_channels(macro, lanes) or channels
    together = chunk // count if chunk % count == 0 and count < chunk <= channels // count * count else 1
    sizes = (chunk,) if count % chunk == 0 else tuple(dict.fromkeys((together * count, count)))
    first, last = b.mul(low, const(count)), b.mul(high, const(count))
    whole = channels // sizes[-1] * sizes[-1]
    stop = minimum(b, last, const(whole))
    at: Value = first
    for size in sizes:
        # Where no whole parts are left, the division gives 0 or less, and `upto` is not above `at`.
        upto = b.add(at, b.mul(b.sdiv(b.sub(stop, at), const(size)), const(size))) if len(sizes) > 1 else stop

        def run(channel: Value, size: int = size) -> None:
            body(channel, size)

        repeat(b, at, upto, run, "part", size)
        at = maximum(b, upto, at)
    if rest := channels - whole:
        with b.if_then(b.icmp_signed(">", last, const(whole))):
            body(const(whole), rest)


def channel_groups(b: ir.IRBuilder, macro: MacroTile, channels: int, begin: Value, end: Value, body: Rectangle) -> None:
    """Emit body(first row, end of rows, first channel, end of channels) for a range of parts of a depthwise kernel.

    Each part of a row of pixels has `macro.nc` channels.
    """
    nc = macro.nc or channels

    def part(first: Value, last: Value, low: Value, high: Value) -> None:
        after, every = b.mul(high, const(nc)), const(channels)
        after = minimum(b, after, every)
        body(first, last, b.mul(low, const(nc)), after)

    rectangles(b, macro.parts, begin, end, part)


def check_groups(spec: KernelSpec, macro: MacroTile, channels: int, step: int) -> None:
    """Check a depthwise kernel's parts. Raises: MavcgError unless they are multiples of `step` that cover all
    channels."""
    nc = macro.nc
    whole = nc is not None and not nc % step and macro.parts == -(-channels // nc)
    if macro.parts > 1 and not whole:
        raise _parts_error(spec, macro)


def channel_steps(
    b: ir.IRBuilder, channels: int, step: int, body: Run, between: tuple[Value, Value] | None = None
) -> None:
    """Emit body(first channel, count) for every `step` channels; the last may be fewer.

    between: (first, end) of the channels, multiples of a step or the last channel; None: all channels.
    """
    if between is None:
        repeat_tiles(b, whole_and_rest(channels, step), body, "channel")
        return
    whole, (low, high) = channels // step * step, between
    stop = minimum(b, high, const(whole))
    if whole:
        repeat(b, low, stop, lambda channel: body(channel, step), "channel", step)
    if channels > whole:
        with b.if_then(b.icmp_signed(">", high, const(whole))):
            body(const(whole), channels - whole)


@dataclass(frozen=True)
class ChannelRun:
    """The outputs of a block: `count` output channels of a group from `first`, for the rows of pixels begin to end.

    pixels: of these rows, where a register tile has all of them; None: any number.
    """

    group: Value
    first: Value
    count: int
    begin: Value
    end: Value
    pixels: int | None = None


class RowsOfWork(ABC, Generic[Conv]):
    """Emitter of a convolution's rows of work, whole ones and parts, by the blocks of a macro-tile."""

    b: ir.IRBuilder
    spec: Conv
    macro: MacroTile

    def emit(self, begin: Value, end: Value) -> None:
        """Emit the rows of work, or parts of them, from begin to end."""
        b, spec, macro = self.b, self.spec, self.macro
        if macro.parts > 1:
            rectangles(b, macro.parts, begin, end, self.panel_parts if spec.by_channels else self.row_parts)
        elif spec.by_channels:
            self.panels(begin, end, (const(0), const(spec.pixel_rows)))
        elif macro.order is Order.ROWS and spec.groups > 1:

            def block(first: Value, last: Value) -> None:
                repeat(b, 0, spec.groups, lambda group: self.group(group, first, last), "group")

            row_blocks(b, begin, end, macro.mc, block)
        else:
            repeat(b, 0, spec.groups, lambda group: self.group(group, begin, end), "group")

    def group(self, group: Value, begin: Value, end: Value) -> None:
        """Emit all of a group's output channels for a range of rows."""

        def block(channel: Value, count: int, first: Value, last: Value) -> None:
            self.channels(ChannelRun(group, channel, count, first, last))

        blocks(self.b, self.macro, self.spec.out_channels, self.spec.lanes, begin, end, block)

    def panel_parts(self, first: Value, last: Value, low: Value, high: Value) -> None:
        """Emit the rows of pixels of parts low to high, for panels first to last; there is one group."""
        self.panels(first, last, rows_of_parts(self.b, self.spec, self.macro, low, high))

    @property
    def block_rows(self) -> int | None:
        """Rows of a block where work is cut along the channels; None: all rows."""
        mc = self.macro.mc
        return mc if mc is not None and mc < self.spec.pixel_rows else None

    @abstractmethod
    def channels(self, run: ChannelRun) -> None:
        """Emit the outputs of a block."""

    @abstractmethod
    def panels(self, begin: Value, end: Value, rows: tuple[Value, Value]) -> None:
        """Emit the panels of all groups from begin to end, for a range of rows of pixels."""

    @abstractmethod
    def row_parts(self, first: Value, last: Value, low: Value, high: Value) -> None:
        """Emit the output channels of parts low to high, for rows first to last; there is one group."""
