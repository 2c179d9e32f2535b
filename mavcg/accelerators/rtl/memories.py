"""The memories on chip: banks of feature memory with one read and one write port each, and weight memory."""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib.memory import Memory

from mavcg.accelerators.rtl.lanes import ReadLane, WeightRead, WeightWrite, WriteLane
from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, RtlSizes


def feature_memory(sizes: RtlSizes, readers: list[ReadLane], writers: list[WriteLane]) -> Module:
    """Return feature memory. In each bank and cycle, the first of the lanes that need its port gets it."""
    m = Module()
    bank_bits = (sizes.banks - 1).bit_length()
    bank_words = -(-sizes.feature_words // sizes.banks)
    read_grants: list[list[Any]] = [[] for _ in readers]
    write_grants: list[list[Any]] = [[] for _ in writers]
    outputs = []
    for bank in range(sizes.banks):
        m.submodules[f"bank_{bank}"] = memory = Memory(shape=sizes.word_bits, depth=bank_words, init=[])
        write, read = memory.write_port(), memory.read_port()
        _first(m, bank, bank_bits, readers, read_grants, read.addr)
        m.d.comb += read.en.eq(Cat(grants[-1] for grants in read_grants).any())
        outputs.append(read.data)
        data = _first(m, bank, bank_bits, writers, write_grants, write.addr)
        m.d.comb += [write.en.eq(Cat(grants[-1] for grants in write_grants).any()), write.data.eq(data)]
    for index, reader in enumerate(readers):
        came_from = Signal(bank_bits, name=f"reader_{index}_bank")
        m.d.comb += reader.grant.eq(Cat(read_grants[index]).any())
        m.d.sync += came_from.eq(reader.address[:bank_bits])
        with m.Switch(came_from):
            for bank, output in enumerate(outputs):
                with m.Case(bank):
                    m.d.comb += reader.data.eq(output)
    for index, writer in enumerate(writers):
        m.d.comb += writer.grant.eq(Cat(write_grants[index]).any())
    return m


def weight_memory(sizes: RtlSizes, write: WeightWrite, readers: list[WeightRead]) -> Module:
    """Return weight memory."""
    m = Module()
    m.submodules.words = memory = Memory(shape=sizes.weight_bits, depth=sizes.weight_words, init=[])
    port = memory.write_port()
    m.d.comb += [port.addr.eq(write.address), port.data.eq(write.data), port.en.eq(write.enable)]
    for reader in readers:
        read = memory.read_port()
        m.d.comb += [read.addr.eq(reader.address), read.en.eq(1), reader.data.eq(read.data)]
    return m


def _first(m: Module, bank: int, bank_bits: int, lanes: list[Any], grants: list[list[Any]], address: Any) -> Any:
    """Give a bank's port to the first lane that needs it: append to `grants`, drive `address`; return its data."""
    taken: Any = Const(0)
    row: Any = Const(0, ADDRESS_BITS)
    data: Any = Const(0)
    hits = [lane.request & (lane.address[:bank_bits] == bank) for lane in lanes]
    for hit, granted in zip(hits, grants, strict=True):
        granted.append(hit & ~taken)
        taken = taken | hit
    for lane, hit in reversed(list(zip(lanes, hits, strict=True))):
        row = Mux(hit, lane.address[bank_bits:], row)
        data = Mux(hit, lane.data, data)
    m.d.comb += address.eq(row)
    return data
