"""A graph written anew, node by node: what the passes of this folder are made of."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mavcg.graph import Array, AttrValue, Graph, Node, TensorType, prune, type_of
from mavcg.ops import infer, make_node

Pass = Callable[[Graph], Graph]
Dump = Callable[[str, Graph], None]


class Rewrite:
    """The new graph while an old one is walked over.

    made: the new nodes by their first output, in order. types, constants: of the new graph and what is left of the old.
    A pass calls `of` for the tensor that replaces one of the old graph, and one of keep, add, into and alias for
    each node. `finish` drops what nobody reads; the graph's inputs and outputs keep their names.
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
        """True if a tensor of the old graph is read exactly once, outputs of the graph counted."""
        return self._uses.get(name, 0) == 1

    def array(self, name: str) -> Array | None:
        """Return the array of a constant; None for "" and for what is computed."""
        return self.constants.get(name)

    def fresh(self, stem: str) -> str:
        """Return a name that neither graph has: stem.1, stem.2, ..."""
        stem = re.sub(r"(\.\d+)+$", "", stem)
        number = self._numbers.get(stem, 0) + 1
        while f"{stem}.{number}" in self.types:
            number += 1
        self._numbers[stem] = number
        return f"{stem}.{number}"

    def constant(self, array: Array, stem: str = "c") -> str:
        """Return a new constant. The array is made contiguous and must not be written to later."""
        name = self.fresh(stem)
        self.constants[name] = np.ascontiguousarray(array) if array.ndim else array
        self.types[name] = type_of(array)
        return name

    def add(self, op: str, inputs: Sequence[str], stem: str, origin: str = "", **attrs: AttrValue) -> str:
        """Return a new node with one output, under a fresh name."""
        return self._append(make_node(op, tuple(inputs), (self.fresh(stem),), origin, **attrs))

    def into(self, name: str, op: str, inputs: Sequence[str], origin: str = "", **attrs: AttrValue) -> str:
        """Return a new node that makes a tensor of the old graph, instead of the node that did."""
        return self._append(make_node(op, tuple(inputs), (name,), origin, **attrs))

    def keep(self, node: Node) -> None:
        """Keep the node as it was, with its inputs as they are now."""
        self._append(node.with_inputs(self._now))

    def put(self, node: Node) -> str:
        """Return a node made elsewhere, its inputs named as in the new graph. Returns: its output."""
        return self._append(node)

    def alias(self, old: str, new: str) -> None:
        """Make readers of `old` read `new` from now on, a tensor of the new graph of the same type."""
        self._now[old] = new

    def drop(self, name: str) -> None:
        """Take back the node that makes a tensor: nobody reads it."""
        del self.made[name]

    def _append(self, node: Node) -> str:
        self.types.update(zip(node.outputs, infer(node, self.types, self.constants), strict=True))
        self.made[node.outputs[0]] = node
        return node.outputs[0]

    def finish(self) -> Graph:
        """Return the new graph, without what its outputs do not need."""
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


def _rename(node: Node, names: Mapping[str, str]) -> Node:
    return replace(node.with_inputs(names), outputs=tuple(names.get(o, o) for o in node.outputs))


def use_counts(graph: Graph) -> dict[str, int]:
    """Count the reads of each tensor: by inputs of nodes, each position counted, and as an output of the graph."""
    counts: dict[str, int] = {}
    for name in (*(i for node in graph.nodes for i in node.inputs), *graph.outputs):
        if name:
            counts[name] = counts.get(name, 0) + 1
    return counts


def scalar_of(array: Array | None) -> float | None:
    """Return the one value that fills an array; None where there are several, or no array."""
    if array is None or array.size == 0:
        return None
    first = array.reshape(-1)[0]
    return float(first) if array.size == 1 or bool(np.all(array == first)) else None


def until_stable(rewrite: Pass, graph: Graph, rounds: int = 20) -> Graph:
    """Apply a pass that only ever simplifies until nothing changes, at most `rounds` times."""
    for _ in range(rounds):
        after = rewrite(graph)
        if after.nodes == graph.nodes and after.outputs == graph.outputs:
            return after
        graph = after
    return graph
