"""Request the contiguous runs of bytes that load.map, save.map and load.parameters move."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth import Module, Mux, Signal

from mavcg.accelerators.rtl.dispatch import UnitPort
from mavcg.accelerators.rtl.ports import RUN_BITS, MemoryPort
from mavcg.accelerators.rtl.records import HEADER_SIGNAL, fields_of, mode_of
from mavcg.accelerators.rtl.sizes import RtlSizes
from mavcg.accelerators.rtl.walks import COUNT_BITS


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
