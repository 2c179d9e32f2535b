"""Compute keys of groups; groups with equal keys have equal costs, also in different networks."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import mavcg.accelerators
from mavcg.accelerators.concats import placements
from mavcg.accelerators.fusion.group_shape import GraphFacts, group_shape
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph
from mavcg.text.source_digest import digest_of_code

_TEXTS = ("name", "description", "sources", "dense", "rounding", "frequency_mhz")  # without effect on cycles


@dataclass
class GroupKeys:
    """Keys of groups, with a cache of the last graph's facts."""

    _facts: GraphFacts | None = None
    _parts: dict[str, tuple[bool, int]] = field(default_factory=dict)

    def key(self, graph: XGraph, nodes: Sequence[str]) -> tuple[object, ...]:
        """Return the key of a group: all that its code depends on except values. nodes: in the graph's order."""
        if self._facts is None or self._facts.graph is not graph:
            self._facts = GraphFacts(graph)
            places = placements(graph)
            self._parts = {n.name: (places[n.name].root != n.name, places[n.name].stride) for n in graph.nodes}
        shape = group_shape(self._facts, nodes)
        # Inputs of a concat are transferred pixel by pixel; row strides decide how tiles are spread over the banks.
        tensors = [self._parts[node.name] for node in (*shape.inputs, *shape.nodes)]
        copied = [self._facts.copied_parts.get(node.name) for node in shape.nodes]
        return shape.key, tuple(tensors), tuple(copied)


def key_digest(key: tuple[object, ...], target: IsaTarget) -> str:
    """Return a key as text for files: a digest of the group, the target's figures and the version of the compiler."""
    figures = {name: value for name, value in asdict(target).items() if name not in _TEXTS}
    return hashlib.sha256(repr((key, sorted(figures.items()), compiler_version())).encode()).hexdigest()[:32]


@cache
def compiler_version() -> str:
    """Return a digest of the code that generates a group's code and simulates its cycles."""
    folder = Path(mavcg.accelerators.__file__).parent
    parts = ("codegen", "isa", "simulator")
    return digest_of_code(
        [*folder.glob("*.py"), *(file for part in parts for file in (folder / part).glob("*.py"))], folder
    )[:12]
