"""Exploration in rounds of points that are expensive to evaluate.

Points whose bounds the front dominates are skipped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.accelerators.explore.pareto import Floats, all_dominated, pareto_front

LEAST_ROUND, ROUNDS = 4, 16


@dataclass(frozen=True)
class PointRounds:
    """Result of an exploration in rounds. seen: points that were evaluated. front: those on the front, ascending."""

    seen: frozenset[int]
    front: tuple[int, ...]


def explore_rounds(
    order: Sequence[int],
    bounds: Floats,
    prune: bool,
    evaluate: Callable[[Sequence[int]], Mapping[int, Floats]],
    begin: Callable[[int], None],
) -> PointRounds:
    """Return the front of all points. evaluate: returns the objectives of points, without those that are infeasible.

    order: in which points are evaluated. bounds: lower bounds of the objectives, [point, objective]. With `prune` a
    point is skipped if points of earlier rounds dominate its bounds. begin: called with the number of points done.
    """
    values, points = np.empty((0, bounds.shape[1])), np.empty(0, np.int64)
    seen: set[int] = set()
    size = max(LEAST_ROUND, -(-len(order) // ROUNDS))
    for start in range(0, len(order), size):
        begin(start)
        group = list(order[start : start + size])
        if prune and len(values):
            group = [i for i in group if not all_dominated(bounds[i : i + 1], values)]
        seen |= set(group)
        objectives = evaluate(group)
        feasible = [i for i in group if i in objectives]
        if feasible:
            values = np.concatenate([values, np.array([objectives[i] for i in feasible])])
            points = np.concatenate([points, np.array(feasible, np.int64)])
            on_front = pareto_front(values)
            values, points = values[on_front], points[on_front]
    return PointRounds(frozenset(seen), tuple(sorted(points.tolist())))
