"""Good choices, fast and without a proof: where the search starts from."""

import numpy as np

from mavcg.selection.pbqp.problem import DeadEnd, PbqpProblem
from mavcg.selection.pbqp.reductions import reduce


def choose_greedily(problem: PbqpProblem) -> tuple[float, dict[int, int]] | None:
    """Return a choice by RN: where no reduction goes on, the node with most neighbours takes what is cheapest around
    it.

    Then each node by itself takes what is best beside the others, until none changes. The problem is left as it is.
    Returns: the cost and the choice, by the instance's numbers; None when RN ends where nothing finite is left.
    Source: Scholz and Eckstein 2002 (RN).
    """
    rest = problem.copy()
    try:
        while True:
            reduce(rest)
            if not rest.costs:
                break
            node = min(rest.costs, key=lambda n: (-len(rest.edges[n]), n))
            around = rest.costs[node]
            for other, matrix in rest.edges[node].items():
                around = around + (matrix + rest.costs[other]).min(axis=1)
            rest.fix(node, int(np.argmin(around)))
    except DeadEnd:
        return None
    chosen = rest.complete({})
    return _local_optimum(problem, {n: int(np.searchsorted(problem.labels[n], chosen[n])) for n in problem.costs})


def choose_in_sequence(problem: PbqpProblem) -> tuple[float, dict[int, int]]:
    """Choose as `choose_greedily` does, and much faster, but good only once bounds were raised:

    each node takes in sequence the alternative that is cheapest by itself and beside those before it. The cost may be
    infinite.
    """
    positions: dict[int, int] = {}
    for node in sorted(problem.costs):
        around = problem.costs[node]
        for other, matrix in problem.edges[node].items():
            if other in positions:
                around = around + matrix[:, positions[other]]
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
            for other, matrix in problem.edges[node].items():
                around = around + matrix[:, positions[other]]
            best = int(np.argmin(around))
            if np.isfinite(around[best]) and around[best] < around[positions[node]] - 1e-12 * abs(around[best]):
                positions[node] = best
                better = True


def cost_at(problem: PbqpProblem, positions: dict[int, int]) -> float:
    """Return the cost of a choice, given by positions among the alternatives that are left."""
    cost = problem.constant
    for node, at in positions.items():
        cost += float(problem.costs[node][at])
        for other, matrix in problem.edges[node].items():
            if node < other:
                cost += float(matrix[at, positions[other]])
    return cost
