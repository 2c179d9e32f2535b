"""The memories on chip, and the lanes and streams of words by which the execution units use them.

Feature memory has banks with one read and one write port each; weight memory is a memory of its own.

"""

from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory

from mavcg.accelerators.rtl.sizes import ADDRESS_BITS, RtlSizes


@dataclass(frozen=True)
class ReadLane:
    """A request for one word. data: the word, one cycle after the cycle in which `grant` is 1."""

    request: Any
    address: Any
    grant: Any
    data: Any


@dataclass(frozen=True)
class WriteLane:
    """A word to write; written when `grant` is 1."""

    request: Any
    address: Any
    data: Any
    grant: Any


@dataclass(frozen=True)
class WeightRead:
    """A read port of weight memory. data: the word, one cycle after its address."""

    address: Any
    data: Any


@dataclass(frozen=True)
class WeightWrite:
    """The write port of weight memory: a word is written in each cycle in which `enable` is 1."""

    enable: Any
    address: Any
    data: Any


@dataclass(frozen=True)
class WordStream:
    """Words in order: the first is taken in a cycle in which `valid` and `take` are 1."""

    valid: Any
    data: Any
    take: Any


def read_lane(name: str, sizes: RtlSizes) -> ReadLane:
    """Return an unconnected lane."""
    return ReadLane(
        Signal(name=f"{name}_request"),
        Signal(ADDRESS_BITS, name=f"{name}_address"),
        Signal(name=f"{name}_grant"),
        Signal(sizes.word_bits, name=f"{name}_data"),
    )


def write_lane(name: str, sizes: RtlSizes) -> WriteLane:
    """Return an unconnected lane."""
    return WriteLane(
        Signal(name=f"{name}_request"),
        Signal(ADDRESS_BITS, name=f"{name}_address"),
        Signal(sizes.word_bits, name=f"{name}_data"),
        Signal(name=f"{name}_grant"),
    )


def prefetch(m: Module, name: str, sizes: RtlSizes, lane: ReadLane, more: Any, address: Any) -> WordStream:
    """Return the words that a lane reads ahead, up to four.

    more: 1 if `address` is to be read; both move to the next word in the cycle of the lane's grant.
    """
    m.submodules[f"{name}_words"] = words = SyncFIFO(width=sizes.word_bits, depth=4)
    coming, take = Signal(name=f"{name}_coming"), Signal(name=f"{name}_take")
    m.d.comb += [
        lane.request.eq(more & (words.level + coming < 4)),
        lane.address.eq(address),
        words.w_en.eq(coming),
        words.w_data.eq(lane.data),
        words.r_en.eq(take),
    ]
    m.d.sync += coming.eq(lane.grant)
    return WordStream(words.r_rdy, words.r_data, take)


@dataclass(frozen=True)
class LaneGroup:
    """Lanes that read the words of one step together.

    valid: set to 1 while a step waits. needed, addresses: of each lane; a lane that reads nothing has needed 0. ended:
    1 in the cycle in which the last word is granted. words: of each lane, one cycle after `ended`.
    """

    valid: Any
    needed: list[Any]
    addresses: list[Any]
    ended: Any
    words: list[Any]


def lane_group(m: Module, name: str, sizes: RtlSizes, lanes: list[ReadLane]) -> LaneGroup:
    """Return lanes as a group: a step takes as many cycles as its words need."""
    valid, ended = Signal(name=f"{name}_valid"), Signal(name=f"{name}_ended")
    needed = [Signal(name=f"{name}_wanted_{i}") for i in range(len(lanes))]
    addresses = [Signal(ADDRESS_BITS, name=f"{name}_address_{i}") for i in range(len(lanes))]
    words, complete = [], valid
    for i, lane in enumerate(lanes):
        done, arrives = Signal(name=f"{name}_done_{i}"), Signal(name=f"{name}_arrives_{i}")
        held = Signal(sizes.word_bits, name=f"{name}_held_{i}")
        m.d.comb += [lane.request.eq(valid & needed[i] & ~done), lane.address.eq(addresses[i])]
        m.d.sync += [arrives.eq(lane.grant), done.eq(valid & ~ended & (done | lane.grant))]
        with m.If(arrives):
            m.d.sync += held.eq(lane.data)
        words.append(Mux(arrives, lane.data, held))
        complete = complete & (~needed[i] | done | lane.grant)
    m.d.comb += ended.eq(complete)
    return LaneGroup(valid, needed, addresses, ended, words)


@dataclass(frozen=True)
class Funnel:
    """Bytes in order.

    ready: 1 if a piece may come. has_word: 1 if as many bytes as the next word needs are there. word: these bytes, and
    zeros after them. take: set to 1 to take them.
    """

    ready: Any
    has_word: Any
    word: Any
    take: Any


def funnel(m: Module, name: str, word: int, piece: tuple[Any, Any, Any], need: Any) -> Funnel:
    """Build a funnel.

    Args:
        word: most bytes of a word.
        piece: 1 for a piece that comes in this cycle (it may be 1 only if `ready` is), its bytes, and their number.
        need: bytes of the next word, 1 to `word`.
    """
    comes, data, count = piece
    most = len(data) // 8
    level_bits = (word + most).bit_length()
    kept, level = Signal(8 * (word + most), name=f"{name}_kept"), Signal(level_bits, name=f"{name}_level")
    take = Signal(name=f"{name}_take_word")
    rest = Mux(take, kept >> (need << 3), kept)
    rest_level = (level - Mux(take, need, 0))[:level_bits]
    arriving = Cat(Mux(count > i, data.word_select(i, 8), 0) for i in range(most))
    m.d.sync += [
        kept.eq(Mux(comes, rest | (arriving << (rest_level << 3)), rest)),
        level.eq(rest_level + Mux(comes, count, 0)),
    ]
    made = Cat(Mux(need > i, kept.word_select(i, 8), 0) for i in range(word))
    return Funnel(rest_level <= word, level >= need, made, take)


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
