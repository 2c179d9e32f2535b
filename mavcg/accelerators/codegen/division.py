"""Divide a network into segments of the accelerator with parts of the CPU before, between and after them.

A tensor's stage is the number of changes between CPU and accelerator on the way to it, so every path from a stage to
itself stays within it: the nodes of a stage form a convex set, and stages run in order without cycles. No other
division of the same nodes has fewer stages, since a path with n changes needs n + 1 of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mavcg.accelerators.image.host import CpuPart, HostPlan, HostTensor, own_outputs
from mavcg.accelerators.image.program import AccelSegment
from mavcg.accelerators.xgraph import XGraph, XNode, operations


@dataclass(frozen=True)
class Division:
    """Segments of the accelerator in order, and the CPU's nodes before each of them and after the last.

    cpu: names of nodes, one tuple more than segments. All names are in the graph's order.
    """

    segments: tuple[AccelSegment, ...]
    cpu: tuple[tuple[str, ...], ...]

    @property
    def accelerator(self) -> tuple[str, ...]:
        """Return the nodes of all segments, in the order of execution."""
        return tuple(name for segment in self.segments for name in segment.nodes)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the tensors that the host gives to the accelerator."""
        return tuple(dict.fromkeys(name for segment in self.segments for name in segment.inputs))


def divide(graph: XGraph) -> Division:
    """Divide a network so that the accelerator computes each node that it can, in as few segments as possible."""
    stages = _stages(graph)
    count = max((stage // 2 + 1 for stage in stages.values() if stage % 2), default=0)
    names = [node.name for node in graph.nodes if node.kind != "input"]
    segments = [tuple(name for name in names if stages[name] == 2 * number + 1) for number in range(count)]
    cpu = [tuple(name for name in names if stages[name] == 2 * number) for number in range(count + 1)]
    return Division(_segments(graph, segments), tuple(cpu))


def _stages(graph: XGraph) -> dict[str, int]:
    """Return the stage of each node, odd for the accelerator: its nodes as early, the CPU's as late as possible."""
    stages: dict[str, int] = {}
    for node in graph.nodes:
        parity = int(node.on_accelerator)
        latest = max((stages[name] for name in node.inputs), default=0)
        stages[node.name] = latest + (latest % 2 != parity)
    # After the last segment.
    end = max((stage + 1 for stage in stages.values() if stage % 2), default=0)
    readers = graph.readers()
    for node in reversed(graph.nodes):
        if node.kind != "input" and not node.on_accelerator:
            stages[node.name] = min((stages[r] - stages[r] % 2 for r in readers[node.name]), default=end)
    return stages


def _segments(graph: XGraph, segments: Sequence[tuple[str, ...]]) -> tuple[AccelSegment, ...]:
    nodes, readers = graph.by_name(), graph.readers()
    of = {name: number for number, names in enumerate(segments) for name in names}
    loaded: list[list[str]] = [[] for _ in segments]
    saved: list[list[str]] = [[] for _ in segments]
    for node in graph.nodes:
        read_by = [of[reader] for reader in readers[node.name] if reader in of]
        if node.name not in of and read_by:
            loaded[min(read_by)].append(node.name)
        elif node.name in of and (node.name in graph.outputs or len(read_by) < len(readers[node.name])):
            saved[of[node.name]].append(node.name)
    return tuple(
        AccelSegment(names, tuple(before), tuple(after), sum(operations(graph, nodes[name]) for name in names))
        for names, before, after in zip(segments, loaded, saved, strict=True)
    )


def host_plan(graph: XGraph, division: Division) -> HostPlan:
    """Return the plan of the host: tensors to move, and CPU parts, whose libraries are not named yet."""
    parts = [CpuPart(names, _read_by(graph, names)) for names in division.cpu]
    read = {name: number for number, part in enumerate(parts) for name in part.inputs}
    kept = {*division.inputs, *graph.outputs}
    parts = [
        CpuPart(part.nodes, part.inputs, tuple(n for n in part.nodes if n in kept or read.get(n, number) > number))
        for number, part in enumerate(parts)
    ]
    moved: list[str] = [node.name for node in graph.inputs()]
    for number, part in enumerate(parts):
        moved += [*part.inputs, *part.outputs]
        if number < len(division.segments):
            moved += [*division.segments[number].inputs, *division.segments[number].outputs]
    by_name = graph.by_name()
    tensors = tuple(host_tensor(by_name[name]) for name in dict.fromkeys([*moved, *graph.outputs]))
    outputs = graph.model_outputs or own_outputs(tensors, graph.outputs)
    return HostPlan(tensors, tuple(node.name for node in graph.inputs()), outputs, tuple(parts))


def _read_by(graph: XGraph, names: Iterable[str]) -> tuple[str, ...]:
    by_name: Mapping[str, XNode] = graph.by_name()
    inside = set(names)
    return tuple(dict.fromkeys(i for name in names for i in by_name[name].inputs if i not in inside))


def host_tensor(node: XNode) -> HostTensor:
    """Return the description of a node's tensor for the host."""
    nchw = node.op == "nchw" and node.kind == "input"
    dims = (node.shape[0], node.shape[3], node.shape[1], node.shape[2]) if nchw else node.shape
    return HostTensor(node.name, dims, node.radix, nchw, node.scale, node.zero)
