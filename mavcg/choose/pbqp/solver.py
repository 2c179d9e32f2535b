"""`solve`: the optimum of an instance, or the best choice found in the time with a bound of its distance from it."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from mavcg.choose.pbqp.heuristic import choose_greedily
from mavcg.choose.pbqp.instance import Instance, cost_terms, total_cost
from mavcg.choose.pbqp.problem import DeadEnd, PbqpProblem, problem_of
from mavcg.choose.pbqp.reductions import reduce_with_dominance
from mavcg.choose.pbqp.search import INFINITY, Effort, SearchResult, search
from mavcg.errors import MavcgError

# Relative difference of float64 sums of a choice's costs in different orders.
_ROUNDING = 1e-12

_MOST_NAMES = 5


class Infeasible(MavcgError):
    """Raised if every choice of an instance has an infinite cost."""


@dataclass(frozen=True)
class Solution:
    """Solution of a PBQP instance.

    choice: index of the alternative by node, in the instance's order. cost: by `total_cost`. optimal: no choice costs
    less, up to rounding (1e-12 of the sum of magnitudes). lower_bound: cost that no choice can undercut; equals the
    cost if optimal. gap: (cost - lower_bound) / the larger of both in magnitude; 0 if optimal. counts: applications of
    each reduction before the search, and events of the search.
    """

    choice: Mapping[str, int]
    cost: float
    lower_bound: float
    optimal: bool
    gap: float
    counts: Mapping[str, int]
    seconds: float


def solve(instance: Instance, time_limit_s: float = 60.0) -> Solution:
    """Choose an alternative for every node at the least total cost.

    Reductions alone solve trees and series-parallel graphs. The rest is solved by branch and bound: lower bounds by
    dual ascent, removal of alternatives that are too expensive for the best known choice, and dynamic programming for
    narrow parts. The same instance gives the same choice in whatever order it lists nodes and edges, unless time runs
    out.

    Args:
        time_limit_s: wall-clock seconds, for all but the reductions that a first choice needs.
    Raises: Infeasible if every choice is infinite; MavcgError for a time limit that is not above 0, and if time runs
    out
        before any finite choice is result.
    """
    if not time_limit_s > 0:
        raise MavcgError(f"time limit: {time_limit_s} s; give a number above 0")
    begin = time.monotonic()
    effort = Effort(begin + time_limit_s)
    problem = PbqpProblem()
    names = sorted(instance.nodes)
    try:
        problem, names = problem_of(instance)
        reduce_with_dominance(problem, effort.deadline)
    except DeadEnd as dead:
        raise _dead(_with_split(names, problem), dead) from None
    choice, bound = _search_parts(instance, problem, _with_split(names, problem), effort, time_limit_s)
    named = {name: choice[i] for i, name in enumerate(names)}
    ordered = {name: named[name] for name in instance.nodes}
    cost = total_cost(instance, ordered)
    optimal = bound >= cost - _rounding(instance, ordered)
    lower = cost if optimal else bound
    return Solution(
        choice=ordered,
        cost=cost,
        lower_bound=lower,
        optimal=optimal,
        gap=0.0 if optimal else (cost - lower) / max(abs(cost), abs(lower)),
        counts=_counts(problem.counts, effort.counts),
        seconds=time.monotonic() - begin,
    )


def _search_parts(
    instance: Instance, problem: PbqpProblem, names: list[str], effort: Effort, time_limit_s: float
) -> tuple[dict[int, int], float]:
    """Return (choice of all nodes, lower bound): connected components are searched one by one, small ones first."""
    parts = sorted(problem.components(), key=lambda nodes: (len(nodes), nodes))
    subproblems = [problem.part(nodes) for nodes in parts]
    starts = []
    for subproblem in subproblems:
        effort.counts["searched_nodes"] += len(subproblem.costs)
        greedy = choose_greedily(subproblem)
        starts.append(SearchResult(subproblem.least()) if greedy is None else SearchResult(subproblem.least(), *greedy))
    if all(start.choice is not None for start in starts):
        whole = problem.complete({node: at for start in starts for node, at in (start.choice or {}).items()})
        effort.tolerance = _rounding(instance, {names[node]: at for node, at in whole.items()})
    bound, chosen = problem.constant, dict[int, int]()
    for nodes, subproblem, start in zip(parts, subproblems, starts, strict=True):
        result = search(subproblem, start, INFINITY, effort)
        if result.choice is None:
            shown = ", ".join(repr(names[node]) for node in nodes[:_MOST_NAMES])
            shown += ", .." if len(nodes) > _MOST_NAMES else ""
            if result.bound == INFINITY:
                raise Infeasible(f"nodes {shown}: every choice has infinite cost; allow a pair on one of their edges")
            raise MavcgError(f"nodes {shown}: no finite choice was found in {time_limit_s:g} s; raise the time limit")
        bound += result.bound
        chosen |= result.choice
    return problem.complete(chosen), bound


def _with_split(names: list[str], problem: PbqpProblem) -> list[str]:
    """Return names by number, extended by nodes that result from splits, which have the original's name."""
    return names + [names[problem.origin[new]] for new in sorted(problem.origin)]


def _rounding(instance: Instance, choice: Mapping[str, int]) -> float:
    return _ROUNDING * sum(map(abs, cost_terms(instance, choice)))


def _dead(names: list[str], dead: DeadEnd) -> Infeasible:
    node = names[dead.node]
    if dead.edge is None:
        return Infeasible(f"node {node!r}: all of its alternatives are infinite; give one a finite cost")
    neighbour = names[dead.edge]
    return Infeasible(
        f"node {node!r}: none of its remaining alternatives is allowed with any remaining one of {neighbour!r}; "
        "allow a pair on the edges that join them, directly or through other nodes"
    )


# Keys of `Solution.counts`, which are present even if zero.
_COUNTED = (
    "self_edges",
    "parallel_edges",
    "edges_without_choice",
    "infinite",
    "dominated",
    "split",
    "one_alternative",
    "r0",
    "r1",
    "r2",
    "searched_nodes",
    "bound_rounds",
    "blocks",
    "branches",
    "tables",
)


def _counts(reductions: Counter[str], search: Counter[str]) -> dict[str, int]:
    return {name: reductions[name] + search[name] for name in _COUNTED}
