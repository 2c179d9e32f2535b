"""Fetch code in blocks into two buffers, and join its words into whole instructions."""

from dataclasses import dataclass
from typing import Any

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory

from mavcg.accelerators.isa.forms import WORD_BYTES
from mavcg.accelerators.rtl.ports import SEGMENT_BITS, MemoryPort
from mavcg.accelerators.rtl.sizes import EXECUTED, INSTRUCTION_WORDS, RtlSizes
from mavcg.accelerators.simulator.timing import FETCH_BYTES

INSTRUCTION_BITS = 32 * INSTRUCTION_WORDS
_BUFFERS = 2


@dataclass(frozen=True)
class FetchedCode:
    """Whole instructions in order.

    valid: 1 while there is one. instruction: its words. end: byte offset after it. fetched: bytes of code in blocks
    that have been fetched to their ends. take: set to 1 to go to the next instruction. unknown: 1 after a header that
    is no instruction's.
    """

    valid: Any
    instruction: Any
    end: Any
    fetched: Any
    take: Any
    unknown: Any


def code_fetch(
    m: Module, sizes: RtlSizes, port: MemoryPort, start: Any, base: Any, code_bytes: Any, dispatched: Any
) -> FetchedCode:
    """Build the fetch of a program's code.

    Args:
        start: 1 for a cycle to begin. base, code_bytes: address and size of the code. dispatched: bytes of the
            instructions that were dispatched; their buffer is filled again.
    """
    fetched, arrived = _blocks(m, port, start, base, code_bytes, dispatched)
    word, has_word, take_word = _words(m, sizes, port, start, arrived)
    return _instructions(m, start, fetched, word, has_word, take_word)


def _blocks(m: Module, port: MemoryPort, start: Any, base: Any, code_bytes: Any, dispatched: Any) -> tuple[Any, Any]:
    """Request the blocks; return the bytes in blocks that came whole, and all bytes that came."""
    requested, fetched, arrived = (
        Signal(SEGMENT_BITS, name=f"code_{part}") for part in ("requested", "fetched", "arrived")
    )
    running, waiting = Signal(name="code_running"), Signal(name="code_waiting")
    left = code_bytes - requested
    size = Mux(left > FETCH_BYTES, FETCH_BYTES, left)
    free = (requested < _BUFFERS * FETCH_BYTES) | (dispatched + (_BUFFERS - 1) * FETCH_BYTES >= requested)
    came = arrived + Mux(port.valid, port.count, 0)
    m.d.comb += [
        port.request.eq(running & ~waiting & (requested < code_bytes) & free),
        port.address.eq(base + requested),
        port.bytes.eq(size),
        port.ready.eq(1),
    ]
    m.d.sync += arrived.eq(came)
    with m.If(port.request & port.accept):
        m.d.sync += [requested.eq(requested + size), waiting.eq(1)]
    with m.If(waiting & (came == requested)):
        m.d.sync += [fetched.eq(requested), waiting.eq(0)]
    with m.If(start):
        m.d.sync += [running.eq(1), requested.eq(0), fetched.eq(0), arrived.eq(0), waiting.eq(0)]
    return fetched, arrived


def _words(m: Module, sizes: RtlSizes, port: MemoryPort, start: Any, arrived: Any) -> tuple[Any, Any, Any]:
    """Keep the code in two buffers; return its next word, 1 if there is one, and the signal that takes it."""
    wide = max(WORD_BYTES, sizes.port_bytes)
    shift, deep = (wide - 1).bit_length(), _BUFFERS * FETCH_BYTES // wide
    m.submodules.code_buffers = memory = Memory(shape=8 * wide, depth=deep, init=[])
    write, read = memory.write_port(), memory.read_port()
    if sizes.port_bytes >= WORD_BYTES:
        data, complete = port.data, port.valid
    else:
        held = Signal(8 * wide, name="code_held")
        data = Cat(held, port.data)[-8 * wide :]
        complete = port.valid & ((arrived + port.count)[:shift] == 0)
        with m.If(port.valid):
            m.d.sync += held.eq(data)
    m.d.comb += [write.addr.eq(arrived >> shift), write.data.eq(data), write.en.eq(complete)]
    at, coming, place = Signal(SEGMENT_BITS, name="code_at"), Signal(name="code_coming"), Signal(4, name="code_place")
    m.submodules.code_words = words = SyncFIFO(width=32, depth=4)
    step = (at + WORD_BYTES <= arrived) & (words.level + coming < 4)
    m.d.comb += [read.addr.eq(at >> shift), read.en.eq(1), words.w_en.eq(coming)]
    m.d.comb += words.w_data.eq(read.data.word_select(place, 32))
    m.d.sync += [coming.eq(step), place.eq((at >> 2)[: shift - 2] if shift > 2 else 0)]
    with m.If(step):
        m.d.sync += at.eq(at + WORD_BYTES)
    with m.If(start):
        m.d.sync += at.eq(0)
    return words.r_data, words.r_rdy, words.r_en


def _instructions(m: Module, start: Any, fetched: Any, word: Any, has_word: Any, take_word: Any) -> FetchedCode:
    """Join words into instructions, two of which may wait for the dispatcher."""
    index, end = Signal(5, name="word_index"), Signal(SEGMENT_BITS, name="code_end")
    kept = [Signal(32, name=f"instruction_word_{i}") for i in range(INSTRUCTION_WORDS)]
    unknown = Signal(name="unknown_instruction")
    m.submodules.instructions = made = SyncFIFO(width=INSTRUCTION_BITS + SEGMENT_BITS, depth=2)
    length = Mux(index == 0, word[8:13], kept[0][8:13])
    final = index + 1 == length
    whole = Cat(Mux(index == i, word, one) for i, one in enumerate(kept))
    take = has_word & ~unknown & (~final | made.w_rdy)
    m.d.comb += [take_word.eq(take), made.w_en.eq(take & final), made.w_data.eq(Cat(whole, end + WORD_BYTES))]
    with m.If(take):
        m.d.sync += [Array(kept)[index].eq(word), end.eq(end + WORD_BYTES), index.eq(Mux(final, 0, index + 1))]
        with m.If((index == 0) & ~_is_known(word)):
            m.d.sync += unknown.eq(1)
    with m.If(start):
        m.d.sync += [index.eq(0), end.eq(0), unknown.eq(0)]
    return FetchedCode(
        made.r_rdy, made.r_data[:INSTRUCTION_BITS], made.r_data[INSTRUCTION_BITS:], fetched, made.r_en, unknown
    )


def _is_known(header: Any) -> Any:
    """Return 1 for the header of an instruction of the hardware: opcode, mode, length, and reserved bits of 0."""
    known: Any = Const(0)
    for (opcode, mode), form in EXECUTED.items():
        known = known | (header[:13] == (opcode | mode << 4 | form.words << 8))
    return known & (header[23:] == 0)
