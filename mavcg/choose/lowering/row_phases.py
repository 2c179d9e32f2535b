"""Plan programs that are computed by parts of rows: phases, and an arena that holds a window of rows per buffer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.choose.lowering.lower import LoweredGraph, LoweredStep
from mavcg.choose.lowering.memory_plan import buffer_sizes, operand_buffer
from mavcg.choose.lowering.row_access import unit_access
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.memory.arena import Arena, Lifetime, place_buffers
from mavcg.memory.row_demand import ByteAccess, UnitStep
from mavcg.memory.row_schedule import schedule_in_order, schedule_rows
from mavcg.memory.row_segments import (
    RowDivision,
    StepRange,
    blocked_steps,
)
from mavcg.memory.row_windows import Firing, Move, RowSchedule
from mavcg.specs.model_program import OperandAddress, Program, ProgramPhase

MOST_PHASES = 100_000
NODES = 2_000  # maximum nodes of the search for offsets, which runs for many plans


def divide_rows(planned: Plan) -> Plan:
    """Return the plan with its program in the order of its parts of rows; unchanged layer by layer."""
    if not planned.rows.ranges:
        return planned
    return plan_phases(planned, program_rows(planned.lowered, planned.program), planned.rows.ranges, planned.rows.slack)


@dataclass(frozen=True)
class ProgramRows:
    """A program as the planner of row phases takes it.

    works: the kernel's rows in units, for each step. steps: the same with the bytes that units access, for the planner.
    unit_bytes: bytes that a unit of each step writes. sizes: sizes of the buffers in the arena, in bytes, by name.
    outputs: buffers that must be complete at the end.
    """

    works: tuple["StepRows", ...]
    steps: tuple[UnitStep, ...]
    unit_bytes: tuple[int, ...]
    sizes: Mapping[str, int]
    outputs: tuple[str, ...]


def program_rows(lowered: LoweredGraph, program: Program | None = None) -> ProgramRows:
    """Return the steps of a graph in units of rows. program: may have rows in parts, by its tiles."""
    counts = [step.rows for step in program.steps] if program else [step.spec.rows for step in lowered.steps]
    works = tuple(_step_rows(step, rows) for step, rows in zip(lowered.steps, counts, strict=True))
    steps = tuple(_unit_step(step, rows, lowered) for step, rows in zip(lowered.steps, works, strict=True))
    unit_bytes = tuple(max([1, *(a.step or a.extent for a in step.accesses if a.written)]) for step in steps)
    return ProgramRows(works, steps, unit_bytes, buffer_sizes(lowered), tuple(lowered.graph.outputs))


def plan_phases(planned: Plan, rows: ProgramRows, ranges: Sequence[StepRange], slack: float) -> Plan:
    """Plan a program in consecutive ranges of steps. slack: fraction by which windows are enlarged.

    Raises: MavcgError if there would be more than MOST_PHASES phases.
    """
    steps = blocked_steps(rows.steps, rows.unit_bytes, ranges)
    cuts, bands = [range_.begin for range_ in ranges], [range_.end - 1 for range_ in ranges if range_.band_units]
    return _with_schedule(planned, rows, schedule_rows(steps, rows.sizes, rows.outputs, cuts, slack, bands))


def division_of(planned: Plan, rows: ProgramRows, ranges: Sequence[StepRange], slack: float) -> RowDivision:
    """Return the order of a program in consecutive ranges of steps. Arguments, Raises: as plan_phases."""
    return RowDivision(tuple(ranges), slack, plan_phases(planned, rows, ranges, slack).program.arena_bytes)


def plan_in_order(planned: Plan, firings: Sequence[tuple[int, int, int]]) -> Plan:
    """Plan a program that runs steps, or parts of steps, in a given order.

    firings: (number of a step, part, number of its parts); parts of a step are in order. A step that does not process
    its tensors row by row is computed whole at its first part. Missing predecessors of a firing are computed just
    before it. Raises: MavcgError if there would be more than MOST_PHASES phases.
    """
    rows = program_rows(planned.lowered, planned.program)
    order = [(step, -(-(part + 1) * rows.steps[step].units // parts)) for step, part, parts in firings]
    return _with_schedule(planned, rows, schedule_in_order(rows.steps, rows.sizes, rows.outputs, order))


def _with_schedule(planned: Plan, rows: ProgramRows, schedule: RowSchedule) -> Plan:
    """Place the windows of a schedule in the arena and return its phases. Raises: MavcgError for too many phases."""
    lowered, program = planned.lowered, planned.program
    if len(schedule.phases) > MOST_PHASES:
        raise MavcgError(f"{program.name}: {len(schedule.phases)} phases are too many; allow a larger arena")
    arena = place_buffers(
        [Lifetime(name, schedule.windows[name], *live) for name, live in schedule.lifetimes.items()], NODES
    )
    arena = replace(arena, offsets=dict.fromkeys(rows.sizes, 0) | arena.offsets)
    phases = tuple(_phase(phase, step, lowered, planned, rows.works, arena) for phase, step in _with_steps(schedule))
    memory = replace(planned.memory, arena=arena, addresses=_addresses(planned, arena))
    made = replace(
        program,
        phases=phases,
        arena_bytes=arena.bytes,
        arena_lower_bound_bytes=arena.lower_bound_bytes,
        steps=tuple(replace(s, operands=a) for s, a in zip(program.steps, memory.addresses, strict=True)),
    )
    return replace(planned, memory=memory, program=made)


@dataclass(frozen=True)
class StepRows:
    """A step's work in units of rows.

    units, rows_per_unit, rows: number of units, and rows of work of a unit and of the step. touched: (first byte,
    distance from unit to unit, length) of the bytes that a unit accesses, by the operand's number; None: a single unit.
    """

    units: int
    rows_per_unit: int
    rows: int
    touched: dict[int, tuple[int, int, int]] | None


def _step_rows(step: LoweredStep, rows: int) -> StepRows:
    access = unit_access(step.spec)
    tensors = {n for n, operand in enumerate(step.operands) if operand.in_buffer}
    whole = StepRows(1, rows, rows, None)
    if access is None or rows % step.spec.rows:
        return whole
    touched = {n: (i.begin, i.step, i.extent) for n, i in access.intervals}
    if not tensors <= set(touched) or any(step.operands[n].workspace_bytes for n in tensors):
        return whole
    return StepRows(access.units, access.rows_per_unit * (rows // step.spec.rows), rows, touched)


def _unit_step(step: LoweredStep, rows: StepRows, lowered: LoweredGraph) -> UnitStep:
    accesses: list[ByteAccess] = []
    for number, operand in enumerate(step.operands):
        if not operand.in_buffer:
            continue
        buffer, offset = operand_buffer(operand, step, lowered)
        if rows.touched is None:
            if operand.workspace_bytes:  # every step of the node may read and write the workspace
                size = lowered.workspaces()[step.node.output]
                accesses += ByteAccess(buffer, 0, 0, size), ByteAccess(buffer, 0, 0, size, True)
            else:
                accesses.append(ByteAccess(buffer, 0, 0, lowered.graph.types[buffer].bytes, operand.written))
            continue
        begin, row_step, extent = rows.touched[number]
        accesses.append(ByteAccess(buffer, offset + begin, row_step, extent, operand.written))
    return UnitStep(rows.units, tuple(accesses), rows.units)


def _with_steps(schedule: RowSchedule) -> list[tuple[Firing | Move, int]]:
    """Return each phase with its step's number; a move belongs to the step after it."""
    numbered: list[tuple[Firing | Move, int]] = []
    step = 0
    for phase in reversed(schedule.phases):
        step = phase.step if isinstance(phase, Firing) else step
        numbered.append((phase, step))
    return numbered[::-1]


