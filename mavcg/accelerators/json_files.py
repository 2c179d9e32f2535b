"""Read labelled graphs and instances of the path search from JSON files."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mavcg.accelerators.matching import LabelledGraph
from mavcg.accelerators.path_instance import PathInstance, PricedGroup
from mavcg.errors import MavcgError

MOST_BYTES = 64 << 20
_GRAPH_FORM = '{"nodes": {"a": "conv", "b": "pool"}, "edges": [["a", "b"]]}'
_INSTANCE_FORM = '{"groups": [{"nodes": ["a", "b"], "cost": 3.5}], "edges": [["a", "b"]]}'


def read_labelled(path: Path) -> LabelledGraph:
    """Return the graph in a JSON file: nodes with their types, and edges as pairs or, with a label, as triples.

    Raises: MavcgError naming file, key and value.
    """
    table = _table(path, ("nodes", "edges"), _GRAPH_FORM)
    nodes = table["nodes"]
    if not isinstance(nodes, dict) or not nodes or not all(isinstance(label, str) for label in nodes.values()):
        raise MavcgError(
            f"{path}: nodes: {_quote_value(nodes)} is not an object of types by name; write it like {_GRAPH_FORM}"
        )
    edges: dict[tuple[str, str], str] = {}
    for at, edge in enumerate(_list(path, table, "edges", _GRAPH_FORM)):
        a, b, label = _edge(path, at, edge, labels=True)
        for name in (a, b):
            if name not in nodes:
                raise MavcgError(f"{path}: edges[{at}]: {_quote_value(name)} is not a node; name one of nodes")
        if (a, b) in edges:
            raise MavcgError(f"{path}: edges[{at}]: {_quote_value([a, b])} comes twice; leave one out")
        edges[a, b] = label
    return LabelledGraph(nodes, edges)


def read_instance(path: Path) -> PathInstance:
    """Return the instance of the path search in a JSON file.

    Raises: MavcgError naming file, key and value, and for edges that form a cycle.
    """
    table = _table(path, ("groups", "edges"), _INSTANCE_FORM)
    edges = [_edge(path, at, edge)[:2] for at, edge in enumerate(_list(path, table, "edges", _INSTANCE_FORM))]
    groups = []
    for at, entry in enumerate(_list(path, table, "groups", _INSTANCE_FORM)):
        location = f"{path}: groups[{at}]"
        if not isinstance(entry, dict) or set(entry) != {"nodes", "cost"}:
            raise MavcgError(
                f"{location}: {_quote_value(entry)} is not an object of nodes and cost; write it like {_INSTANCE_FORM}"
            )
        nodes, cost = entry["nodes"], entry["cost"]
        if not isinstance(nodes, list) or not nodes or not all(isinstance(name, str) for name in nodes):
            raise MavcgError(
                f"{location}: nodes: {_quote_value(nodes)} is not a list of names; write it like {_INSTANCE_FORM}"
            )
        if len(set(nodes)) != len(nodes):
            raise MavcgError(f"{location}: nodes: {_quote_value(nodes)} has a name twice; leave one out")
        number = isinstance(cost, int | float) and not isinstance(cost, bool)
        if not number or not math.isfinite(cost) or abs(cost) > 1e15:
            raise MavcgError(
                f"{location}: cost: {_quote_value(cost)} is not a number within 1e15; give the group's cost"
            )
        groups.append(PricedGroup(tuple(nodes), float(cost)))
    return PathInstance.of(groups, edges, str(path))


def _table(path: Path, keys: tuple[str, ...], form: str) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise MavcgError(f"{path}: more than {MOST_BYTES >> 20} MiB; give a smaller file")
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); name a JSON file") from error
    except (ValueError, RecursionError) as error:
        raise MavcgError(f"{path}: not JSON ({error}); write it like {form}") from error
    if not isinstance(document, dict) or set(document) != set(keys):
        raise MavcgError(
            f"{path}: {_quote_value(document)} is not an object of {' and '.join(keys)}; write it like {form}"
        )
    return document


def _list(path: Path, table: Mapping[str, Any], key: str, form: str) -> list[Any]:
    if not isinstance(table[key], list):
        raise MavcgError(f"{path}: {key}: {_quote_value(table[key])} is not a list; write it like {form}")
    return list(table[key])


def _edge(path: Path, at: int, edge: Any, labels: bool = False) -> tuple[str, str, str]:
    lengths = (2, 3) if labels else (2,)
    if not isinstance(edge, list) or len(edge) not in lengths or not all(isinstance(name, str) for name in edge):
        raise MavcgError(f'{path}: edges[{at}]: {_quote_value(edge)} is not a pair of names; write it like ["a", "b"]')
    return edge[0], edge[1], edge[2] if len(edge) == 3 else ""


def _quote_value(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
