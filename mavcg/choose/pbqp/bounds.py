"""Lower bounds by dual ascent, and the alternatives that they rule out.

Costs move along edges until the nodes hold them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.choose.pbqp.instance import Costs
from mavcg.choose.pbqp.problem import DeadEnd, Indices, PbqpProblem


@dataclass(frozen=True)
class _Matching:
    """Disjoint edges (no two share a node), so that one array operation moves costs along all of them.

    a, b: [edges], positions of their nodes. costs: [edges, largest number of alternatives of a, of b], infinite beyond
    a node's own alternatives.
    """

    a: Indices
    b: Indices
    costs: Costs


class Bound:
    """Costs of a problem as blocks of arrays, while they are moved; `write_back` returns them to the problem.

    The cost of every choice stays the same, except for choices that `rule_out` removes.
    """

    def __init__(self, problem: PbqpProblem) -> None:
        """Copy the problem's costs. Every edge of the problem must be normalised."""
        self._problem = problem
        self._nodes = sorted(problem.costs)
        most = max(len(costs) for costs in problem.costs.values())
        self._costs = np.zeros((len(self._nodes), most))
        self._is_real = np.zeros(self._costs.shape, dtype=bool)
        for i, node in enumerate(self._nodes):
            costs = problem.costs[node]
            self._costs[i, : len(costs)] = costs
            self._is_real[i, : len(costs)] = True
        self._matchings = [self._match(pairs) for pairs in _disjoint(problem)]

    def _match(self, pairs: Sequence[tuple[int, int]]) -> _Matching:
        position = {node: i for i, node in enumerate(self._nodes)}
        matrices = [self._problem.edges[a][b] for a, b in pairs]
        shape = (len(pairs), max(len(m) for m in matrices), max(m.shape[1] for m in matrices))
        costs = np.full(shape, np.inf)
        for block, matrix in zip(costs, matrices, strict=True):
            block[: matrix.shape[0], : matrix.shape[1]] = matrix
        a, b = (np.array([position[pair[end]] for pair in pairs]) for end in (0, 1))
        return _Matching(a, b, costs)

    def least(self) -> float:
        """Return a lower bound of the cost of every choice."""
        return self._problem.constant + float(self._minima().sum())

    def _minima(self) -> Costs:
        minima: Costs = np.where(self._is_real, self._costs, np.inf).min(axis=1)
        return minima

    def raise_bound(self, backwards: bool) -> None:
        """Move costs along every edge once: the bound never falls, and usually rises.

        An edge takes all costs of its two nodes, keeps what depends on the pair, and returns the rest to the nodes,
        half of it
        first. The order of edges alternates from call to call.
        Source: Tourani et al., "MPLP++: Fast, Parallel Dual Block-Coordinate Ascent for Dense Graphical Models", ECCV
        2018 (the
        handshake operation; an ascent on the dual of the linear relaxation).
        """
        for matching in reversed(self._matchings) if backwards else self._matchings:
            costs = matching.costs.transpose(0, 2, 1) if backwards else matching.costs
            a, b = (matching.b, matching.a) if backwards else (matching.a, matching.b)
            wide_a, wide_b = costs.shape[1:]
            costs += self._costs[a, :wide_a, None]
            costs += self._costs[b, None, :wide_b]
            half = _finite(costs.min(axis=2)) / 2
            costs -= half[:, :, None]
            columns = _finite(costs.min(axis=1))
            costs -= columns[:, None, :]
            rows = _finite(costs.min(axis=2))
            costs -= rows[:, :, None]
            self._costs[a, :wide_a] = half + rows
            self._costs[b, :wide_b] = columns

    def rule_out(self, limit: float) -> None:
        """Forbid alternatives, and pairs of them, with which no choice can cost less than the limit.

        Raises: DeadEnd if no choice costs less.
        """
        minima = self._minima()
        room = limit - self._problem.constant - float(minima.sum())
        if not room > 0:
            raise DeadEnd(self._nodes[0])
        over = np.where(self._is_real, self._costs - minima[:, None], np.inf)
        stays = over < room
        fewer = bool((stays != self._is_real).any())
        self._is_real &= stays
        for matching in self._matchings:
            wide_a, wide_b = matching.costs.shape[1:]
            dear = matching.costs + over[matching.a, :wide_a, None] + over[matching.b, None, :wide_b] >= room
            dear &= np.isfinite(matching.costs)
            if dear.any():
                matching.costs[dear] = np.inf
                fewer = True
        if fewer:
            self._remove_without_partner()

    def _remove_without_partner(self) -> None:
        """Remove alternatives whose pairs along some edge are all forbidden, and the pairs that contain them."""
        remaining = -1
        while remaining != (remaining := self.alternatives):
            for matching in self._matchings:
                a, b, costs = matching.a, matching.b, matching.costs
                wide_a, wide_b = costs.shape[1:]
                costs[~self._is_real[a, :wide_a]] = np.inf
                costs.transpose(0, 2, 1)[~self._is_real[b, :wide_b]] = np.inf
                allowed = np.isfinite(costs)
                self._is_real[a, :wide_a] = allowed.any(axis=2)
                self._is_real[b, :wide_b] = allowed.any(axis=1)
        self._costs[~self._is_real] = 0
        empty = np.flatnonzero(~self._is_real.any(axis=1))
        if len(empty):
            raise DeadEnd(self._nodes[int(empty[0])])

    @property
    def alternatives(self) -> int:
        """Number of remaining alternatives of all nodes."""
        return int(np.count_nonzero(self._is_real))

    def write_back(self) -> None:
        """Write the moved costs of the remaining alternatives back to the problem.

        Marks the edges to be normalised: those in which a row or column has no zero any more, or all costs are zero.
        """
        problem = self._problem
        kept = [np.flatnonzero(real) for real in self._is_real]
        for i, node in enumerate(self._nodes):
            problem.costs[node] = self._costs[i, kept[i]]
            problem.labels[node] = problem.labels[node][kept[i]]
        for matching in self._matchings:
            costs = matching.costs
            uneven = (_finite(costs.min(axis=2)) > 0).any(axis=1) | (_finite(costs.min(axis=1)) > 0).any(axis=1)
            pairs = (
                self._is_real[matching.a, : costs.shape[1], None] & self._is_real[matching.b, None, : costs.shape[2]]
            )
            empty = np.where(pairs, costs, 0).max(axis=(1, 2)) == 0
            for a, b, matrix, to_do in zip(
                matching.a.tolist(), matching.b.tolist(), costs, (uneven | empty).tolist(), strict=True
            ):
                problem.set_edge(self._nodes[a], self._nodes[b], matrix[kept[a][:, None], kept[b]])
                if to_do:
                    problem.touch(self._nodes[a], self._nodes[b])


def _finite(costs: Costs) -> Costs:
    """Replace infinite costs, which are minima over no alternatives, by 0, in place."""
    costs[np.isinf(costs)] = 0
    return costs


def _disjoint(problem: PbqpProblem) -> list[list[tuple[int, int]]]:
    """Return the edges in few sets without a common node; edges of similar numbers of alternatives share a set.

    Arrays of a set are padded to its largest edge.
    """
    size = {node: len(costs) for node, costs in problem.costs.items()}
    pairs = [(a, b) for a in sorted(problem.edges) for b in sorted(problem.edges[a]) if a < b]
    pairs.sort(key=lambda pair: -size[pair[0]] * size[pair[1]])
    sets: list[list[tuple[int, int]]] = []
    used: dict[int, int] = dict.fromkeys(size, 0)  # by node: a bit for each set that contains it
    for a, b in pairs:
        free = ~(used[a] | used[b])
        bit = free & -free
        used[a] |= bit
        used[b] |= bit
        number = bit.bit_length() - 1
        if number == len(sets):
            sets.append([])
        sets[number].append((a, b))
    return sets
