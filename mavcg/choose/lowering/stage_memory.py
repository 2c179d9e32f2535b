"""Plan the memory of a pipeline: buffers of different stages never overlap; buffers between stages have copies."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.choose.lowering.lower import LoweredGraph
from mavcg.choose.lowering.memory_plan import buffer_sizes, operand_buffer, workspace_name
from mavcg.choose.plan import Plan
from mavcg.memory.arena import Lifetime, align_size, place_buffers
from mavcg.specs.model_program import OperandAddress, ProgramStage, RingBuffer

STAGE_ALIGN = 128  # CACHE_LINE of csrc/engine.h: two stages never write to the same line


@dataclass(frozen=True)
class BufferUse:
    """A buffer of the arena with the numbers of the first and last step that access it."""

    name: str
    bytes: int
    first: int
    last: int


def buffer_uses(lowered: LoweredGraph) -> tuple[BufferUse, ...]:
    """Return the buffers that steps access, in the order of their names."""
    sizes, spans = buffer_sizes(lowered), dict[str, tuple[int, int]]()
    for number, step in enumerate(lowered.steps):
        for operand in step.operands:
            if operand.in_buffer:
                name, _ = operand_buffer(operand, step, lowered)
                first, _ = spans.get(name, (number, number))
                spans[name] = (first, number)
    return tuple(BufferUse(name, size, *spans[name]) for name, size in sizes.items() if name in spans)


def plan_stages(planned: Plan, stages: Sequence[ProgramStage]) -> Plan:
    """Return the model planned as a pipeline of stages that cover all steps in order.

    Stages run at the same time on different frames. The buffers of a single stage share memory within a range of the
    arena of their own. A buffer from stage a to stage b has b - a + 1 copies: one for each frame that can be in flight.
    """
    lowered = planned.lowered
    uses = buffer_uses(lowered)
    stage_at = [number for number, stage in enumerate(stages) for _ in range(stage.begin, stage.end)]
    offsets, rings = dict.fromkeys(buffer_sizes(lowered), 0), list[RingBuffer]()
    end = bound = 0
    for number in range(len(stages)):
        own = [u for u in uses if stage_at[u.first] == number == stage_at[u.last]]
        arena = place_buffers([Lifetime(u.name, u.bytes, u.first, u.last) for u in own])
        offsets |= {name: end + offset for name, offset in arena.offsets.items()}
        end = align_size(end + arena.bytes, STAGE_ALIGN)
        bound += arena.lower_bound_bytes
    for use in uses:
        copies = stage_at[use.last] - stage_at[use.first] + 1
        if copies > 1 and use.bytes:
            ring = RingBuffer(end, align_size(use.bytes, STAGE_ALIGN), copies)
            rings.append(ring)
            offsets[use.name] = end
            end += ring.stride * copies
            bound += use.bytes * copies
    return _with_offsets(planned, offsets, end, bound, stages, rings)


def _with_offsets(
    planned: Plan,
    offsets: Mapping[str, int],
    arena_bytes: int,
    bound: int,
    stages: Sequence[ProgramStage],
    rings: Sequence[RingBuffer],
) -> Plan:
    lowered, program, memory = planned.lowered, planned.program, planned.memory

    def addresses_of(rows: Iterable[Sequence[OperandAddress]]) -> list[tuple[OperandAddress, ...]]:
        addresses = []
        for step, row in zip(lowered.steps, rows, strict=True):
            own = []
            for operand, address in zip(step.operands, row, strict=True):
                if operand.constant is None and address.base == "arena":
                    name, offset = operand_buffer(operand, step, lowered)
                    address = OperandAddress("arena", offsets[name] + offset)
                own.append(address)
            addresses.append(tuple(own))
        return addresses

    workspaces = {output: (offsets[workspace_name(output)], size) for output, (_, size) in memory.workspaces.items()}
    arena = replace(memory.arena, offsets=dict(offsets), bytes=arena_bytes, lower_bound_bytes=bound)
    made = replace(
        program,
        arena_bytes=arena_bytes,
        arena_lower_bound_bytes=bound,
        stages=tuple(stages),
        rings=tuple(rings),
        # Of the program: lengths that were inputs when memory was planned are words of the context there.
        steps=tuple(
            replace(step, operands=row)
            for step, row in zip(program.steps, addresses_of(step.operands for step in program.steps), strict=True)
        ),
    )
    return replace(
        planned,
        program=made,
        memory=replace(memory, arena=arena, addresses=tuple(addresses_of(memory.addresses)), workspaces=workspaces),
    )
