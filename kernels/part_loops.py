"""Rows of work cut into parts: a range of parts, those of a row one after the other, as rectangles of rows by parts.

A thread's range begins and ends in the middle of a row where rows alone are too few to be shared out fairly. Parts of a
row of pixels are output channels; where a row of work is a panel of these, its parts are rows of pixels.
"""

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.block_loops import block_channels
from mavcg.kernels.emit import const, repeat
from mavcg.tile_plan import MacroTile

Value: TypeAlias = ir.Value
Rectangle = Callable[[Value, Value, Value, Value], None]  # (first row, row after the last, first part, part after)
Run = Callable[[Value, int], None]  # (first channel, how many)


def rectangles(b: ir.IRBuilder, parts: int, begin: Value, end: Value, body: Rectangle) -> None:
    """body of what is left of a row begun in the middle, of the whole rows, and of the beginning of the row after.

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
    # 0: the row begun; 1: whole rows, an empty turn where there are none; 2: the row that is left in the middle.
    start = b.select(begun, const(0), b.select(no_whole, two, one))
    stop = b.select(inside, one, b.select(left, const(3), two))

    def turn(which: Value) -> None:
        head, tail = b.icmp_signed("==", which, const(0)), b.icmp_signed("==", which, two)
        first = b.select(head, first_row, b.select(tail, last_row, whole_from))
        last = b.select(b.or_(head, tail), b.add(first, one), last_row)
        low = b.select(head, first_part, const(0))
        high = b.select(b.or_(tail, b.and_(head, inside)), last_part, per_row)
        body(first, last, low, high)

    repeat(b, start, stop, turn, "rectangle")


def part_runs(
    b: ir.IRBuilder, macro: MacroTile, channels: int, lanes: int, chunk: int, low: Value, high: Value, body: Run
) -> None:
    """body of the parts from low to high, in order, as runs of channels.

    chunk: channels of a register tile. Neighbouring parts that such a tile is wider than are one run, as far as whole
    tiles fit; what is left then is a run each.
    """
    count = block_channels(macro, lanes)
    whole, rest = divmod(channels, count)
    together = chunk // count if chunk % count == 0 and count < chunk <= whole * count else 1
    stop = b.select(b.icmp_signed("<", high, const(whole)), high, const(whole))
    at = low
    for number in dict.fromkeys((together, 1)):
        # Where nothing is left of whole parts the division gives 0 or less, and `upto` is not above `at`.
        upto = b.add(at, b.mul(b.sdiv(b.sub(stop, at), const(number)), const(number)))

        def run(part: Value, size: int = number * count) -> None:
            body(b.mul(part, const(count)), size)

        repeat(b, at, upto, run, "part", number)
        at = b.select(b.icmp_signed(">", upto, at), upto, at)
    if rest:
        with b.if_then(b.icmp_signed(">", high, const(whole))):
            body(const(whole * count), rest)
