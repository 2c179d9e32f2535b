"""Biases and shifts of a block of output channels, read while the block before is still in the pipeline."""

from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Module, Signal

from mavcg.accelerators.isa.datapath import blocks
from mavcg.accelerators.rtl.lanes import WeightRead
from mavcg.accelerators.rtl.results import delay
from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, ENTRY_BITS, RtlSizes

_SWITCH = 3  # cycles from the begin of a block to that in which its entries replace those of the block before


@dataclass(frozen=True)
class Entries:
    """Entries of a block. biases, shifts: of each channel. ready: 1 if the block may end; they will be there."""

    biases: list[Any]
    shifts: list[Any]
    ready: Any


def entry_words(sizes: RtlSizes) -> int:
    """Return the words of weight memory that the entries of a block take."""
    return blocks(ENTRY_BITS * sizes.word, sizes.weight_bits)


def channel_entries(m: Module, sizes: RtlSizes, port: WeightRead, base: Any, begins: Any) -> Entries:
    """Read the entries of each block.

    They are current from the fourth cycle of the block on, when the last sums of the block before have used theirs. So
    a block takes two cycles or more: the next one's entries would come too early.

    base: address of the block's entries. begins: 1 in the first cycle in which it is.
    """
    count = entry_words(sizes)
    index, coming = Signal(range(count + 1), name="entry_index"), Signal(range(count + 1), name="entry_coming")
    position = Signal(range(count + 1), name="entry_position")
    m.d.comb += position.eq(index)
    with m.If(begins):
        m.d.comb += position.eq(0)
    m.d.comb += port.address.eq((base + position)[:ADDRESS_BITS])
    m.d.sync += [coming.eq(position), index.eq(position + (position != count))]
    switch = delay(m, "entries_switch", begins, _SWITCH)
    loading = [Signal(sizes.weight_bits, name=f"entries_loading_{i}") for i in range(count)]
    current = [Signal(sizes.weight_bits, name=f"entries_{i}") for i in range(count)]
    for i, one in enumerate(loading):
        with m.If(coming == i):
            m.d.sync += one.eq(port.data)
        with m.If(switch):
            m.d.sync += current[i].eq(one)
    words = Cat(current)
    entries = [words[ENTRY_BITS * i : ENTRY_BITS * (i + 1)] for i in range(sizes.word)]
    return Entries(
        [one[:32] for one in entries], [one[32:40].as_signed() for one in entries], position >= max(1, count - 1)
    )
