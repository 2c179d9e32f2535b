"""Time one step of a model on a simulated core: its kernel, called as the engine calls it, with the caches as the steps
before left them.

Addresses are those of the program, so that operands meet in the same sets of the caches. Contents are random, but for
packed sparse weights, whose positions say how much is computed.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from mavcg.assembly.code_image import CodeImage
from mavcg.cost.core_facts import SimulatedCore
from mavcg.hardware.core import Core
from mavcg.lab.simulate.call_arguments import (
    KERNEL_LIMIT,
    READ_AHEAD_BYTES,
    SCRATCH_SLACK,
    check_operand_bytes,
    moderate_lanes,
    page_range,
)
from mavcg.lab.simulate.row_windows import KernelCalls, TouchedMemory, WindowEstimate, estimate_after
from mavcg.lab.simulate.simulated_program import SimulatedProgram
from mavcg.profiles.timing import load_timing

_CALL_MEMORY = 0x7F_0000_0000  # above all operands: their addresses, and a kernel's scratch memory


@dataclass(frozen=True)
class StepCalls:
    """A step of a program as it is called.

    symbol: of the kernel's version. rows, call_rows: as KernelCalls. operands: the addresses that the kernel gets, in
    order. own: what it touches, in the same address space. before: what the steps before touched, in order.
    contents: (address, bytes) of memory whose contents matter.
    """

    symbol: str
    rows: int
    call_rows: int
    scratch_bytes: int
    operands: tuple[int, ...]
    own: tuple[TouchedMemory, ...]
    before: tuple[TouchedMemory, ...]
    contents: tuple[tuple[int, bytes], ...] = ()


def simulate_step(image: CodeImage, core: Core, facts: SimulatedCore, step: StepCalls) -> WindowEstimate:
    """Return the cycles of a step on one core. image: contains the kernel's version. facts: of the core's cluster.

    Raises: MavcgError if operands are too large, if a call does not end, and if unicorn is not installed.
    """
    check_operand_bytes(sum(memory.bytes for memory in step.own))
    program = SimulatedProgram(image, load_timing(core), facts)
    program.emulator.keep_memory()
    pick = random.Random("simulated step")
    for first, end in _page_runs(step):
        program.emulator.map_data(first, end - first)
        program.emulator.uc.mem_write(first, moderate_lanes(pick, end - first))
    for address, content in step.contents:
        program.emulator.uc.mem_write(address, content)
    arguments = struct.pack(f"<{len(step.operands)}Q", *step.operands)
    scratch_bytes = step.scratch_bytes + SCRATCH_SLACK
    scratch = page_range(_CALL_MEMORY + len(arguments), READ_AHEAD_BYTES)[0] + READ_AHEAD_BYTES
    program.emulator.map_data(_CALL_MEMORY, scratch + scratch_bytes - _CALL_MEMORY)
    program.emulator.uc.mem_write(_CALL_MEMORY, arguments)
    own = step.own
    if step.scratch_bytes:
        own = (*own, TouchedMemory(scratch, step.scratch_bytes, written=True, by_rows=False))
    calls = KernelCalls(image.symbols[step.symbol], _CALL_MEMORY, scratch, step.rows, step.call_rows, own)
    return estimate_after(program, calls, step.before, KERNEL_LIMIT)


def _page_runs(step: StepCalls) -> Iterator[tuple[int, int]]:
    """Yield the runs of pages that contain a step's operands, with the bytes that pipelined loops read ahead."""
    places = [(memory.address, memory.bytes) for memory in step.own] + [(address, 8) for address in step.operands]
    ranges = sorted(page_range(address, size + READ_AHEAD_BYTES) for address, size in places)
    begin, end = ranges[0][0], ranges[0][0]
    for first, size in ranges:
        if first > end:
            yield begin, end
            begin = first
        end = max(end, first + size)
    yield begin, end
