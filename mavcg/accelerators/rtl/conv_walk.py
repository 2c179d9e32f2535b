"""The order in which a convolution works, and the addresses of its results and sums.

For each block of output channels, each group of rows and each column of the result, the positions of the kernel follow
one another, and at each position the blocks of input channels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth import Module, Mux, Signal

from mavcg.accelerators.isa.datapath import SUM_WORDS
from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, RtlSizes
from mavcg.accelerators.rtl.walks import COUNT_BITS, blocks_of


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
