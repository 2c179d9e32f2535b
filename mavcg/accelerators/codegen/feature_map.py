"""Place tensors in the features segment by their live ranges over all segments of a program."""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.accelerators.concats import placements
from mavcg.accelerators.image.program import AccelSegment, StoredTensor
from mavcg.accelerators.xgraph import XGraph
from mavcg.memory.arena import Arena, Lifetime, place_buffers


@dataclass(frozen=True)
class ScheduledSegment:
    """A segment with the nodes of its groups, in the order of execution."""

    groups: Sequence[Sequence[str]]
    segment: AccelSegment


def stored_tensors(graph: XGraph, scheduled: Sequence[ScheduledSegment]) -> tuple[dict[str, StoredTensor], Arena]:
    """Return the tensors in the features segment by name, and their arena.

    A tensor that only its own group reads is not stored, unless a concat contains it. A segment's inputs exist from its
    first group on, its outputs until the host has read them: between its last group and the next segment.
    """
    by_name, places, readers = graph.by_name(), placements(graph), graph.readers()
    time_of: dict[str, int] = {}
    written, read, time = dict[str, int](), dict[str, int](), 0
    for one in scheduled:
        written.update(dict.fromkeys(one.segment.inputs, time))
        for names in one.groups:
            time_of.update(dict.fromkeys(names, time))
            time += 1
        read.update(dict.fromkeys(one.segment.outputs, time))
        time += 1
    joined = {name for node in graph.nodes if node.kind == "concat" and node.name in time_of for name in node.inputs}
    kept = [
        node.name
        for node in graph.nodes
        if node.name in written
        or node.name in read
        or node.name in joined
        or (node.name in time_of and node.kind == "concat")
        or (
            node.name in time_of
            and any(time_of.get(r) != time_of[node.name] for r in readers[node.name] if r in time_of)
        )
    ]
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for name in kept:
        root = places[name].root
        begin = written[name] if name in written else time_of[name]
        ends = [time_of[reader] for reader in readers[name] if reader in time_of]
        end = max([begin, *ends, *(read[n] for n in (name, root) if n in read)])
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
