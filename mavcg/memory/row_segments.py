"""Division of a program into segments, each computed by parts of rows, within a memory limit.

Between two cuts rows are computed as the last step of the segment needs them; buffers that cross a cut are whole. So
the peak of a program is the largest peak of its segments, and the cheapest cuts within a limit are a shortest path.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.memory.row_demand import UnitStep
from mavcg.memory.row_schedule import SegmentCost, segment_cost

MOST_CUTS = 24
LONGEST = 10**9  # units of an unlimited block
# Cost of a phase in bytes moved in the same time: about a microsecond of a fast core.
PHASE_BYTES = 8192


@dataclass(frozen=True)
class StepRange:
    """Steps from begin to before end.

    block_bytes: largest block that each step computes at once; 0: no limit. band_units: units of the last step that are
    computed at once, with all that they need of earlier steps; 0: no bands.
    """

    begin: int
    end: int
    block_bytes: int = 0
    band_units: int = 0


@dataclass(frozen=True)
class RowDivision:
    """A program's order by parts of rows: consecutive ranges that cover all steps; without ranges, layer by layer.

    slack: fraction by which windows of rows are enlarged. arena_bytes: size of the arena.
    """

    ranges: tuple[StepRange, ...] = ()
    slack: float = 0.0
    arena_bytes: int = 0


@dataclass(frozen=True)
class RowSegment:
    """Steps between two cuts, with their cost."""

    steps: StepRange
    cost: SegmentCost

    @property
    def begin(self) -> int:
        """Number of the first step."""
        return self.steps.begin

    @property
    def end(self) -> int:
        """Number of the step after the last."""
        return self.steps.end


def with_blocks(steps: Sequence[UnitStep], unit_bytes: Sequence[int], block_bytes: int) -> list[UnitStep]:
    """Return the steps with blocks of at most block_bytes. unit_bytes: bytes that each step's unit writes."""
    if not block_bytes:
        return [replace(step, block=LONGEST) for step in steps]
    return [replace(step, block=max(1, block_bytes // size)) for step, size in zip(steps, unit_bytes, strict=True)]


def blocked_steps(steps: Sequence[UnitStep], unit_bytes: Sequence[int], ranges: Sequence[StepRange]) -> list[UnitStep]:
    """Return all steps with the blocks of these consecutive ranges."""
    blocked: list[UnitStep] = []
    for range_ in ranges:
        own = slice(range_.begin, range_.end)
        blocked += with_blocks(steps[own], unit_bytes[own], range_.block_bytes)
        if range_.band_units:
            blocked[-1] = replace(blocked[-1], block=range_.band_units)
    return blocked


def all_segments(
    steps: Sequence[UnitStep],
    unit_bytes: Sequence[int],
    sizes: Mapping[str, int],
    outputs: Sequence[str],
    blocks: Sequence[int],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[RowSegment]:
    """Return all segments between any two of the cheapest cuts, for each block size.

    blocks: block sizes, in bytes. progress: called with the number of costed segments and their total.
    """
    cuts = cheapest_cuts(steps, sizes)
    pairs = [(a, b) for n, a in enumerate(cuts) for b in cuts[n + 1 :]]
    segments = []
    by_blocks = {size: with_blocks(steps, unit_bytes, size) for size in (0, *blocks)}
    for done, (begin, end) in enumerate(pairs):
        progress(done, len(pairs))
        for size, own in by_blocks.items():
            cost = segment_cost(own, sizes, begin, end, outputs)
            segments.append(RowSegment(StepRange(begin, end, size), cost))
    return segments


def cheapest_cuts(steps: Sequence[UnitStep], sizes: Mapping[str, int]) -> list[int]:
    """Return the numbers of the steps before which to cut, 0 and the end included: where the fewest bytes are live."""
    writes, reads = dict[str, int](), dict[str, int]()
    for number, step in enumerate(steps):
        for access in step.accesses:
            if access.buffer in sizes:
                if access.written:
                    writes.setdefault(access.buffer, number)
                reads[access.buffer] = number
    live_bytes = [
        sum(sizes[b] for b, first in writes.items() if first < cut <= reads[b]) for cut in range(len(steps) + 1)
    ]
    inside = range(1, len(steps))
    least = [c for c in inside if live_bytes[c] <= live_bytes[c - 1] and live_bytes[c] <= live_bytes[c + 1]]
    chosen = sorted(least, key=lambda c: live_bytes[c])[:MOST_CUTS]
    return sorted({0, *chosen, len(steps)})


def least_peak(segments: Sequence[RowSegment]) -> int:
    """Return the least peak that any cuts and blocks allow."""
    best: dict[int, int] = {0: 0}
    for segment in sorted(segments, key=lambda segment: segment.begin):
        if segment.begin in best:
            peak = max(best[segment.begin], segment.cost.peak)
            best[segment.end] = min(best.get(segment.end, peak), peak)
    return best[max(best)]


def cheapest_within(segments: Sequence[RowSegment], limit: int) -> list[RowSegment] | None:
    """Return the segments of least cost in phases and moves, none with a peak above the limit.

    None if there are none.
    """
    end = max(segment.end for segment in segments)
    best: dict[int, tuple[float, list[RowSegment]]] = {0: (0.0, [])}
    for segment in sorted(segments, key=lambda segment: segment.begin):
        if segment.cost.peak > limit or segment.begin not in best:
            continue
        cost, path = best[segment.begin]
        cost += segment.cost.phases * PHASE_BYTES + segment.cost.moved_bytes
        if segment.end not in best or cost < best[segment.end][0]:
            best[segment.end] = cost, [*path, segment]
    return best[end][1] if end in best else None
