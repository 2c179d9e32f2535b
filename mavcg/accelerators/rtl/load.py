"""The load unit: maps from the DDR memory into feature memory, parameters into weight memory."""

from collections.abc import Mapping
from typing import Any

from amaranth import Cat, Module, Mux, Signal

from mavcg.accelerators.rtl.dispatch import UnitPort
from mavcg.accelerators.rtl.funnel import funnel
from mavcg.accelerators.rtl.lanes import WeightWrite, WriteLane
from mavcg.accelerators.rtl.ports import MemoryPort
from mavcg.accelerators.rtl.records import fields_of, mode_of
from mavcg.accelerators.rtl.runs import Transfer, transfers
from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, RtlSizes
from mavcg.accelerators.rtl.walks import COUNT_BITS, blocks_of, tile_fields, tile_walk


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
