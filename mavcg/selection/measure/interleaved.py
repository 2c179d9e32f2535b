"""Candidates for the fastest primitive of a scenario, and the ratios that interleaved measurements give them.

Of many figures that were measured one after the other the least is often one that came out well by chance, and the more
so on a machine with other work. So candidates that may be the fastest are measured again, interleaved with the others,
and what counts is its ratio to one of them, the base, in the same round: what disturbs a round disturbs all that are in
it. The base is what the engine computes a convolution by when nothing is selected.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from mavcg.selection.costs.provider import Cost
from mavcg.selection.measure.work_list import USUAL_NAMES, Job, Plan
from mavcg.specs.primitive import Scenario

# Who takes so many times as long as the fastest, each measured by itself, is not measured again: on a busy machine one
# figure in a hundred is off by more (docs/tuning-models.md).
NEAR = 1.5
GROUP = 8  # that are measured interleaved, the base among them: their memory is held at once
CONFIDENCE = 0.99  # of an interval; it is looked at again after each process, so that some chance adds up

Known = Callable[[Job], Cost | None]


@dataclass(frozen=True)
class CandidateGroup:
    """The candidates of a scenario:

    the base and those measured interleaved with it. rest: all others that were measured.
    """

    scenario: Scenario
    base: Job
    others: tuple[Job, ...]
    rest: tuple[Job, ...] = ()

    def groups(self, entrants: Sequence[Job]) -> Iterator[tuple[Job, ...]]:
        """Yield the base with some of these, and with the next ones."""
        for first in range(0, len(entrants), GROUP - 1):
            yield (self.base, *entrants[first : first + GROUP - 1])


def contests_of(plan: Plan, known: Known) -> list[CandidateGroup]:
    """Return one for each scenario of which not all that may be the fastest were measured interleaved.

    known: what was measured of a job of these kernels. Besides those near to the fastest the base takes part, and what
    the model takes for the fastest.
    """
    of: dict[Scenario, list[Job]] = {scenario.dense: [] for scenario in plan.scenarios}
    for job in plan.jobs:
        if job.primitive is not None and isinstance(job.what, tuple):
            of[job.what[0].dense].append(job)
    found = []
    for scenario, jobs in of.items():
        costs = {job: cost for job in jobs if (cost := known(job)) is not None}
        if len(costs) < 2:
            continue
        favourite = min(costs, key=lambda job: (job.predicted_ms, job.name))
        base = next((job for job in costs if job.primitive and job.primitive.name in USUAL_NAMES), favourite)
        limit = NEAR * min(cost.ms for cost in costs.values())
        others = [job for job, cost in costs.items() if job != base and (cost.ms <= limit or job == favourite)]
        if not others or all(costs[job].turns for job in (base, *others)):
            continue
        others.sort(key=lambda job: (costs[job].ms, job.name))
        rest = tuple(job for job in costs if job != base and job not in others)
        found.append(CandidateGroup(scenario, base, tuple(others), rest))
    return found


@dataclass(frozen=True)
class Ratio:
    """Ratio of a job to the base:

    the median over rounds, and the interval that holds the true median with CONFIDENCE.
    """

    middle: float
    low: float
    high: float
    rounds: int

    @property
    def open(self) -> bool:
        """True if it may be either faster or slower than the base."""
        return self.low <= 1.0 <= self.high


def ratio_of(ratios: Sequence[float]) -> Ratio:
    """Return the ratio by order statistics, which assume no distribution of noise:

    the median lies between the k-th least and the k-th largest of n values unless fewer than k are below or above it,
    which the binomial distribution says.
    """
    ordered = sorted(ratios)
    k = _rank(len(ordered))
    return Ratio(statistics.median(ordered), ordered[k - 1], ordered[-k], len(ordered))


@cache
def _rank(count: int) -> int:
    """Return the largest k >= 1 such that k-th values from both ends enclose the median with CONFIDENCE, or 1."""
    k, outside = 0, 0.0
    while 2 * (outside := outside + math.comb(count, k) / 2**count) <= 1 - CONFIDENCE:
        k += 1
    return max(k, 1)


def leaders(ratios: Mapping[Job, Ratio]) -> list[Job]:
    """Return candidates that are faster than the base and may be the fastest:

    the interval of each begins below the end of every other one.
    """
    faster = {job: ratio for job, ratio in ratios.items() if ratio.high < 1.0}
    end = min((ratio.high for ratio in faster.values()), default=0.0)
    return [job for job, ratio in faster.items() if ratio.low <= end]


def costs_of(
    group: CandidateGroup, base_ms: Sequence[float], ratios: Mapping[Job, Ratio], first: Mapping[Job, Cost], runs: int
) -> dict[Job, Cost]:
    """Return the costs of all measured primitives of the scenario on one scale: the base's median times each one's
    ratio.

    first: what each was measured at by itself. Who took no part is as many times as slow as the fastest of the first
    figures as it was then; so it stays slower than that one, however well it came out. runs: of one interleaved job.
    """
    (kind,) = {cost.kind for cost in first.values()}
    middle = statistics.median(base_ms)
    found = {group.base: Cost(middle, kind, 0.0, runs, len(base_ms))}
    for job, ratio in ratios.items():
        spread_ms = middle * (ratio.high - ratio.middle)
        found[job] = Cost(middle * ratio.middle, kind, spread_ms, runs, ratio.rounds)
    fastest = min((job for job in found), key=lambda job: first[job].ms)
    scale = found[fastest].ms / first[fastest].ms
    for job in group.rest:
        cost = first[job]
        found[job] = Cost(cost.ms * scale, kind, cost.spread_ms * scale, cost.runs)
    return found
