"""32-bit sums that a convolution continues, read ahead from feature memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO

from mavcg.accelerators.isa.datapath import SUM_WORDS
from mavcg.accelerators.rtl.conv_walk import GroupDistances, group_walk
from mavcg.accelerators.rtl.lanes import ReadLane, lane_group
from mavcg.accelerators.rtl.results import delay, rotate
from mavcg.accelerators.rtl.sizes import RtlSizes

SUM_BITS = 32
_DEPTH = 8


@dataclass(frozen=True)
class StoredSums:
    """Sums of the groups in order. ready: a further group's have been read. reserve: set to 1 when its last step ends.

    take: set to 1 when they are used, some cycles after that. sums: of each row and channel.
    """

    ready: Any
    reserve: Any
    take: Any
    sums: list[list[Any]]


def stored_sums(
    m: Module, sizes: RtlSizes, v: Mapping[str, Any], at: GroupDistances, lanes: Sequence[ReadLane], begin: Any
) -> StoredSums:
    """Build the reader: it reads the words of a group one after another, those of all rows together."""
    walk = group_walk(m, "stored", sizes, v, at)
    group = lane_group(m, "stored", sizes, list(lanes))
    row_bits = SUM_WORDS * sizes.word_bits
    m.submodules.stored_sums = kept = SyncFIFO(width=sizes.rows * row_bits, depth=_DEPTH)
    part, unclaimed = Signal(range(SUM_WORDS), name="stored_part"), Signal(range(_DEPTH + 1), name="stored_unclaimed")
    reserve, take = Signal(name="stored_claim"), Signal(name="stored_take")
    final = part == SUM_WORDS - 1
    coming = delay(m, "stored_coming", group.ended & final, 1)
    m.d.comb += [
        walk.begin.eq(begin & v["accumulate"]),
        walk.step.eq(group.ended & final),
        group.valid.eq(walk.active & (kept.level + coming < _DEPTH)),
        kept.w_en.eq(coming),
        kept.r_en.eq(take),
    ]
    m.d.comb += [needed.eq(used) for needed, used in zip(group.needed, walk.used, strict=True)]
    m.d.comb += [one.eq(walk.addresses[i] + rotate(part, i)) for i, one in enumerate(group.addresses)]
    arrived: Any = delay(m, "stored_arrived", group.ended, 1)
    rows = []
    part_arrived = delay(m, "stored_part_arrived", part, 1)
    for row, word in enumerate(group.words):
        kept_words = [Signal(sizes.word_bits, name=f"stored_{row}_{i}") for i in range(SUM_WORDS)]
        is_place = [rotate(part_arrived, row) == i for i in range(SUM_WORDS)]
        for one, this in zip(kept_words, is_place, strict=True):
            with m.If(arrived & this):
                m.d.sync += one.eq(word)
        rows.append(Cat(Mux(this, word, one) for one, this in zip(kept_words, is_place, strict=True)))
    m.d.comb += kept.w_data.eq(Cat(rows))
    with m.If(group.ended):
        m.d.sync += part.eq(part + 1)
    m.d.sync += unclaimed.eq(unclaimed + coming - reserve)
    sums = [
        [kept.r_data[row * row_bits + SUM_BITS * i : row * row_bits + SUM_BITS * (i + 1)] for i in range(sizes.word)]
        for row in range(sizes.rows)
    ]
    return StoredSums(unclaimed != Const(0), reserve, take, sums)