def _phase(
    phase: Firing | Move,
    step: int,
    lowered: LoweredGraph,
    planned: Plan,
    works: Sequence[StepRows],
    arena: Arena,
) -> ProgramPhase:
    if isinstance(phase, Move):
        base = arena.offsets[phase.buffer]
        ends = (OperandAddress("arena", base + phase.source), OperandAddress("arena", base + phase.target))
        return ProgramPhase(step, 0, 1, ends, phase.size)
    operands = []
    for operand, address in zip(lowered.steps[step].operands, planned.memory.addresses[step], strict=True):
        if operand.constant is not None or address.base != "arena":
            operands.append(address)
            continue
        buffer, offset = operand_buffer(operand, lowered.steps[step], lowered)
        operands.append(OperandAddress("arena", arena.offsets[buffer] + offset - phase.origins[buffer]))
    rows = works[step]
    first = phase.begin * rows.rows_per_unit
    return ProgramPhase(step, first, min(rows.rows, phase.end * rows.rows_per_unit) - first, tuple(operands))


def _addresses(planned: Plan, arena: Arena) -> tuple[tuple[OperandAddress, ...], ...]:
    """Return the addresses of all steps' operands with each buffer at the beginning of its window in the arena."""
    lowered = planned.lowered
    by_step = []
    for step, addresses in zip(lowered.steps, planned.memory.addresses, strict=True):
        own = []
        for operand, address in zip(step.operands, addresses, strict=True):
            if operand.constant is None and address.base == "arena":
                at = arena.offsets[operand_buffer(operand, step, lowered)[0]]
                address = OperandAddress("arena", min(at, arena.bytes))
            own.append(address)
        by_step.append(tuple(own))
    return tuple(by_step)
