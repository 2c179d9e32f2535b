"""The misc unit: element-wise operations, upsampling, reorganisation, start and end; a word in a cycle."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed

from mavcg.accelerators.isa.forms import FORMS
from mavcg.accelerators.rtl.dispatch import UnitPort, held_instruction
from mavcg.accelerators.rtl.memories import ReadLane, WordStream, WriteLane, funnel, prefetch
from mavcg.accelerators.rtl.results import STAGES, Finish, ResultQueue, delay, finish_of, requantize, result_queue
from mavcg.accelerators.rtl.sizes import RtlSizes, fields_of, mode_of
from mavcg.accelerators.rtl.walks import COUNT_BITS, TileWalk, block_walk, blocks_of, tile_fields, tile_walk
from mavcg.accelerators.simulator.timing import STARTUP

_START, _END, _ELTWISE, _UPSAMPLE, _REORGANISE = (
    FORMS[f"misc.{mode}"].mode_number for mode in ("start", "end", "eltwise", "upsample", "reorganise")
)
_COPY = 5
_TOTAL_BITS = 50  # of a product of two operands with multipliers of 16 bits
_DRAIN = 2  # cycles between the last write and the end, so that a start-up takes what the manual says


@dataclass(frozen=True)
class _Fields:
    """The fields of the three instructions that compute, chosen by the mode: their places in the words differ."""

    mode: Any
    size: tuple[Any, Any, Any]
    channels: Any
    to: tuple[Any, Any, Any]
    shift: Any
    finish: Finish
    by_mode: Mapping[str, Mapping[str, Any]]


def misc_unit(
    sizes: RtlSizes, port: UnitPort, first: ReadLane, second: ReadLane, lane: WriteLane, finished: Any
) -> Module:
    """Return the unit. finished: the signal that becomes 1 with misc.end."""
    m = Module()
    held, _ = held_instruction(m, "misc", port)
    f = _fields(held, sizes)
    computes = mode_of(port.instruction) >= _ELTWISE
    begin = delay(m, "misc_begin", port.issue & computes, 1)
    moment = delay(m, "misc_moment", port.issue & ~computes, STARTUP["misc"] - 1)
    out = tile_walk(m, "misc_to", f.to, (*f.size[:2], blocks_of(f.channels, sizes)))
    m.d.comb += out.begin.eq(begin)
    one, other = _operands(m, sizes, f, begin, (first, second))
    results = result_queue(m, "misc", sizes, [lane], STAGES + 2)
    _compute(m, sizes, f, (one, other), out, begin, results)
    m.d.comb += port.done.eq(delay(m, "misc_ended", results.ended, _DRAIN) | moment)
    with m.If(moment & (mode_of(held) == _END)):
        m.d.sync += finished.eq(1)
    return m


def _fields(held: Any, sizes: RtlSizes) -> _Fields:
    mode = mode_of(held)
    v = {name: fields_of(f"misc.{name}", held) for name in ("eltwise", "upsample", "reorganise")}

    def select(*names: str) -> Any:
        eltwise, upsample, reorganise = (v[mode][name] for mode, name in zip(v, names, strict=True))
        return Mux(mode == _ELTWISE, eltwise, Mux(mode == _UPSAMPLE, upsample, reorganise))

    made = v["reorganise"]["channels"] * v["reorganise"]["factor_rows"] * v["reorganise"]["factor_columns"]
    channels = Mux(mode == _REORGANISE, made[:COUNT_BITS], select("channels", "channels", "channels"))
    size = (select("rows", *["out_rows"] * 2), select("columns", *["out_columns"] * 2), select(*["channels"] * 3))
    same = {
        name: select(name, name, name) for name in ("to", "to_row", "to_block", "lo", "hi", "leaky", "slope", "zero")
    }
    return _Fields(mode, size, channels, tile_fields(same, "to"), select(*["shift"] * 3), finish_of(same), v)


def _operands(
    m: Module, sizes: RtlSizes, f: _Fields, begin: Any, lanes: tuple[ReadLane, ReadLane]
) -> tuple[WordStream, WordStream]:
    """Read the operands ahead, each at its own pace: words of one bank do not hold up each other for long."""
    blocks = blocks_of(f.size[2], sizes)
    v, repeated = f.by_mode["eltwise"], f.mode == _UPSAMPLE
    repeat = {
        name: Mux(repeated, f.by_mode["upsample"][name], 0 if name.startswith("phase") else 1)
        for name in ("factor_rows", "factor_columns", "phase_row", "phase_column")
    }
    plain = tile_walk(m, "misc_first", tile_fields(v, "from"), (*f.size[:2], blocks), repeat)
    by_block = block_walk(m, f.by_mode["reorganise"], blocks)
    second = tile_walk(m, "misc_second", tile_fields(v, "second"), (*f.size[:2], blocks))
    m.d.comb += [
        plain.begin.eq(begin & (f.mode != _REORGANISE)),
        by_block.begin.eq(begin & (f.mode == _REORGANISE)),
        second.begin.eq(begin & (f.mode == _ELTWISE) & (v["op"] != _COPY)),
        plain.step.eq(lanes[0].grant & plain.active),
        by_block.step.eq(lanes[0].grant & by_block.active),
        second.step.eq(lanes[1].grant),
    ]
    address = Mux(plain.active, plain.address, by_block.address)
    return (
        prefetch(m, "misc_first", sizes, lanes[0], plain.active | by_block.active, address),
        prefetch(m, "misc_second", sizes, lanes[1], second.active, second.address),
    )


def _count_channels(m: Module, name: str, sizes: RtlSizes, channels: Any, begin: Any, step: Any, restart: Any) -> Any:
    """Return the channels of the next word, where words go through pixels of `channels` channels."""
    left = Signal(COUNT_BITS, name=f"{name}_left")
    with m.If(begin | (step & restart)):
        m.d.sync += left.eq(channels)
    with m.Elif(step):
        m.d.sync += left.eq(left - sizes.word)
    return Mux(left > sizes.word, sizes.word, left)[: sizes.word.bit_length()], left <= sizes.word


def _compute(
    m: Module,
    sizes: RtlSizes,
    f: _Fields,
    operands: tuple[WordStream, WordStream],
    out: TileWalk,
    begin: Any,
    results: ResultQueue,
) -> None:
    """Divide the first operand into the words of the result, combine, requantize and push them."""
    first, second = operands
    step, take, ends = Signal(name="misc_step"), Signal(name="misc_take"), Signal(name="misc_pixel_ends")
    count, pixel_ends = _count_channels(m, "misc_in", sizes, f.size[2], begin, take, ends)
    need, _ = _count_channels(m, "misc_out", sizes, f.channels, begin, step, out.pixel_ends)
    bytes_in = funnel(m, "misc", sizes.word, (take, first.data, count), need)
    v = f.by_mode["eltwise"]
    two = (f.mode == _ELTWISE) & (v["op"] != _COPY)
    m.d.comb += [
        ends.eq(pixel_ends),
        take.eq(first.valid & bytes_in.ready),
        first.take.eq(take),
        step.eq(out.active & bytes_in.has_word & (second.valid | ~two) & results.room),
        bytes_in.take.eq(step),
        second.take.eq(step & two),
        out.step.eq(step),
    ]
    bytes_out = []
    for i in range(sizes.word):
        total = Signal(signed(_TOTAL_BITS), name=f"misc_total_{i}")
        a, b = (word.word_select(i, 8).as_signed() for word in (bytes_in.word, second.data))
        m.d.sync += total.eq(Mux(f.mode == _ELTWISE, _combine(v, a, b), a))
        made = requantize(m, f"misc_{i}", sizes, total, f.shift, f.finish)
        bytes_out.append(Mux(delay(m, f"misc_inside_{i}", need > i, STAGES + 1), made, 0)[:8])
    stages = STAGES + 1
    m.d.comb += [
        results.push.eq(delay(m, "misc_pushes", step, stages)),
        results.last.eq(delay(m, "misc_lasts", out.last, stages)),
        results.addresses[0].eq(delay(m, "misc_addresses", out.address, stages)),
        results.needed[0].eq(Const(1)),
        results.words[0].eq(Cat(bytes_out)),
    ]


def _combine(v: Mapping[str, Any], a: Any, b: Any) -> Any:
    """Return the element-wise operation on two bytes without their zero points, multiplied or shifted left."""
    x = _scaled_operand(a - v["from_zero"], v["multiplier"], v["left"])
    y = _scaled_operand(b - v["second_zero"], v["second_multiplier"], v["second_left"])
    by_op = (x + y, x - y, x * y, Mux(x > y, x, y), Mux(x < y, x, y), x)
    chosen = by_op[-1]
    for number, value in enumerate(by_op[:-1]):
        chosen = Mux(v["op"] == number, value, chosen)
    return chosen


def _scaled_operand(element: Any, multiplier: Any, left: Any) -> Any:
    return (element * Mux(multiplier == 0, Const(1, 16) << left, multiplier))[:25].as_signed()
