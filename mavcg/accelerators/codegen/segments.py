"""Place feature maps in the features segment by their live ranges, with the arena planner."""

from collections.abc import Sequence

from mavcg.accelerators.concats import placements
from mavcg.accelerators.image.program import StoredTensor
from mavcg.accelerators.xgraph import XGraph
from mavcg.memory.arena import Arena, Lifetime, place_buffers


def stored_tensors(
    graph: XGraph, groups: Sequence[Sequence[str]], inputs: Sequence[str], outputs: Sequence[str]
) -> tuple[dict[str, StoredTensor], Arena]:
    """Return the tensors in the features segment, by name, and the arena that they are placed in.

    groups: names of nodes, in the order of execution. inputs: tensors that exist before the program starts. outputs:
    tensors that must exist at its end. A tensor that only its own group reads is not stored, unless a concat contains
    it.
    """
    by_name, places, readers = graph.by_name(), placements(graph), graph.readers()
    group_of = {name: number for number, names in enumerate(groups) for name in names}
    joined = {name for node in graph.nodes if node.kind == "concat" and node.name in group_of for name in node.inputs}
    kept = [
        node.name
        for node in graph.nodes
        if node.name in inputs
        or node.name in outputs
        or node.name in joined
        or (node.name in group_of and node.kind == "concat")
        or (
            node.name in group_of
            and any(group_of.get(r) != group_of[node.name] for r in readers[node.name] if r in group_of)
        )
    ]
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for name in kept:
        root = places[name].root
        begin = 0 if name in inputs else group_of[name]
        ends = [group_of[reader] for reader in readers[name] if reader in group_of]
        end = len(groups) if name in outputs or root in outputs else max([begin, *ends])
        first[root], last[root] = min(first.get(root, begin), begin), max(last.get(root, end), end)
    sizes = {root: _bytes(by_name[root].shape) for root in first}
    arena = place_buffers([Lifetime(root, sizes[root], first[root], last[root]) for root in first])
    tensors = {}
    for name in kept:
        node, placement = by_name[name], places[name]
        offset = arena.offsets[placement.root] + placement.first
        tensors[name] = StoredTensor(
            name, node.shape[1], node.shape[2], node.channels, node.radix or 0, offset, placement.stride
        )
    return tensors, arena


def _bytes(shape: tuple[int, ...]) -> int:
    return shape[1] * shape[2] * shape[3]
