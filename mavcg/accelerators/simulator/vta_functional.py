"""Execute a program of VTA: units take instructions as tokens permit, in program order or in a random one."""

import random
from collections import deque
from collections.abc import Callable

import numpy as np

from mavcg.accelerators.host.library import MOST_OPERATIONS
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.isa.vta import BLOCK, VTA_UNITS, decode_vta, encode_vta
from mavcg.accelerators.simulator.vta_core import VtaCore
from mavcg.errors import MavcgError
from mavcg.graph import Array


def execute_vta_job(
    job: AccelProgram,
    features: Array,
    observer: Callable[[int, AccelInstruction, Array], None] | None = None,
    chance: random.Random | None = None,
    most_operations: int = MOST_OPERATIONS,
) -> None:
    """Run one of a program's jobs on a features segment.

    features: int8 [bytes]; changed. observer: called with each tile that is complete, whose last vector may have lanes
    beyond the node's channels. chance: chooses the unit that runs next among those that can; None: the order of the
    program. most_operations: limit of the job. Raises: MavcgError naming the instruction, for elements beyond a memory
    or never written, more operations than the limit, and for a unit that waits forever.
    """
    code = decode_vta(encode_vta(job.instructions), job.network)
    core = VtaCore(np.frombuffer(job.parameters, np.int8), features, most_operations)
    queues = [deque(i for i, one in enumerate(code) if one.unit == unit) for unit in range(len(VTA_UNITS))]
    tokens = [[0] * len(VTA_UNITS) for _ in VTA_UNITS]
    while any(queues):
        ready = [u for u, queue in enumerate(queues) if queue and _is_ready(code[queue[0]], tokens)]
        if not ready:
            heads = ", ".join(f"{queue[0]} ({code[queue[0]].form.name})" for queue in queues if queue)
            raise MavcgError(f"{job.network}: deadlock: instructions {heads} wait for tokens that never come")
        unit = min(ready, key=lambda u: queues[u][0]) if chance is None else chance.choice(ready)
        index = queues[unit].popleft()
        instruction = code[index]
        core.run(instruction, f"{job.network}: instruction {index} ({instruction.form.name})")
        for other in range(len(VTA_UNITS)):
            tokens[other][unit] -= instruction.wait >> other & 1
            tokens[unit][other] += instruction.signal >> other & 1
        complete = job.instructions[index].origin is not None and instruction.form.mode == "alu"
        if observer is not None and complete:
            observer(index, job.instructions[index], _tile(core, instruction))


def _is_ready(instruction: AccelInstruction, tokens: list[list[int]]) -> bool:
    waits = (u for u in range(len(VTA_UNITS)) if instruction.wait >> u & 1)
    return all(tokens[u][instruction.unit] for u in waits)


def _tile(core: VtaCore, instruction: AccelInstruction) -> Array:
    """Return what an instruction of the ALU leaves in the accumulators, [outer, inner, channels]; int8."""
    dst, _, _ = core.indices(instruction.values, "")
    return core.sums[dst].astype(np.int8).reshape(*dst.shape[:2], dst.shape[2] * BLOCK)
