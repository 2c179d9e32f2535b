"""Buffers of an application's library: where each lies in the arena, when it is live, and the edges that it holds."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from mavcg.apps.library_plan import LibraryPlan
from mavcg.apps.model_network import layer_names
from mavcg.choose.plan import Plan
from mavcg.memory.arena import Lifetime


def memory_json(planned: LibraryPlan) -> dict[str, Any]:
    """Return the memory of a library as in the documents of `mavcg app plan` and `mavcg app build`, in bytes.

    peak_bytes: of the arena, which holds all buffers. weights_bytes: of packed weights, equal ones counted once.
    """
    return {
        "buffers": buffers_json(planned),
        "peak_bytes": planned.application.arena_bytes,
        "weights_bytes": planned.weight_bytes,
        "scratch_bytes": planned.application.scratch_bytes,
    }


def buffers_json(planned: LibraryPlan) -> list[dict[str, Any]]:
    """Return the buffers of all networks, in the order of their first use in each.

    offset: in the application's arena. edges: layers that write and read its data, "source->target". first, last: the
    phases of its network, of the number in `networks`, in which it is live. A buffer that stages of a pipeline exchange
    is as large as all of its copies.
    """
    return [
        {
            "name": f"{placed.program.name}:{buffer.name}",
            "network": placed.program.name,
            "bytes": buffer.bytes,
            "offset": placed.arena_offset + plan.memory.arena.offsets[buffer.name],
            "edges": edges[buffer.name],
            "first": buffer.first,
            "last": buffer.last,
        }
        for plan, placed in zip(planned.networks, planned.application.networks, strict=True)
        for edges in [_edges(plan)]
        for buffer in sorted(network_buffers(plan), key=lambda b: (b.first, b.last, b.name))
    ]


def network_buffers(plan: Plan) -> Iterator[Lifetime]:
    """Yield the buffers of a network's arena with the phases, or steps without phases, in which they are live.

    By parts of rows, a buffer's bytes are those of its window; between stages of a pipeline, those of all copies.
    """
    rings = {ring.offset: ring.stride * ring.copies for ring in plan.program.rings}
    offsets, numbers = plan.memory.arena.offsets, {n.output: i for i, n in enumerate(plan.lowered.graph.nodes)}
    at = [numbers[step.node.output] for step in plan.lowered.steps]
    for buffer in plan.memory.arena.buffers:
        if not buffer.bytes:
            continue
        size = rings.get(offsets[buffer.name], buffer.bytes)
        if plan.program.phases:
            yield Lifetime(buffer.name, size, buffer.first, buffer.last)
        else:  # nodes may have several steps, or none
            first, end = bisect_left(at, buffer.first), bisect_right(at, buffer.last)
            yield Lifetime(buffer.name, size, first, max(first, end - 1))


def _edges(plan: Plan) -> dict[str, list[str]]:
    """Return the edges whose data each buffer holds, by its name, in the order of the readers."""
    graph, locations = plan.lowered.graph, plan.lowered.storage.locations
    names = layer_names(graph)
    edges = {buffer.name: dict[str, None]() for buffer in plan.memory.arena.buffers}
    writers = {tensor: name for name, node in zip(names, graph.nodes, strict=True) for tensor in node.outputs}
    for name, node in zip(names, graph.nodes, strict=True):
        for tensor in node.inputs:
            location = locations.get(tensor)
            if location is not None and location.root in edges and tensor in writers:
                edges[location.root][f"{writers[tensor]}->{name}"] = None
    return {buffer: list(own) for buffer, own in edges.items()}
