"""The convolution unit: an array of rows x output channels x input channels of multipliers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed

from mavcg.accelerators.isa.forms import FORMS
from mavcg.accelerators.rtl.conv_walk import (
    SUM_BITS,
    Entries,
    GroupWalk,
    channel_entries,
    entry_words,
    group_walk,
    select_distances,
    stored_sums,
    sum_distances,
    tile_distances,
)
from mavcg.accelerators.rtl.dispatch import UnitPort, held_instruction
from mavcg.accelerators.rtl.memories import ReadLane, WeightRead, WriteLane, lane_group
from mavcg.accelerators.rtl.results import STAGES, ResultQueue, delay, finish_of, requantize, result_queue
from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, RtlSizes, fields_of, mode_of
from mavcg.accelerators.rtl.walks import COUNT_BITS, blocks_of
from mavcg.accelerators.rtl.window_walk import window_axis, window_distances

_DEPTHWISE = FORMS["conv.depthwise"].mode_number
_SETUP = 4  # cycles from the issue to the begin of the walk: products of distances
_ARRAY = 4  # cycles from the end of a step to its sums: words, products, sums of products, sums
_FINISHED = _ARRAY + 1 + STAGES  # cycles from the end of a group's last step to its result
_DRAIN = 2  # cycles between the last write and the end, so that a start-up takes what the manual says


@dataclass(frozen=True)
class ConvLanes:
    """The lanes of the unit. pixels, sums: one for each row; entries, weights: read ports of weight memory."""

    pixels: Sequence[ReadLane]
    sums: Sequence[ReadLane]
    results: Sequence[WriteLane]
    entries: WeightRead
    weights: WeightRead


@dataclass(frozen=True)
class _ArrayStep:
    """A step of the array: 1 in the cycle in which it ends, whether it begins or ends a group, and its rows inside."""

    ended: Any
    begins_group: Any
    ends_group: Any
    inside: list[Any]
    position: Any
    words: list[Any]


@dataclass(frozen=True)
class _GroupSums:
    """The values that a group's results are computed from.

    totals: the array's, of each row and channel. stored: sums that it continues, of each row and channel. entries:
    biases and shifts. channels_left: output channels from the group's first on.
    """

    totals: list[list[Any]]
    stored: list[list[Any]]
    entries: Entries
    channels_left: Any


def conv_unit(sizes: RtlSizes, port: UnitPort, lanes: ConvLanes) -> Module:
    """Return the unit."""
    m = Module()
    held, _ = held_instruction(m, "conv", port)
    v = fields_of("conv.dense", held)
    depthwise = mode_of(held) == _DEPTHWISE
    begin = delay(m, "conv_begin", port.issue, _SETUP)
    sums_at = sum_distances(m, "conv_sums", sizes, v)
    out = group_walk(
        m, "conv_to", sizes, v, select_distances(v["partial"], tile_distances(m, "conv_to", sizes, v), sums_at)
    )
    results = result_queue(m, "conv", sizes, lanes.results, _FINISHED + 1, 4)
    added = stored_sums(m, sizes, v, sums_at, lanes.sums, begin)
    m.d.comb += out.begin.eq(begin)
    entries_ready = Signal(name="conv_entries_ready")
    allowed = results.room & (added.ready | ~v["accumulate"])
    step, block = _steps(m, sizes, v, depthwise, begin, out, lanes, (allowed, entries_ready))
    m.d.comb += [out.step.eq(step.ended & step.ends_group), added.reserve.eq(out.step & v["accumulate"])]
    entries = channel_entries(m, sizes, lanes.entries, *block)
    m.d.comb += entries_ready.eq(entries.ready)
    totals = _array(m, sizes, (depthwise, v["outside"]), step, lanes.weights.data)
    left = _channels_left(m, sizes, v, out, begin)
    m.d.comb += added.take.eq(delay(m, "conv_take_sums", out.step & v["accumulate"], _ARRAY))
    _finish(m, sizes, v, _GroupSums(totals, added.sums, entries, left), out, results)
    m.d.comb += port.done.eq(delay(m, "conv_ended", results.ended, _DRAIN))
    return m


def _steps(
    m: Module,
    sizes: RtlSizes,
    v: Mapping[str, Any],
    depthwise: Any,
    begin: Any,
    out: GroupWalk,
    lanes: ConvLanes,
    allowed: tuple[Any, Any],
) -> tuple[_ArrayStep, tuple[Any, Any]]:
    """Walk over the steps, and read pixels and weights; return the step, and the block's entries and its first cycle.

    allowed: whether a step may end at all, and whether it may end a block.
    """
    group = lane_group(m, "conv", sizes, list(lanes.pixels))
    distances = window_distances(m, "conv", v)
    rows = window_axis(m, "conv_row", v, "row", distances, sizes.rows)
    columns = window_axis(m, "conv_column", v, "column", distances)
    in_blocks = Mux(depthwise, 1, blocks_of(v["channels"], sizes))
    block_left, block_at, out_block_at = (
        Signal(COUNT_BITS, name="conv_in_left"),
        Signal(ADDRESS_BITS, name="conv_in_at"),
        Signal(ADDRESS_BITS, name="conv_out_block_at"),
    )
    weight_at, base, begins = (
        Signal(ADDRESS_BITS, name="conv_weight_at"),
        Signal(ADDRESS_BITS, name="conv_block_base"),
        Signal(name="conv_block_begins"),
    )
    place = Signal(range(sizes.word), name="conv_place")
    position_ends = block_left == 1
    ends_group = position_ends & columns.kernel_ends & rows.kernel_ends
    ends_block = ends_group & out.block_ends
    ended = group.ended
    m.d.comb += [
        rows.begin.eq(begin),
        columns.begin.eq(begin),
        columns.next_position.eq(ended & position_ends),
        rows.next_position.eq(ended & position_ends & columns.kernel_ends),
        columns.next_window.eq(ended & ends_group),
        rows.next_window.eq(ended & ends_group & (columns.windows_left == 1)),
        group.valid.eq(out.active & allowed[0] & (~ends_block | allowed[1])),
    ]
    word_full = place == sizes.word - 1
    following_weight = Mux(~depthwise | word_full, weight_at + 1, weight_at)
    m.d.sync += begins.eq(begin | (ended & ends_block))
    with m.If(begin):
        m.d.sync += [block_left.eq(in_blocks), block_at.eq(v["from"]), out_block_at.eq(v["from"]), place.eq(0)]
        m.d.sync += [base.eq(v["parameters"]), weight_at.eq(v["parameters"] + entry_words(sizes))]
    with m.Elif(ended):
        m.d.sync += [block_left.eq(block_left - 1), block_at.eq(block_at + v["from_block"])]
        m.d.sync += [weight_at.eq(following_weight), place.eq(Mux(word_full, 0, place + 1))]
        with m.If(position_ends):
            m.d.sync += [block_left.eq(in_blocks), block_at.eq(out_block_at)]
        with m.If(ends_group):
            m.d.sync += [weight_at.eq(base + entry_words(sizes)), place.eq(0)]
        with m.If(ends_block):
            next_block = Mux(depthwise, out_block_at + v["from_block"], out_block_at)
            m.d.sync += [base.eq(weight_at + 1), weight_at.eq(weight_at + 1 + entry_words(sizes))]
            m.d.sync += [out_block_at.eq(next_block), block_at.eq(next_block)]
    inside = []
    for i in range(sizes.rows):
        row, words = Signal(signed(32), name=f"conv_row_{i}_at"), Signal(ADDRESS_BITS, name=f"conv_row_{i}_words")
        m.d.sync += [row.eq(v["stride_rows"] * i), words.eq((distances.stride["row"] * i)[:ADDRESS_BITS])]
        at = rows.at + row
        # Rows outside of the tile are read too, as the array does: they take the time of a bank.
        m.d.comb += group.needed[i].eq(v["out_rows"] > i)
        m.d.comb += group.addresses[i].eq(block_at + rows.offset + words + columns.offset)
        inside.append((at >= 0) & (at < v["rows"]) & columns.inside)
    m.d.comb += lanes.weights.address.eq(weight_at)
    begins_group = (block_left == in_blocks) & columns.kernel_begins & rows.kernel_begins
    step = _ArrayStep(ended, begins_group, ends_group, inside, place, group.words)
    return step, (base, begins)


def _array(m: Module, sizes: RtlSizes, given: tuple[Any, Any], step: _ArrayStep, weights: Any) -> list[list[Any]]:
    """Return the sums of each row and output channel, _ARRAY cycles after the end of a group's last step.

    given: whether the convolution is depthwise, and the value of elements outside of the tile.
    """
    depthwise, outside = given
    position = delay(m, "conv_positions", step.position, 1)
    ended, begins_group = (
        delay(m, "conv_sums_end", step.ended, 3),
        delay(m, "conv_sums_begin", step.begins_group, 3),
    )
    totals: list[list[Any]] = []
    for row in range(sizes.rows):
        inside = delay(m, f"conv_inside_{row}", step.inside[row], 1)
        pixel = [Mux(inside, step.words[row].word_select(i, 8), outside[:8]) for i in range(sizes.word)]
        totals.append([])
        for channel in range(sizes.word):
            weight = [weights.word_select(channel * sizes.word + i, 8) for i in range(sizes.word)]
            one = weights[8 * channel * sizes.word : 8 * (channel + 1) * sizes.word].word_select(position, 8)
            products = []
            for i in range(sizes.word):
                # A depthwise convolution uses the first multiplier of each output channel.
                a, b = pixel[i], weight[i]
                if i == 0:
                    a, b = Mux(depthwise, pixel[channel], a), Mux(depthwise, one, b)
                else:
                    b = Mux(depthwise, 0, b)
                product = Signal(signed(16), name=f"conv_product_{row}_{channel}_{i}")
                m.d.sync += product.eq(a[:8].as_signed() * b[:8].as_signed())
                products.append(product)
            added = Signal(signed(SUM_BITS), name=f"conv_added_{row}_{channel}")
            total = Signal(signed(SUM_BITS), name=f"conv_total_{row}_{channel}")
            m.d.sync += added.eq(sum(products))
            with m.If(ended):
                m.d.sync += total.eq(Mux(begins_group, 0, total) + added)
            totals[-1].append(total)
    return totals


def _channels_left(m: Module, sizes: RtlSizes, v: Mapping[str, Any], out: GroupWalk, begin: Any) -> Any:
    """Return the output channels from the group's first on."""
    left = Signal(COUNT_BITS, name="conv_out_left")
    with m.If(begin):
        m.d.sync += left.eq(v["out_channels"])
    with m.Elif(out.step & out.block_ends):
        m.d.sync += left.eq(left - sizes.word)
    return left


