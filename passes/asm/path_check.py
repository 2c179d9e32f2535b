"""Keeps new orders of straight-line code only where no path through a function gets slower by the core's model.

A segment's own cycles are counted on an idle core. What follows it may wait for a result that the new order computes
later, and in a loop the next segment begins before the last results are there. So each path is timed as a whole, before
and after: a way around a loop of several blocks as a loop, a run of blocks outside of loops as straight-line code.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import networkx as nx

from mavcg.hardware.timing import MissingFact, Timing
from mavcg.passes.asm.analysis.blocks import Function
from mavcg.passes.asm.analysis.dependences import Code, with_effects
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.source import Statement
from mavcg.passes.asm.models.estimate import block_cycles, loop_cycles
from mavcg.passes.asm.straight_tuning import NewSegment

MOST_PATHS = 16  # ways around the loops of a function that are timed; the shortest come first


@dataclass(frozen=True)
class PlacedSegment:
    """A new order for lines [first, stop) of a block."""

    block: int
    first: int
    stop: int
    new: NewSegment


@dataclass(frozen=True)
class _Path:
    """Blocks that run one after another. around: the last one leads back to the first."""

    blocks: tuple[int, ...]
    around: bool


def without_slower_paths(
    function: Function, statements: Sequence[Statement], placed: Sequence[PlacedSegment], timing: Timing
) -> tuple[PlacedSegment, ...]:
    """Return the segments whose new order is kept: no path that is timed takes more cycles than with the old orders.

    On a path that gets slower the new orders are undone one by one, first the one without which it is fastest. Loops of
    one block are passed through once, in their old form.
    """
    kept = list(placed)
    for path in _paths(function, frozenset(segment.block for segment in placed)):
        try:
            before = _cycles(path, function, statements, (), timing)
            while _cycles(path, function, statements, kept, timing) > before:
                without = {
                    at: _cycles(path, function, statements, kept[:at] + kept[at + 1 :], timing)
                    for at, segment in enumerate(kept)
                    if segment.block in path.blocks
                }
                del kept[min(without, key=lambda at: (without[at], at))]
        except MissingFact:
            continue
    return tuple(kept)


def _paths(function: Function, changed: frozenset[int]) -> Iterator[_Path]:
    """Yield the paths through changed blocks: around loops, and runs of successive blocks outside of them."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_edges_from((i, j) for i, block in enumerate(function.blocks) for j in block.successors if i != j)
    cycles = sorted(islice(nx.simple_cycles(graph), 8 * MOST_PATHS), key=lambda cycle: (len(cycle), min(cycle)))
    around = [cycle for cycle in cycles if changed & set(cycle)][:MOST_PATHS]
    for cycle in around:
        first = cycle.index(min(cycle))
        yield _Path((*cycle[first:], *cycle[:first]), True)
    run: list[int] = []
    for index, block in enumerate(function.blocks):
        if not block.in_loop:
            run.append(index)
        if run and (block.in_loop or index + 1 not in block.successors):
            if changed & set(run):
                yield _Path(tuple(run), False)
            run = []


def _cycles(
    path: _Path,
    function: Function,
    statements: Sequence[Statement],
    segments: Sequence[PlacedSegment],
    timing: Timing,
) -> float:
    ops = [op for block in path.blocks for op in _ops(block, function, statements, segments)]
    return (loop_cycles if path.around else block_cycles)(ops, timing) if ops else 0.0


def _ops(
    block: int, function: Function, statements: Sequence[Statement], segments: Sequence[PlacedSegment]
) -> list[Op]:
    """Return a block's ops with these new orders in it; unknown instructions are left out."""
    new: Mapping[int, PlacedSegment] = {segment.first: segment for segment in segments if segment.block == block}
    code: list[Code] = []
    stop = 0
    for at, line in enumerate(function.blocks[block].lines):
        if at in new:
            code += with_effects(new[at].new.instrs)
            stop = new[at].stop
        instr = statements[line.statement].instr
        if at >= stop and instr is not None and line.effects is not None:
            code.append(Code(instr, line.effects))
    return [each.op for each in code]
