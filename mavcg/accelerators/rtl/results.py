"""Words of results on their way from a unit into feature memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO

from mavcg.accelerators.rtl.lanes import WriteLane
from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, RtlSizes

_DEPTH = 16


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
