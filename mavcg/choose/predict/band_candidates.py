"""Ranges of steps that may pay if they are computed by bands of rows, and the sizes of bands to try."""

from mavcg.choose.lowering.row_phases import ProgramRows
from mavcg.hardware.core_model import CoreModel
from mavcg.memory.row_segments import cheapest_cuts

MOST_STEPS = 16  # of a range
MOST_CUTS = 6  # between the two cuts of a range, those left out


def cache_bytes(core: CoreModel) -> int:
    """Return the size of the second-level cache, or of the only cache."""
    levels = core.levels
    return levels[min(1, len(levels) - 1)].shared_bytes


def band_sizes(units: int) -> list[int]:
    """Return the numbers of rows of a band to try, for a last step of so many rows: two bands at least."""
    return [band for band in (1, 2, 4, 8, 16, 32) if 2 * band <= units]


def candidate_ranges(rows: ProgramRows, cache_bytes: int) -> tuple[tuple[int, int], ...]:
    """Return ranges between cuts, computed by rows only, with an inner tensor that is too large for the cache."""
    cuts = cheapest_cuts(rows.steps, rows.sizes)
    ranges = []
    for number, begin in enumerate(cuts):
        for end in cuts[number + 1 : number + 1 + MOST_CUTS]:
            steps = rows.steps[begin:end]
            if not 2 <= end - begin <= MOST_STEPS or any(step.units < 2 for step in steps):
                continue
            outside = {a.buffer for step in (*rows.steps[:begin], *rows.steps[end:]) for a in step.accesses}
            inside = {a.buffer for step in steps for a in step.accesses if a.buffer in rows.sizes} - outside
            if any(rows.sizes[buffer] > cache_bytes // 2 for buffer in inside):
                ranges.append((begin, end))
    return tuple(ranges)
