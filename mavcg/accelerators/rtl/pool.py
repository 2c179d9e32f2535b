"""The pooling unit: maxima and averages of windows; a word of one position in a cycle."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed

from mavcg.accelerators.isa.forms import FORMS
from mavcg.accelerators.rtl.dispatch import UnitPort, held_instruction
from mavcg.accelerators.rtl.memories import ReadLane, WriteLane, lane_group
from mavcg.accelerators.rtl.results import STAGES, ResultQueue, delay, finish_of, requantize, result_queue
from mavcg.accelerators.rtl.sizes import RtlSizes, fields_of, mode_of
from mavcg.accelerators.rtl.walks import COUNT_BITS, TileWalk, blocks_of, tile_fields, tile_walk
from mavcg.accelerators.rtl.window_walk import WindowDistances, window_axis, window_distances

_MAX = FORMS["pool.max"].mode_number
_SETUP = 4  # cycles from the issue to the begin of the walk: the products of the window's distances


@dataclass(frozen=True)
class _Position:
    """A position of a window. inside: it lies in the tile. first, last: it is the first or last of its window.

    ended: 1 in the cycle in which its step ends. word: its word of the tile, a cycle later.
    """

    inside: Any
    first: Any
    last: Any
    ended: Any
    word: Any


def pool_unit(sizes: RtlSizes, port: UnitPort, reader: ReadLane, lane: WriteLane) -> Module:
    """Return the unit."""
    m = Module()
    held, _ = held_instruction(m, "pool", port)
    v = fields_of("pool.max", held)
    begin = delay(m, "pool_begin", port.issue, _SETUP)
    out = tile_walk(
        m, "pool_to", tile_fields(v, "to"), (v["out_rows"], v["out_columns"], blocks_of(v["channels"], sizes))
    )
    m.d.comb += out.begin.eq(begin)
    results = result_queue(m, "pool", sizes, [lane], STAGES + 4)
    step = _positions(m, sizes, v, begin, out, reader, results)
    m.d.comb += out.step.eq(step.ended & step.last)
    _compute(m, sizes, held, step, out, begin, results)
    m.d.comb += port.done.eq(results.ended)
    return m


def _positions(
    m: Module,
    sizes: RtlSizes,
    v: Mapping[str, Any],
    begin: Any,
    out: TileWalk,
    reader: ReadLane,
    results: ResultQueue,
) -> _Position:
    """Read the words of each window; return the position that is read."""
    group = lane_group(m, "pool", sizes, [reader])
    distances: WindowDistances = window_distances(m, "pool", v)
    rows = window_axis(m, "pool_row", v, "row", distances)
    columns = window_axis(m, "pool_column", v, "column", distances)
    block_at = Signal(24, name="pool_block_at")
    column_ends = group.ended & columns.kernel_ends
    window_ends = column_ends & rows.kernel_ends
    m.d.comb += [
        columns.begin.eq(begin),
        rows.begin.eq(begin),
        columns.next_position.eq(group.ended),
        rows.next_position.eq(column_ends),
        columns.next_window.eq(window_ends & out.pixel_ends),
        rows.next_window.eq(window_ends & out.row_ends),
    ]
    with m.If(begin):
        m.d.sync += block_at.eq(v["from"])
    with m.Elif(window_ends):
        m.d.sync += block_at.eq(Mux(out.pixel_ends, v["from"], block_at + v["from_block"]))
    inside = rows.inside & columns.inside
    m.d.comb += [
        group.valid.eq(out.active & results.room),
        group.needed[0].eq(inside),
        group.addresses[0].eq(block_at + rows.offset + columns.offset),
    ]
    first, last = rows.kernel_begins & columns.kernel_begins, rows.kernel_ends & columns.kernel_ends
    return _Position(inside, first, last, group.ended, group.words[0])


def _compute(
    m: Module,
    sizes: RtlSizes,
    held: Any,
    step: _Position,
    out: TileWalk,
    begin: Any,
    results: ResultQueue,
) -> None:
    """Accumulate maxima or sums, multiply, requantize and push the words of the result."""
    average = fields_of("pool.average", held)
    is_max = mode_of(held) == _MAX
    v = fields_of("pool.max", held)
    shift = Mux(is_max, v["shift"], average["shift"])
    finish = {name: Mux(is_max, v[name], average[name]) for name in ("lo", "hi", "leaky", "slope", "zero")}
    left = Signal(COUNT_BITS, name="pool_channels_left")
    with m.If(begin | (out.step & out.pixel_ends)):
        m.d.sync += left.eq(v["channels"])
    with m.Elif(out.step):
        m.d.sync += left.eq(left - sizes.word)
    arrived, first, inside = (
        delay(m, f"pool_{name}", value, 1)
        for name, value in (("arrived", step.ended), ("first", step.first), ("inside", step.inside))
    )
    bytes_out = []
    for i in range(sizes.word):
        total = Signal(signed(28), name=f"pool_total_{i}")
        scaled = Signal(signed(45), name=f"pool_scaled_{i}")
        element = step.word.word_select(i, 8).as_signed()
        before = Mux(first, Mux(is_max, -128, 0), total)
        greater = Mux(element > before, element, before)
        with m.If(arrived):
            m.d.sync += total.eq(Mux(inside, Mux(is_max, greater, before + element - average["from_zero"]), before))
        m.d.sync += scaled.eq(total * Mux(is_max, 1, average["multiplier"]))
        made = requantize(m, f"pool_{i}", sizes, scaled, shift, finish_of(finish))
        used = delay(m, f"pool_used_{i}", left > i, STAGES + 3)
        bytes_out.append(Mux(used, made, 0)[:8])
    stages = STAGES + 3
    m.d.comb += [
        results.push.eq(delay(m, "pool_pushes", out.step, stages)),
        results.last.eq(delay(m, "pool_lasts", out.last, stages)),
        results.addresses[0].eq(delay(m, "pool_addresses", out.address, stages)),
        results.needed[0].eq(Const(1)),
        results.words[0].eq(Cat(bytes_out)),
    ]
