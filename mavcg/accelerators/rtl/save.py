"""The save unit: maps from feature memory to the DDR memory."""

from collections.abc import Mapping
from typing import Any

from amaranth import Module, Mux, Signal

from mavcg.accelerators.rtl.dispatch import UnitPort
from mavcg.accelerators.rtl.lanes import ReadLane, prefetch
from mavcg.accelerators.rtl.ports import MemoryPort
from mavcg.accelerators.rtl.records import fields_of
from mavcg.accelerators.rtl.runs import transfers
from mavcg.accelerators.rtl.sizes import RtlSizes
from mavcg.accelerators.rtl.walks import COUNT_BITS, blocks_of, tile_fields, tile_walk


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
