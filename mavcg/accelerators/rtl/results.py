"""Results of an execution unit: sums become 8 bits by shift, rounding and saturation, and are written from a queue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.fifo import SyncFIFO

from mavcg.accelerators.rtl.memories import WriteLane
from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, RtlSizes

SUM_BITS = 64  # as in the functional simulator: shifts to the left drop what is above
STAGES = 3
_DEPTH = 16
_SHIFT_BITS = 9
_SLOPE_SHIFT, _MOST_SHIFT = 8, 62


@dataclass(frozen=True)
class Finish:
    """The fields of an instruction that say how sums become results; constant while it runs."""

    lo: Any
    hi: Any
    leaky: Any
    slope: Any
    zero: Any


def finish_of(v: Mapping[str, Any]) -> Finish:
    """Return the fields of an instruction with lo, hi, leaky, slope and zero."""
    return Finish(v["lo"], v["hi"], v["leaky"], v["slope"], v["zero"])


def requantize(
    m: Module, name: str, sizes: RtlSizes, total: Any, shift: Any, finish: Finish, multiplier: Any = None
) -> Any:
    """Return the 8-bit result of `total` * 2^-shift plus the zero point, STAGES cycles later.

    total: a signed sum, at most 58 bits with the products of slope and multiplier. shift: signed, at most 8 bits.
    multiplier: 16 bits, 0 for 1; None for 1.
    """
    if multiplier is not None:
        total = total * Mux(multiplier == 0, 1, multiplier)
    scaled, by = Signal(signed(SUM_BITS), name=f"{name}_scaled"), Signal(signed(_SHIFT_BITS + 1), name=f"{name}_by")
    slopes = finish.leaky & (total < 0)
    m.d.sync += [
        scaled.eq(Mux(slopes, total * finish.slope, total)),
        by.eq(Mux(slopes, shift + _SLOPE_SHIFT, shift)),
    ]
    value, half = _shift(m, name, sizes, scaled, by)
    rounded = value + half
    if sizes.rounding == "half_away":
        negative = Signal(name=f"{name}_negative")
        m.d.sync += negative.eq((scaled < 0) & (by > 0))
        rounded = Mux(negative, -rounded, rounded)
    result = Signal(signed(8), name=f"{name}_result")
    placed = rounded + finish.zero
    m.d.sync += result.eq(
        Mux(placed < finish.lo, finish.lo, Mux(placed > finish.hi, finish.hi, placed[:8].as_signed()))
    )
    return result


def _shift(m: Module, name: str, sizes: RtlSizes, scaled: Any, by: Any) -> tuple[Any, Any]:
    """Return the shifted value and what rounding adds, a cycle later; for half_away of the absolute value."""
    right, left = Mux(by > _MOST_SHIFT, _MOST_SHIFT, by)[:6], (-by)[:6]
    magnitude: Any = scaled
    if sizes.rounding == "half_away":
        magnitude = Mux(scaled < 0, -scaled, scaled)[:SUM_BITS].as_signed()
    # A bit below the value: after the shift it is the first bit that was cut off, the half.
    shifted_right = Cat(Const(0, 1), magnitude).as_signed() >> right
    shifted_left = Mux(by <= -SUM_BITS, 0, scaled << left)[:SUM_BITS].as_signed()
    value, half = Signal(signed(SUM_BITS), name=f"{name}_value"), Signal(name=f"{name}_half")
    rounds = 0 if sizes.rounding == "floor" else shifted_right[0] & (by > 0)
    m.d.sync += [value.eq(Mux(by > 0, shifted_right[1:].as_signed(), shifted_left)), half.eq(rounds)]
    return value, half


@dataclass(frozen=True)
class ResultQueue:
    """Words that are written in the order in which they came; those of one entry together.

    room: 1 while another step of the pipeline may begin. push: set to 1 with the entry: needed, addresses and words of
    each lane, `long` for as many consecutive words as a lane's value has and not one, and last for the last entry of an
    instruction. ended: 1 in the cycle of the last entry's last write.
    """

    room: Any
    push: Any
    needed: list[Any]
    addresses: list[Any]
    words: list[Any]
    long: Any
    last: Any
    ended: Any


def result_queue(
    m: Module, name: str, sizes: RtlSizes, lanes: Sequence[WriteLane], stages: int, parts: int = 1
) -> ResultQueue:
    """Return a queue for the results of a pipeline.

    stages: steps that may be under way when the queue is full. parts: words of a lane's value in a long entry.
    """
    push, last = Signal(name=f"{name}_push"), Signal(name=f"{name}_push_last")
    long, part = Signal(name=f"{name}_push_long"), Signal(range(parts), name=f"{name}_part")
    value_bits = parts * sizes.word_bits
    needed = [Signal(name=f"{name}_result_{i}") for i in range(len(lanes))]
    addresses = [Signal(ADDRESS_BITS, name=f"{name}_result_at_{i}") for i in range(len(lanes))]
    words = [Signal(value_bits, name=f"{name}_result_word_{i}") for i in range(len(lanes))]
    entry = Cat(last, long, *(Cat(parts) for parts in zip(needed, addresses, words, strict=True)))
    m.submodules[f"{name}_results"] = queue = SyncFIFO(width=len(entry), depth=_DEPTH)
    m.d.comb += [queue.w_en.eq(push), queue.w_data.eq(entry)]
    size, complete = 1 + ADDRESS_BITS + value_bits, queue.r_rdy
    is_last, is_long = queue.r_data[0], queue.r_data[1]
    ends = Signal(name=f"{name}_part_ends")
    for i, lane in enumerate(lanes):
        place = rotate(part, i) if parts > 1 else part
        offset = Mux(is_long, place, 0)
        lane_entry = queue.r_data[2 + i * size : 2 + (i + 1) * size]
        written = Signal(name=f"{name}_written_{i}")
        m.d.comb += [
            lane.request.eq(queue.r_rdy & lane_entry[0] & ~written),
            lane.address.eq(lane_entry[1 : 1 + ADDRESS_BITS] + offset),
            lane.data.eq(lane_entry[1 + ADDRESS_BITS :].word_select(offset, sizes.word_bits)),
        ]
        m.d.sync += written.eq(queue.r_rdy & ~ends & (written | lane.grant))
        complete = complete & (~lane_entry[0] | written | lane.grant)
    final = ~is_long | (part == parts - 1)
    m.d.comb += [ends.eq(complete), queue.r_en.eq(complete & final)]
    with m.If(ends):
        m.d.sync += part.eq(Mux(final, 0, part + 1))
    return ResultQueue(queue.level <= _DEPTH - stages, push, needed, addresses, words, long, last, queue.r_en & is_last)


def rotate(part: Any, lane: int) -> Any:
    """Return the word of four that a lane accesses in step `part`.

    The sums of rows often begin in the same bank: the lanes then access different words of theirs.
    """
    return (part + lane)[:2]


def delay(m: Module, name: str, pulse: Any, cycles: int) -> Any:
    """Return a signal some cycles later."""
    for cycle in range(cycles):
        following = Signal(len(pulse) if not isinstance(pulse, Const) else 1, name=f"{name}_{cycle}")
        m.d.sync += following.eq(pulse)
        pulse = following
    return pulse
