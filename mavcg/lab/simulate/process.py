"""Simulate a whole AArch64 program, or calls of a function in it: qemu runs it, and each instruction is timed.

The emulator's plugin sends blocks and accesses (process_emulator.py); blocks are decoded once (process_blocks.py) and
timed on a core for each thread (process_cores.py).
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mavcg.cost.core_facts import SimulatedCore, simulated_core
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.process_cores import ThreadCores
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
from mavcg.lab.simulate.sampling import RunCounts, SamplePlan, sum_of_counts

_ADDRESS = 8  # bytes


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
    threads: Mapping[int, RunCounts]
    total: RunCounts
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
    simulator = ThreadCores(timing, figures, plan, options.every, region.first if region.function else 0)
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
        sum_of_counts(list(threads.values())),
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


def _counts_json(counts: RunCounts, figures: SimulatedCore) -> dict[str, Any]:
    cycles = round(counts.cycles)
    return {
        "cycles": cycles,
        "standard_error_cycles": round(counts.error) if counts.error < float("inf") else None,
        "instructions": counts.instructions,
        "timed_instructions": counts.measured,
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
