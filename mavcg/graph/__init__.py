"""The graph of a model: immutable values, printed and parsed as text.

Every tensor is a dense array of its logical shape, row-major. Operators over images see N, H, W, C in this order: an
importer of a format with another order puts transposes around them, and passes take out what cancels. What the
operators mean is in mavcg.ops; mavcg.ops.verify says whether a graph keeps to it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mavcg.graph.parser import parse_fields
from mavcg.graph.parts import DTYPES, Array, AttrValue, Node, TensorType, type_of
from mavcg.graph.printer import Fields, digest, text_of

__all__ = [
    "DTYPES",
    "Array",
    "AttrValue",
    "Graph",
    "Node",
    "TensorType",
    "digest",
    "fresh_name",
    "pruned",
    "type_of",
]


@dataclass(frozen=True)
class Graph:
    """A model: nodes in an order in which each reads only what is there already.

    inputs, outputs: tensor names. types: of every tensor, constants too. constants: arrays that nobody writes to.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Array] = field(default_factory=dict)

    def producers(self) -> dict[str, Node]:
        """Return the node that makes each tensor."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def readers(self) -> dict[str, tuple[Node, ...]]:
        """Return the nodes that read each tensor, once each, in order; a graph's output counts in `outputs` only."""
        readers_of: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name:
                    readers_of.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in readers_of.items()}

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.types[name].shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return text_of(Fields(self.name, self.inputs, self.outputs, self.nodes, self.types, self.constants))

    @staticmethod
    def parse(text: str, constants: Mapping[str, Array] = MappingProxyType({})) -> "Graph":
        """Return the graph that was printed as `text`.

        constants: the arrays of those constants that are too long to stand in the text, by name; each is checked
        against the digest there. Raises: MavcgError with line and column.
        """
        return Graph(*parse_fields(text, constants))


def fresh_name(taken: Iterable[str], stem: str) -> str:
    """Return `stem`, or the first of stem.1, stem.2, ... that is not taken."""
    used = set(taken)
    name, number = stem, 0
    while name in used:
        number += 1
        name = f"{stem}.{number}"
    return name


def prune(graph: Graph) -> Graph:
    """Return the graph without nodes, constants and types that no output needs; its inputs stay."""
    needed = set(graph.outputs)
    nodes = []
    for node in reversed(graph.nodes):
        if any(name in needed for name in node.outputs):
            nodes.append(node)
            needed.update(name for name in node.inputs if name)
    kept = needed | set(graph.inputs) | {name for node in nodes for name in node.outputs if name}
    return replace(
        graph,
        nodes=tuple(reversed(nodes)),
        types={name: t for name, t in graph.types.items() if name in kept},
        constants={name: a for name, a in graph.constants.items() if name in kept},
    )
