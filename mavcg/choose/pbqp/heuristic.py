"""Heuristic choices, fast and without proof: starting points of the search."""

import numpy as np

from mavcg.choose.pbqp.problem import DeadEnd, PbqpProblem
from mavcg.choose.pbqp.reductions import reduce


def choose_greedily(problem: PbqpProblem) -> tuple[float, dict[int, int]] | None:
    """Return a choice by heuristic RN.

    If no reduction applies, the node of highest degree takes its cheapest alternative. Then each node in turn switches
    to the best alternative beside the others, until none changes. The problem is not changed. Returns: the cost and the
    choice, by the instance's numbers; None if RN reaches a state without a finite choice. Source: Scholz and Eckstein
    2002 (RN).
    """
    remaining = problem.copy()
    try:
        while True:
            reduce(remaining)
            if not remaining.costs:
                break
            node = min(remaining.costs, key=lambda n: (-len(remaining.edges[n]), n))
            around = remaining.costs[node]
            for neighbour, matrix in remaining.edges[node].items():
                around = around + (matrix + remaining.costs[neighbour]).min(axis=1)
            remaining.fix(node, int(np.argmin(around)))
    except DeadEnd:
        return None
    chosen = remaining.complete({})
    return _local_optimum(problem, {n: int(np.searchsorted(problem.labels[n], chosen[n])) for n in problem.costs})


def choose_in_sequence(problem: PbqpProblem) -> tuple[float, dict[int, int]]:
    """Return (cost, choice) like `choose_greedily`, much faster, but good only after bounds were raised.

    Each node in sequence takes the alternative that is cheapest beside those of earlier nodes. The cost may be
    infinite.
    """
    positions: dict[int, int] = {}
    for node in sorted(problem.costs):
        around = problem.costs[node]
        for neighbour, matrix in problem.edges[node].items():
            if neighbour in positions:
                around = around + matrix[:, positions[neighbour]]
        positions[node] = int(np.argmin(around))
    return _local_optimum(problem, positions)


def _local_optimum(problem: PbqpProblem, positions: dict[int, int]) -> tuple[float, dict[int, int]]:
    _improve(problem, positions)
    return cost_at(problem, positions), {node: int(problem.labels[node][at]) for node, at in positions.items()}


def _improve(problem: PbqpProblem, positions: dict[int, int]) -> None:
    better = True
    while better:
        better = False
        for node in sorted(problem.costs):
            around = problem.costs[node]
            for neighbour, matrix in problem.edges[node].items():
                around = around + matrix[:, positions[neighbour]]
            best = int(np.argmin(around))
            if np.isfinite(around[best]) and around[best] < around[positions[node]] - 1e-12 * abs(around[best]):
                positions[node] = best
                better = True


def cost_at(problem: PbqpProblem, positions: dict[int, int]) -> float:
    """Return the cost of a choice, given as positions among the remaining alternatives."""
    cost = problem.constant
    for node, at in positions.items():
        cost += float(problem.costs[node][at])
        for neighbour, matrix in problem.edges[node].items():
            if node < neighbour:
                cost += float(matrix[at, positions[neighbour]])
    return cost
