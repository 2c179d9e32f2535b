"""Read fusion templates from TOML: those of mavcg beside this module, or a user's file of the same form."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.accelerators.matching import LabelledGraph
from mavcg.accelerators.xgraph import ACCELERATED, XNode
from mavcg.errors import MavcgError
from mavcg.files.toml_tables import read_toml, value_text

OURS = Path(__file__).with_name("templates.toml")
ANY = "*"
MOST_VERTICES = 8


@dataclass(frozen=True)
class FusionTemplate:
    """A pattern of operations that may run as one group.

    pattern: its labels are names of kinds, or ANY for every node. kinds: node kinds that each label allows. context:
    vertices that do not join the group. kernel, stride: largest kernel and stride that a vertex may have, by vertex.
    """

    name: str
    pattern: LabelledGraph
    kinds: Mapping[str, tuple[str, ...]]
    context: frozenset[str]
    kernel: Mapping[str, int]
    stride: Mapping[str, int]

    def accepts(self, vertex: str, node: XNode) -> bool:
        """Return True if a node's kind, kernel and stride are allowed for a vertex."""
        label = self.pattern.nodes[vertex]
        if label != ANY and node.kind not in self.kinds[label]:
            return False
        return max(node.kernel) <= self.kernel.get(vertex, max(node.kernel)) and (
            max(node.stride) <= self.stride.get(vertex, max(node.stride))
        )


def read_templates(path: Path = OURS) -> tuple[FusionTemplate, ...]:
    """Return the templates in a file. Raises: MavcgError naming file, key and value."""
    table = read_toml(path)
    _only(path, "", table, ("kinds", "template"))
    names = {kind: (kind,) for kind in ACCELERATED}
    for name, members in _table(path, "kinds", table.get("kinds", {})).items():
        if not isinstance(members, list) or not members or not all(m in ACCELERATED for m in members):
            raise MavcgError(
                f"{path}: kinds.{name} = {value_text(members)}: give a list; kinds are {', '.join(ACCELERATED)}"
            )
        names[name] = tuple(members)
    entries = _table(path, "template", table.get("template", {}))
    if not entries:
        raise MavcgError(f'{path}: no templates; add [template."conv+pool"] with nodes and edges')
    return tuple(_template(path, name, entry, names) for name, entry in entries.items())


def _template(path: Path, name: str, entry: Any, kinds: Mapping[str, tuple[str, ...]]) -> FusionTemplate:
    key_path = f'template."{name}"'
    entry = _table(path, key_path, entry)
    _only(path, f"{key_path}.", entry, ("nodes", "edges", "context", "kernel", "stride"))
    nodes = _table(path, f"{key_path}.nodes", entry.get("nodes", {}))
    if not 1 <= len(nodes) <= MOST_VERTICES or not all(k == ANY or k in kinds for k in nodes.values() if _text(k)):
        known = ", ".join((ANY, *kinds))
        raise MavcgError(
            f"{path}: {key_path}.nodes = {value_text(nodes)}: give 1 to {MOST_VERTICES} vertices of {known}"
        )
    if not all(_text(k) for k in nodes.values()):
        raise MavcgError(f'{path}: {key_path}.nodes = {value_text(nodes)}: write {{ a = "conv", b = "pool" }}')
    edges: dict[tuple[str, str], str] = {}
    listed = entry.get("edges", [])
    for edge in listed if isinstance(listed, list) else [listed]:
        if not isinstance(edge, list) or len(edge) != 2 or any(not _text(v) or v not in nodes for v in edge):
            raise MavcgError(
                f'{path}: {key_path}.edges: {value_text(edge)} is not a pair of vertices; write it like ["a", "b"]'
            )
        edges[edge[0], edge[1]] = ""
    context = entry.get("context", [])
    if not isinstance(context, list) or any(not _text(v) or v not in nodes for v in context):
        raise MavcgError(
            f'{path}: {key_path}.context = {value_text(context)} is not a list of vertices; write it like ["a"]'
        )
    if len(set(context)) >= len(nodes):
        raise MavcgError(f"{path}: {key_path}.context = {value_text(context)}: leaves no vertex for the group")
    limits = [_limits(path, f"{key_path}.{key}", entry.get(key, {}), nodes) for key in ("kernel", "stride")]
    return FusionTemplate(name, LabelledGraph(nodes, edges), kinds, frozenset(context), *limits)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _limits(path: Path, key_path: str, value: Any, nodes: Mapping[str, Any]) -> Mapping[str, int]:
    table = _table(path, key_path, value)
    for vertex, limit in table.items():
        if vertex not in nodes or not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise MavcgError(
                f"{path}: {key_path}.{vertex} = {value_text(limit)}: give a vertex and a whole number above 0"
            )
    return table


def _table(path: Path, key_path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MavcgError(f"{path}: {key_path} = {value_text(value)} is not a table; write one as in {OURS}")
    return value


def _only(path: Path, key_path: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    for key in table:
        if key not in allowed:
            raise MavcgError(f"{path}: {key_path}{key}: no such key; known keys: {', '.join(allowed)}")
