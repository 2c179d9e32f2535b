"""Run a program on the hardware and in both simulators: the same bytes, and how many cycles."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.accelerators.host.library import MOST_OPERATIONS
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.encoding import encode_program
from mavcg.accelerators.rtl.model import model_library, testbench_ffi
from mavcg.accelerators.rtl.sizes import REFUSED, rtl_sizes
from mavcg.accelerators.rtl.verilog import RtlFolder
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.simulator.functional import execute_job, write_inputs
from mavcg.accelerators.simulator.timing import SCALE
from mavcg.errors import MavcgError

MOST_CYCLES = 1 << 28  # of a segment on the hardware, as simulated: 30 times ResNet-50's on zu2
_MORE_CYCLES = 100_000  # beyond twice the simulated ones, before a run counts as one that does not end


@dataclass(frozen=True)
class Cosimulation:
    """A program on the hardware beside the simulators.

    differing_bytes: of the features segment after the last instruction, all tensors in it. cycles_rtl,
    cycles_simulated: from the start to the end of misc.end, of all segments.
    """

    differing_bytes: int
    segment_bytes: int
    cycles_rtl: int
    cycles_simulated: int

    @property
    def equal(self) -> bool:
        """Return True if the hardware wrote the functional simulator's bytes."""
        return not self.differing_bytes


def cosimulate(
    program: AccelProgram, rtl: RtlFolder, seed: int, most_operations: int = MOST_OPERATIONS
) -> Cosimulation:
    """Run a program's segments on the hardware of a folder, with random inputs. seed: of the inputs.

    most_operations: limit of each segment in the functional simulator.
    Raises: MavcgError for hardware of another target, instructions that it does not have, and a run that does not end;
    ToolError if the hardware cannot be translated; what the simulators raise.
    """
    _check(program, rtl)
    numbers = np.random.default_rng(seed)
    inputs = {}
    for name in program.inputs:
        inputs[name] = numbers.integers(-128, 128, program.tensor(name).shape, np.int8)
    expected, made = np.zeros((2, program.feature_bytes), np.int8)
    written = np.zeros(program.feature_bytes, np.uint8)
    cycles = simulated = 0
    for job in program.jobs():
        write_inputs(job, inputs, made, written)
        write_inputs(job, inputs, expected, written)
        execute_job(job, expected, written, most_operations)
        simulated += (of_job := simulate(job).cycles)
        if of_job > MOST_CYCLES:
            raise MavcgError(
                f"{job.network}: takes {of_job} simulated cycles; cosim runs at most {MOST_CYCLES}; use mavcg accel "
                "run and simulate, or a smaller network"
            )
        cycles += _run(job, rtl, made, 2 * of_job + _MORE_CYCLES)
    return Cosimulation(int(np.count_nonzero(made != expected)), len(made), cycles, simulated)


def _check(program: AccelProgram, rtl: RtlFolder) -> None:
    """Check that the hardware can execute the program."""
    if rtl_sizes(program.target) != rtl.sizes:
        raise MavcgError(
            f"{program.network}: is a program for {program.target.name}, and --rtl has hardware of {rtl.target} with "
            f"other sizes; write it by mavcg accel rtl --target {program.target.name}"
        )
    for index, one in enumerate(program.instructions):
        if one.form.name in REFUSED:
            raise MavcgError(
                f"{program.network}: instruction {index} is {one.form.name}, which the hardware does not execute; use "
                "a network without it, or the simulators alone (mavcg accel run, mavcg accel simulate)"
            )


def _run(job: AccelProgram, rtl: RtlFolder, features: Any, most_cycles: int) -> int:
    """Run a job on the hardware; the features segment is changed. Returns the cycles."""
    ffi, library = testbench_ffi(), model_library(rtl.verilog)
    code, parameters = encode_program(job.instructions), job.parameters or bytes(1)
    given = ffi.new(
        "mavcg_rtl_job *",
        {
            "code": ffi.from_buffer("uint8_t[]", code),
            "parameters": ffi.from_buffer("uint8_t[]", parameters),
            "features": ffi.cast("uint8_t *", features.ctypes.data),
            "code_bytes": len(code),
            "parameter_bytes": len(job.parameters),
            "feature_bytes": len(features),
            "rate": max(1, round(job.target.ddr_bytes_per_cycle * SCALE)),
            "port_rate": max(1, round(job.target.port_bytes_per_cycle * SCALE)),
            "latency": job.target.ddr_latency_cycles,
            "most_cycles": most_cycles,
            "burst_bytes": job.target.ddr_burst_bytes,
            "port_bytes": rtl.sizes.port_bytes,
        },
    )
    result = ffi.new("mavcg_rtl_result *")
    library.mavcg_rtl_run(given, result)
    ends = {
        library.MAVCG_RTL_UNKNOWN: "it met an instruction that it does not know",
        library.MAVCG_RTL_OUTSIDE: "it accessed bytes outside of the program's segments",
        library.MAVCG_RTL_CYCLES: "it did not end",
    }
    if result.end in ends:
        raise MavcgError(
            f"{job.network}: on the hardware of --rtl, {ends[result.end]} within {result.cycles} cycles; write the "
            "folder again by mavcg accel rtl, or report a fault of the hardware"
        )
    return int(result.cycles)
