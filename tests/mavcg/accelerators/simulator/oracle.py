"""The simulated core again, in NumPy: the results that the C of runtime/accel must have, bit by bit."""

import random
from collections import deque
from collections.abc import Iterator, Mapping

import numpy as np

from mavcg.accelerators.image.assembly import mask_text
from mavcg.accelerators.image.program import AccelProgram, StoredTensor
from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.isa.footprint import input_size
from mavcg.accelerators.isa.forms import UNITS
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.simulator.functional import Observer
from mavcg.errors import MavcgError
from mavcg.graph import Array
from tests.mavcg.accelerators.simulator import oracle_arithmetic as arithmetic
from tests.mavcg.accelerators.simulator.oracle_memories import Memories


def oracle_execute(
    program: AccelProgram, inputs: Mapping[str, Array], observer: Observer | None = None, seed: int | None = None
) -> dict[str, Array]:
    """Run a program on one image and return its outputs, int8 [1, H, W, C] by name.

    Args:
        inputs: int8 [1, H, W, C] for each of program.inputs.
        observer: called with each tile that an instruction computes.
        seed: None to run instructions in the order of the program; a number to interleave the units at random, as far
            as tokens allow, which finds dependences that lack a token.
    Raises: MavcgError naming the instruction, for addresses beyond a memory, reads of bytes that were never written,
    waits for tokens that never come, and inputs of another shape.
    """
    memories = Memories(datapath(program.target), program.feature_bytes, program.parameters)
    outputs = dict[str, Array]()
    for job, (first, _) in zip(program.jobs(), program.job_ranges(), strict=True):
        memories.forget_chip()
        for name in job.inputs:
            write_tensor(memories, program.tensor(name), inputs[name])
        order = _program_order(job) if seed is None else _random_order(job, random.Random(seed))
        for index in order:
            instruction = job.instructions[index]
            try:
                made = _step(memories, instruction)
            except MavcgError as error:
                raise located(job, index, str(error)) from error
            if made is not None and observer is not None:
                observer(first + index, instruction, made)
        outputs |= {name: read_tensor(memories, program.tensor(name)) for name in job.outputs}
    return outputs


def located(program: AccelProgram, index: int, fault: str) -> MavcgError:
    return MavcgError(f"{program.network}: instruction {index} ({program.instructions[index].form.name}): {fault}")


def write_tensor(memories: Memories, tensor: StoredTensor, values: Array) -> None:
    """Write a tensor into the features segment. Raises: MavcgError for another shape or type."""
    expected = tensor.shape
    if values.shape != expected or values.dtype != np.int8:
        given = f"{values.dtype} {list(values.shape)}"
        raise MavcgError(f"input {tensor.name}: is {given}; give int8 {list(expected)}")
    at = memories.ddr_tile(_whole_map(tensor))
    memories.ddr[at] = values.reshape(-1, *tensor.shape[2:])
    memories.ddr_written[at] = True


def read_tensor(memories: Memories, tensor: StoredTensor) -> Array:
    """Return a tensor in the features segment, int8 [N, H, W, C]. Raises: MavcgError if it was not written."""
    at = memories.ddr_tile(_whole_map(tensor))
    if not memories.ddr_written[at].all():
        raise MavcgError(f"output {tensor.name}: the program ended before all of it was written")
    return memories.ddr[at].reshape(tensor.shape)


def _whole_map(tensor: StoredTensor) -> dict[str, int]:
    return {
        "ddr": tensor.offset,
        "ddr_pixel": tensor.pixel,
        "ddr_row": tensor.row,
        "rows": tensor.images * tensor.height,
        "columns": tensor.width,
        "channels": tensor.channels,
    }


