"""The load and save units: requests for contiguous runs of bytes, and their data between DDR memory and the chip."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Module, Mux, Signal

from mavcg.accelerators.rtl.dispatch import UnitPort
from mavcg.accelerators.rtl.memories import ReadLane, WeightWrite, WriteLane, funnel, prefetch
from mavcg.accelerators.rtl.ports import RUN_BITS, MemoryPort
from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, HEADER_SIGNAL, RtlSizes, fields_of, mode_of
from mavcg.accelerators.rtl.walks import COUNT_BITS, blocks_of, tile_fields, tile_walk


@dataclass(frozen=True)
class Transfer:
    """The transfer whose data moves, while the next one is requested.

    instruction: held while `busy` is 1. bytes: that it moves. begins: 1 in its first cycle. done: to be set to 1 in its
    last cycle.
    """

    instruction: Any
    bytes: Any
    busy: Any
    begins: Any
    done: Any


def transfers(
    m: Module, unit: str, sizes: RtlSizes, port: UnitPort, memory: MemoryPort, bases: Mapping[str, Any]
) -> Transfer:
    """Build the first half of load or save: the queue's next transfer is requested while one runs.

    A requested transfer becomes the running one when none runs and the memory serves its first run. bases: addresses
    of the segments `features` and, for load, `parameters`.
    """
    pending, waiting = Signal(len(port.instruction), name=f"{unit}_requested"), Signal(name=f"{unit}_waiting")
    running, busy = Signal(len(port.instruction), name=f"{unit}_running"), Signal(name=f"{unit}_busy")
    begins, done = Signal(name=f"{unit}_begins"), Signal(name=f"{unit}_ends")
    requesting, pending_bytes = _requests(m, unit, sizes, pending, waiting, memory, bases)
    moved = Signal(RUN_BITS, name=f"{unit}_bytes_to_move")
    m.d.comb += [port.ready.eq(~waiting & ~requesting), port.done.eq(done), port.signal.eq(running[HEADER_SIGNAL])]
    with m.If(port.issue):
        m.d.sync += [pending.eq(port.instruction), waiting.eq(1)]
    m.d.sync += begins.eq(0)
    with m.If(waiting & memory.active & ~busy):
        m.d.sync += [moved.eq(pending_bytes), running.eq(pending), busy.eq(1), begins.eq(1), waiting.eq(0)]
    with m.Elif(done):
        m.d.sync += busy.eq(0)
    return Transfer(running, moved, busy, begins, done)


def _requests(
    m: Module, unit: str, sizes: RtlSizes, pending: Any, waiting: Any, memory: MemoryPort, bases: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Request the runs of `pending` when it begins to wait; return 1 while runs are left, and the bytes of all runs."""
    v = fields_of(f"{unit}.map", pending)
    p = fields_of("load.parameters", pending)
    is_map = mode_of(pending) == 0
    row_bytes, run = Signal(RUN_BITS, name=f"{unit}_row_bytes"), Signal(RUN_BITS, name=f"{unit}_run")
    at, row_at = Signal(32, name=f"{unit}_run_at"), Signal(32, name=f"{unit}_row_at")
    runs_left, rows_left = Signal(COUNT_BITS, name=f"{unit}_runs_left"), Signal(COUNT_BITS, name=f"{unit}_rows_left")
    single = (v["rows"] == 1) & (v["columns"] == 1)
    by_pixel = is_map & (v["ddr_pixel"] != v["channels"]) & ~single
    by_row = is_map & ~by_pixel & (v["ddr_row"] != row_bytes) & (v["rows"] != 1)
    runs = Mux(by_pixel, v["columns"], 1)
    before = Signal(name=f"{unit}_waited")
    m.d.sync += [row_bytes.eq(v["columns"] * v["channels"]), before.eq(waiting)]
    active, sized = Signal(name=f"{unit}_requesting"), Signal(name=f"{unit}_sized")
    m.d.sync += sized.eq(waiting & ~before)
    whole = Mux(is_map, v["rows"] * row_bytes, p["words"] * (sizes.weight_bits // 8))
    total = Signal(RUN_BITS, name=f"{unit}_total")
    with m.If(sized):
        m.d.sync += [
            total.eq(whole),
            run.eq(Mux(by_pixel, v["channels"], Mux(by_row, row_bytes, whole))),
            at.eq(v["ddr"]),
            row_at.eq(v["ddr"]),
            runs_left.eq(runs),
            rows_left.eq(Mux(by_pixel | by_row, v["rows"], 1)),
            active.eq(1),
        ]
    base: Any = bases["features"]
    if "parameters" in bases:
        base = Mux(is_map, base, bases["parameters"])
    m.d.comb += [memory.request.eq(active), memory.address.eq(base + at), memory.bytes.eq(run)]
    with m.If(active & memory.accept):
        m.d.sync += [at.eq(at + v["ddr_pixel"]), runs_left.eq(runs_left - 1)]
        with m.If(runs_left == 1):
            following = row_at + v["ddr_row"]
            m.d.sync += [at.eq(following), row_at.eq(following), runs_left.eq(runs), rows_left.eq(rows_left - 1)]
            with m.If(rows_left == 1):
                m.d.sync += active.eq(0)
    return active | sized | (waiting & ~before), total


def load_unit(
    sizes: RtlSizes,
    port: UnitPort,
    memory: MemoryPort,
    bases: Mapping[str, Any],
    lane: WriteLane,
    weights: WeightWrite,
) -> Module:
    """Return the unit. bases: addresses of the segments `features` and `parameters`."""
    m = Module()
    transfer = transfers(m, "load", sizes, port, memory, bases)
    is_map = mode_of(transfer.instruction) == 0
    map_ready, map_ends = _map(m, sizes, transfer, memory, lane, is_map)
    parameters_ready, parameters_end = _parameters(m, sizes, transfer, memory, weights, is_map)
    # The next transfer's bytes may come while the last word of this one is still on its way.
    left = Signal(len(transfer.bytes), name="load_bytes_left")
    m.d.comb += [
        memory.ready.eq((map_ready | parameters_ready) & (left != 0)),
        transfer.done.eq(map_ends | parameters_end),
    ]
    with m.If(transfer.begins):
        m.d.sync += left.eq(transfer.bytes)
    with m.Elif(memory.valid & memory.ready):
        m.d.sync += left.eq(left - memory.count)
    return m


def _map(
    m: Module, sizes: RtlSizes, transfer: Transfer, memory: MemoryPort, lane: WriteLane, is_map: Any
) -> tuple[Any, Any]:
    """Divide the bytes into words of one pixel's channels; return 1 while bytes are taken, and 1 at the end."""
    v = fields_of("load.map", transfer.instruction)
    size = (v["rows"], v["columns"], blocks_of(v["channels"], sizes))
    walk = tile_walk(m, "load", tile_fields(v, "to"), size)
    left = Signal(COUNT_BITS, name="load_channels_left")
    need = Mux(left > sizes.word, sizes.word, left)[: sizes.word.bit_length()]
    comes = Signal(name="load_comes")
    bytes_in = funnel(m, "load", sizes.word, (comes, memory.data, memory.count), need)
    ready = walk.active & bytes_in.ready
    full, ends = Signal(name="load_full"), Signal(name="load_last")
    word, address = Signal(sizes.word_bits, name="load_word"), Signal(ADDRESS_BITS, name="load_at")
    m.d.comb += [
        comes.eq(memory.valid & memory.ready & walk.active),
        walk.begin.eq(transfer.begins & is_map),
        bytes_in.take.eq(walk.active & bytes_in.has_word & (~full | lane.grant)),
        walk.step.eq(bytes_in.take),
        lane.request.eq(full),
        lane.address.eq(address),
        lane.data.eq(word),
    ]
    with m.If(lane.grant):
        m.d.sync += full.eq(0)
    with m.If(bytes_in.take):
        m.d.sync += [full.eq(1), address.eq(walk.address), ends.eq(walk.last), word.eq(bytes_in.word)]
        m.d.sync += left.eq(Mux(walk.pixel_ends, v["channels"], left - sizes.word))
    with m.If(walk.begin):
        m.d.sync += left.eq(v["channels"])
    return ready, lane.grant & ends


def _parameters(
    m: Module, sizes: RtlSizes, transfer: Transfer, memory: MemoryPort, weights: WeightWrite, is_map: Any
) -> tuple[Any, Any]:
    """Join the bytes to words of weight memory; return 1 while bytes are taken, and 1 at the end."""
    v = fields_of("load.parameters", transfer.instruction)
    parts = sizes.weight_bits // (8 * sizes.port_bytes)
    kept, part = Signal(sizes.weight_bits, name="weights_kept"), Signal(range(parts + 1), name="weights_part")
    address, left = Signal(ADDRESS_BITS, name="weights_at"), Signal(ADDRESS_BITS, name="weights_left")
    active = Signal(name="weights_active")
    full = part == parts
    ready = active & ~(full & (left == 1))
    m.d.comb += [weights.enable.eq(active & full), weights.address.eq(address), weights.data.eq(kept)]
    taken = memory.valid & memory.ready & active
    with m.If(taken):
        m.d.sync += kept.eq(Cat(kept, memory.data)[-sizes.weight_bits :])
    m.d.sync += part.eq(Mux(full, 0, part) + taken)
    with m.If(weights.enable):
        m.d.sync += [address.eq(address + 1), left.eq(left - 1), active.eq(left != 1)]
    with m.If(transfer.begins & ~is_map):
        m.d.sync += [address.eq(v["to"]), left.eq(v["words"]), part.eq(0), active.eq(1)]
    return ready, weights.enable & (left == 1)


def save_unit(sizes: RtlSizes, port: UnitPort, memory: MemoryPort, bases: Mapping[str, Any], lane: ReadLane) -> Module:
    """Return the unit. bases: address of the segment `features`."""
    m = Module()
    transfer = transfers(m, "save", sizes, port, memory, bases)
    v = fields_of("save.map", transfer.instruction)
    size = (v["rows"], v["columns"], blocks_of(v["channels"], sizes))
    walk = tile_walk(m, "save", tile_fields(v, "from"), size)
    words = prefetch(m, "save", sizes, lane, walk.active, walk.address)
    channels_left, words_left = Signal(COUNT_BITS, name="save_channels_left"), Signal(24, name="save_words_left")
    sent, reading = Signal(name="save_sent"), Signal(name="save_reading")
    left = Mux(channels_left > sizes.word, sizes.word, channels_left)
    m.d.comb += [
        walk.begin.eq(transfer.begins),
        walk.step.eq(lane.grant),
        memory.valid.eq(words.valid),
        memory.data.eq(words.data),
        memory.count.eq(left),
        sent.eq(words.valid & memory.ready),
        words.take.eq(sent),
    ]
    # The words that were read and not yet sent say which word is the last: the walk has ended, and one is left.
    m.d.sync += words_left.eq(words_left + lane.grant - sent)
    m.d.comb += reading.eq(walk.active)
    m.d.comb += transfer.done.eq(transfer.busy & sent & ~reading & (words_left == 1))
    with m.If(sent):
        m.d.sync += channels_left.eq(Mux(channels_left > sizes.word, channels_left - sizes.word, v["channels"]))
    with m.If(transfer.begins):
        m.d.sync += channels_left.eq(v["channels"])
    return m
