"""`solve`: an instance's optimum, or the best that was found in the time, and how far it can be from that."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from mavcg.errors import MavcgError
from mavcg.selection.pbqp.heuristic import choose_greedily
from mavcg.selection.pbqp.instance import Instance, cost_terms, total_cost
from mavcg.selection.pbqp.problem import DeadEnd, PbqpProblem, problem_of
from mavcg.selection.pbqp.reductions import reduce_with_dominance
from mavcg.selection.pbqp.search import INFINITY, Effort, Found, search

# Of the costs that a choice adds up: what sums of float64 in another order may differ by.
_ROUNDING = 1e-12

_MOST_NAMES = 5


class Infeasible(MavcgError):
    """Every choice of an instance costs infinitely much."""


@dataclass(frozen=True)
class Solution:
    """choice: node -> index of its alternative, in the instance's order. cost: by `total_cost`, from the instance.

    optimal: no choice costs less, but for rounding (1e-12 of the costs added up). lower_bound: what no choice can
    cost less than; the cost, when optimal. gap: (cost - lower_bound) / the larger of both in magnitude; 0 when optimal.
    counts: how often which reduction was made before the search, and what the search took.
    """

    choice: Mapping[str, int]
    cost: float
    lower_bound: float
    optimal: bool
    gap: float
    counts: Mapping[str, int]
    seconds: float


def solve(instance: Instance, time_limit_s: float = 60.0) -> Solution:
    """Choose an alternative for every node so that all costs together are least.

    Reductions solve trees and series-parallel graphs alone. What they leave is solved by branch and bound: bounds by
    dual ascent, alternatives that are too dear for what is already known removed, narrow rests by dynamic programming.
    The same instance gives the same choice in whatever order it names nodes and edges, unless time runs out.

    Args:
        time_limit_s: of wall clock, for everything but the reductions that a first choice takes.
    Raises: Infeasible when every choice is infinite; MavcgError for a time limit that is not above 0, and when time
        runs out before any finite choice is found.
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
    """Return (choice of all nodes, bound of the whole): each connected part of what reductions left by itself, small
    first."""
    parts = sorted(problem.components(), key=lambda nodes: (len(nodes), nodes))
    rests = [problem.part(nodes) for nodes in parts]
    starts = []
    for rest in rests:
        effort.counts["searched_nodes"] += len(rest.costs)
        greedy = choose_greedily(rest)
        starts.append(Found(rest.least()) if greedy is None else Found(rest.least(), *greedy))
    if all(start.choice is not None for start in starts):
        whole = problem.complete({node: at for start in starts for node, at in (start.choice or {}).items()})
        effort.tolerance = _rounding(instance, {names[node]: at for node, at in whole.items()})
    bound, chosen = problem.constant, dict[int, int]()
    for nodes, rest, start in zip(parts, rests, starts, strict=True):
        found = search(rest, start, INFINITY, effort)
        if found.choice is None:
            some = ", ".join(repr(names[node]) for node in nodes[:_MOST_NAMES])
            some += ", .." if len(nodes) > _MOST_NAMES else ""
            if found.bound == INFINITY:
                raise Infeasible(f"nodes {some}: every choice of them is infinite; allow a pair on one of their edges")
            raise MavcgError(f"nodes {some}: no finite choice was found in {time_limit_s:g} s; raise the time limit")
        bound += found.bound
        chosen |= found.choice
    return problem.complete(chosen), bound


def _with_split(names: list[str], problem: PbqpProblem) -> list[str]:
    """Return names by number, also of nodes that others were split into, which have the same name."""
    return names + [names[problem.origin[new]] for new in sorted(problem.origin)]


def _rounding(instance: Instance, choice: Mapping[str, int]) -> float:
    return _ROUNDING * sum(map(abs, cost_terms(instance, choice)))


def _dead(names: list[str], dead: DeadEnd) -> Infeasible:
    node = names[dead.node]
    if dead.edge is None:
        return Infeasible(f"node {node!r}: all of its alternatives are infinite; give one a finite cost")
    other = names[dead.edge]
    return Infeasible(
        f"node {node!r}: nothing that is left of it goes with anything that is left of {other!r}; allow a pair on the "
        f"edges that join them, directly or through other nodes"
    )


# What `Solution.counts` has, whether it happened or not.
_COUNTED = (
    "self_edges", "parallel_edges", "edges_without_choice", "infinite", "dominated", "split", "one_alternative",
    "r0", "r1", "r2", "searched_nodes", "bound_rounds", "blocks", "branches", "tables",
)  # fmt: skip


def _counts(reductions: Counter[str], search: Counter[str]) -> dict[str, int]:
    return {name: reductions[name] + search[name] for name in _COUNTED}
