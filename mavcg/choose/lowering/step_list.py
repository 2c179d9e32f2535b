"""Create the engine's step list: kernels in order, operands' addresses, call rows and minimum chunks."""

from collections.abc import Mapping

from mavcg.choose.lowering.lower import LoweredGraph, LoweredStep
from mavcg.choose.lowering.memory_plan import ContentDigests, MemoryPlan, plan_memory, tensor_address
from mavcg.choose.plan import Plan
from mavcg.graph.ops.loops import LoopRange
from mavcg.kernels.builder.emit import kernel_name
from mavcg.memory.arena import align_size
from mavcg.specs.model_program import OperandAddress, Program, ProgramLoop, ProgramStep, ProgramTensor
from mavcg.specs.tile_plan import MacroTile, TilePlan, call_rows, chunk_rows

DEFAULT_TILES = TilePlan()
CoreShares = Mapping[str, tuple[tuple[str, int], ...]]


def plan_lowered(lowered: LoweredGraph, tiles: TilePlan = DEFAULT_TILES, digests: ContentDigests | None = None) -> Plan:
    """Plan a lowered graph's memory and step list, without core shares."""
    memory = plan_memory(lowered, digests)
    program = make_step_list(lowered, memory, tiles)
    return Plan(lowered.graph, lowered=lowered, tiles=tiles, memory=memory, program=program)


def make_step_list(
    lowered: LoweredGraph, memory: MemoryPlan, tiles: TilePlan = DEFAULT_TILES, shares: CoreShares | None = None
) -> Program:
    """Return the engine's step list.

    tiles: give call rows and minimum chunks; a kernel without a macro-tile uses the defaults of tile_plan.py. shares:
    (label of a version, relative speed of its cores) by kernel; None: all cores are alike.
    """
    graph = lowered.graph
    return Program(
        graph.name,
        tuple(ProgramTensor(name, graph.types[name]) for name in graph.inputs),
        tuple(ProgramTensor(name, graph.types[name]) for name in graph.outputs),
        tuple(
            _program_step(step, addresses, tiles.any_of(kernel_name(step.spec)), shares or {})
            for step, addresses in zip(lowered.steps, memory.addresses, strict=True)
        ),
        memory.arena.bytes,
        max((align_size(spec.scratch_bytes) for spec in lowered.specs), default=0),
        memory.constants_bytes,
        memory.arena.lower_bound_bytes,
        loops=tuple(
            ProgramLoop(begin, end, loop.trips, _condition(loop, lowered, memory), loop.number, loop.trip_count)
            for begin, end, loop in lowered.loops
        ),
    )


def _condition(loop: LoopRange, lowered: LoweredGraph, memory: MemoryPlan) -> OperandAddress | None:
    return tensor_address(loop.condition, lowered, memory.arena) if loop.condition else None


def _program_step(
    step: LoweredStep, addresses: tuple[OperandAddress, ...], macro: MacroTile | None, shares: CoreShares
) -> ProgramStep:
    spec, kernel = step.spec, kernel_name(step.spec)
    rows = spec.rows
    min_chunk_rows, rows_per_call = call_rows(spec)
    if macro is not None:
        assert step.row_count is None or macro.parts == 1  # parts of rows would lie in another order than indices
        min_chunk_rows = macro.min_chunk_rows or chunk_rows(spec, macro.call_rows, macro.parts)
        rows, rows_per_call = rows * macro.parts, macro.call_rows * macro.parts
    return ProgramStep(
        step.name,
        step.node.op,
        kernel,
        addresses,
        rows,
        min_chunk_rows,
        spec.work,
        shares.get(kernel, ()),
        rows_per_call,
        step.row_count,
    )
