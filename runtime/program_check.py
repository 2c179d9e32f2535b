"""Check a program against the limits of the engine's tables."""

from collections.abc import Sequence

from mavcg.errors import MavcgError
from mavcg.runtime.count_tables import check_counts
from mavcg.specs.model_program import WORDS, OperandAddress, Program, ProgramLoop

_MAX_ROWS = (1 << 31) - 1  # below NO_ROWS of csrc/engine_pool.c
MAX_STAGES = 32  # a pipeline's: more than a processor has clusters, and two digits in a thread's name
_MAX_STEPS = (1 << 20) - 1  # of the ticket of csrc/engine_chunk.c
MAX_NESTING = 64  # loops around a step: each takes a frame of the stack of a thread
MAX_TRIPS = (1 << 31) - 1  # iterations of a loop, which are counted with 32 bits
_MAX_CONSTANTS_BYTES = 2_000_000_000  # code reaches them by a signed 32-bit distance


def check_program(program: Program) -> None:
    """Raise MavcgError if an operand lies outside of its base, or a size exceeds the tables' limits."""
    if program.constants_bytes > _MAX_CONSTANTS_BYTES:
        raise MavcgError(
            f"model {program.name}: {program.constants_bytes} bytes of weights; at most {_MAX_CONSTANTS_BYTES} fit"
        )
    if len(program.steps) > _MAX_STEPS:
        raise MavcgError(f"model {program.name}: {len(program.steps)} steps; a library holds at most {_MAX_STEPS}")
    if len(program.phases) > _MAX_STEPS:
        raise MavcgError(f"model {program.name}: {len(program.phases)} phases; a library holds at most {_MAX_STEPS}")
    _check_counted(program)
    _check_stages(program)
    _check_loops(program)
    if program.dimensions and program.phases:
        raise MavcgError(f"model {program.name}: {program.dimensions[0]} with phases; a step's rows are one phase")
    check_counts(program)
    around = dict[int, tuple[ProgramLoop, ...]]()
    for loop in program.loops:
        around |= {number: (*around.get(number, ()), loop) for number in range(loop.begin, loop.end)}
    for number, step in enumerate(program.steps):
        if step.rows < 1 or step.min_chunk_rows < 1 or step.call_rows < 0:
            raise MavcgError(
                f"step '{step.name}': {step.rows} rows in chunks of {step.min_chunk_rows} and calls of "
                f"{step.call_rows}; rows and chunks must be 1 or more, calls 0 or more"
            )
        if step.rows > _MAX_ROWS:
            raise MavcgError(
                f"step '{step.name}': {step.rows} rows; the engine counts up to {_MAX_ROWS}: let a row of "
                f"{step.kernel} be more work"
            )
        for operand in step.operands:
            if not _in_base(operand, program, around.get(number, ())):
                raise MavcgError(f"step '{step.name}': an operand at {operand}, which the program does not have")


def _in_base(operand: OperandAddress, program: Program, loops: Sequence[ProgramLoop]) -> bool:
    """Return True if an operand lies in its base in every iteration. loops: those around its step."""
    states_end = program.state_bytes - program.swapped_bytes - program.moved_bytes  # the second copies lie behind
    ends = {
        "arena": program.arena_bytes,
        "constants": program.constants_bytes,
        "state": states_end,
        **dict.fromkeys(WORDS, 0),
    }
    if (operand.base == "count") != (operand.count is not None):
        return False
    if operand.base == "counted" and operand.index >= program.counted:
        return False
    tensors = {"input": program.inputs, "output": program.outputs}.get(operand.base, ())
    if operand.base not in ends and operand.index >= len(tensors):
        return False
    end = ends[operand.base] if operand.base in ends else tensors[operand.index].type.bytes
    if not operand.strides:
        return 0 <= operand.offset <= end
    trips = {loop.number: loop.trips for loop in loops}
    if len(dict(operand.strides)) != len(operand.strides) or any(loop not in trips for loop, _ in operand.strides):
        return False
    if any(loop not in dict(operand.strides) for loop, _ in operand.stride_counts):
        return False
    moves = [stride * (trips[loop] - 1) for loop, stride in operand.strides]
    first, last = (operand.offset + sum(move for move in moves if move * sign > 0) for sign in (-1, 1))
    return 0 <= first and last < end


def _check_counted(program: Program) -> None:
    """Raise MavcgError for an output whose length is not decided by a word of the context."""
    for tensor in program.outputs:
        axis = tensor.counted_axis
        if axis is not None and not (0 <= axis < len(tensor.type.shape) and 0 <= tensor.counted < program.counted):
            raise MavcgError(
                f"model {program.name}: output {tensor.name}: axis {axis} by word {tensor.counted} of {program.counted}"
            )
    if program.counted and (program.stages or program.dimensions):
        raise MavcgError(f"model {program.name}: lengths that a run decides with stages or a bounded dimension")


def _check_loops(program: Program) -> None:
    """Raise MavcgError for loops that overlap in part, or that the engine cannot repeat."""
    if program.loops and (program.phases or program.stages):
        raise MavcgError(f"model {program.name}: loops with phases or stages; loops are of steps")
    open_loops = [(0, len(program.steps))]  # steps that the next loop may have: after the last one, in those around it
    for loop in program.loops:
        while len(open_loops) > 1 and open_loops[-1][1] <= loop.begin:
            open_loops[-2:] = [(open_loops[-1][1], open_loops[-2][1])]
        begin, end = open_loops[-1]
        if not begin <= loop.begin < loop.end <= end or not 1 <= loop.trips <= MAX_TRIPS:
            raise MavcgError(
                f"model {program.name}: {loop}; a loop has 1 to {MAX_TRIPS} iterations of steps that no other has, but "
                "for those around it"
            )
        open_loops.append((loop.begin, loop.end))
        if len(open_loops) > MAX_NESTING + 1:
            raise MavcgError(f"model {program.name}: {loop}; loops are nested at most {MAX_NESTING} deep")
        condition = loop.condition
        if condition is not None and (condition.strides or not _in_base(condition, program, ())):
            raise MavcgError(f"model {program.name}: {loop}: its condition is not in the program's memory")
    if len({loop.number for loop in program.loops}) != len(program.loops):
        raise MavcgError(f"model {program.name}: two loops of one number")


def _check_stages(program: Program) -> None:
    """Raise MavcgError for faulty stages, or faulty buffers between them."""
    begins = [stage.begin for stage in program.stages]
    ends = [0, *(stage.end for stage in program.stages)]
    if program.stages and (
        program.phases
        or len(program.stages) > MAX_STAGES
        or begins != ends[:-1]
        or ends[-1] != len(program.steps)
        or any(stage.begin >= stage.end for stage in program.stages)
    ):
        raise MavcgError(
            f"model {program.name}: {len(program.stages)} stages; give at most {MAX_STAGES}, of whole steps in order"
        )
    for ring in program.rings:
        end = ring.offset + ring.stride * ring.copies
        if ring.copies < 2 or ring.stride < 1 or not 0 <= ring.offset < end <= program.arena_bytes:
            raise MavcgError(f"model {program.name}: {ring}: at least two copies of a buffer must be in the arena")
