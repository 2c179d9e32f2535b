"""The data dependence graph of a block: edges by registers, flags and memory, within and across iterations.

Source: Rau, "Iterative Modulo Scheduling" (1994), section 2, for the dependence graph of a loop.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.aliasing import block_accesses, may_overlap
from mavcg.passes.asm.isa.effects import FLAGS, Effects
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.op import Edge, Op, RegisterRead
from mavcg.passes.asm.isa.syntax import Instr

# Dependences over more iterations than this are left out: a schedule has at most four stages (modulo.schedule_loop),
# so that iterations further away from each other never overlap.
LATER_ITERATIONS = 3


@dataclass(frozen=True)
class Code:
    """An instruction whose effects are known."""

    instr: Instr
    effects: Effects

    @cached_property
    def op(self) -> Op:
        """The instruction as models and schedulers see it."""
        effect = self.effects
        reads = [RegisterRead(a.register, a.role) for a in effect.accesses if a.read]
        if effect.reads_flags:
            reads.append(RegisterRead(FLAGS))
        writes = [a.register for a in effect.accesses if a.write]
        if effect.writes_flags:
            writes.append(FLAGS)
        memory = effect.memory
        writeback = memory.address.base.name if memory is not None and memory.address.mode != "offset" else None
        text = " ".join(str(self.instr).split())
        return Op(text, effect.op_class, tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes)), writeback)


@lru_cache(maxsize=1 << 15)  # every form of a loop has most of its instructions in common with the others
def code_of(instr: Instr) -> Code:
    """Return an instruction with its effects, which must be known."""
    effect = effects(instr)
    assert effect is not None, str(instr)
    return Code(instr, effect)


def with_effects(instrs: Sequence[Instr]) -> tuple[Code, ...]:
    """Return instructions with their effects, all of which must be known."""
    return tuple(map(code_of, instrs))


def loop_edges(code: Sequence[Code], timing: Timing, adjacent: bool = True) -> tuple[Edge, ...]:
    """Return the dependence edges of a loop's body, within an iteration and between iterations.

    adjacent: False if no sum reaches the next multiply-accumulate early (Timing.adjacent_forwards).
    """
    ops = [c.op for c in code]
    edges = register_edges(ops, timing, looping=True, adjacent=adjacent)
    return _longest([*edges, *_memory_edges(code, LATER_ITERATIONS)])


def block_edges(code: Sequence[Code], timing: Timing, adjacent: bool = True) -> tuple[Edge, ...]:
    """Return the dependence edges of straight-line code. adjacent: as in loop_edges."""
    ops = [c.op for c in code]
    return _longest([*register_edges(ops, timing, looping=False, adjacent=adjacent), *_memory_edges(code, 0)])


def register_edges(ops: Sequence[Op], timing: Timing, looping: bool, adjacent: bool) -> Iterator[Edge]:
    readers: dict[str, list[tuple[int, int]]] = {}  # register -> (op, iteration) of reads since the last write
    writer: dict[str, tuple[int, int]] = {}
    for iteration in (0, 1) if looping else (0,):
        for at, op in enumerate(ops):
            for read in op.reads:
                if read.register in writer:
                    by, of = writer[read.register]
                    if iteration == 0 or of == 0 or at < by:
                        yield Edge(by, at, _latency(ops[by], op, read, timing, adjacent), iteration - of)
                readers.setdefault(read.register, []).append((at, iteration))
            for register in op.writes:
                for reader, of in readers.get(register, ()):
                    if (reader, of) != (at, iteration):
                        yield Edge(reader, at, 0, iteration - of)
                if register in writer:
                    by, of = writer[register]
                    yield Edge(by, at, _output_latency(ops[by], op, register, timing), iteration - of)
                writer[register] = (at, iteration)
                readers[register] = []


def _latency(producer: Op, consumer: Op, read: RegisterRead, timing: Timing, adjacent: bool) -> int:
    made_by = "writeback" if producer.writeback == read.register else producer.op_class
    return max(1, timing.latency(made_by, consumer.op_class, read.role, adjacent))


def _output_latency(first: Op, second: Op, register: str, timing: Timing) -> int:
    """Return the latency of an output dependence, in cycles: the second write must not finish before the first."""
    early, late = (
        timing.of("writeback" if op.writeback == register else op.op_class).latency for op in (first, second)
    )
    return timing.write_order(early, late)


def _memory_edges(code: Sequence[Code], last_distance: int) -> Iterator[Edge]:
    """Yield an edge for each two accesses, one of them a store, that may overlap within `last_distance` iterations."""
    accesses = block_accesses([(c.instr, c.effects) for c in code])
    touching = {i: c.effects.memory.store for i, c in enumerate(code) if c.effects.memory and c.effects.memory.bytes}
    stores = [i for i, is_store in touching.items() if is_store]
    for distance in range(last_distance + 1):
        for source, is_store in touching.items():
            for target in touching if is_store else stores:
                if distance == 0 and source >= target:
                    continue
                if may_overlap(accesses.ranges[source], accesses.ranges[target], accesses.steps, distance):
                    yield Edge(source, target, 1 if is_store else 0, distance)


def _longest(edges: Sequence[Edge]) -> tuple[Edge, ...]:
    """Keep one edge for each source, target and distance: the one of longest latency. Return them sorted."""
    longest: dict[tuple[int, int, int], int] = {}
    for edge in edges:
        key = (edge.source, edge.target, edge.distance)
        if edge.latency >= longest.get(key, 0):
            longest[key] = edge.latency
    return tuple(Edge(s, t, latency, d) for (s, t, d), latency in sorted(longest.items()))
