"""Rewrite: builds a new graph from an old one node by node; the base of all passes in this folder."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mavcg.graph import Array, AttrValue, Graph, Node, TensorType, prune, type_of
from mavcg.graph.ops import infer, make_node

Pass = Callable[[Graph], Graph]
Dump = Callable[[str, Graph], None]


class Rewrite:
    """A new graph under construction while a pass walks over an old one.

    made: first output -> new node, in order. types, constants: of tensors of the new graph and of the old one.
    A pass calls `of` for the tensor that replaces one of the old graph, and one of keep, add, into and alias for each
    node. `finish` removes nodes without a reader; the graph's inputs and outputs keep their names.
    """

    def __init__(self, graph: Graph) -> None:
        self.old = graph
        self.types: dict[str, TensorType] = dict(graph.types)
        self.constants: dict[str, Array] = dict(graph.constants)
        self.made: dict[str, Node] = {}
        self._now: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._uses = use_counts(graph)

    def of(self, name: str) -> str:
        """Return the tensor that replaces one of the old graph; "" for ""."""
        return self._now.get(name, name)

    def only_reader(self, name: str) -> bool:
        """True if a tensor of the old graph has exactly one reader; being an output of the graph counts as one."""
        return self._uses.get(name, 0) == 1

    def array(self, name: str) -> Array | None:
        """Return the array of a constant; None for "" and for a computed tensor."""
        return self.constants.get(name)

    def fresh(self, stem: str) -> str:
        """Return a name that is in neither graph: stem.1, stem.2, ..."""
        stem = re.sub(r"(\.\d+)+$", "", stem)
        number = self._numbers.get(stem, 0) + 1
        while f"{stem}.{number}" in self.types:
            number += 1
        self._numbers[stem] = number
        return f"{stem}.{number}"

    def constant(self, array: Array, stem: str = "c") -> str:
        """Add a constant; return its name. The array must not be written to later."""
        name = self.fresh(stem)
        self.constants[name] = np.asarray(array, order="C")  # of one element too, where NumPy made a scalar
        self.types[name] = type_of(array)
        return name

    def add(self, op: str, inputs: Sequence[str], stem: str, origin: str = "", **attrs: AttrValue) -> str:
        """Add a node with one output of a fresh name; return that name."""
        return self._append(make_node(op, tuple(inputs), (self.fresh(stem),), origin, **attrs))

    def into(self, name: str, op: str, inputs: Sequence[str], origin: str = "", **attrs: AttrValue) -> str:
        """Add a node that makes tensor `name` of the old graph in place of the old node; return the name."""
        return self._append(make_node(op, tuple(inputs), (name,), origin, **attrs))

    def keep(self, node: Node) -> None:
        """Add an old node, its inputs replaced by their tensors in the new graph."""
        self._append(node.with_inputs(self._now))

    def put(self, node: Node) -> str:
        """Add a node whose inputs are tensors of the new graph; return its first output."""
        return self._append(node)

    def alias(self, old: str, new: str) -> None:
        """Replace tensor `old` of the old graph, in later nodes, by `new`, a tensor of the new graph of equal type."""
        self._now[old] = new

    def drop(self, name: str) -> None:
        """Remove the node that makes a tensor, which no node may read."""
        del self.made[name]

    def _append(self, node: Node) -> str:
        self.types.update(zip(node.outputs, infer(node, self.types, self.constants), strict=True))
        self.made[node.outputs[0]] = node
        return node.outputs[0]

    def finish(self) -> Graph:
        """Return the new graph, without nodes and constants that no output depends on."""
        names: dict[str, str] = {}  # tensors that take the name of the output they stand for
        taken = set(self.old.inputs) | set(self.constants) | {o for o in self.old.outputs if self.of(o) == o}
        for output in self.old.outputs:
            new = self.of(output)
            if new != output and new not in taken and new not in names and output not in self.made:
                names[new] = output
        nodes = [_rename(node, names) for node in self.made.values()]
        for output in dict.fromkeys(self.old.outputs):
            new = self.of(output)
            if new != output and names.get(new) != output:  # an input, a constant or another output: it takes a copy
                copied = names.get(new, new)
                nodes.append(make_node("reshape", (copied,), (output,), shape=self.types[new].shape))
        replaced = set(names.values())
        types = {names.get(name, name): tensor for name, tensor in self.types.items() if name not in replaced}
        types |= {output: self.types[self.of(output)] for output in self.old.outputs}
        return prune(replace(self.old, nodes=tuple(nodes), types=types, constants=self.constants))


def fuse_with_makers(graph: Graph, fused: Callable[[Rewrite, Node], Node | None]) -> Graph:
    """Replace nodes, and the one that makes an input of each, by one that computes both.

    fused: returns, for a node of the old graph, the maker's node in the new graph, changed so that it computes the node
    too, with the maker's output; None to keep both. No other node may read that output.
    """
    new = Rewrite(graph)
    for node in graph.nodes:
        both = fused(new, node)
        if both is None:
            new.keep(node)
        else:
            new.drop(both.output)
            new.put(replace(both, outputs=node.outputs))
    return new.finish()


def _rename(node: Node, names: Mapping[str, str]) -> Node:
    outputs = tuple([names.get(o, o) for o in node.outputs])
    renamed = node.with_inputs(names)
    return renamed if outputs == node.outputs else replace(renamed, outputs=outputs)


def use_counts(graph: Graph) -> dict[str, int]:
    """Return tensor -> number of its uses: as inputs of nodes, each position counted, and as outputs of the graph."""
    counts: dict[str, int] = {}
    for name in (*(i for node in graph.nodes for i in node.inputs), *graph.outputs):
        if name:
            counts[name] = counts.get(name, 0) + 1
    return counts


def scalar_of(array: Array | None) -> float | None:
    """Return the value that all elements of an array have; None if they differ, or there is no array or element."""
    if array is None or array.size == 0:
        return None
    first = array.reshape(-1)[0]
    return float(first) if array.size == 1 or bool(np.all(array == first)) else None


def until_stable(rewrite: Pass, graph: Graph, rounds: int = 20) -> Graph:
    """Apply a pass until the graph does not change any more, at most `rounds` times."""
    for _ in range(rounds):
        after = rewrite(graph)
        if after.nodes == graph.nodes and after.outputs == graph.outputs:
            return after
        graph = after
    return graph
