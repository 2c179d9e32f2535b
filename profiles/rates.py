"""Compute instructions per cycle from a core's tables, to check the rates that rows of instruction classes state."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations

from mavcg.hardware.timing import ClassTiming, Timing, UnitUse

ISSUED = 48  # a multiple of small counts, so that a rate such as 2 in 3 cycles comes out as it is


def rate(row: ClassTiming, timing: Timing) -> float:
    """Return the instructions per cycle of a long sequence of independent instructions of this class.

    Units, issue width, blocks and rules of the core limit it.
    """
    if timing.order != "in":
        rate_of_units = unit_rate(row.units, timing.pools, timing.width)
        return float(min(rate_of_units, Fraction(timing.width, max(1, row.slots))))
    gaps = [rule.cycles for rule in timing.forbidden_distances if row.name in rule.first and row.name in rule.then]
    alone = row.blocks > 0 or any(row.name in rule.these and row.name in rule.those for rule in timing.no_dual_issue)
    return _in_order(row.units, row.blocks, tuple(timing.pools.items()), timing.width, tuple(gaps), alone)


def unit_rate(units: Sequence[UnitUse], pools: Mapping[str, int], width: int) -> Fraction:
    """Return the rate that dispatch width and units allow if every micro-operation uses the best of its pools.

    The best distribution is as good as the busiest set of pools that some micro-operations must use (Hall's theorem).
    """
    cycles = Fraction(max(1, len(units)), width)
    choices = sorted({frozenset(use.any_of) for use in units}, key=sorted)
    for size in range(1, len(choices) + 1):
        for chosen in combinations(choices, size):
            pool_set = frozenset[str]().union(*chosen)
            work = sum(use.cycles for use in units if pool_set.issuperset(use.any_of))
            cycles = max(cycles, Fraction(work, sum(pools[pool] for pool in pool_set)))
    return 1 / cycles


@cache
def _in_order(
    units: tuple[UnitUse, ...],
    blocks: int,
    pools: tuple[tuple[str, int], ...],
    width: int,
    gaps: tuple[int, ...],
    single_issue: bool,
) -> float:
    """Return the rate of a sequence whose instructions issue one by one as early as possible, from its second half.

    gaps: issue distances in cycles that are forbidden. single_issue: True if no two instructions issue in one
    cycle.
    """
    free = {pool: [0] * count for pool, count in pools}
    issued: list[int] = []
    cycle = 0
    while len(issued) < ISSUED:
        beside = sum(earlier == cycle for earlier in issued[-width:])
        fits = beside < width and not (single_issue and beside)
        spaced = not any(cycle - earlier in gaps for earlier in issued[-width * max(gaps, default=1) :])
        blocked = bool(issued) and blocks > 0 and cycle < issued[-1] + blocks
        if fits and spaced and not blocked and _reserve_units(units, free, cycle):
            issued.append(cycle)
        else:
            cycle += 1
    return (ISSUED // 2) / (issued[-1] - issued[ISSUED // 2 - 1])


def _reserve_units(units: Sequence[UnitUse], free: dict[str, list[int]], cycle: int) -> bool:
    """Reserve a free unit of its pool for each use, from this cycle on, and return True.

    If a use finds none, reserve nothing and return False.
    """
    left = {pool: list(ends) for pool, ends in free.items()}
    for use in units:
        ends = left[use.any_of[0]]
        unit = next((i for i, end in enumerate(ends) if end <= cycle), None)
        if unit is None:
            return False
        ends[unit] = cycle + use.cycles
    free.update(left)
    return True