def _step(memories: Memories, instruction: AccelInstruction) -> Array | None:
    """Execute one instruction, and return the tile that it computed; None if it computed none."""
    v, form, rounding = instruction.values, instruction.form, memories.path.rounding
    if form.name == "load.map":
        memories.load_map(v)
    elif form.name == "load.parameters":
        memories.load_parameters(v)
    elif form.name == "save.map":
        memories.save_map(v)
    elif form.unit == "conv":
        return _convolve(memories, instruction)
    elif form.name not in ("misc.start", "misc.end"):
        moves = form.name in ("misc.upsample", "misc.reorganise")
        blocks = v["factor_rows"] * v["factor_columns"] if form.name == "misc.reorganise" else 1
        rows, columns = (v["rows"], v["columns"]) if form.name == "misc.eltwise" else (v["out_rows"], v["out_columns"])
        memories.check_tile(v, "to", rows, columns, v["channels"] * blocks)
        read = input_size(instruction) if moves else (v["rows"], v["columns"])
        x = memories.read_tile(v, "from", *read, v["channels"])
        if form.unit == "pool":
            tile = arithmetic.pool(form.mode, v, x, rounding)
        elif form.name == "misc.eltwise":
            second = x if v["op"] == 5 else memories.read_tile(v, "second", *x.shape)
            tile = arithmetic.eltwise(v, x, second, rounding)
        else:
            move = arithmetic.upsample if form.mode == "upsample" else arithmetic.reorganise
            tile = move(v, x, rounding)
        memories.write_tile(v, "to", tile)
        return tile
    return None


def _convolve(memories: Memories, instruction: AccelInstruction) -> Array | None:
    v, mode = instruction.values, instruction.form.mode
    shape = (v["out_rows"], v["out_columns"], v["out_channels"])
    if v["accumulate"] or v["partial"]:
        memories.sum_words(v["sums"], shape)
    if not v["partial"]:
        memories.check_tile(v, "to", *shape)
    x = memories.read_tile(v, "from", v["rows"], v["columns"], v["channels"])
    bias, shifts, multipliers, weights = memories.read_parameters(mode, v)
    start = memories.read_sums(v["sums"], shape) if v["accumulate"] else bias
    sums = arithmetic.convolution_sums(mode, v, x, weights)
    total, result = arithmetic.convolution_result(v, sums, start, (shifts, multipliers), memories.path.rounding)
    if v["partial"]:
        memories.write_sums(v["sums"], total)
        return None
    memories.write_tile(v, "to", result)
    return result


class _Tokens:
    """Numbers of tokens from each unit to each other unit."""

    def __init__(self) -> None:
        self.counts = [[0] * len(UNITS) for _ in UNITS]

    def lacking(self, instruction: AccelInstruction) -> int:
        """Return the mask of units whose tokens the instruction waits for and that have not arrived."""
        return sum(
            1 << u for u in range(len(UNITS)) if instruction.wait >> u & 1 and not self.counts[u][instruction.unit]
        )

    def pass_on(self, instruction: AccelInstruction) -> None:
        """Take the tokens that the instruction waits for, and give the tokens that it signals."""
        for unit in range(len(UNITS)):
            self.counts[unit][instruction.unit] -= instruction.wait >> unit & 1
            self.counts[instruction.unit][unit] += instruction.signal >> unit & 1


def _program_order(program: AccelProgram) -> Iterator[int]:
    """Yield the instructions up to misc.end. Raises: MavcgError for a token that no earlier instruction gives."""
    tokens = _Tokens()
    for index, instruction in enumerate(program.instructions):
        if not index and instruction.form.name != "misc.start":
            raise located(program, index, "is not misc.start, which begins a program")
        if lacking := tokens.lacking(instruction):
            wrong = f"waits for a token of {mask_text(lacking, UNITS)} that no earlier instruction signals"
            raise located(program, index, wrong)
        tokens.pass_on(instruction)
        yield index
        if instruction.form.name == "misc.end":
            return
    raise MavcgError(f"{program.network}: instruction {len(program.instructions)}: the code ends without misc.end")


def _random_order(program: AccelProgram, chance: random.Random) -> list[int]:
    queues = [
        deque(i for i, instruction in enumerate(program.instructions) if instruction.unit == u)
        for u in range(len(UNITS))
    ]
    tokens, order = _Tokens(), list[int]()
    while any(queues):
        ready = [q for q in queues if q and not tokens.lacking(program.instructions[q[0]])]
        if not ready:
            heads = ", ".join(f"{q[0]} ({program.instructions[q[0]].form.name})" for q in queues if q)
            raise MavcgError(f"{program.network}: deadlock; instructions that wait for tokens: {heads}")
        index = chance.choice(ready).popleft()
        tokens.pass_on(program.instructions[index])
        order.append(index)
    return order
