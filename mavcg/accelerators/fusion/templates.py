"""Read fusion templates from TOML: those of mavcg beside this module, or a user's file of the same form."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mavcg.accelerators.fusion.matching import LabelledGraph
from mavcg.accelerators.xgraph import ACCELERATED, XNode
from mavcg.files.decode import Document, read_toml
from mavcg.files.file_types import value_text

OURS = Path(__file__).with_name("templates.toml")
ANY = "*"
MOST_VERTICES = 8
_NODES = f"a table of 1 to {MOST_VERTICES} vertices"
_PAIR = '["a", "b"]'


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
    document = read_toml(path, f"write one as in {OURS}")
    file = document.decode(_TemplateFile)
    names: dict[str, tuple[str, ...]] = {kind: (kind,) for kind in ACCELERATED}
    for name, members in file.kinds.items():
        if not all(member in ACCELERATED for member in members):
            raise document.fault(
                f"kinds.{name}",
                f"{value_text(members)} has a kind that is not known",
                f"kinds are {_list(ACCELERATED)}",
            )
        names[name] = members
    if not file.template:
        raise document.fault("template", "missing", 'add [template."conv+pool"] with nodes and edges')
    return tuple(_template(document, name, entry, names) for name, entry in file.template.items())


Vertex = Annotated[str, Meta(min_length=1, description="a vertex")]
Limits = Mapping[str, Annotated[int, Meta(ge=1, description="a whole number above 0")]]


@dataclass(frozen=True)
class _Template:
    nodes: Annotated[Mapping[Vertex, str], Meta(min_length=1, max_length=MOST_VERTICES, description=_NODES)]
    edges: tuple[Annotated[tuple[Vertex, Vertex], Meta(description="a pair of vertices", examples=[_PAIR])], ...] = ()
    context: tuple[Vertex, ...] = ()
    kernel: Limits = field(default_factory=dict)
    stride: Limits = field(default_factory=dict)


@dataclass(frozen=True)
class _TemplateFile:
    kinds: Mapping[str, Annotated[tuple[str, ...], Meta(min_length=1, description="a list of kinds")]] = field(
        default_factory=dict
    )
    template: Mapping[str, _Template] = field(default_factory=dict)


def _template(document: Document, name: str, entry: _Template, kinds: Mapping[str, tuple[str, ...]]) -> FusionTemplate:
    key = f'template."{name}"'
    known = (ANY, *kinds)
    for vertex, kind in entry.nodes.items():
        if kind not in known:
            raise document.fault(f"{key}.nodes.{vertex}", f"{value_text(kind)} is no kind", f"kinds are {_list(known)}")
    named = {
        "edges": [vertex for edge in entry.edges for vertex in edge],
        "context": entry.context,
        "kernel": entry.kernel,
        "stride": entry.stride,
    }
    for part, vertices in named.items():
        for vertex in vertices:
            if vertex not in entry.nodes:
                wrong = f"{value_text(vertex)} is not a vertex"
                raise document.fault(f"{key}.{part}", wrong, f"vertices are {_list(entry.nodes)}")
    if len(set(entry.context)) >= len(entry.nodes):
        raise document.fault(f"{key}.context", f"{value_text(entry.context)} leaves no vertex for the group")
    pattern = LabelledGraph(entry.nodes, dict.fromkeys(entry.edges, ""))
    return FusionTemplate(name, pattern, kinds, frozenset(entry.context), entry.kernel, entry.stride)


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
