"""Describe a group of nodes: its inputs, the tensors that stay on chip, and its results."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from mavcg.accelerators.concats import copied_parts
from mavcg.accelerators.xgraph import CONVOLUTIONS, XGraph, XNode


@dataclass(frozen=True)
class GraphFacts:
    """Facts of a graph that the shapes of all its groups need, computed once."""

    graph: XGraph

    @cached_property
    def nodes(self) -> Mapping[str, XNode]:
        """Return the nodes by name."""
        return self.graph.by_name()

    @cached_property
    def readers(self) -> Mapping[str, tuple[str, ...]]:
        """Return the readers of each tensor."""
        return self.graph.readers()

    @cached_property
    def index_of(self) -> Mapping[str, int]:
        """Return the index of each node in the graph's order."""
        return {node.name: at for at, node in enumerate(self.graph.nodes)}

    @cached_property
    def copied_parts(self) -> Mapping[str, tuple[int, ...]]:
        """Return, for each concat, the indices of the inputs that must be copied."""
        return copied_parts(self.graph)

    @cached_property
    def outputs(self) -> frozenset[str]:
        """Return the graph's outputs."""
        return frozenset(self.graph.outputs)

    def leaves(self, name: str, inside: frozenset[str]) -> bool:
        """Return True if a tensor of a group is read outside of it, or is an output of the graph."""
        return name in self.outputs or any(reader not in inside for reader in self.readers[name])


@dataclass(frozen=True)
class GroupShape:
    """A group of nodes.

    nodes: in the graph's order. inputs: tensors that the group reads from outside. results: tensors that leave it. key:
    equal for groups with equal tiles and costs, from all their parameters and connections.
    """

    nodes: tuple[XNode, ...]
    inputs: tuple[XNode, ...]
    results: tuple[str, ...]

    @property
    def inside(self) -> frozenset[str]:
        """Return the names of the nodes."""
        return frozenset(node.name for node in self.nodes)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Return the parameters and connections, without names."""
        number = {node.name: at for at, node in enumerate((*self.inputs, *self.nodes))}
        return (
            tuple(node.shape for node in self.inputs),
            tuple(
                (
                    n.kind,
                    n.shape,
                    n.kernel,
                    n.stride,
                    n.dilation,
                    n.pads,
                    n.groups,
                    n.op,
                    n.factor,
                    tuple(number[name] for name in n.inputs),
                    n.name in self.results,
                )
                for n in self.nodes
            ),
        )

    @property
    def images(self) -> int:
        """Return the images of a batch, which all tensors have."""
        return self.nodes[0].shape[0]

    @cached_property
    def lengths(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the rows, and the columns, of every tensor."""
        every = (*self.inputs, *self.nodes)
        return {n.name: n.shape[1] for n in every}, {n.name: n.shape[2] for n in every}

    @property
    def convolutions(self) -> tuple[XNode, ...]:
        """Return the nodes that have weights."""
        return tuple(node for node in self.nodes if node.kind in CONVOLUTIONS)

    def channels_in(self, node: XNode) -> int:
        """Return the number of channels of a node's first input."""
        by_name = {n.name: n.channels for n in (*self.inputs, *self.nodes)}
        return by_name[node.inputs[0]]

    def weight_bytes(self, node: XNode) -> int:
        """Return the size of a convolution's weights and biases in bytes, 4 for each bias."""
        depth = 1 if node.kind == "depthwise" else self.channels_in(node) // node.groups
        return node.channels * (node.kernel[0] * node.kernel[1] * depth + 4)


def group_shape(facts: GraphFacts, names: Iterable[str]) -> GroupShape:
    """Return the shape of a group of nodes."""
    inside = frozenset(names)
    nodes = tuple(facts.nodes[name] for name in sorted(inside, key=facts.index_of.__getitem__))
    read = dict.fromkeys(name for node in nodes for name in node.inputs if name not in inside)
    inputs = tuple(facts.nodes[name] for name in read)
    return GroupShape(nodes, inputs, tuple(n.name for n in nodes if facts.leaves(n.name, inside)))


def is_convex(facts: GraphFacts, names: frozenset[str]) -> bool:
    """Return True if no path leaves the set of nodes and comes back."""
    first = min(facts.index_of[name] for name in names)
    pending = [name for inner in names for name in facts.nodes[inner].inputs if name not in names]
    seen = set(pending)
    while pending:
        name = pending.pop()
        if name in names:
            return False
        for before in facts.nodes[name].inputs:
            if before not in seen and facts.index_of[before] >= first:
                seen.add(before)
                pending.append(before)
    return True
