"""Split of nodes that combine two choices.

A primitive's writer sees only the layout that it reads, its readers only the
layout that it writes.

A node whose neighbours distinguish few of its alternatives, each set of neighbours others, becomes two nodes with an
edge between them: 16 alternatives become 4 and 4. The optimum stays the same.
"""

from dataclasses import dataclass, replace

import numpy as np

from mavcg.choose.pbqp.instance import Costs
from mavcg.choose.pbqp.problem import Indices, PbqpProblem, SplitStep


@dataclass(frozen=True)
class _Side:
    """Neighbours that distinguish the same classes of alternatives.

    classes: [alternatives], numbers from 0. first: [classes], one alternative of each class.
    """

    neighbours: tuple[int, ...]
    classes: Indices
    first: Indices

    @property
    def count(self) -> int:
        """Number of classes."""
        return len(self.first)

    def knows(self, matrix: Costs) -> bool:
        """True if all alternatives of each class cost the same along an edge."""
        return bool((matrix[self.first][self.classes] == matrix).all())


def split_nodes(problem: PbqpProblem, first_free: int) -> None:
    """Split every node for which that reduces the alternatives; new nodes are numbered from `first_free` on."""
    for node in sorted(problem.costs):
        sides = _sides(problem, node)
        if len(sides) == 2 and sides[0].count + sides[1].count < len(problem.costs[node]):
            new = first_free + len(problem.origin)
            problem.origin[new] = node
            _split(problem, node, new, *sides)


def _sides(problem: PbqpProblem, node: int) -> list[_Side]:
    """Return the neighbours in as few sets as possible; neighbours whose classes refine each other share a set."""
    sides: list[_Side] = []
    for neighbour in sorted(problem.edges[node]):
        matrix = problem.edges[node][neighbour]
        known = next((at for at, side in enumerate(sides) if side.knows(matrix)), None)
        if known is not None:
            sides[known] = replace(sides[known], neighbours=(*sides[known].neighbours, neighbour))
            continue
        _, first, classes = np.unique(matrix, axis=0, return_index=True, return_inverse=True)
        new_side = _Side((neighbour,), classes.reshape(-1), first)
        # Sides whose classes the new ones refine are joined with it.
        separate, joined = [], [neighbour]
        for side in sides:
            if all(new_side.knows(problem.edges[node][neighbour]) for neighbour in side.neighbours):
                joined += side.neighbours
            else:
                separate.append(side)
        sides = [*separate, replace(new_side, neighbours=tuple(sorted(joined)))]
        if len(sides) > 2:
            break
    return sides


def _split(problem: PbqpProblem, node: int, new: int, near: _Side, far: _Side) -> None:
    """Split a node: it keeps the classes and neighbours of `near`, and the node `new` takes those of `far`.

    The edge between them has the cost of the cheapest alternative in both classes.
    """
    costs, labels = problem.costs[node], problem.labels[node]
    between = np.full((near.count, far.count), np.inf)
    cheapest = np.zeros(between.shape, dtype=labels.dtype)
    for at in np.argsort(-costs, kind="stable").tolist():  # the cheapest alternative is written last
        pair = near.classes[at], far.classes[at]
        between[pair], cheapest[pair] = costs[at], labels[at]
    matrices = dict(problem.edges[node])
    for neighbour in list(matrices):
        problem.drop_edge(node, neighbour)
    problem.edges[new] = {}
    for number, side in ((node, near), (new, far)):
        problem.costs[number], problem.labels[number] = np.zeros(side.count), np.arange(side.count)
        for neighbour in side.neighbours:
            problem.set_edge(number, neighbour, matrices[neighbour][side.first])
            problem.touch(number, neighbour)
    problem.set_edge(node, new, between)
    problem.touch(node, new)
    problem.steps.append(SplitStep(node, new, cheapest))
    problem.counts["split"] += 1
