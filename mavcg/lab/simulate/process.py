"""Simulate a whole AArch64 program, or calls of a function in it: qemu runs it, and each instruction is timed.

The emulator's plugin sends blocks and accesses (process_emulator.py); blocks are decoded once (process_blocks.py) and
timed by the C library (csrc/process.c). Each thread has a simulated core with caches of its own.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mavcg.cost.core_facts import SimulatedCore, simulated_core
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.emulator import RETURN_ADDRESS
from mavcg.lab.simulate.harness import ffi, library
from mavcg.lab.simulate.process_blocks import ProcessBlocks
from mavcg.lab.simulate.process_emulator import (
    DEFINE,
    END,
    TRACE,
    CallRegion,
    TracedProgram,
    emulated_cpu,
    traced_program,
)
from mavcg.lab.simulate.process_symbols import FunctionFinder
from mavcg.lab.simulate.run import CAUSES, LEVELS
from mavcg.lab.simulate.sampling import PartEstimate, SamplePlan, part_estimate
from mavcg.lab.simulate.tables import TimingTables, c_machine

_NO_LENGTH = 1 << 62
_RECORD = _ADDRESS = 8  # bytes


@dataclass(frozen=True)
class ProcessCounts:
    """Counts of a thread, or of all.

    cycles: of the counted instructions; error: their standard error by sampling, 0 if every instruction was timed.
    timed: number of timed instructions. stalls, caches: as in CallCounts. unmodelled: timed instructions without timing
    facts. unknown_addresses: accesses whose address the emulator did not report, timed as hits of level 1.
    """

    cycles: float = 0.0
    instructions: int = 0
    timed: int = 0
    error: float = 0.0
    stalls: Mapping[str, float] = field(default_factory=dict)
    caches: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    branches: int = 0
    mispredicts: int = 0
    memory_lines: float = 0.0
    written_lines: float = 0.0
    unmodelled: int = 0
    unknown_addresses: int = 0


@dataclass(frozen=True)
class ProcessSimulation:
    """A simulated program.

    calls: calls of the function that the program made, counted or not. threads: counts of each thread that ran in the
    region, by its number in the order of their starts. status: exit status of the program; below 0 for a signal.
    """

    command: tuple[str, ...]
    core: Core
    region: CallRegion
    calls: int
    threads: Mapping[int, ProcessCounts]
    total: ProcessCounts
    unmodelled: Mapping[str, str]
    figures: SimulatedCore
    plan: SamplePlan | None
    every: int
    status: int


@dataclass(frozen=True)
class ProcessOptions:
    """Options of a simulation.

    region: what is counted. warm: calls before the region's first that warm caches and predictor and are not counted.
    every: of each so many instructions, one sample is timed; 0 to time all. sysroot: the program's root. output: file
    descriptor of its standard output. sharing: cores that share caches and memory equally.
    """

    region: CallRegion = CallRegion()
    warm: int = 0
    every: int = 0
    sysroot: Path | None = None
    output: int | None = None
    sharing: int = 1


class _Thread:
    """A thread's simulated core."""

    def __init__(self, timing: Timing, figures: SimulatedCore, plan: SamplePlan | None, every: int) -> None:
        c = library()
        emulator = ffi().new("sim_emulator *")  # all 0: nothing runs in this process
        made = c.sim_new(emulator, c_machine(timing, figures), RETURN_ADDRESS)
        if made == ffi().NULL:
            raise MavcgError("simulate: no memory left; close other programs")
        self.simulation = ffi().gc(made, c.sim_delete)
        self.tables_made = (-1, -1)
        self.counting = False
        self.plan = plan
        if plan is not None:
            c.sim_sampling(self.simulation, every, plan.unit, plan.warm, plan.functional, _NO_LENGTH, plan.seed)

    def begin(self) -> None:
        """Count from here on; what ran before has warmed the core."""
        if self.plan is not None:
            library().sim_take_sample(self.simulation, ffi().new("sim_sample *"))
        library().sim_begin(self.simulation)
        self.counting = True

    def counts(self) -> ProcessCounts:
        c = library()
        if self.plan is not None:
            sample = ffi().new("sim_sample *")
            c.sim_take_sample(self.simulation, sample)
            scale = sample.instructions / sample.measured if sample.measured else 1.0
            return _of_part(part_estimate(sample), sample.counts, scale)
        counts = ffi().new("sim_counts *")
        c.sim_end_counts(self.simulation, counts)
        return ProcessCounts(
            counts.cycles,
            counts.instructions,
            counts.instructions,
            0.0,
            {name: counts.stalls[n] for n, name in enumerate(CAUSES) if counts.stalls[n]},
            {name: (counts.hits[n], counts.misses[n]) for n, name in enumerate(LEVELS)},
            counts.branches,
            counts.mispredicts,
            counts.memory_lines,
            counts.written_lines,
            counts.unmodelled,
            counts.unknown_addresses,
        )


