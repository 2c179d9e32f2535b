"""Candidates for the fastest primitive of a scenario, and their ratios from interleaved measurements.

The least of many figures measured one after another is often a lucky one, the more so on a busy machine. So candidates
that may be the fastest are measured again, interleaved, and each one's figure is its ratio to a base candidate in the
same round: a disturbance affects all candidates of its round. The base is the engine's default for the convolution.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from mavcg.choose.algorithms.costs.provider import Cost
from mavcg.choose.algorithms.library import USUAL_NAMES
from mavcg.lab.tuning.work_list import Job, WorkList
from mavcg.specs.primitive import Scenario

# Candidates beyond this multiple of the fastest one's time, each measured by itself, are not measured again: on a busy
# machine one figure in a hundred is off by more (docs/tuning-models.md).
NEAR = 1.5
GROUP = 8  # candidates of an interleaved measurement, with the base: their memory is allocated at the same time
CONFIDENCE = 0.99  # of an interval; it is tested again after each process, so the error probability adds up somewhat

Known = Callable[[Job], Cost | None]


@dataclass(frozen=True)
class CandidateGroup:
    """The base of a scenario, and the candidates (others) measured interleaved with it.

    rest: all other measured jobs.
    """

    scenario: Scenario
    base: Job
    others: tuple[Job, ...]
    rest: tuple[Job, ...] = ()

    def groups(self, entrants: Sequence[Job]) -> Iterator[tuple[Job, ...]]:
        """Yield the base with the first candidates, then with the next ones, GROUP jobs at a time."""
        for first in range(0, len(entrants), GROUP - 1):
            yield (self.base, *entrants[first : first + GROUP - 1])


def candidate_groups(plan: WorkList, known: Known) -> list[CandidateGroup]:
    """Return a group for each scenario whose candidates for the fastest were not all measured interleaved.

    known: returns the measured cost of a job. Candidates are those near the fastest, the base, and the fastest by the
    model.
    """
    by_scenario: dict[Scenario, list[Job]] = {scenario.dense: [] for scenario in plan.scenarios}
    for job in plan.jobs:
        if job.primitive is not None and isinstance(job.what, tuple):
            by_scenario[job.what[0].dense].append(job)
    groups = []
    for scenario, jobs in by_scenario.items():
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
        groups.append(CandidateGroup(scenario, base, tuple(others), rest))
    return groups


@dataclass(frozen=True)
class Ratio:
    """Ratio of a job's time to the base's.

    The median over rounds, with a confidence interval (low, high) of CONFIDENCE.
    """

    middle: float
    low: float
    high: float
    rounds: int

    @property
    def open(self) -> bool:
        """True if the interval contains 1: the job may be faster or slower than the base."""
        return self.low <= 1.0 <= self.high


def ratio_of(ratios: Sequence[float]) -> Ratio:
    """Return the median ratio and its confidence interval by order statistics, without assuming a noise distribution.

    The median lies between the k-th least and the k-th largest of n values, unless fewer than k values are below or
    above it, whose probability is binomial.
    """
    ordered = sorted(ratios)
    k = _rank(len(ordered))
    return Ratio(statistics.median(ordered), ordered[k - 1], ordered[-k], len(ordered))


@cache
def _rank(count: int) -> int:
    """Return the largest k >= 1 for which the k-th values from both ends enclose the median with CONFIDENCE, else 1."""
    k, outside = 0, 0.0
    while 2 * (outside := outside + math.comb(count, k) / 2**count) <= 1 - CONFIDENCE:
        k += 1
    return max(k, 1)


def leaders(ratios: Mapping[Job, Ratio]) -> list[Job]:
    """Return the candidates that are faster than the base and may be the fastest.

    The interval of each begins below the end of every other one's.
    """
    faster = {job: ratio for job, ratio in ratios.items() if ratio.high < 1.0}
    end = min((ratio.high for ratio in faster.values()), default=0.0)
    return [job for job, ratio in faster.items() if ratio.low <= end]


def costs_of(
    group: CandidateGroup, base_ms: Sequence[float], ratios: Mapping[Job, Ratio], first: Mapping[Job, Cost], runs: int
) -> dict[Job, Cost]:
    """Return the costs of all measured primitives of a scenario on one scale: the base's median times each one's ratio.

    first: cost of each job measured by itself. A job that was not interleaved keeps its first ratio to the fastest job,
    so it stays slower than that one. runs: of one interleaved job.
    """
    (kind,) = {cost.kind for cost in first.values()}
    middle = statistics.median(base_ms)
    costs = {group.base: Cost(middle, kind, 0.0, runs, len(base_ms))}
    for job, ratio in ratios.items():
        spread_ms = middle * (ratio.high - ratio.middle)
        costs[job] = Cost(middle * ratio.middle, kind, spread_ms, runs, ratio.rounds)
    fastest = min(costs, key=lambda job: first[job].ms)
    scale = costs[fastest].ms / first[fastest].ms
    for job in group.rest:
        cost = first[job]
        costs[job] = Cost(cost.ms * scale, kind, cost.spread_ms * scale, cost.runs)
    return costs
