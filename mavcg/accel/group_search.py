"""The groups that a network is executed in: one node each, or fused as a path search decides."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from mavcg.accel.codegen.choose_tile import tiled_group
from mavcg.accel.codegen.generate import divide
from mavcg.accel.groups import FusedGroup
from mavcg.accel.target import IsaTarget
from mavcg.accel.xgraph import XGraph, XNode

SEARCHES = ("none",)


@dataclass(frozen=True)
class ChosenGroups:
    """Groups with their tiles, in the order of execution. embeddings: of templates that the search chose from."""

    groups: tuple[FusedGroup, ...]
    embeddings: int


def choose_groups(graph: XGraph, target: IsaTarget, search: str, progress: Callable[[str], None]) -> ChosenGroups:
    """Return the groups of the accelerator's nodes. Raises: MavcgError where a node does not fit."""
    by_name, known = graph.by_name(), dict[object, FusedGroup]()
    groups = []
    for name in divide(graph).accelerator:
        progress(f"tiles of {name}")
        node = by_name[name]
        key = _key(graph, node)
        if node.kind == "concat" or key not in known:
            known[key] = tiled_group(graph, (name,), "single", target)
        groups.append(replace(known[key], nodes=(name,)))
    return ChosenGroups(tuple(groups), 0)


def _key(graph: XGraph, node: XNode) -> object:
    """Equal for nodes that take the same tiles and cycles."""
    by_name = graph.by_name()
    same = replace(node, name="", inputs=(), origin="", radix=None, weight_radix=(), act_args=())
    return same, tuple(by_name[name].shape for name in node.inputs), tuple(sorted(
        by_name[reader].stride for name in node.inputs for reader in graph.readers()[name]))  # fmt: skip