def _finish(
    m: Module, sizes: RtlSizes, v: Mapping[str, Any], sums: _GroupSums, out: GroupWalk, results: ResultQueue
) -> None:
    """Add biases or stored sums, requantize, and push results or sums."""
    used = [delay(m, f"conv_used_{i}", sums.channels_left > i, _FINISHED) for i in range(sizes.word)]
    shifts, multipliers = [], []
    for channel, (shift, multiplier) in enumerate(zip(sums.entries.shifts, sums.entries.multipliers, strict=True)):
        kept, factor = Signal(signed(8), name=f"conv_shift_{channel}"), Signal(16, name=f"conv_multiplier_{channel}")
        m.d.sync += [kept.eq(shift), factor.eq(multiplier)]
        shifts.append(kept)
        multipliers.append(factor)
    finish = finish_of(v)
    for row in range(sizes.rows):
        bytes_out, sums_out = [], []
        for channel, total in enumerate(sums.totals[row]):
            start = Mux(v["accumulate"], sums.stored[row][channel], sums.entries.biases[channel])
            whole = Signal(signed(SUM_BITS), name=f"conv_whole_{row}_{channel}")
            m.d.sync += whole.eq(total + start)
            made = requantize(m, f"conv_{row}_{channel}", sizes, whole, shifts[channel], finish, multipliers[channel])
            bytes_out.append(Mux(used[channel], made, 0)[:8])
            sums_out.append(Mux(used[channel], delay(m, f"conv_sum_{row}_{channel}", whole, STAGES), 0)[:SUM_BITS])
        m.d.comb += [
            results.words[row].eq(Mux(v["partial"], Cat(sums_out), Cat(bytes_out))),
            results.needed[row].eq(delay(m, f"conv_row_used_{row}", out.used[row], _FINISHED)),
            results.addresses[row].eq(delay(m, f"conv_address_{row}", out.addresses[row][:ADDRESS_BITS], _FINISHED)),
        ]
    m.d.comb += [
        results.push.eq(delay(m, "conv_pushes", out.step, _FINISHED)),
        results.last.eq(delay(m, "conv_lasts", out.last, _FINISHED)),
        results.long.eq(v["partial"]),
    ]
