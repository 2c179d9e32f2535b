"""Schedules of a program by parts of rows: rows are computed just before they are read, in a window of each buffer.

row_demand.py orders the firings, row_windows.py places the windows.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mavcg.memory.row_demand import RowDemand, UnitStep, align_up
from mavcg.memory.row_windows import RowSchedule, place_windows


@dataclass(frozen=True)
class SegmentCost:
    """Cost of the steps between two cuts.

    peak: live peak of the buffers, including those that only cross the segment. phases, moved_bytes: as in RowSchedule.
    """

    peak: int
    phases: int
    moved_bytes: int


def schedule_rows(
    steps: Sequence[UnitStep],
    sizes: Mapping[str, int],
    outputs: Sequence[str],
    cuts: Sequence[int] = (),
    slack: float = 0.0,
    first: Sequence[int] = (),
) -> RowSchedule:
    """Return the schedule of a program by parts of rows.

    steps: in a valid order. sizes: bytes of the buffers that may become windows; other buffers, the model's inputs and
    outputs, stay whole. outputs: buffers to be completed. cuts: numbers of steps, ascending; everything that the steps
    from a cut on read of earlier ones is computed before the cut. slack: relative size added to each window, so that
    less is moved. first: numbers of steps whose units are all computed first, before the next cut.
    """
    demand = RowDemand(steps, sizes, outputs)
    with _deep_recursion(len(steps)):
        for cut in (*cuts, len(steps)):
            for number in first:
                if number < cut:
                    demand.compute(number, steps[number].units)
            demand.complete_before(cut)
    windows = {
        buffer: min(align_up(size), align_up(int(demand.windows.get(buffer, 0) * (1 + slack))))
        for buffer, size in sizes.items()
    }
    return place_windows(steps, demand, windows)


def schedule_in_order(
    steps: Sequence[UnitStep], sizes: Mapping[str, int], outputs: Sequence[str], order: Sequence[tuple[int, int]]
) -> RowSchedule:
    """Return the schedule of a program in a given order: pairs of a step and the unit up to which it is then complete.

    What a firing reads and the order has not computed yet is computed just before it; remaining units come at the end.
    Other arguments: as for schedule_rows.
    """
    demand = RowDemand(steps, sizes, outputs)
    with _deep_recursion(len(steps)):
        for number, end in order:
            demand.compute(number, end)
        demand.complete_before(len(steps))
    return place_windows(
        steps, demand, {b: min(align_up(size), align_up(demand.windows.get(b, 0))) for b, size in sizes.items()}
    )


def segment_cost(
    steps: Sequence[UnitStep], sizes: Mapping[str, int], begin: int, end: int, outputs: Sequence[str]
) -> SegmentCost:
    """Return the cost of the steps from `begin` to before `end`, between two cuts.

    Other arguments: as for schedule_rows.
    """
    demand = RowDemand(steps, sizes, outputs)
    demand.done = [step.units if number < begin else 0 for number, step in enumerate(steps)]
    with _deep_recursion(len(steps)):
        demand.complete_before(end)
    last, count = dict[str, int](), len(demand.fired)
    first = dict[str, int]()
    for time, (_, _, _, live) in enumerate(demand.fired):
        for buffer in live:
            first.setdefault(buffer, time)
            last[buffer] = time
    deltas = [0] * (count + 2)
    for buffer, size in sizes.items():
        numbers = [number for number, _ in demand.users.get(buffer, [])]
        written_before = any(number < begin for number, _ in demand.writers.get(buffer, []))
        if not numbers or max(numbers) < begin or (not written_before and buffer not in first):
            continue
        start = 0 if written_before else first[buffer]
        stop = count if max(numbers) >= end else last.get(buffer, 0)
        live_bytes = (
            align_up(size)
            if written_before or max(numbers) >= end
            else min(align_up(size), align_up(demand.windows[buffer]))
        )
        deltas[start] += live_bytes
        deltas[stop + 1] -= live_bytes
    peak, live_now = 0, 0
    for delta in deltas:
        live_now += delta
        peak = max(peak, live_now)
    placed = place_windows(
        steps, demand, {b: min(align_up(size), align_up(demand.windows.get(b, 0))) for b, size in sizes.items()}
    )
    return SegmentCost(peak, len(placed.phases), placed.moved_bytes)


@contextlib.contextmanager
def _deep_recursion(steps: int) -> Iterator[None]:
    """Raise Python's recursion limit to the depth that a chain of steps needs."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 2000 + 8 * steps))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
