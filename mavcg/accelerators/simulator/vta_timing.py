"""Cycles and bytes of VTA's instructions, and the choice of an instruction set's timing.

A step of the array takes a cycle and one of the ALU two (the initiation intervals of VTA's published design in HLS); an
element of a transfer takes whole beats of the DDR memory's bus. Start-up cycles are assumed, as the accelerator's own.
"""

from collections.abc import Callable

from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.isa.vta import BLOCK, INPUTS, MICRO_OPS, OUTPUTS, SUMS, SUMS_OF_BYTES, WEIGHTS, VtaForm
from mavcg.accelerators.simulator.timing import STARTUP, Work, work_of
from mavcg.accelerators.target import VTA, IsaTarget

ALU_INTERVAL = 2  # cycles between steps of the ALU
_BEAT_BYTES = 8  # width of the bus of VTA on a Pynq board
_START_MOVE, _START_COMPUTE = STARTUP["load"], STARTUP["conv"]
_BYTES = {memory.number: memory.element_bytes for memory in (MICRO_OPS, WEIGHTS, INPUTS, SUMS, OUTPUTS, SUMS_OF_BYTES)}
# Words of BLOCK bytes that a step reads and writes: an input, a weight block, accumulators.
_GEMM_READS, _ALU_READS, _SUM_WORDS = 1 + BLOCK + 4, 8, 4


def vta_work(instruction: AccelInstruction) -> Work:
    """Return the demands of an instruction of VTA."""
    form, v = instruction.form, instruction.values
    assert isinstance(form, VtaForm)
    if form.memory is not None:
        row = -(-v["x_size"] * _BYTES[form.memory] // _BEAT_BYTES) * _BEAT_BYTES
        contiguous = v["x_stride"] == v["x_size"]
        moved = v["y_size"] * v["x_size"] * _BYTES[form.memory] if contiguous else v["y_size"] * row
        return Work(_START_MOVE, moved, 0, 0, v["y_size"] * v["x_size"])
    if form.mode == "finish":
        return Work(_START_MOVE)
    steps = v["iter_out"] * v["iter_in"] * (v["uop_end"] - v["uop_bgn"])
    if form.mode == "gemm":
        reads = 0 if v["reset_reg"] else _GEMM_READS * steps
        return Work(_START_COMPUTE + steps, 0, 0, reads, _SUM_WORDS * steps)
    return Work(_START_COMPUTE + ALU_INTERVAL * steps, 0, 0, _ALU_READS * steps, _SUM_WORDS * steps)


def timing_of(target: IsaTarget) -> Callable[[AccelInstruction], Work]:
    """Return the function that gives the demands of a target's instructions."""
    if target.isa == VTA:
        return vta_work
    path = datapath(target)
    return lambda instruction: work_of(instruction, path, target)
