"""Instructions of one class per cycle by a core's own tables: the check on the rate that a row states."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations

from mavcg.hardware.timing import ClassTiming, Timing, UnitUse

ISSUED = 48  # a multiple of small counts, so that a rate such as 2 in 3 cycles comes out as it is


def rate(row: ClassTiming, timing: Timing) -> float:
    """Return the instructions a cycle of a long run of independent ones of this class, as units, width, blocks and
    rules allow."""
    if timing.order != "in":
        return float(unit_rate(row.units, timing.pools, timing.width))
    gaps = [rule.cycles for rule in timing.forbidden_distances if row.name in rule.first and row.name in rule.then]
    alone = row.blocks > 0 or any(row.name in rule.these and row.name in rule.those for rule in timing.no_dual_issue)
    return _in_order(row.units, row.blocks, tuple(timing.pools.items()), timing.width, tuple(gaps), alone)


def unit_rate(units: Sequence[UnitUse], pools: Mapping[str, int], width: int) -> Fraction:
    """Return the rate that dispatch width and units allow when every micro-operation goes to the best of its pools.

    The best spread is as good as the busiest set of pools that some micro-operations cannot leave (Hall's theorem).
    """
    cycles = Fraction(max(1, len(units)), width)
    choices = sorted({frozenset(use.any_of) for use in units}, key=sorted)
    for size in range(1, len(choices) + 1):
        for chosen in combinations(choices, size):
            held = frozenset[str]().union(*chosen)
            work = sum(use.cycles for use in units if held.issuperset(use.any_of))
            cycles = max(cycles, Fraction(work, sum(pools[pool] for pool in held)))
    return 1 / cycles


@cache
def _in_order(
    units: tuple[UnitUse, ...], blocks: int, pools: tuple[tuple[str, int], ...], width: int, gaps: tuple[int, ...],
    alone: bool,
) -> float:  # fmt: skip
    """Issue a run one by one, each as early as it may, and see how long the second half takes.

    gaps: distances in cycles at which no two of the run issue. alone: true if no two issue in one cycle.
    """
    free = {pool: [0] * count for pool, count in pools}
    issued: list[int] = []
    cycle = 0
    while len(issued) < ISSUED:
        beside = sum(earlier == cycle for earlier in issued[-width:])
        fits = beside < width and not (alone and beside)
        spaced = not any(cycle - earlier in gaps for earlier in issued[-width * max(gaps, default=1) :])
        blocked = bool(issued) and blocks > 0 and cycle < issued[-1] + blocks
        if fits and spaced and not blocked and _take(units, free, cycle):
            issued.append(cycle)
        else:
            cycle += 1
    return (ISSUED // 2) / (issued[-1] - issued[ISSUED // 2 - 1])


def _take(units: Sequence[UnitUse], free: dict[str, list[int]], cycle: int) -> bool:
    """Give each use a free unit of its pool from this cycle on; nothing is taken where one finds none."""
    left = {pool: list(ends) for pool, ends in free.items()}
    for use in units:
        ends = left[use.any_of[0]]
        unit = next((i for i, end in enumerate(ends) if end <= cycle), None)
        if unit is None:
            return False
        ends[unit] = cycle + use.cycles
    free.update(left)
    return True