def _of_part(part: PartEstimate, counts: Any, scale: float) -> ProcessCounts:
    return ProcessCounts(
        part.cycles,
        part.instructions,
        part.measured,
        part.error,
        part.stalls,
        part.caches,
        part.branches,
        part.mispredicts,
        part.memory_lines,
        part.written_lines,
        round(counts.unmodelled * scale),
        round(counts.unknown_addresses * scale),
    )


class _Simulator:
    """Feeds the stream of one program to the cores of its threads."""

    def __init__(
        self, timing: Timing, figures: SimulatedCore, plan: SamplePlan | None, every: int, first_counted: int
    ) -> None:
        self._timing, self._figures, self._plan, self._every = timing, figures, plan, every
        self.blocks = ProcessBlocks(timing, TimingTables(timing))
        self.threads: dict[int, _Thread] = {}
        self._first_counted = first_counted

    def thread(self, number: int) -> _Thread:
        if number not in self.threads:
            self.threads[number] = _Thread(self._timing, self._figures, self._plan, self._every)
        return self.threads[number]

    def feed(self, number: int, data: bytes) -> None:
        """Time the records of one thread."""
        c, thread = library(), self.thread(number)
        records, count = ffi().from_buffer("uint64_t[]", data), len(data) // _RECORD
        used, value = ffi().new("uint64_t *"), ffi().new("uint64_t *")
        while (fed := c.sim_feed(thread.simulation, records, count, used, value)) != c.SIM_FED:
            if fed == c.SIM_UNKNOWN_BLOCK:
                self._add_block(thread, value[0])
            elif fed == c.SIM_REGION_BEGINS:
                if not thread.counting and value[0] >= self._first_counted:
                    thread.begin()
            elif fed == c.SIM_FEED_NO_MEMORY:
                raise MavcgError("simulate: no memory left; close other programs")

    def _add_block(self, thread: _Thread, number: int) -> None:
        c, tables = library(), self.blocks.tables
        address, rows, count = self.blocks.rows(number)
        grown = len(tables.classes), len(tables.patterns)
        done = 1
        if grown != thread.tables_made:
            patterns, latencies = tables.pattern_table(), tables.latency_table()
            done = c.sim_tables(thread.simulation, latencies, tables.latency_room, patterns, len(patterns))
            thread.tables_made = grown
        if not done or not c.sim_number_block(thread.simulation, number, address, rows, count):
            raise MavcgError("simulate: no memory left; close other programs")


def simulate_process(
    command: Sequence[str],
    core: Core,
    timing: Timing,
    board: Board | None = None,
    options: ProcessOptions = ProcessOptions(),
    progress: Callable[[str], None] = lambda what: None,
) -> ProcessSimulation:
    """Run a program in the emulator, and simulate it on a core.

    command: path of the program, and its arguments. board: gives caches, clock and memory. progress: called with a
    message now and then.
    Raises: MavcgError if there is no emulator or program, the region is never reached, or the program ends by a signal.
    """
    region = options.region
    plan = SamplePlan() if options.every else None
    figures = simulated_core(core, board, options.sharing)
    warm = min(options.warm, region.first - 1) if region.last is not None and not region.between else 0
    sent = CallRegion(region.function, region.first - warm, region.last, region.between)
    finder = FunctionFinder(region.function) if region.function is not None else None
    simulator = _Simulator(timing, figures, plan, options.every, region.first if region.function else 0)
    output = nullcontext(options.output)
    calls, done = 0, 0
    with output as stdout, traced_program(command, sent, emulated_cpu(core), options.sysroot, stdout) as program:
        for chunk in program.chunks(finder.addresses if finder else lambda path, start, offset: ()):
            if chunk.kind == TRACE:
                simulator.feed(chunk.number, chunk.data)
                done += 1
                if done % 256 == 0:
                    progress(f"{os.path.basename(command[0])}: {done // 16} MiB of its trace")
            elif chunk.kind == DEFINE:
                address = int.from_bytes(chunk.data[:_ADDRESS], "little")
                simulator.blocks.define(chunk.number, address, chunk.data[_ADDRESS:])
            elif chunk.kind == END:
                calls = int.from_bytes(chunk.data, "little")
    _check_end(program, command)
    threads = {number: t.counts() for number, t in sorted(simulator.threads.items()) if t.counting}
    if finder is not None and not any(counts.instructions for counts in threads.values()):
        made = f"{region.function} was called {calls} times, not {region.first}; give a lower --call"
        raise MavcgError(f"--function: {made if calls else finder.why_not_called()}")
    return ProcessSimulation(
        tuple(command),
        core,
        region,
        calls,
        MappingProxyType(threads),
        sum_of(list(threads.values())),
        MappingProxyType(simulator.blocks.unmodelled),
        figures,
        plan,
        options.every,
        program.status,
    )


