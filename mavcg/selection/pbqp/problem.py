"""An instance while it is being solved: alternatives and nodes leave it, and each that leaves can be won back."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mavcg.selection.pbqp.instance import Costs, Instance

Indices = NDArray[np.intp]

# A matrix that is a row's cost plus a column's costs nothing more than rounding once both are taken away.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


class DeadEnd(Exception):
    """Nothing is left to choose at `node`; edge: the other end of the edge that forbade it, if one did."""

    def __init__(self, node: int, edge: int | None = None) -> None:
        super().__init__(node, edge)
        self.node = node
        self.edge = edge


@dataclass(frozen=True)
class EliminationStep:
    """A node that was taken out: its choice follows from its neighbours'. matrices: [own, neighbour's]."""

    node: int
    costs: Costs
    labels: Indices
    neighbours: tuple[tuple[int, Indices, Costs], ...]


@dataclass(frozen=True)
class BlockStep:
    """A part that hung on one node: its choices for each alternative of that node, by the instance's numbers."""

    cut: int
    choices: Mapping[int, Mapping[int, int]]


@dataclass(frozen=True)
class SplitStep:
    """A node that became two: `node` and `new`. numbers: its alternatives by theirs."""

    node: int
    new: int
    numbers: Indices


@dataclass
class PbqpProblem:
    """Nodes by number. Arrays are never changed in place: copies share them.

    constant: cost of every choice. costs: node -> [alternatives left], all finite. labels: node -> [alternatives left],
    their numbers in the instance, ascending. edges: node -> neighbour -> [own, neighbour's], and the transpose there.
    dirty: edges, the lower node first, that are to be normalised; an ordered set. changed: nodes whose alternatives, or
    whose neighbours or edges, are no longer what they were when dominated alternatives were last looked for. origin: of
    nodes that a node was split into, the node.
    """

    constant: float = 0.0
    costs: dict[int, Costs] = field(default_factory=dict)
    labels: dict[int, Indices] = field(default_factory=dict)
    edges: dict[int, dict[int, Costs]] = field(default_factory=dict)
    steps: list[EliminationStep | BlockStep | SplitStep] = field(default_factory=list)
    dirty: dict[tuple[int, int], None] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    origin: dict[int, int] = field(default_factory=dict)

    def copy(self) -> "PbqpProblem":
        """Return the same problem without its past: choices of its nodes are what can be won back."""
        edges = {node: dict(row) for node, row in self.edges.items()}
        return PbqpProblem(
            self.constant, dict(self.costs), dict(self.labels), edges, [], dict(self.dirty), set(self.changed)
        )

    def part(self, nodes: Iterable[int]) -> "PbqpProblem":
        """Return some nodes and the edges between them, without the constant."""
        some = set(nodes)
        made = PbqpProblem()
        for node in sorted(some):
            made.costs[node], made.labels[node] = self.costs[node], self.labels[node]
            made.edges[node] = {other: matrix for other, matrix in self.edges[node].items() if other in some}
        made.dirty = {pair: None for pair in self.dirty if some.issuperset(pair)}
        return made

    def set_edge(self, a: int, b: int, matrix: Costs) -> None:
        """Put the costs of an edge, [a's, b's], instead of what was there."""
        self.edges[a][b] = matrix
        self.edges[b][a] = matrix.T

    def add_edge(self, a: int, b: int, matrix: Costs) -> None:
        """Add costs to an edge, which may be new. matrix: [alternatives of a, alternatives of b]."""
        known = self.edges[a].get(b)
        self.set_edge(a, b, matrix if known is None else known + matrix)
        self.touch(a, b)

    def drop_edge(self, a: int, b: int) -> None:
        del self.edges[a][b], self.edges[b][a]
        self.dirty.pop((min(a, b), max(a, b)), None)
        self.changed |= {a, b}

    def touch(self, a: int, b: int) -> None:
        """Have an edge normalised when reductions go on."""
        self.dirty[min(a, b), max(a, b)] = None
        self.changed |= {a, b}

    def keep(self, node: int, which: NDArray[np.bool_], why: str, edge: int | None = None) -> None:
        """Take the other alternatives out. which: [alternatives]. Raises: DeadEnd when none is kept."""
        if which.all():
            return
        self.counts[why] += int(np.count_nonzero(~which))
        if not which.any():
            raise DeadEnd(node, edge)
        self.costs[node] = self.costs[node][which]
        self.labels[node] = self.labels[node][which]
        for other, matrix in list(self.edges[node].items()):
            self.set_edge(node, other, matrix[which])
            self.touch(node, other)

    def add_costs(self, node: int, more: Costs, edge: int | None = None) -> None:
        """Add to a node's costs, [alternatives]; what becomes infinite leaves."""
        costs = self.costs[node] + more
        self.costs[node] = costs
        self.keep(node, np.isfinite(costs), "infinite", edge)

    def normalise(self, a: int, b: int) -> None:
        """Move what an edge costs in any case to its nodes: each row and column then has a zero.

        An edge of which nothing is left goes. Raises: DeadEnd when it allows no pair.
        """
        matrix = self.edges[a][b]
        rows = matrix.min(axis=1)
        if rows.max() == np.inf:
            self.keep(a, rows < np.inf, "infinite", b)
            matrix = self.edges[a][b]
            rows = matrix.min(axis=1)
        rest = matrix - rows[:, None]
        columns = rest.min(axis=0)
        if columns.max() == np.inf:
            which = columns < np.inf
            self.keep(b, which, "infinite", a)
            matrix, rest, columns = matrix[:, which], rest[:, which], columns[which]
        rest -= columns
        self.costs[a] = self.costs[a] + rows
        self.costs[b] = self.costs[b] + columns
        most = float(rest.max())
        if most == 0 or (most < np.inf and most <= _ROUNDING * float(np.abs(matrix).max())):
            self.drop_edge(a, b)
            self.counts["edges_without_choice"] += 1
        else:
            self.set_edge(a, b, rest)
            self.dirty.pop((min(a, b), max(a, b)), None)

    def take_out(self, node: int) -> None:
        """Forget a node whose costs its neighbours have taken over; its choice is won back from theirs."""
        neighbours = tuple((other, self.labels[other], matrix) for other, matrix in self.edges[node].items())
        self.steps.append(EliminationStep(node, self.costs[node], self.labels[node], neighbours))
        for other in list(self.edges[node]):
            self.drop_edge(node, other)
        del self.costs[node], self.labels[node], self.edges[node]

    def fix(self, node: int, position: int) -> None:
        """Choose the alternative at this position: its row goes to each neighbour, and the node leaves."""
        rows = {other: matrix[position] for other, matrix in self.edges[node].items()}
        self.constant += float(self.costs[node][position])
        self.costs[node] = self.costs[node][position : position + 1]
        self.labels[node] = self.labels[node][position : position + 1]
        for other in rows:
            self.set_edge(node, other, self.edges[node][other][position : position + 1])
        self.take_out(node)
        for other, row in rows.items():
            self.add_costs(other, row, node)

    def forget(self, nodes: Iterable[int], step: BlockStep) -> None:
        """Take nodes out whose costs another one has taken over."""
        self.steps.append(step)
        for node in nodes:
            for other in list(self.edges[node]):
                self.drop_edge(node, other)
            del self.costs[node], self.labels[node], self.edges[node]

    def complete(self, choice: dict[int, int]) -> dict[int, int]:
        """Choices, by the instance's numbers, of all nodes that were taken out, from those of the nodes left."""
        chosen = dict(choice)
        for step in reversed(self.steps):
            if isinstance(step, BlockStep):
                chosen |= step.choices[chosen[step.cut]]
                continue
            if isinstance(step, SplitStep):
                chosen[step.node] = int(step.numbers[chosen[step.node], chosen.pop(step.new)])
                continue
            costs = step.costs
            for other, labels, matrix in step.neighbours:
                costs = costs + matrix[:, int(np.searchsorted(labels, chosen[other]))]
            chosen[step.node] = int(step.labels[int(np.argmin(costs))])
        return chosen

    def least(self) -> float:
        """Return a bound that no choice can beat, after every edge was normalised (its costs are then none below 0)."""
        return self.constant + sum(float(costs.min()) for costs in self.costs.values())

    def components(self) -> list[list[int]]:
        """Return the sets of nodes that edges join, each ascending."""
        found, seen = [], set[int]()
        for start in sorted(self.costs):
            if start in seen:
                continue
            seen.add(start)
            part = [start]
            for node in part:
                fresh = [other for other in sorted(self.edges[node]) if other not in seen]
                seen.update(fresh)
                part.extend(fresh)
            found.append(sorted(part))
        return found


def problem_of(instance: Instance) -> tuple[PbqpProblem, list[str]]:
    """Return the problem of an instance, and its nodes' names by number: ascending, whatever order the instance has
    them in.

    Raises: DeadEnd for a node without a finite alternative.
    """
    names = sorted(instance.nodes)
    number = {name: i for i, name in enumerate(names)}
    problem = PbqpProblem()
    for name, i in number.items():
        problem.costs[i] = instance.nodes[name]
        problem.labels[i] = np.arange(len(instance.nodes[name]))
        problem.edges[i] = {}
    for edge in sorted(instance.edges, key=lambda edge: (edge.source, edge.target)):
        a, b = number[edge.source], number[edge.target]
        if a == b:
            problem.costs[a] = problem.costs[a] + np.diagonal(edge.costs)
            problem.counts["self_edges"] += 1
        else:
            problem.counts["parallel_edges"] += b in problem.edges[a]
            problem.add_edge(a, b, edge.costs)
    for i in range(len(names)):
        problem.keep(i, np.isfinite(problem.costs[i]), "infinite")
    return problem, names
