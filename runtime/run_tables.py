"""C tables of what a run of a model executes: phases of steps, their operands, loops, and stages of a pipeline."""

from collections.abc import Mapping, Sequence

from mavcg.graph.counts import Count
from mavcg.runtime.c_arrays import static_array
from mavcg.runtime.core_speeds import stage_plan
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.count_tables import counts_of
from mavcg.specs.model_program import ONLY_COPY, OperandAddress, Program, ProgramPhase, RingBuffer

_BASES = {
    "arena": "IN_ARENA",
    "constants": "IN_CONSTANTS",
    "input": "IN_INPUT",
    "output": "IN_OUTPUT",
    "state": "IN_STATE",
    "fault": "IN_FAULT",
    "count": "IN_COUNT",
    "counted": "IN_COUNTED",
}
MOVED_LINE = 64  # bytes; of csrc/engine.h
_MOVED_CHUNK = 1024  # lines that a thread copies at least
_MOVE = 0xFFFFFFFF  # MOVE of csrc/engine.h
_NO_CONDITION = 0xFFFFFFFF  # NO_CONDITION of csrc/engine.h


def is_external(operand: OperandAddress) -> bool:
    """Return True for an operand that each run has to find: in a buffer of the user's, or in a state of two copies."""
    return operand.base in ("input", "output") or (operand.base == "state" and operand.index != ONLY_COPY)


def operand_tables(program: Program, operands: Sequence[OperandAddress]) -> str:
    """Return the tables of operands: all, the numbers of external ones, and those in buffers between stages."""
    numbers = {count: i for i, count in enumerate(counts_of(program))}

    def index_of(operand: OperandAddress) -> int:
        return operand.index if operand.count is None else numbers[operand.count]

    lines = (f"{{{operand.offset}, {_BASES[operand.base]}, {index_of(operand)}}}," for operand in operands)
    external = (f"{i}," for i, operand in enumerate(operands) if is_external(operand))
    rings = ((i, ring) for i, operand in enumerate(operands) if (ring := _ring_of(operand, program)) is not None)
    ring_lines = [*(f"{{{i}, {ring.copies}, {ring.stride}}}," for i, ring in rings), "{0},"]
    return (
        static_array("const struct engine_operand operand_table[]", lines)
        + static_array("const uint32_t external_table[]", external, zero="0,")
        + static_array("const struct engine_ring_operand ring_table[]", ring_lines)
    )


def run_lines(
    program: Program, kernels: Mapping[str, int]
) -> tuple[list[tuple[int, tuple[int, ...]]], list[OperandAddress]]:
    """Return the lines of run_table, as (step, the fields before `speeds`), and all operands.

    Equal lists of operands occur once, if steps are computed by parts.
    """
    phases = program.phases or tuple(
        ProgramPhase(number, 0, step.rows, step.operands) for number, step in enumerate(program.steps)
    )
    runs: list[tuple[int, tuple[int, ...]]] = []
    operands: list[OperandAddress] = []
    firsts: dict[tuple[OperandAddress, ...], int] = {}
    for phase in phases:
        first = firsts.setdefault(phase.operands, len(operands))
        if first == len(operands):
            operands += phase.operands
        step = program.steps[phase.step]
        if phase.moved_bytes:
            lines = phase.moved_bytes // MOVED_LINE
            fields = (0, lines, min(_MOVED_CHUNK, lines), lines, _MOVE, first)
        else:
            fields = (
                phase.first_row,
                phase.rows,
                min(step.min_chunk_rows, phase.rows),
                min(step.call_rows or step.min_chunk_rows, phase.rows),
                kernels[step.kernel],
                first,
            )
        runs.append((phase.step, fields))
    return runs, operands


def loop_lines(
    program: Program, runs: Sequence[tuple[int, tuple[int, ...]]], operands: list[OperandAddress]
) -> tuple[list[str], list[str], list[Count | None]]:
    """Return the lines of loop_table and moving_table, and the counts of the latter's strides, None for a fixed one.

    Conditions are added to the operands.
    """
    loops, moving, counts = list[str](), list[str](), list[Count | None]()
    for loop in program.loops:
        first = len(moving)
        numbers = {  # steps of a loop may share their lists of operands
            fields[-1] + i: (stride, dict(operand.stride_counts).get(number))
            for step, fields in runs[loop.begin : loop.end]
            for i, operand in enumerate(program.steps[step].operands)
            for number, stride in operand.strides
            if number == loop.number
        }
        after = sum(other.begin < loop.end for other in program.loops)  # the first loop that is not in this one
        moving += [f"{{{number}, {stride}}}," for number, (stride, _) in numbers.items()]
        counts += [count for _, count in numbers.values()]
        condition = _NO_CONDITION if loop.condition is None else len(operands)
        if loop.condition is not None:
            operands.append(loop.condition)
        loops.append(f"{{{loop.begin}, {loop.end}, {loop.trips}, {condition}, {first}, {len(moving)}, {after}}},")
    return loops, moving, counts


def _ring_of(operand: OperandAddress, program: Program) -> RingBuffer | None:
    """Return the buffer between stages whose first copy contains an operand; None if there is none."""
    if operand.base != "arena":
        return None
    return next((ring for ring in program.rings if ring.offset <= operand.offset < ring.offset + ring.stride), None)


def stage_table(program: Program, core_set: CoreSet) -> str:
    """Return the table of a pipeline's stages; each phase is a step."""
    lines = [f"{{{s.begin}, {s.end}, {stage_plan(s, core_set)}}}," for s in program.stages]
    return static_array("const struct engine_stage stage_table[]", lines)
