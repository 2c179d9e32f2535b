"""The graph of a model as immutable values, which are printed and parsed as text.

Every tensor is a dense row-major array. Images are N, H, W, C: importers of formats with another order add transposes
around operators, which passes cancel. mavcg.graph.ops defines the operators; mavcg.graph.ops.nodes checks graphs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mavcg.graph.parser import parse_fields
from mavcg.graph.parts import (
    DTYPES,
    Array,
    AttrValue,
    Fields,
    GraphCount,
    GraphState,
    Node,
    TensorType,
    digest,
    is_float,
    text_of,
    type_of,
)

__all__ = [
    "DTYPES",
    "Array",
    "AttrValue",
    "Graph",
    "Node",
    "GraphCount",
    "GraphState",
    "TensorType",
    "digest",
    "fresh_name",
    "is_float",
    "pruned",
    "type_of",
]


@dataclass(frozen=True)
class Graph:
    """A model: nodes in topological order.

    inputs, outputs: tensor names. types: type of every tensor, constants included. constants: read-only arrays, by
    name. states: pairs of an input and an output that the caller does not see, because their values stay in a context
    between runs. counts: outputs of whose length along an axis a run decides, with the outputs that hold the lengths,
    which the caller does not see, and which come last. kept: outputs of slices that passes do not replace by a part of
    a concat, because they take another one, or several, at other lengths of bounded dimensions; not printed.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Array] = field(default_factory=dict)
    states: tuple[GraphState, ...] = ()
    counts: tuple[GraphCount, ...] = ()
    kept: frozenset[str] = frozenset()

    def producers(self) -> dict[str, Node]:
        """Return the node that makes each tensor."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def readers(self) -> dict[str, tuple[Node, ...]]:
        """Return the nodes that read each tensor, in order and without repetition. The graph's outputs do not count."""
        readers_of: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name:
                    readers_of.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in readers_of.items()}

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.types[name].shape

    def present(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the arrays that the caller sees of a run's outputs, at their present lengths. arrays: all outputs."""
        by_name = dict(zip(self.outputs, arrays, strict=True))
        counts = {count.count for count in self.counts}
        for count in self.counts:
            length = int(by_name[count.count].reshape(()))
            by_name[count.output] = by_name[count.output][(slice(None),) * count.axis + (slice(length),)]
        return tuple(array for name, array in by_name.items() if name not in counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        parts = self.name, self.inputs, self.outputs, self.nodes, self.types, self.constants
        return text_of(Fields(*parts, self.states, self.counts))

    @staticmethod
    def parse(text: str, constants: Mapping[str, Array] = MappingProxyType({})) -> "Graph":
        """Parse a printed graph.

        constants: arrays of the constants that are too long to be printed, by name; each is checked against its digest
        in the text. Raises: MavcgError with line and column.
        """
        return Graph(*parse_fields(text, constants))


def fresh_name(used_names: Iterable[str], stem: str) -> str:
    """Return `stem` if it is not in `used_names`, else the first free name of stem.1, stem.2, ..."""
    return fresh_names(used_names, [stem])[0]


def fresh_names(used_names: Iterable[str], stems: Iterable[str]) -> list[str]:
    """Return a name for each stem, all different: the first free one of stem, stem.1, stem.2, ..."""
    used, names = set(used_names), []
    numbers: dict[str, int] = {}  # those below are taken
    for stem in stems:
        number = numbers.get(stem, 0)
        while (name := f"{stem}.{number}" if number else stem) in used:
            number += 1
        numbers[stem] = number + 1
        used.add(name)
        names.append(name)
    return names


def prune(graph: Graph) -> Graph:
    """Return the graph without nodes, constants and types that no output depends on; its inputs stay."""
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
