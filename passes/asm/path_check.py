"""Undoes new orders of straight-line code where a path through the function would get slower by the core's model.

A segment is scheduled on an idle core. The code after it may wait for a result that the new order computes later, and
in a loop the next segment begins before the previous results are ready. So each path is timed as a whole, before and
after: a path around a loop of several blocks as a loop, a run of blocks outside of loops as straight-line code.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from mavcg.hardware.timing import MissingFact, Timing
from mavcg.passes.asm.analysis.blocks import Function
from mavcg.passes.asm.analysis.components import simple_cycles
from mavcg.passes.asm.analysis.dependences import Code, code_of, with_effects
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.source import Statement
from mavcg.passes.asm.models.estimate import block_cycles, loop_cycles
from mavcg.passes.asm.straight_tuning import NewSegment

MOST_PATHS = 16  # maximum of paths around the loops of a function that are timed, the shortest first


@dataclass(frozen=True)
class PlacedSegment:
    """A new order for lines [first, stop) of the block with index `block`."""

    block: int
    first: int
    stop: int
    new: NewSegment


@dataclass(frozen=True)
class _Path:
    """Blocks that run one after another. around: True if the last one leads back to the first."""

    blocks: tuple[int, ...]
    around: bool


def without_slower_paths(
    function: Function, statements: Sequence[Statement], placed: Sequence[PlacedSegment], timing: Timing
) -> tuple[PlacedSegment, ...]:
    """Return the segments whose new order makes no timed path slower than the old orders.

    On a path that gets slower the new orders are undone one by one, first the one without which the path is fastest. A
    path goes through a loop of one block once, in its old form.
    """
    kept = list(placed)
    times = _PathTimes(function, statements, timing)
    for path in _paths(function, frozenset(segment.block for segment in placed)):
        try:
            before = times.cycles(path, ())
            while times.cycles(path, kept) > before:
                without = {
                    at: times.cycles(path, kept[:at] + kept[at + 1 :])
                    for at, segment in enumerate(kept)
                    if segment.block in path.blocks
                }
                del kept[min(without, key=lambda at: (without[at], at))]
        except MissingFact:
            continue
    return tuple(kept)


def _paths(function: Function, changed: frozenset[int]) -> Iterator[_Path]:
    """Yield the paths through changed blocks: around loops, and runs of successive blocks outside of them."""
    found = islice(simple_cycles([block.successors for block in function.blocks]), 8 * MOST_PATHS)
    cycles = sorted(found, key=lambda cycle: (len(cycle), cycle))
    around = [cycle for cycle in cycles if changed & set(cycle)][:MOST_PATHS]
    for cycle in around:
        yield _Path(tuple(cycle), True)
    run: list[int] = []
    for index, block in enumerate(function.blocks):
        if not block.in_loop:
            run.append(index)
        if run and (block.in_loop or index + 1 not in block.successors):
            if changed & set(run):
                yield _Path(tuple(run), False)
            run = []


class _PathTimes:
    """Computes the cycles of paths through a function with some of the new orders in it; results are cached."""

    def __init__(self, function: Function, statements: Sequence[Statement], timing: Timing) -> None:
        self._function, self._statements, self._timing = function, statements, timing
        # Keys: the first lines of the new orders, in a block and in the blocks of a path.
        self._ops: dict[tuple[int, tuple[int, ...]], list[Op]] = {}
        self._cycles: dict[tuple[_Path, tuple[tuple[int, ...], ...]], float] = {}

    def cycles(self, path: _Path, segments: Sequence[PlacedSegment]) -> float:
        """Return the cycles of a path with these new orders. Raises: MissingFact."""
        new: dict[int, dict[int, PlacedSegment]] = {block: {} for block in path.blocks}
        for segment in segments:
            if segment.block in new:
                new[segment.block][segment.first] = segment
        key = path, tuple(tuple(new[block]) for block in path.blocks)
        if key not in self._cycles:
            ops = [op for block in path.blocks for op in self._block_ops(block, new[block])]
            count_cycles = loop_cycles if path.around else block_cycles
            self._cycles[key] = count_cycles(ops, self._timing) if ops else 0.0
        return self._cycles[key]

    def _block_ops(self, block: int, new: Mapping[int, PlacedSegment]) -> list[Op]:
        """Return a block's ops without unknown instructions. new: first line -> new order to use there."""
        key = block, tuple(new)
        if key not in self._ops:
            code: list[Code] = []
            stop = 0
            for at, line in enumerate(self._function.blocks[block].lines):
                if at in new:
                    code += with_effects(new[at].new.instrs)
                    stop = new[at].stop
                instr = self._statements[line.statement].instr
                if at >= stop and instr is not None and line.effects is not None:
                    code.append(code_of(instr))
            self._ops[key] = [instruction_code.op for instruction_code in code]
        return self._ops[key]
