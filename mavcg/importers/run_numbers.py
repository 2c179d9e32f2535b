"""Whole numbers that a run brings, as sums of elements that it computes, so that their differences may be known.

They are looked for behind the operators by which exporters write shapes and positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mavcg.graph import Array, Node
from mavcg.importers.emitter import Emitter
from mavcg.importers.limits import MOST_INTS
from mavcg.importers.value import Value

WHOLE = ("i32", "i64")
DEEPEST = 32  # operators that are looked through
MOVES = ("reshape", "transpose", "broadcast_to", "slice", "concat", "gather")
SUMS = ("cast", "add", "sub", "neg", "mul")


@dataclass(frozen=True)
class RunNumber:
    """A whole number: an offset, and elements of tensors, each times a factor other than 0.

    factors: by the tensor's name and the element's number.
    """

    offset: int = 0
    factors: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def plus(self, other: "RunNumber", times: int = 1) -> "RunNumber":
        """Return the sum with another number, which is multiplied first."""
        factors = dict(self.factors)
        for element, factor in other.factors.items():
            factors[element] = factors.get(element, 0) + times * factor
        kept = {element: factor for element, factor in factors.items() if factor}
        return RunNumber(self.offset + times * other.offset, kept)

    @property
    def constant(self) -> int | None:
        """The number if it is the same in each run, else None."""
        return None if self.factors else self.offset


def numbers_of(emitter: Emitter, value: Value) -> list[RunNumber]:
    """Return the elements of a tensor of whole numbers."""
    return _GraphSums(emitter).of(value, DEEPEST)


class GraphNodes:
    """The nodes of a graph under construction, by what they make."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    def behind(self, value: Value, ops: Sequence[str] | frozenset[str]) -> Node | None:
        """Return the node that makes a value, if its operator is one of these."""
        node = self._emitter.producer(value.name)
        return node if node is not None and node.op in ops else None

    def inputs(self, node: Node) -> list[Value]:
        """Return the values that a node reads."""
        types, known = self._emitter.builder.types, self._emitter.builder.constants
        return [Value(types[name], "" if name in known else name, known.get(name)) for name in node.inputs if name]


def move_elements(node: Node, arrays: Sequence[Array]) -> Array:
    """Return what a node of MOVES makes of arrays; indices are an array too."""
    match node.op:
        case "reshape":
            return arrays[0].reshape(node.attr("shape"))
        case "transpose":
            return arrays[0].transpose(node.attr("perm"))
        case "broadcast_to":
            return np.broadcast_to(arrays[0], node.attr("shape"))
        case "concat":
            return np.concatenate(arrays, node.attr("axis"))
        case "gather":
            return np.asarray(np.take(arrays[0], arrays[1], node.attr("axis")))
    entries = zip(node.attr("starts"), node.attr("stops"), node.attr("steps"), strict=True)
    return np.asarray(arrays[0][tuple(slice(a, b if b >= 0 else None, step) for a, b, step in entries)])


class _GraphSums:
    """Elements of tensors as sums; each tensor is looked at once."""

    def __init__(self, emitter: Emitter) -> None:
        self.nodes = GraphNodes(emitter)
        self._made: dict[str, list[RunNumber]] = {}

    def of(self, value: Value, depth: int) -> list[RunNumber]:
        """Return the elements of a tensor. depth: operators to look through."""
        if value.array is not None:
            return [RunNumber(int(number)) for number in value.array.reshape(-1)]
        if value.name not in self._made:
            node = self.nodes.behind(value, (*MOVES, *SUMS)) if depth and value.dtype in WHOLE else None
            made = None if node is None else self._of_node(node, value, depth - 1)
            roots = [RunNumber(0, {(value.name, i): 1}) for i in range(value.type.elements)]
            self._made[value.name] = roots if made is None else made
        return self._made[value.name]

    def _of_node(self, node: Node, value: Value, depth: int) -> list[RunNumber] | None:
        """Return the elements of a node's result; None where it is no sum of elements."""
        read = self.nodes.inputs(node)
        if any(v.type.elements > MOST_INTS for v in (value, *read)) or any(v.dtype not in WHOLE for v in read):
            return None
        if node.op == "cast":
            return self.of(read[0], depth)
        if node.op == "gather":
            if read[1].array is None:
                return None
            places = move_elements(node, [np.arange(read[0].type.elements).reshape(read[0].shape), read[1].array])
            return [self.of(read[0], depth)[i] for i in places.reshape(-1).tolist()]
        if node.op in MOVES:
            arrays: list[Array] = []
            parts: list[RunNumber] = []
            for part in read:
                arrays.append(np.arange(len(parts), len(parts) + part.type.elements).reshape(part.shape))
                parts += self.of(part, depth)
            return [parts[i] for i in move_elements(node, arrays).reshape(-1).tolist()]
        sides = [_spread(self.of(part, depth), part, value) for part in read]
        if node.op == "neg":
            return [RunNumber().plus(a, -1) for a in sides[0]]
        pairs = list(zip(*sides, strict=True))
        if node.op != "mul":
            return [a.plus(b, 1 if node.op == "add" else -1) for a, b in pairs]
        if any(a.constant is None and b.constant is None for a, b in pairs):
            return None
        return [
            RunNumber().plus(b, a.constant) if a.constant is not None else RunNumber().plus(a, b.offset)
            for a, b in pairs
        ]


def _spread(numbers: Sequence[RunNumber], part: Value, value: Value) -> list[RunNumber]:
    """Return a part's elements as elements of the result to whose shape it is broadcast."""
    places = np.broadcast_to(np.arange(len(numbers)).reshape(part.shape), value.shape)
    return [numbers[i] for i in places.reshape(-1).tolist()]
