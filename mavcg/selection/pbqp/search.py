"""Branch and bound over what reductions leave.

Why not CP-SAT, which is at hand: it takes whole numbers, and a Boolean for each pair of alternatives. On dense random
graphs of 10 to 12 nodes and 5 alternatives, where both are exact, it took 10 to 40 times as long as this.
"""

import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from mavcg.selection.pbqp.blocks import leaf_block
from mavcg.selection.pbqp.bounds import Bound
from mavcg.selection.pbqp.heuristic import choose_in_sequence
from mavcg.selection.pbqp.problem import BlockStep, DeadEnd, PbqpProblem
from mavcg.selection.pbqp.reductions import reduce
from mavcg.selection.pbqp.tables import order_of_leaving, solve_by_tables

INFINITY = float("inf")

# Entries of tables, all together, that are filled sooner than bounds are found.
MOST_TABLE_ENTRIES = 1 << 14

# Rounds of moving costs in a row: before the first branch, and after each.
_ROUNDS_AT_FIRST = 100
_ROUNDS_LATER = 8

# Reductions go on once this part of the alternatives is ruled out.
_WORTH_REDUCING = 0.2

# Rounds stop when one closes less than this of the gap that is left.
_LEAST_PROGRESS = 0.01


@dataclass
class Effort:
    """Limits of a search, and its counts. deadline: by time.monotonic. tolerance: the sum of rounding errors."""

    deadline: float
    tolerance: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.deadline


@dataclass(frozen=True)
class Found:
    """bound: no choice costs less. choice: by the instance's numbers, None where none was found; cost: its cost."""

    bound: float
    cost: float = INFINITY
    choice: dict[int, int] | None = None


def search(problem: PbqpProblem, known: Found, limit: float, effort: Effort, is_first: bool = True) -> Found:
    """Return the cheapest choice of the problem's nodes, if one costs less than the limit and than the known one.

    The problem is used up. Returns: the known choice where none is cheaper; a bound below cost and limit where time
    ran out.
    """
    best, open_bound = known, INFINITY
    limit = min(limit, known.cost)
    while True:
        try:
            reduce(problem)
            solved = _without_branching(problem, limit, effort)
            if solved is not None:
                best = solved if solved.cost < best.cost else best
                return Found(min(open_bound, solved.bound, limit), best.cost, best.choice)
            narrowed = _tighten(problem, limit, effort, _ROUNDS_AT_FIRST if is_first else _ROUNDS_LATER)
        except DeadEnd:
            return Found(min(open_bound, limit), best.cost, best.choice)
        if effort.is_over:
            return Found(min(open_bound, problem.least(), limit), best.cost, best.choice)
        if narrowed:
            continue
        cost, choice = choose_in_sequence(problem)
        if cost < limit - effort.tolerance:
            best = Found(known.bound, cost, problem.complete(choice))
            limit = cost
            continue
        block = leaf_block(problem)
        if block is not None:
            try:
                folded = _fold(problem, *block, limit, effort)
            except DeadEnd:  # the known choice is the best
                return Found(min(open_bound, limit), best.cost, best.choice)
            if not folded:
                return Found(min(open_bound, problem.least(), limit), best.cost, best.choice)
            continue
        is_first = False
        node, position = _branch(problem)
        effort.counts["branches"] += 1
        child = problem.copy()
        start = Found(child.least())
        try:
            child.fix(node, position)
            found = search(child, start, limit, effort, False)
        except DeadEnd:
            found = Found(INFINITY)
        open_bound = min(open_bound, found.bound)
        if found.choice is not None and found.cost < limit:
            label = int(problem.labels[node][position])
            best = Found(known.bound, found.cost, problem.complete(found.choice | {node: label}))
            limit = found.cost
        others = np.ones(len(problem.costs[node]), dtype=bool)
        others[position] = False
        problem.keep(node, others, "branched")


def _without_branching(problem: PbqpProblem, limit: float, effort: Effort) -> Found | None:
    """Return the solution of an instance that is empty, small, narrow or not connected; None where it takes a
    branch."""
    if not problem.costs:
        return Found(problem.constant, problem.constant, problem.complete({}))
    parts = problem.components()
    if len(parts) > 1:
        return _parts(problem, [problem.part(nodes) for nodes in parts], limit, effort)
    order = order_of_leaving(problem, MOST_TABLE_ENTRIES)
    if order is None:
        return None
    effort.counts["tables"] += 1
    cost, choice = solve_by_tables(problem, order)
    return Found(cost, cost, problem.complete(choice))


def _parts(problem: PbqpProblem, parts: list[PbqpProblem], limit: float, effort: Effort) -> Found:
    """Solve each connected part by itself: the least cost of the others lowers the limit of one."""
    lower = [part.least() for part in parts]
    cost, chosen = problem.constant, dict[int, int]()
    for i in sorted(range(len(parts)), key=lambda i: (len(parts[i].costs), i)):
        others = problem.constant + sum(lower) - lower[i]
        found = search(parts[i], Found(lower[i]), limit - others, effort, False)
        lower[i] = max(lower[i], found.bound)
        if found.choice is None:
            return Found(problem.constant + sum(lower))
        cost += found.cost
        chosen |= found.choice
    return Found(problem.constant + sum(lower), cost, problem.complete(chosen))


def _tighten(problem: PbqpProblem, limit: float, effort: Effort, rounds: int) -> bool:
    """Raise the bound for as long as that goes well. Returns: whether something for reductions came of it.

    Raises: DeadEnd when no choice costs less than the limit.
    """
    moved = Bound(problem)
    enough = moved.alternatives * (1 - _WORTH_REDUCING)
    before = moved.least()
    moved.rule_out(limit - effort.tolerance)
    for number in range(rounds):
        if moved.alternatives < enough or effort.is_over:
            break
        moved.raise_it(backwards=bool(number % 2))
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
    """Put what a part costs at least, for each alternative of the node it hangs on, into that node's costs.

    limit: of the whole problem; where an alternative leads to no cheaper choice, it goes.
    Returns: False when time ran out, and the problem is as it was. Raises: DeadEnd when no alternative is left.
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
        found = search(part, Found(part.least()), room, effort, False)
        if effort.is_over:
            return False
        if found.choice is not None:
            more[position] = found.cost
            choices[int(problem.labels[cut][position])] = found.choice
    problem.forget(nodes, BlockStep(cut, choices))
    problem.add_costs(cut, more)
    return True


def _branch(problem: PbqpProblem) -> tuple[int, int]:
    """Return the node with most pairs of alternatives on its edges, and the alternative that looks cheapest."""

    def pairs(node: int) -> int:
        return len(problem.costs[node]) * sum(len(problem.costs[other]) for other in problem.edges[node])

    node = max(sorted(problem.costs), key=pairs)
    return node, int(np.argmin(problem.costs[node]))
