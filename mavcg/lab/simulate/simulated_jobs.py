"""Time lowered primitives on a simulated core in about a second each, with the macro-tiles of a library.

Kernels are compiled as for a library, with machine passes, and called for as many rows as the engine calls them for.
Windows of rows stand for all rows (mavcg/lab/simulate/row_windows.py).
"""

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.assembly.code_image import CodeImage
from mavcg.choose.lowering.kernel_code import kernel_code, kernel_tasks, version_symbol
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.cost.board_model import cores_of
from mavcg.cost.core_facts import simulated_core
from mavcg.files.worker_processes import run_tasks
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.kernels.builder.emit import kernel_name
from mavcg.lab.simulate.call_arguments import (
    KERNEL_LIMIT,
    READ_AHEAD_BYTES,
    SCRATCH_SLACK,
    check_operand_bytes,
    moderate_lanes,
    page_range,
)
from mavcg.lab.simulate.program_image import read_program
from mavcg.lab.simulate.row_windows import KernelCalls, TouchedMemory, WindowEstimate, estimate_cycles
from mavcg.lab.simulate.simulated_program import SimulatedProgram
from mavcg.objects.library import link_shared
from mavcg.profiles.timing import load_timing
from mavcg.runtime.machines import machines_for
from mavcg.specs.primitive import Lowering, Stage
from mavcg.specs.tile_plan import TilePlan, call_rows
from mavcg.toolchain.target import Target, parse_target

_MEMORY, _GAP = 0x60_0000_0000, 1 << 20
_SHARED_BASES = ("weights", "bias")  # that every row may need


@dataclass(frozen=True)
class SimulatedJob:
    """A lowered primitive. sizes: sizes in bytes of the operands whose sizes the lowering does not have."""

    lowering: Lowering
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class SimulatedKernels:
    """Compiled kernels of some jobs for a core. plan: their macro-tiles."""

    image: CodeImage
    plan: TilePlan
    core: Core
    board: Board


def compile_jobs(
    jobs: Sequence[SimulatedJob],
    core: Core,
    board: Board,
    folder: Path,
    workers: int = 1,
    progress: Callable[[str], None] = lambda words: None,
) -> SimulatedKernels:
    """Compile the kernels of these jobs in an existing folder. Raises: ToolError, MavcgError."""
    target: Target = parse_target(board.target)
    machine = machines_for((core,), target)[core.name]
    specs = tuple(dict.fromkeys(stage.spec for job in jobs for stage in job.lowering.stages))
    labels = {core.name: machine}
    plan = plan_tiles(specs, cores_of((core.name,), target, board))
    tasks = kernel_tasks(specs, labels, (core,), target, folder, plan=plan)
    code = kernel_code(run_tasks(tasks, workers, progress), labels, plan)
    library = folder / "libkernels.so"
    link_shared(code.objects, library, target)
    return SimulatedKernels(read_program(library), plan, core, board)


def simulate_job(kernels: SimulatedKernels, job: SimulatedJob) -> WindowEstimate:
    """Return the cycles of a run of a job that follows an identical run.

    Raises: MavcgError if its operands are too large, if a call does not end, and if unicorn is not installed.
    """
    core = kernels.core
    sizes = {"weights": job.lowering.weights_bytes, "workspace": job.lowering.workspace_bytes, **job.sizes}
    check_operand_bytes(sum(sizes.values()))
    program = SimulatedProgram(kernels.image, load_timing(core), simulated_core(core, kernels.board))
    program.emulator.keep_memory()
    return estimate_cycles(program, place_stages(program, kernels, job, sizes), KERNEL_LIMIT)


def place_stages(
    program: SimulatedProgram, kernels: SimulatedKernels, job: SimulatedJob, sizes: Mapping[str, int]
) -> list[KernelCalls]:
    """Put a job's memory into the emulator, and return the calls of its stages."""
    at, pick = _MEMORY, random.Random("simulated job")

    def put(content: bytes) -> int:
        nonlocal at
        address, whole = at, len(content) + READ_AHEAD_BYTES
        program.emulator.map_data(address, whole)
        program.emulator.uc.mem_write(address, content)
        first, size = page_range(address, whole)
        at = first + size + _GAP
        return address

    stages = job.lowering.stages
    bases = {base: put(moderate_lanes(pick, size)) for base, size in sizes.items() if base not in ("weights", "out")}
    bases |= {"weights": put(job.lowering.weights.tobytes()), "out": put(bytes(sizes["out"]))}
    scratch = put(bytes(max((stage.spec.scratch_bytes for stage in stages), default=0) + SCRATCH_SLACK))
    offsets = sorted({o.offset for stage in stages for o in stage.operands if o.base == "workspace"})
    ends = dict(zip(offsets, (*offsets[1:], sizes["workspace"]), strict=False))
    written: set[int] = set()
    calls = []
    for stage in stages:
        name = kernel_name(stage.spec)
        pointers = [bases[operand.base] + operand.offset for operand in stage.operands]
        macro = kernels.plan.any_of(name)
        rows, rows_per_call = stage.spec.rows, call_rows(stage.spec)[1]
        if macro is not None:
            rows, rows_per_call = rows * macro.parts, macro.call_rows * macro.parts
        calls.append(
            KernelCalls(
                kernels.image.symbols[version_symbol(name, kernels.core.name)],
                put(struct.pack(f"<{len(pointers)}Q", *pointers)),
                scratch,
                rows,
                rows_per_call,
                (*_operands(stage, bases, sizes, ends, written), *_scratch(stage, scratch)),
            )
        )
    return calls


def _scratch(stage: Stage, address: int) -> tuple[TouchedMemory, ...]:
    size = stage.spec.scratch_bytes
    return (TouchedMemory(address, size, written=True, by_rows=False),) if size else ()


def _operands(
    stage: Stage, bases: Mapping[str, int], sizes: Mapping[str, int], ends: Mapping[int, int], written: set[int]
) -> tuple[TouchedMemory, ...]:
    """Return the memory that a stage reads and writes.

    written: offsets in the workspace that an earlier stage has written.
    """
    touched = []
    for operand in stage.operands:
        size, writes = sizes[operand.base] - operand.offset, operand.base == "out"
        if operand.base == "workspace":
            size, writes = ends[operand.offset] - operand.offset, operand.offset not in written
            written.add(operand.offset)
        by_rows = (operand.base in _SHARED_BASES) == stage.spec.by_channels or writes
        touched.append(TouchedMemory(bases[operand.base] + operand.offset, size, writes, by_rows))
    return tuple(touched)
