"""The order in which a convolution works, and what it reads ahead in that order: stored sums, biases and shifts.

For each block of output channels, each group of rows and each column of the result, the positions of the kernel follow
one another, and at each position the blocks of input channels.

"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO

from mavcg.accelerators.isa.datapath import SUM_WORDS, blocks
from mavcg.accelerators.rtl.memories import ReadLane, WeightRead, lane_group
from mavcg.accelerators.rtl.results import delay, rotate
from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, ENTRY_BITS, RtlSizes
from mavcg.accelerators.rtl.walks import COUNT_BITS, blocks_of

SUM_BITS = 32
_DEPTH = 8
_SWITCH = 3  # cycles from the begin of a block to that in which its entries replace those of the block before


@dataclass(frozen=True)
class GroupDistances:
    """Words from the first group of outputs to others. rows: to each row of a group. group: to the next rows' group."""

    first: Any
    column: Any
    rows: list[Any]
    group: Any
    block: Any


@dataclass(frozen=True)
class GroupWalk:
    """A walk over the groups of outputs: R rows of one column and one block of output channels.

    begin, step: to be set to 1. addresses: of each row's word. used: 1 for the rows that there are. active, block_ends,
    last: as in a tile's walk.
    """

    begin: Any
    step: Any
    active: Any
    addresses: list[Any]
    used: list[Any]
    block_ends: Any
    last: Any


def tile_distances(m: Module, name: str, sizes: RtlSizes, v: Mapping[str, Any]) -> GroupDistances:
    """Return the distances in the tile of the result."""
    return _distances(m, name, sizes, v["to"], 1, v["to_row"], v["to_block"])


def sum_distances(m: Module, name: str, sizes: RtlSizes, v: Mapping[str, Any]) -> GroupDistances:
    """Return the distances in the 32-bit sums, which have no gaps."""
    pixel = blocks_of(v["out_channels"], sizes) * SUM_WORDS
    row = Signal(ADDRESS_BITS, name=f"{name}_sums_row")
    m.d.sync += row.eq((pixel * v["out_columns"])[:ADDRESS_BITS])
    return _distances(m, name, sizes, v["sums"], pixel, row, SUM_WORDS)


def _distances(m: Module, name: str, sizes: RtlSizes, first: Any, column: Any, row: Any, block: Any) -> GroupDistances:
    rows = [Signal(ADDRESS_BITS, name=f"{name}_row_{i}") for i in range(sizes.rows + 1)]
    m.d.sync += [one.eq(row * i) for i, one in enumerate(rows)]
    return GroupDistances(first, column, rows[:-1], rows[-1], block)


def select_distances(second: Any, one: GroupDistances, two: GroupDistances) -> GroupDistances:
    """Return the second distances if `second` is 1."""
    return GroupDistances(
        Mux(second, two.first, one.first),
        Mux(second, two.column, one.column),
        [Mux(second, b, a) for a, b in zip(one.rows, two.rows, strict=True)],
        Mux(second, two.group, one.group),
        Mux(second, two.block, one.block),
    )


def group_walk(m: Module, name: str, sizes: RtlSizes, v: Mapping[str, Any], d: GroupDistances) -> GroupWalk:
    """Build a walk over the groups of a convolution's outputs. v: its fields."""
    begin, step, active = (Signal(name=f"{name}_{part}") for part in ("begin", "step", "active"))
    at, row_at, block_at = (Signal(ADDRESS_BITS, name=f"{name}_{part}") for part in ("at", "row_at", "block_at"))
    columns, rows, blocks = (Signal(COUNT_BITS, name=f"{name}_{part}_left") for part in ("columns", "rows", "blocks"))
    row_ends = columns == 1
    block_ends = row_ends & (rows <= sizes.rows)
    last = block_ends & (blocks == 1)
    with m.If(begin):
        m.d.sync += [one.eq(d.first) for one in (at, row_at, block_at)] + [active.eq(1)]
        m.d.sync += [columns.eq(v["out_columns"]), rows.eq(v["out_rows"])]
        m.d.sync += blocks.eq(blocks_of(v["out_channels"], sizes))
    with m.Elif(step):
        m.d.sync += [at.eq(at + d.column), columns.eq(columns - 1)]
        with m.If(row_ends):
            m.d.sync += [one.eq(row_at + d.group) for one in (at, row_at)]
            m.d.sync += [columns.eq(v["out_columns"]), rows.eq(rows - sizes.rows)]
        with m.If(block_ends):
            m.d.sync += [one.eq(block_at + d.block) for one in (at, row_at, block_at)]
            m.d.sync += [rows.eq(v["out_rows"]), blocks.eq(blocks - 1)]
        with m.If(last):
            m.d.sync += active.eq(0)
    return GroupWalk(
        begin, step, active, [at + row for row in d.rows], [rows > i for i in range(sizes.rows)], block_ends, last
    )


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


@dataclass(frozen=True)
class Entries:
    """Entries of a block: values of each channel. ready: 1 if the block may end; they will be there."""

    biases: list[Any]
    shifts: list[Any]
    multipliers: list[Any]
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
        [one[:32] for one in entries],
        [one[32:40].as_signed() for one in entries],
        [one[40:56] for one in entries],
        position >= max(1, count - 1),
    )
