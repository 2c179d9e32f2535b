"""A PBQP instance while it is being solved.

Alternatives and nodes are removed, with a record that restores their choice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mavcg.choose.pbqp.instance import Costs, Instance

Indices = NDArray[np.intp]

# Relative rounding error of a matrix that is zero except for row costs plus column costs.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


class DeadEnd(Exception):
    """Raised if a node has no finite alternative left.

    edge: the other end of the edge that forbade the last one, if any.
    """

    def __init__(self, node: int, edge: int | None = None) -> None:
        super().__init__(node, edge)
        self.node = node
        self.edge = edge


@dataclass(frozen=True)
class EliminationStep:
    """A removed node, whose choice follows from its neighbours'. matrices: [own, neighbour's]."""

    node: int
    costs: Costs
    labels: Indices
    neighbours: tuple[tuple[int, Indices, Costs], ...]


@dataclass(frozen=True)
class BlockStep:
    """A removed leaf block: its choices for each alternative of the cut node, by the instance's numbers."""

    cut: int
    choices: Mapping[int, Mapping[int, int]]


@dataclass(frozen=True)
class SplitStep:
    """A node that was split into two, `node` and `new`. numbers: its alternatives by those of the two."""

    node: int
    new: int
    numbers: Indices


@dataclass
class PbqpProblem:
    """State of a solution.

    Nodes by number, with their remaining alternatives. Arrays are shared by copies, never changed. constant: cost that
    every choice includes. costs: node -> [remaining alternatives], all finite. labels: node -> [remaining
    alternatives], their numbers in the instance, ascending. edges: node -> neighbour -> [own, neighbour's], and the
    transpose at the neighbour. steps: removals, in order. dirty: edges to be normalised, the lower node first; an
    ordered set. changed: nodes that changed, or whose neighbours or edges did, since dominated alternatives were last
    searched for. origin: of a node that results from a split, the original node.
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
        """Return a copy without the record of removals; only its own nodes' choices can be restored."""
        edges = {node: dict(row) for node, row in self.edges.items()}
        return PbqpProblem(
            self.constant, dict(self.costs), dict(self.labels), edges, [], dict(self.dirty), set(self.changed)
        )

    def part(self, nodes: Iterable[int]) -> "PbqpProblem":
        """Return the subproblem of some nodes and the edges between them, without the constant."""
        selected = set(nodes)
        part = PbqpProblem()
        for node in sorted(selected):
            part.costs[node], part.labels[node] = self.costs[node], self.labels[node]
            part.edges[node] = {
                neighbour: matrix for neighbour, matrix in self.edges[node].items() if neighbour in selected
            }
        part.dirty = {pair: None for pair in self.dirty if selected.issuperset(pair)}
        return part

    def set_edge(self, a: int, b: int, matrix: Costs) -> None:
        """Replace the costs of an edge by [a's, b's]."""
        self.edges[a][b] = matrix
        self.edges[b][a] = matrix.T

    def add_edge(self, a: int, b: int, matrix: Costs) -> None:
        """Add costs to an edge, mask may be new. matrix: [alternatives of a, alternatives of b]."""
        known = self.edges[a].get(b)
        self.set_edge(a, b, matrix if known is None else known + matrix)
        self.touch(a, b)

    def drop_edge(self, a: int, b: int) -> None:
        del self.edges[a][b], self.edges[b][a]
        self.dirty.pop((min(a, b), max(a, b)), None)
        self.changed |= {a, b}

    def touch(self, a: int, b: int) -> None:
        """Mark an edge to be normalised by the next reductions."""
        self.dirty[min(a, b), max(a, b)] = None
        self.changed |= {a, b}

    def keep(self, node: int, mask: NDArray[np.bool_], reason: str, edge: int | None = None) -> None:
        """Remove all but the selected alternatives. mask: mask, [alternatives]. Raises: DeadEnd if none remains."""
        if mask.all():
            return
        self.counts[reason] += int(np.count_nonzero(~mask))
        if not mask.any():
            raise DeadEnd(node, edge)
        self.costs[node] = self.costs[node][mask]
        self.labels[node] = self.labels[node][mask]
        for neighbour, matrix in list(self.edges[node].items()):
            self.set_edge(node, neighbour, matrix[mask])
            self.touch(node, neighbour)

    def add_costs(self, node: int, added: Costs, edge: int | None = None) -> None:
        """Add to a node's costs, [alternatives], and remove alternatives whose cost becomes infinite."""
        costs = self.costs[node] + added
        self.costs[node] = costs
        self.keep(node, np.isfinite(costs), "infinite", edge)

    def normalise(self, a: int, b: int) -> None:
        """Move the minima of an edge's rows and columns to its nodes; each row and column then has a zero.

        An edge without remaining costs is removed. Raises: DeadEnd if it allows no pair.
        """
        matrix = self.edges[a][b]
        rows = matrix.min(axis=1)
        if rows.max() == np.inf:
            self.keep(a, rows < np.inf, "infinite", b)
            matrix = self.edges[a][b]
            rows = matrix.min(axis=1)
        reduced = matrix - rows[:, None]
        columns = reduced.min(axis=0)
        if columns.max() == np.inf:
            mask = columns < np.inf
            self.keep(b, mask, "infinite", a)
            matrix, reduced, columns = matrix[:, mask], reduced[:, mask], columns[mask]
        reduced -= columns
        self.costs[a] = self.costs[a] + rows
        self.costs[b] = self.costs[b] + columns
        most = float(reduced.max())
        if most == 0 or (most < np.inf and most <= _ROUNDING * float(np.abs(matrix).max())):
            self.drop_edge(a, b)
            self.counts["edges_without_choice"] += 1
        else:
            self.set_edge(a, b, reduced)
            self.dirty.pop((min(a, b), max(a, b)), None)

    def take_out(self, node: int) -> None:
        """Remove a node whose costs its neighbours have absorbed; its choice can be restored from theirs."""
        neighbours = tuple(
            (neighbour, self.labels[neighbour], matrix) for neighbour, matrix in self.edges[node].items()
        )
        self.steps.append(EliminationStep(node, self.costs[node], self.labels[node], neighbours))
        for neighbour in list(self.edges[node]):
            self.drop_edge(node, neighbour)
        del self.costs[node], self.labels[node], self.edges[node]

    def fix(self, node: int, position: int) -> None:
        """Choose the alternative at a position, add its costs to the neighbours, and remove the node."""
        rows = {neighbour: matrix[position] for neighbour, matrix in self.edges[node].items()}
        self.constant += float(self.costs[node][position])
        self.costs[node] = self.costs[node][position : position + 1]
        self.labels[node] = self.labels[node][position : position + 1]
        for neighbour in rows:
            self.set_edge(node, neighbour, self.edges[node][neighbour][position : position + 1])
        self.take_out(node)
        for neighbour, row in rows.items():
            self.add_costs(neighbour, row, node)

    def forget(self, nodes: Iterable[int], step: BlockStep) -> None:
        """Remove nodes whose costs another node has absorbed."""
        self.steps.append(step)
        for node in nodes:
            for neighbour in list(self.edges[node]):
                self.drop_edge(node, neighbour)
            del self.costs[node], self.labels[node], self.edges[node]

    def complete(self, choice: dict[int, int]) -> dict[int, int]:
        """Return the choices of all nodes, by the instance's numbers, from those of the remaining nodes."""
        chosen = dict(choice)
        for step in reversed(self.steps):
            match step:
                case BlockStep():
                    chosen |= step.choices[chosen[step.cut]]
                case SplitStep():
                    chosen[step.node] = int(step.numbers[chosen[step.node], chosen.pop(step.new)])
                case EliminationStep():
                    costs = step.costs
                    for neighbour, labels, matrix in step.neighbours:
                        costs = costs + matrix[:, int(np.searchsorted(labels, chosen[neighbour]))]
                    chosen[step.node] = int(step.labels[int(np.argmin(costs))])
        return chosen

    def least(self) -> float:
        """Return a lower bound of every choice; every edge must be normalised, so that its costs are not negative."""
        return self.constant + sum(float(costs.min()) for costs in self.costs.values())

    def components(self) -> list[list[int]]:
        """Return the connected components, the nodes of each ascending."""
        components, seen = [], set[int]()
        for start in sorted(self.costs):
            if start in seen:
                continue
            seen.add(start)
            part = [start]
            for node in part:
                fresh = [neighbour for neighbour in sorted(self.edges[node]) if neighbour not in seen]
                seen.update(fresh)
                part.extend(fresh)
            components.append(sorted(part))
        return components


def problem_of(instance: Instance) -> tuple[PbqpProblem, list[str]]:
    """Return the problem of an instance, and its nodes' names by number.

    Numbers follow the sorted names, whatever the order in the instance. Raises: DeadEnd for a node without a finite
    alternative.
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
