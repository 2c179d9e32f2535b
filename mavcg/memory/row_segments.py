"""Cuts a program into segments and chooses how finely each is computed by parts, within a limit on memory.

Between two cuts rows are computed as the last step of the segment needs them; what crosses a cut is held whole. So the
peak of a program is the largest peak of its segments, and the cheapest cuts within a limit are a shortest path.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.memory.row_schedule import SegmentCost, UnitStep, segment_cost

MOST_CUTS = 24
LONGEST = 10**9  # units of a block: all of a step
# What a phase costs, in bytes that could be moved in the same time: about a microsecond of a fast core.
PHASE_BYTES = 8192


@dataclass(frozen=True)
class StepRange:
    """Steps from begin to before end. block_bytes: of the blocks that each computes, at most; 0: no limit. band_units:
    units of the last step that are computed at once, each earlier step what these need; 0: by blocks alone."""

    begin: int
    end: int
    block_bytes: int = 0
    band_units: int = 0


@dataclass(frozen=True)
class RowSegment:
    """Steps between two cuts, and their cost."""

    steps: StepRange
    cost: SegmentCost

    @property
    def begin(self) -> int:
        """The first step's number."""
        return self.steps.begin

    @property
    def end(self) -> int:
        """The number of the step behind the last."""
        return self.steps.end


def with_blocks(steps: Sequence[UnitStep], unit_bytes: Sequence[int], block_bytes: int) -> list[UnitStep]:
    """Return the steps with blocks of so many bytes. unit_bytes: that each step's unit writes."""
    if not block_bytes:
        return [replace(step, block=LONGEST) for step in steps]
    return [
        replace(step, block=max(1, block_bytes // size)) for step, size in zip(steps, unit_bytes, strict=True)
    ]  # fmt: skip


def blocked_steps(
    steps: Sequence[UnitStep], unit_bytes: Sequence[int], ranges: Sequence[StepRange]
) -> list[UnitStep]:  # fmt: skip
    """Return all steps with the blocks that these ranges, which follow each other, give them."""
    made: list[UnitStep] = []
    for each in ranges:
        own = slice(each.begin, each.end)
        made += with_blocks(steps[own], unit_bytes[own], each.block_bytes)
        if each.band_units:
            made[-1] = replace(made[-1], block=each.band_units)
    return made


def all_segments(
    steps: Sequence[UnitStep],
    unit_bytes: Sequence[int],
    sizes: Mapping[str, int],
    outputs: Sequence[str],
    blocks: Sequence[int],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[RowSegment]:
    """Return all segments between two of the cheapest places to cut, with each size of blocks.

    blocks: bytes. progress: of segments that were costed.
    """
    cuts = cut_places(steps, sizes)
    pairs = [(a, b) for n, a in enumerate(cuts) for b in cuts[n + 1 :]]
    found = []
    by_blocks = {size: with_blocks(steps, unit_bytes, size) for size in (0, *blocks)}
    for done, (begin, end) in enumerate(pairs):
        progress(done, len(pairs))
        for size, own in by_blocks.items():
            cost = segment_cost(own, sizes, begin, end, outputs)
            found.append(RowSegment(StepRange(begin, end, size), cost))
    return found


def cut_places(steps: Sequence[UnitStep], sizes: Mapping[str, int]) -> list[int]:
    """Return numbers of steps before which to cut, the first and the end included: those that hold the least bytes."""
    writes, reads = dict[str, int](), dict[str, int]()
    for number, step in enumerate(steps):
        for access in step.accesses:
            if access.buffer in sizes:
                if access.written:
                    writes.setdefault(access.buffer, number)
                reads[access.buffer] = number
    held = [
        sum(sizes[b] for b, first in writes.items() if first < cut <= reads[b]) for cut in range(len(steps) + 1)
    ]  # fmt: skip
    inside = range(1, len(steps))
    least = [c for c in inside if held[c] <= held[c - 1] and held[c] <= held[c + 1]]
    chosen = sorted(least, key=lambda c: held[c])[:MOST_CUTS]
    return sorted({0, *chosen, len(steps)})


def least_peak(segments: Sequence[RowSegment]) -> int:
    """Return the least peak that cuts and blocks allow."""
    best: dict[int, int] = {0: 0}
    for each in sorted(segments, key=lambda segment: segment.begin):
        if each.begin in best:
            peak = max(best[each.begin], each.cost.peak)
            best[each.end] = min(best.get(each.end, peak), peak)
    return best[max(best)]


def cheapest_within(segments: Sequence[RowSegment], limit: int) -> list[RowSegment] | None:
    """Return the segments whose phases and moves cost the least, none with a peak above the limit; None where there are
    no such."""
    end = max(segment.end for segment in segments)
    best: dict[int, tuple[float, list[RowSegment]]] = {0: (0.0, [])}
    for each in sorted(segments, key=lambda segment: segment.begin):
        if each.cost.peak > limit or each.begin not in best:
            continue
        cost, path = best[each.begin]
        cost += each.cost.phases * PHASE_BYTES + each.cost.moved_bytes
        if each.end not in best or cost < best[each.end][0]:
            best[each.end] = cost, [*path, each]
    return best[end][1] if end in best else None
