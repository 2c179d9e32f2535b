"""Branch and bound over the problem that reductions leave.

Why not CP-SAT: it needs integer costs, and a Boolean for each pair of alternatives. On dense random graphs of 10 to 12
nodes and 5 alternatives, where both are exact, it took 10 to 40 times as long.
"""

import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from mavcg.choose.pbqp.blocks import leaf_block
from mavcg.choose.pbqp.bounds import Bound
from mavcg.choose.pbqp.heuristic import choose_in_sequence
from mavcg.choose.pbqp.problem import BlockStep, DeadEnd, PbqpProblem
from mavcg.choose.pbqp.reductions import reduce
from mavcg.choose.pbqp.tables import elimination_order, solve_by_tables

INFINITY = float("inf")

# Problems whose tables have at most this many entries are solved by tables, which is faster than bounds.
MOST_TABLE_ENTRIES = 1 << 14

# Consecutive rounds of moving costs: before the first branch, and after each branch.
_ROUNDS_AT_FIRST = 100
_ROUNDS_LATER = 8

# Reductions are run again once this fraction of the alternatives is ruled out.
_WORTH_REDUCING = 0.2

# Rounds stop when one closes less than this fraction of the remaining gap.
_LEAST_PROGRESS = 0.01


@dataclass
class Effort:
    """Limits and counts of a search. deadline: by time.monotonic. tolerance: bound of the sum's rounding error."""

    deadline: float
    tolerance: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.deadline


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    bound: no choice costs less. choice: by the instance's numbers, None if none was found. cost: of the choice.
    """

    bound: float
    cost: float = INFINITY
    choice: dict[int, int] | None = None


def search(
    problem: PbqpProblem, known: SearchResult, limit: float, effort: Effort, is_first: bool = True
) -> SearchResult:
    """Return the cheapest choice of the problem's nodes, if it costs less than the limit and than the known choice.

    The problem is modified. Returns: the known choice if none is cheaper; a bound below cost and limit if time ran out.
    """
    best, open_bound = known, INFINITY
    limit = min(limit, known.cost)
    while True:
        try:
            reduce(problem)
            solved = _without_branching(problem, limit, effort)
            if solved is not None:
                best = solved if solved.cost < best.cost else best
                return SearchResult(min(open_bound, solved.bound, limit), best.cost, best.choice)
            narrowed = _tighten(problem, limit, effort, _ROUNDS_AT_FIRST if is_first else _ROUNDS_LATER)
        except DeadEnd:
            return SearchResult(min(open_bound, limit), best.cost, best.choice)
        if effort.is_over:
            return SearchResult(min(open_bound, problem.least(), limit), best.cost, best.choice)
        if narrowed:
            continue
        cost, choice = choose_in_sequence(problem)
        if cost < limit - effort.tolerance:
            best = SearchResult(known.bound, cost, problem.complete(choice))
            limit = cost
            continue
        block = leaf_block(problem)
        if block is not None:
            try:
                folded = _fold(problem, *block, limit, effort)
            except DeadEnd:  # the known choice is optimal
                return SearchResult(min(open_bound, limit), best.cost, best.choice)
            if not folded:
                return SearchResult(min(open_bound, problem.least(), limit), best.cost, best.choice)
            continue
        is_first = False
        node, position = _branch(problem)
        effort.counts["branches"] += 1
        child = problem.copy()
        start = SearchResult(child.least())
        try:
            child.fix(node, position)
            result = search(child, start, limit, effort, False)
        except DeadEnd:
            result = SearchResult(INFINITY)
        open_bound = min(open_bound, result.bound)
        if result.choice is not None and result.cost < limit:
            label = int(problem.labels[node][position])
            best = SearchResult(known.bound, result.cost, problem.complete(result.choice | {node: label}))
            limit = result.cost
        others = np.ones(len(problem.costs[node]), dtype=bool)
        others[position] = False
        problem.keep(node, others, "branched")


def _without_branching(problem: PbqpProblem, limit: float, effort: Effort) -> SearchResult | None:
    """Return the solution of a problem that is empty, small, narrow or disconnected; None if it needs branching."""
    if not problem.costs:
        return SearchResult(problem.constant, problem.constant, problem.complete({}))
    parts = problem.components()
    if len(parts) > 1:
        return _solve_components(problem, [problem.part(nodes) for nodes in parts], limit, effort)
    order = elimination_order(problem, MOST_TABLE_ENTRIES)
    if order is None:
        return None
    effort.counts["tables"] += 1
    cost, choice = solve_by_tables(problem, order)
    return SearchResult(cost, cost, problem.complete(choice))


def _solve_components(problem: PbqpProblem, parts: list[PbqpProblem], limit: float, effort: Effort) -> SearchResult:
    """Solve each connected component by itself; the lower bounds of the others reduce the limit of each."""
    lower = [part.least() for part in parts]
    cost, chosen = problem.constant, dict[int, int]()
    for i in sorted(range(len(parts)), key=lambda i: (len(parts[i].costs), i)):
        others = problem.constant + sum(lower) - lower[i]
        result = search(parts[i], SearchResult(lower[i]), limit - others, effort, False)
        lower[i] = max(lower[i], result.bound)
        if result.choice is None:
            return SearchResult(problem.constant + sum(lower))
        cost += result.cost
        chosen |= result.choice
    return SearchResult(problem.constant + sum(lower), cost, problem.complete(chosen))


def _tighten(problem: PbqpProblem, limit: float, effort: Effort, rounds: int) -> bool:
    """Raise the lower bound while that makes progress. Returns.

    Whether enough alternatives were ruled out to reduce again.
    Raises: DeadEnd if no choice costs less than the limit.
    """
    moved = Bound(problem)
    enough = moved.alternatives * (1 - _WORTH_REDUCING)
    before = moved.least()
    moved.rule_out(limit - effort.tolerance)
    for number in range(rounds):
        if moved.alternatives < enough or effort.is_over:
            break
        moved.raise_bound(backwards=bool(number % 2))
        effort.counts["bound_rounds"] += 1
        if number % 2:
            moved.rule_out(limit - effort.tolerance)
            bound = moved.least()
            if bound - before < _LEAST_PROGRESS * (limit - bound):
                break
            before = bound
    moved.write_back()
    return moved.alternatives < enough


def _fold(problem: PbqpProblem, cut: int, nodes: list[int], limit: float, effort: Effort) -> bool:
    """Add the least cost of a leaf block, for each alternative of its cut node, to that node's costs.

    limit: of the whole problem; alternatives that lead to no cheaper choice are removed. Returns: False if time ran
    out, with the problem unchanged. Raises: DeadEnd if no alternative is left.
    """
    effort.counts["blocks"] += 1
    inside = sum(float(problem.costs[node].min()) for node in nodes)
    outside = problem.least() - inside + problem.costs[cut] - problem.costs[cut].min()
    more = np.full(len(outside), np.inf)
    choices: dict[int, dict[int, int]] = {}
    for position in np.argsort(outside, kind="stable").tolist():
        part = problem.part([cut, *nodes])
        part.costs[cut] = np.zeros(len(outside))
        try:
            part.fix(cut, position)
        except DeadEnd:
            continue
        room = limit - float(outside[position])
        result = search(part, SearchResult(part.least()), room, effort, False)
        if effort.is_over:
            return False
        if result.choice is not None:
            more[position] = result.cost
            choices[int(problem.labels[cut][position])] = result.choice
    problem.forget(nodes, BlockStep(cut, choices))
    problem.add_costs(cut, more)
    return True


def _branch(problem: PbqpProblem) -> tuple[int, int]:
    """Return the node with most pairs of alternatives on its edges, and its cheapest alternative."""

    def pairs(node: int) -> int:
        return len(problem.costs[node]) * sum(len(problem.costs[neighbour]) for neighbour in problem.edges[node])

    node = max(sorted(problem.costs), key=pairs)
    return node, int(np.argmin(problem.costs[node]))
