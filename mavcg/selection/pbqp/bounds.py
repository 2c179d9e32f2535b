"""Lower bounds of what no reduction solves, and what they rule out: costs are moved until the nodes hold them all."""

import numpy as np

from mavcg.selection.pbqp.problem import Problem


def handshakes(problem: Problem, backwards: bool) -> None:
    """Move costs along every edge once, so that the nodes' least costs add up to a higher bound.

    No choice costs more or less than before: an edge takes all that its two nodes have, keeps what neither of them can
    have alone, and gives the rest back, half of it first. `problem.least()` never falls.
    Source: Tourani et al., "MPLP++: Fast, Parallel Dual Block-Coordinate Ascent for Dense Graphical Models", ECCV 2018
    (the handshake operation; an ascent on the dual of the linear relaxation).
    """
    pairs = sorted((a, b) for a, row in problem.edges.items() for b in row if a < b)
    for low, high in reversed(pairs) if backwards else pairs:
        a, b = (high, low) if backwards else (low, high)
        matrix = problem.edges[a][b] + problem.costs[a][:, None] + problem.costs[b]
        half = matrix.min(axis=1) / 2
        matrix -= half[:, None]
        columns = matrix.min(axis=0)
        matrix -= columns
        rows = matrix.min(axis=1)
        matrix -= rows[:, None]
        problem.costs[a] = half + rows
        problem.costs[b] = columns
        problem.set_edge(a, b, matrix)


def rule_out(problem: Problem, limit: float) -> bool:
    """Remove alternatives, and forbid pairs, with which no choice can cost less than the limit.

    Every edge must be normalised. Returns: whether anything changed that reductions can use.
    Raises: DeadEnd when no choice costs less.
    """
    bound = problem.least()
    room = limit - bound
    found = False
    for node in sorted(problem.costs):
        costs = problem.costs[node]
        over = costs - costs.min()
        if not (over < room).all():
            problem.keep(node, over < room, "too_dear")
            found = True
    for a in sorted(problem.edges):
        for b in sorted(problem.edges[a]):
            if a < b:
                over_a = problem.costs[a] - problem.costs[a].min()
                over_b = problem.costs[b] - problem.costs[b].min()
                matrix = problem.edges[a][b]
                dear = (matrix + over_a[:, None] + over_b >= room) & np.isfinite(matrix)
                if dear.any():
                    problem.set_edge(a, b, np.where(dear, np.inf, matrix))
                    problem.touch(a, b)
                    found |= bool(dear.all(axis=0).any() or dear.all(axis=1).any())
    return found
