"""How the engine's threads share a step: each claims a part of what is left, by the speed of its core.

The engine's own rule (runtime/csrc/engine_claim.c), played through with modelled speeds: claims shrink towards the end,
and a slow core leaves the last rows to the others where they are sooner done with them.
"""

import heapq
from collections.abc import Sequence

from mavcg.planner.engine_weights import weights_of

CLAIM_PART = 4  # engine_claim.c


def rows_to_claim(remaining: int, grain: int, weight: int, total: int) -> int:
    """Rows that a core of this weight claims: a multiple of the grain, or all that remain. total: of all weights."""
    share = remaining * weight // (max(total, weight) * CLAIM_PART)
    return min(remaining, -(-share // grain) * grain if share > grain else grain)


def better_left(remaining: int, grain: int, weight: int, total: int, fastest: int) -> bool:
    """Whether the others are done with what remains no later than a core of this weight would be with one grain."""
    if weight >= fastest or total <= weight:
        return False
    others, first = total - weight, min(remaining, grain)
    return first * others // weight >= remaining + first * others // fastest


def shared_ns(
    rows: int, grain: int, ns_per_row: Sequence[float], ns_per_task: Sequence[float],
    told_ns: Sequence[float] | None = None,
) -> float:  # fmt: skip
    """When the last thread of a step ends, all having begun at 0; the first one is the caller's.

    ns_per_row: of each thread's core; ns_per_task: what each `grain` rows of a claim cost besides. told_ns: what the
    engine takes a row to need, where that is something else than ns_per_row.
    """
    weights = weights_of(told_ns or ns_per_row)
    total, fastest = sum(weights), max(weights)
    free = [(0.0, number) for number in range(len(weights))]
    inside = {0}
    row, end = 0, 0.0
    while free and row < rows:
        now, number = heapq.heappop(free)
        others_inside = len(inside - {number}) > 0
        if others_inside and better_left(rows - row, grain, weights[number], total, fastest):
            inside.discard(number)
            continue
        inside.add(number)
        claimed = rows_to_claim(rows - row, grain, weights[number], total)
        row += claimed
        now += claimed * ns_per_row[number] + -(-claimed // grain) * ns_per_task[number]
        end = max(end, now)
        heapq.heappush(free, (now, number))
    return end
