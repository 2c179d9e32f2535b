"""Dispatch instructions to the queues of the units, and issue them when their tokens have arrived."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth import Const, Module, Mux, Signal
from amaranth.lib.fifo import SyncFIFOBuffered

from mavcg.accelerators.isa.forms import UNITS
from mavcg.accelerators.rtl.fetch import FetchedCode
from mavcg.accelerators.rtl.ports import SEGMENT_BITS
from mavcg.accelerators.rtl.sizes import HEADER_SIGNAL, HEADER_WAIT, form_bits
from mavcg.accelerators.simulator.timing import QUEUE_DEPTH

TOKEN_BITS = 16


@dataclass(frozen=True)
class UnitPort:
    """Connection of a unit with its queue.

    instruction: the first of the queue; issued in a cycle in which `issue` is 1. ready: the unit can take one. done: 1
    in the last cycle of an instruction; signal: the units that then get a token.
    """

    instruction: Any
    issue: Any
    ready: Any
    done: Any
    signal: Any


def unit_port(unit: str) -> UnitPort:
    """Return an unconnected port of a unit."""
    return UnitPort(
        Signal(form_bits(unit), name=f"{unit}_instruction"),
        Signal(name=f"{unit}_issue"),
        Signal(name=f"{unit}_ready"),
        Signal(name=f"{unit}_done"),
        Signal(len(UNITS), name=f"{unit}_signal"),
    )


def dispatcher(m: Module, code: FetchedCode, start: Any, units: Mapping[str, UnitPort]) -> Any:
    """Build dispatcher, queues and token counters; return the signal with the bytes that were dispatched.

    An instruction is dispatched when its block of code is whole, one word a cycle.
    """
    dispatched, words_left = Signal(SEGMENT_BITS, name="dispatched"), Signal(5, name="words_left")
    queues = {}
    for unit, port in units.items():
        queues[unit] = SyncFIFOBuffered(width=len(port.instruction), depth=QUEUE_DEPTH)
        m.submodules[f"{unit}_queue"] = queues[unit]
    opcode, length = code.instruction[:4], code.instruction[8:13]
    ready = code.valid & (code.end <= code.fetched) & (words_left == 0)
    room: Any = Const(0)
    for number, queue in enumerate(queues.values()):
        chosen = opcode == number
        room = room | (chosen & queue.w_rdy)
        m.d.comb += [queue.w_data.eq(code.instruction[: queue.width]), queue.w_en.eq(ready & chosen)]
    m.d.comb += code.take.eq(ready & room)
    m.d.sync += words_left.eq(Mux(words_left == 0, 0, words_left - 1))
    with m.If(code.take):
        m.d.sync += [dispatched.eq(code.end), words_left.eq(length - 1)]
    with m.If(start):
        m.d.sync += dispatched.eq(0)
    _issue(m, queues, units)
    return dispatched


def _issue(m: Module, queues: Mapping[str, Any], units: Mapping[str, UnitPort]) -> None:
    """Issue the first instruction of each queue when the tokens that it waits for are there, and count tokens."""
    counters = [[Signal(TOKEN_BITS, name=f"tokens_{a}_{b}") for b in UNITS] for a in UNITS]
    for number, (unit, port) in enumerate(units.items()):
        queue = queues[unit]
        waits = queue.r_data[HEADER_WAIT]
        has_tokens: Any = Const(1)
        for other in range(len(UNITS)):
            has_tokens = has_tokens & (~waits[other] | (counters[other][number] != 0))
        m.d.comb += [
            port.instruction.eq(queue.r_data),
            port.issue.eq(queue.r_rdy & port.ready & has_tokens),
            queue.r_en.eq(port.issue),
        ]
        for other, giver in enumerate(units.values()):
            given = giver.done & giver.signal[number]
            taken = port.issue & waits[other]
            m.d.sync += counters[other][number].eq(counters[other][number] + given - taken)


def held_instruction(m: Module, unit: str, port: UnitPort) -> tuple[Any, Any]:
    """Keep the instruction that a unit executes; return it and the signal `busy`.

    For units with one instruction at a time: ready until one is issued, and again after `done`.
    """
    held, busy = Signal(len(port.instruction), name=f"{unit}_held"), Signal(name=f"{unit}_busy")
    m.d.comb += [port.ready.eq(~busy), port.signal.eq(held[HEADER_SIGNAL])]
    with m.If(port.issue):
        m.d.sync += [held.eq(port.instruction), busy.eq(1)]
    with m.Elif(port.done):
        m.d.sync += busy.eq(0)
    return held, busy
