"""Time lowered primitives on a simulated core: cycles of each job's stages with warm caches."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from mavcg.choose.lowering.kernel_code import kernel_flags, kernel_module, version_symbol
from mavcg.cost.core_facts import simulated_core
from mavcg.files.scratch import scratch_folder
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.kernels.builder.emit import kernel_name
from mavcg.lab.simulate.call_arguments import CallState, page_range
from mavcg.lab.simulate.program_image import read_program
from mavcg.lab.simulate.simulated_program import SimulatedProgram
from mavcg.lab.trials.jobs import GUARD_BYTES, TrialJob
from mavcg.profiles.timing import load_timing
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import KernelSpec
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import parse_target

_TARGET = parse_target("aarch64-linux-musl")
_MEMORY, _GAP = 0x60_0000_0000, 1 << 20
_WARM, _LIMIT = 1, 1_000_000_000


def simulate_jobs(jobs: Sequence[TrialJob], core: Core, board: Board) -> list[int]:
    """Return the cycles of each job on one core of the board, which has run it once before.

    Raises: MavcgError if unicorn is not installed, and for a core without a timing profile.
    """
    machine = machines_for((core,), _TARGET)[core.name]
    specs = tuple(dict.fromkeys(stage.spec for job in jobs for stage in job.lowering.stages))
    with scratch_folder("mavcg-simulated-") as name:
        kernels = Path(name) / "kernels.o"
        text = kernel_module(specs, machine, core.name, _TARGET)
        codegen_job = CodegenJob(text, _TARGET, "compiling primitives", emit="obj", flags=kernel_flags(machine))
        compile_module(codegen_job, kernels)
        image = read_program(kernels)
    program = SimulatedProgram(image, load_timing(core), simulated_core(core, board))
    program.emulator.keep_memory()
    symbols = {spec: image.symbols[version_symbol(kernel_name(spec), core.name)] for spec in specs}
    job_cycles, at = [], _MEMORY
    for job in jobs:
        at, calls = _map_job(program, job, symbols, at)
        for _ in range(_WARM + 1):
            cycles = sum(program.call(address, state, _LIMIT).cycles for address, state in calls)
        job_cycles.append(cycles)
    return job_cycles


def _map_job(
    program: SimulatedProgram, job: TrialJob, symbols: Mapping[KernelSpec, int], at: int
) -> tuple[int, list[tuple[int, CallState]]]:
    """Put a job's memory at an address; return where the next job's may begin, and the calls of the job's stages."""

    def put(content: bytes) -> int:
        nonlocal at
        address = at
        program.emulator.map_data(address, len(content))
        program.emulator.uc.mem_write(address, content)
        first, size = page_range(address, len(content))
        at = first + size + _GAP
        return address

    bases = {base: put(memory.whole.tobytes()) + GUARD_BYTES for base, memory in job.operands.items()}
    scratch = put(bytes(max((stage.spec.scratch_bytes for stage in job.lowering.stages), default=0) + 64))
    calls = []
    for call in job.calls:
        stage = job.lowering.stages[call.stage]
        operands = [bases[operand.base] + operand.offset for operand in stage.operands]
        arguments = put(struct.pack(f"<{len(operands)}Q", *operands))
        calls.append((symbols[stage.spec], CallState((arguments, call.begin, call.end, scratch), (), b"", ())))
    return at, calls
