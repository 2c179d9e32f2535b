"""Read labelled graphs and instances of the path search from JSON files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mavcg.accelerators.fusion.matching import LabelledGraph
from mavcg.accelerators.fusion.path_instance import PathInstance, PricedGroup
from mavcg.files.decode import read_json
from mavcg.files.file_types import value_text

_GRAPH_FORM = '{"nodes": {"a": "conv", "b": "pool"}, "edges": [["a", "b"]]}'
_INSTANCE_FORM = '{"groups": [{"nodes": ["a", "b"], "cost": 3.5}], "edges": [["a", "b"]]}'
_Pair = Annotated[tuple[str, str], Meta(description="a pair of names", examples=['["a", "b"]'])]
_Edge = Annotated[
    tuple[str, ...], Meta(min_length=2, max_length=3, description="a pair of names", examples=['["a", "b"]'])
]


@dataclass(frozen=True)
class _Graph:
    nodes: Annotated[Mapping[str, str], Meta(min_length=1, description="an object of types by name")]
    edges: tuple[_Edge, ...]


@dataclass(frozen=True)
class _Group:
    nodes: Annotated[tuple[str, ...], Meta(min_length=1, description="a list of names")]
    cost: Annotated[float, Meta(ge=-1e15, le=1e15, description="a number within 1e15")]


@dataclass(frozen=True)
class _Instance:
    groups: tuple[_Group, ...]
    edges: tuple[_Pair, ...]


def read_labelled(path: Path) -> LabelledGraph:
    """Return the graph in a JSON file: nodes with their types, and edges as pairs or, with a label, as triples.

    Raises: MavcgError naming file, key and value.
    """
    document = read_json(path, f"write it like {_GRAPH_FORM}")
    graph = document.decode(_Graph)
    edges: dict[tuple[str, str], str] = {}
    for at, (a, b, *label) in enumerate(graph.edges):
        for name in (a, b):
            if name not in graph.nodes:
                raise document.fault(f"edges[{at}]", f"{value_text(name)} is not a node", "name one of nodes")
        if (a, b) in edges:
            raise document.fault(f"edges[{at}]", f"{value_text([a, b])} comes twice", "leave one out")
        edges[a, b] = "".join(label)
    return LabelledGraph(graph.nodes, edges)


def read_instance(path: Path) -> PathInstance:
    """Return the instance of the path search in a JSON file.

    Raises: MavcgError naming file, key and value, and for edges that form a cycle.
    """
    document = read_json(path, f"write it like {_INSTANCE_FORM}")
    instance = document.decode(_Instance)
    for at, group in enumerate(instance.groups):
        if len(set(group.nodes)) != len(group.nodes):
            wrong = f"{value_text(group.nodes)} has a name twice"
            raise document.fault(f"groups[{at}].nodes", wrong, "leave one out")
    groups = [PricedGroup(group.nodes, group.cost) for group in instance.groups]
    return PathInstance.of(groups, instance.edges, str(path))
