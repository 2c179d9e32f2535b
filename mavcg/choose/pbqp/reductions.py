"""Reductions that keep an optimum: R0, RI and RII, nodes with one alternative, dominated alternatives.

Source: Scholz and Eckstein, "Register Allocation for Irregular Architectures", LCTES 2002 (R0, RI, RII, RN); Hames and
Scholz, "Nearly Optimal Register Allocation with PBQP", 2006 (edges without choice, dominance).
"""

import heapq
import time
from collections.abc import Iterable

import numpy as np

from mavcg.choose.pbqp.instance import Costs
from mavcg.choose.pbqp.problem import PbqpProblem
from mavcg.choose.pbqp.split import split_nodes

# Sums in one NumPy batch while a node of degree two is eliminated: as many as fit a cache.
_SUMS_AT_ONCE = 1 << 17


# Rounds of the search for dominated alternatives: later rounds find little, and bounds find it, too.
_ROUNDS = 2


def reduce_with_dominance(problem: PbqpProblem, deadline: float) -> None:
    """Run `reduce`, and remove dominated alternatives; past the deadline (time.monotonic) run `reduce` only.

    Raises: DeadEnd if a node has no finite alternative left.
    """
    first_free = max(problem.costs, default=-1) + 1
    for node in sorted(problem.costs):
        _merge_equal(problem, node)
    reduce(problem)
    split_nodes(problem, first_free)
    reduce(problem)
    problem.changed = set(problem.costs)
    for _ in range(_ROUNDS):
        to_do, problem.changed = sorted(problem.changed), set()
        for node in to_do:
            if time.monotonic() < deadline and node in problem.costs:
                _remove_dominated(problem, node)
        reduce(problem)


def reduce(problem: PbqpProblem, start: Iterable[int] | None = None) -> None:
    """Normalise dirty edges and eliminate nodes of degree 0 to 2 or with one alternative, until none is left.

    start: nodes to examine besides those with dirty edges; None: all. Raises: DeadEnd if a node has no finite
    alternative left.
    """
    queue: list[tuple[int, int, int]] = []
    touched = set(problem.costs if start is None else start)
    while queue or touched or problem.dirty:
        while problem.dirty:
            a, b = next(iter(problem.dirty))
            problem.normalise(a, b)
            touched |= {a, b}
        for node in touched:
            _queue(problem, node, queue)
        touched = set()
        if queue:
            entry = heapq.heappop(queue)
            node = entry[2]
            if node not in problem.costs:
                continue
            if entry != _entry(problem, node):
                _queue(problem, node, queue)
                continue
            touched = set(problem.edges[node])
            _take_out(problem, node)


def _queue(problem: PbqpProblem, node: int, queue: list[tuple[int, int, int]]) -> None:
    """Add a node that can be eliminated to the queue.

    It may be in the queue already, and only its valid entry counts.
    """
    if node in problem.costs and (len(problem.edges[node]) <= 2 or len(problem.costs[node]) == 1):
        heapq.heappush(queue, _entry(problem, node))


def _entry(problem: PbqpProblem, node: int) -> tuple[int, int, int]:
    """Return a node's priority of elimination: cheapest first, ties by the lower number."""
    work = len(problem.costs[node])
    if work == 1:
        return (0, 1, node)
    for neighbour in problem.edges[node]:
        work *= len(problem.costs[neighbour])
    return (len(problem.edges[node]), work, node)


def _take_out(problem: PbqpProblem, node: int) -> None:
    costs, neighbours = problem.costs[node], sorted(problem.edges[node])
    if len(costs) == 1:
        problem.counts["one_alternative"] += 1
        problem.fix(node, 0)
        return
    problem.counts[("r0", "r1", "r2")[len(neighbours)]] += 1
    if not neighbours:
        problem.constant += float(costs.min())
        problem.take_out(node)
    elif len(neighbours) == 1:
        more = (costs[:, None] + problem.edges[node][neighbours[0]]).min(axis=0)
        problem.take_out(node)
        problem.add_costs(neighbours[0], more, node)
    else:
        a, b = neighbours
        joint = _least_between(problem.edges[a][node] + costs, problem.edges[node][b])
        problem.take_out(node)
        problem.add_edge(a, b, joint)


def _least_between(left: Costs, right: Costs) -> Costs:
    """Return the matrix [a, b] of min over n of left[a, n] + right[n, b]."""
    least = np.full((left.shape[0], right.shape[1]), np.inf)
    step = max(1, _SUMS_AT_ONCE // least.size)
    for at in range(0, right.shape[0], step):
        sums = left[:, at : at + step, None] + right[None, at : at + step, :]
        np.minimum(least, sums.min(axis=1), out=least)
    return least


def _merge_equal(problem: PbqpProblem, node: int) -> None:
    """Keep the cheapest of alternatives with equal costs along every edge, as most primitives of one layout have."""
    matrices = [problem.edges[node][neighbour] for neighbour in sorted(problem.edges[node])]
    if not matrices:
        return
    table = np.concatenate(matrices, axis=1)
    costs = problem.costs[node].tolist()
    best: dict[bytes, int] = {}
    for at, cost in enumerate(costs):
        row = table[at].tobytes()
        if row not in best or cost < costs[best[row]]:
            best[row] = at
    stays = np.zeros(len(costs), dtype=bool)
    stays[list(best.values())] = True
    problem.keep(node, stays, "dominated")


def _remove_dominated(problem: PbqpProblem, node: int) -> None:
    """Remove alternatives for which another one is at least as good whatever the neighbours choose.

    a dominates b if cost(a) - cost(b) + sum over edges of max over t of (edge(a, t) - edge(b, t)) <= 0. Edges must not
    be negative. In normalised edges rows have a zero, so no maximum is negative and a cannot cost more than b:
    alternatives are compared with cheaper ones only. Source: Desmet et al., "The dead-end elimination theorem", Nature
    1992; Goldstein's form of 1994.
    """
    costs = problem.costs[node]
    matrices = list(problem.edges[node].values())
    if len(costs) == 1 or not matrices:
        return
    worst = costs + sum(matrix.max(axis=1) for matrix in matrices)
    best = int(np.argmin(worst))
    stays = costs < worst[best]
    stays[best] = True
    problem.keep(node, stays, "dominated")
    costs = problem.costs[node]
    table = np.concatenate([problem.edges[node][neighbour] for neighbour in problem.edges[node]], axis=1)
    starts = np.cumsum([0, *(len(problem.costs[neighbour]) for neighbour in problem.edges[node])])[:-1]
    undominated: list[int] = []
    for b in np.argsort(costs, kind="stable").tolist():
        if undominated and _is_dominated(costs, table, starts, undominated, b):
            continue
        undominated.append(b)
    stays = np.zeros(len(costs), dtype=bool)
    stays[undominated] = True
    problem.keep(node, stays, "dominated")


def _is_dominated(costs: Costs, table: Costs, starts: np.ndarray, candidates: list[int], b: int) -> bool:
    """True if one of `candidates` dominates b. starts: index of each edge's first column in the table."""
    row = table[b]
    # In columns where b is forbidden nothing is worse than b, so they are ignored.
    allowed = np.isfinite(row)
    differences = table[candidates] - np.where(allowed, row, 0.0)
    differences[:, ~allowed] = -np.inf
    with np.errstate(invalid="ignore"):  # inf - inf, if one edge forbids all of b and another some of a
        more = np.maximum.reduceat(differences, starts, axis=1).sum(axis=1)
    return bool(((costs[candidates] + more) <= costs[b]).any())