def _check_end(program: TracedProgram, command: Sequence[str]) -> None:
    if program.status < 0 or not program.ended:
        how = f"ended by signal {-program.status}" if program.status < 0 else f"ended with status {program.status}"
        raise MavcgError(
            f"{command[0]}: {how}, before it was simulated to its end; run it by qemu-aarch64 alone to see why, and "
            "give --sysroot if it needs libraries"
        )


def sum_of(parts: Sequence[ProcessCounts]) -> ProcessCounts:
    """Return the sums of all counts: as if the threads ran one after the other."""
    causes = dict.fromkeys(cause for part in parts for cause in part.stalls)
    return ProcessCounts(
        sum(part.cycles for part in parts),
        sum(part.instructions for part in parts),
        sum(part.timed for part in parts),
        sqrt(sum(part.error**2 for part in parts)),
        {cause: sum(part.stalls.get(cause, 0) for part in parts) for cause in causes},
        {
            name: (
                sum(part.caches.get(name, (0, 0))[0] for part in parts),
                sum(part.caches.get(name, (0, 0))[1] for part in parts),
            )
            for name in LEVELS
        },
        sum(part.branches for part in parts),
        sum(part.mispredicts for part in parts),
        sum(part.memory_lines for part in parts),
        sum(part.written_lines for part in parts),
        sum(part.unmodelled for part in parts),
        sum(part.unknown_addresses for part in parts),
    )


def process_json(simulation: ProcessSimulation) -> dict[str, Any]:
    """Return a simulation as the JSON document of `mavcg simulate --process --json`."""
    core, figures, region, plan = simulation.core, simulation.figures, simulation.region, simulation.plan
    return {
        "command": list(simulation.command),
        "core": core.name,
        "function": region.function,
        "calls": simulation.calls,
        "exit_status": simulation.status,
        "cycles_are": "simulated, not measured",
        **_counts_json(simulation.total, figures),
        "threads": [
            {"thread": number, **_counts_json(counts, figures)} for number, counts in simulation.threads.items()
        ],
        "sampling": {
            "whole": plan is None,
            "every": simulation.every,
            "unit_instructions": 0 if plan is None else plan.unit,
            "seed": 0 if plan is None else plan.seed,
        },
        "milliseconds": round(simulation.total.cycles / figures.ghz / 1e6, 6),
        "ghz": figures.ghz,
        "confidence": {
            "pipeline_error": core.model_error,
            "assumed": list(figures.assumed),
            "unmodelled": dict(simulation.unmodelled),
        },
    }


def _counts_json(counts: ProcessCounts, figures: SimulatedCore) -> dict[str, Any]:
    cycles = round(counts.cycles)
    return {
        "cycles": cycles,
        "standard_error_cycles": round(counts.error) if counts.error < float("inf") else None,
        "instructions": counts.instructions,
        "timed_instructions": counts.timed,
        "ipc": round(counts.instructions / cycles, 4) if cycles else 0.0,
        "stalls": {cause: round(lost) for cause, lost in counts.stalls.items()},
        "caches": {
            level.name: {"hits": round(hits), "misses": round(misses)}
            for level, (hits, misses) in zip(figures.levels, counts.caches.values(), strict=False)
        },
        "memory": {"lines_read": round(counts.memory_lines), "lines_written": round(counts.written_lines)},
        "branches": {"count": counts.branches, "missed": counts.mispredicts},
        "unmodelled": counts.unmodelled,
        "unknown_addresses": counts.unknown_addresses,
    }
