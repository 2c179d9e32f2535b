"""The execution path problem: choose groups that contain each node of a graph once, at least cost (DNNVM, V)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from mavcg.errors import MavcgError


@dataclass(frozen=True)
class PricedGroup:
    """A candidate group: nodes that can run as one operation, and the cost of that operation."""

    nodes: tuple[str, ...]
    cost: float


@dataclass(frozen=True)
class ChosenPath:
    """A choice of groups.

    chosen: indices of the groups, in an order in which the inputs of each exist. cost: total cost. optimal: True if it
    is proven that no choice costs less.
    """

    chosen: tuple[int, ...]
    cost: float
    optimal: bool


@dataclass(frozen=True)
class PathInstance:
    """Nodes in topological order, edges between them, and candidate groups.

    A solution is a choice of groups that contain each node exactly once, and whose graph has no cycle. A set of nodes
    is an integer, whose bits are indices into `nodes`.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    groups: tuple[PricedGroup, ...]

    @staticmethod
    def of(groups: Sequence[PricedGroup], edges: Iterable[tuple[str, str]], name: str = "instance") -> "PathInstance":
        """Return the instance of some groups and edges; its nodes are those of the groups.

        name: for messages. Raises: MavcgError for an edge to a node in no group, and for edges that form a cycle.
        """
        covered = dict.fromkeys(node for group in groups for node in group.nodes)
        distinct = tuple(dict.fromkeys(edges))
        sorter: TopologicalSorter[str] = TopologicalSorter({node: () for node in covered})
        for a, b in distinct:
            for node in (a, b):
                if node not in covered:
                    raise MavcgError(f"{name}: node {node} has an edge, but is not in any group; add a group with it")
            if a == b:
                raise MavcgError(f"{name}: an edge from {a} to itself; leave it out")
            sorter.add(b, a)
        try:
            order = tuple(sorter.static_order())
        except CycleError as error:
            raise MavcgError(f"{name}: edges in a cycle: {' -> '.join(error.args[1])}; leave one out") from None
        return PathInstance(order, distinct, tuple(groups))

    @cached_property
    def index_of(self) -> Mapping[str, int]:
        """Return the index of each node in `nodes`."""
        return {name: at for at, name in enumerate(self.nodes)}

    @cached_property
    def predecessors(self) -> tuple[int, ...]:
        """Return the set of each node's predecessors."""
        before = [0] * len(self.nodes)
        for a, b in self.edges:
            before[self.index_of[b]] |= 1 << self.index_of[a]
        return tuple(before)

    @cached_property
    def members(self) -> tuple[int, ...]:
        """Return the set of each group's nodes."""
        return tuple(sum(1 << self.index_of[node] for node in group.nodes) for group in self.groups)

    @cached_property
    def required_nodes(self) -> tuple[int, ...]:
        """Return the set of nodes outside of each group whose tensors it reads."""
        required = []
        for group, inside in zip(self.groups, self.members, strict=True):
            read = 0
            for node in group.nodes:
                read |= self.predecessors[self.index_of[node]]
            required.append(read & ~inside)
        return tuple(required)

    @cached_property
    def by_node(self) -> tuple[tuple[int, ...], ...]:
        """Return the groups that contain each node."""
        indices_of: list[list[int]] = [[] for _ in self.nodes]
        for index, group in enumerate(self.groups):
            for node in group.nodes:
                indices_of[self.index_of[node]].append(index)
        return tuple(tuple(indices) for indices in indices_of)

    @property
    def everything(self) -> int:
        """Return the set of all nodes."""
        return (1 << len(self.nodes)) - 1

    def execution_order(self, chosen: Iterable[int]) -> tuple[int, ...] | None:
        """Return the chosen groups in an order in which they can run; None if they form a cycle.

        chosen: groups that contain each node once.
        """
        of_node = {position: index for index in chosen for position in bits(self.members[index])}
        sorter: TopologicalSorter[int] = TopologicalSorter({index: () for index in of_node.values()})
        for index in dict.fromkeys(of_node.values()):
            for position in bits(self.required_nodes[index]):
                sorter.add(index, of_node[position])
        try:
            return tuple(sorter.static_order())
        except CycleError:
            return None

    def cost_of(self, chosen: Iterable[int]) -> float:
        """Return the sum of the costs of some groups."""
        return sum(self.groups[index].cost for index in chosen)


def bits(members: int) -> list[int]:
    """Return the indices in a set, in rising order."""
    indices = []
    while members:
        lowest = members & -members
        indices.append(lowest.bit_length() - 1)
        members ^= lowest
    return indices
