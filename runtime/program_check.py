"""Check a program against the limits of the engine's tables."""

from mavcg.errors import MavcgError
from mavcg.specs.model_program import Program

_MAX_ROWS = (1 << 31) - 1  # below NO_ROWS of csrc/engine_pool.c
MAX_STAGES = 32  # a pipeline's: more than a processor has clusters, and two digits in a thread's name
_MAX_STEPS = (1 << 20) - 1  # of the ticket of csrc/engine_chunk.c
_MAX_CONSTANTS_BYTES = 2_000_000_000  # code reaches them by a signed 32-bit distance


def check_program(program: Program) -> None:
    """Raise MavcgError if an operand lies outside of its base, or a size exceeds the tables' limits."""
    if program.constants_bytes > _MAX_CONSTANTS_BYTES:
        raise MavcgError(
            f"model {program.name}: {program.constants_bytes} bytes of weights; at most {_MAX_CONSTANTS_BYTES} fit"
        )
    if len(program.steps) > _MAX_STEPS:
        raise MavcgError(f"model {program.name}: {len(program.steps)} steps; a library holds at most {_MAX_STEPS}")
    states_end = program.state_bytes - program.swapped_bytes  # the second copies lie behind
    ends = {"arena": program.arena_bytes, "constants": program.constants_bytes, "state": states_end}
    if len(program.phases) > _MAX_STEPS:
        raise MavcgError(f"model {program.name}: {len(program.phases)} phases; a library holds at most {_MAX_STEPS}")
    _check_stages(program)
    if program.dimension is not None and (program.phases or program.stages):
        raise MavcgError(
            f"model {program.name}: {program.dimension} with phases or stages; a step's rows are one phase"
        )
    for step in program.steps:
        if step.rows < 1 or step.min_chunk_rows < 1 or step.call_rows < 0:
            raise MavcgError(
                f"step '{step.name}': {step.rows} rows in chunks of {step.min_chunk_rows} and calls of "
                f"{step.call_rows}; rows and chunks must be 1 or more, calls 0 or more"
            )
        counted = step.rows_per_index * (program.dimension.most if program.dimension is not None else 0)
        if step.rows_per_index and counted != step.rows:
            raise MavcgError(
                f"step '{step.name}': {step.rows} rows at the longest length, and {step.rows_per_index} for each index "
                f"of {program.dimension}"
            )
        if step.rows > _MAX_ROWS:
            raise MavcgError(
                f"step '{step.name}': {step.rows} rows; the engine counts up to {_MAX_ROWS}: let a row of "
                f"{step.kernel} be more work"
            )
        for operand in step.operands:
            tensors = {"input": program.inputs, "output": program.outputs}.get(operand.base, ())
            if operand.base == "fault":
                fits = operand.offset == 0
            elif operand.base in ends:
                fits = 0 <= operand.offset <= ends[operand.base]
            else:
                fits = operand.index < len(tensors) and 0 <= operand.offset <= tensors[operand.index].type.bytes
            if not fits:
                raise MavcgError(f"step '{step.name}': an operand at {operand}, which the program does not have")


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
