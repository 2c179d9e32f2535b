"""Puts the engine's step list together: kernels in order, each operand's address, rows of calls and chunks."""

from collections.abc import Mapping
from dataclasses import dataclass

from mavcg.kernels.builder.emit import kernel_name
from mavcg.lowering.lower import LoweredGraph, LoweredStep
from mavcg.lowering.memory_plan import ContentDigests, MemoryPlan, plan_memory
from mavcg.memory.arena import align_size
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.model_program import OperandAddress, Program, ProgramStep, ProgramTensor
from mavcg.specs.tile_plan import MacroTile, TilePlan, worthwhile_call_rows, worthwhile_chunk_rows

DEFAULT_TILES = TilePlan()
CoreShares = Mapping[str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True)
class PlannedModel:
    """A model with all decided but its machine code and the bytes of its constants."""

    lowered: LoweredGraph
    memory: MemoryPlan
    program: Program

    @property
    def specs(self) -> tuple[KernelSpec, ...]:
        """All kernels, each once."""
        return self.lowered.specs


def plan_model(
    lowered: LoweredGraph, tiles: TilePlan = DEFAULT_TILES, digests: ContentDigests | None = None
) -> PlannedModel:
    """Plan a lowered graph's memory and its step list, without shares of cores."""
    memory = plan_memory(lowered, digests)
    return PlannedModel(lowered, memory, make_step_list(lowered, memory, tiles))


def make_step_list(
    lowered: LoweredGraph, memory: MemoryPlan, tiles: TilePlan = DEFAULT_TILES, shares: CoreShares | None = None
) -> Program:
    """Return the engine's program.

    tiles: give rows of calls and chunks; of a kernel that they do not have the least that is worth it is taken. shares:
    by kernel, (label of a version, relative speed of its cores); None: all cores are alike.
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
    )


def _program_step(
    step: LoweredStep, addresses: tuple[OperandAddress, ...], macro: MacroTile | None, shares: CoreShares
) -> ProgramStep:  # fmt: skip
    spec, kernel = step.spec, kernel_name(step.spec)
    rows = spec.rows
    min_chunk_rows, rows_per_call = call_rows(spec)
    if macro is not None:
        min_chunk_rows = macro.min_chunk_rows or _chunk_rows(spec, macro.call_rows, macro.parts)
        rows, rows_per_call = rows * macro.parts, macro.call_rows * macro.parts
    return ProgramStep(
        step.name, step.node.op, kernel, addresses, rows, min_chunk_rows, spec.work, shares.get(kernel, ()),
        rows_per_call,
    )  # fmt: skip


def call_rows(spec: KernelSpec) -> tuple[int, int]:
    """Return the minimum rows of a chunk and call rows of a kernel without a planned tile.

    A call of many rows is the faster, small chunks end at the same time: so these are smaller than a call, where a
    call of fewer rows does not read more. Work that is cut along output channels is taken by whole calls, each of
    which is made for its register tiles. Where rows share a reading of the weights, a call gets a whole chunk. They
    are cut evenly for two or four threads: as many parts as readings, two at least, and of more a multiple of four.
    """
    if spec.shared_rows > 1 and spec.rows:
        parts = max(2, -(-spec.rows // spec.shared_rows))
        parts = parts if parts == 2 else -(-parts // 4) * 4
        return max(worthwhile_chunk_rows(spec), -(-spec.rows // parts)), spec.rows
    return _chunk_rows(spec, worthwhile_call_rows(spec)), worthwhile_call_rows(spec)


def _chunk_rows(spec: KernelSpec, call_rows: int, parts: int = 1) -> int:
    """Return the minimum rows of a chunk, or parts of rows, where calls have up to `call_rows`."""
    if spec.by_channels:
        return call_rows
    return min(call_rows * parts, worthwhile_chunk_rows(spec, parts))
