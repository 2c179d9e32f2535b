"""Decide which operations go to the CPU although the accelerator has them: those that are not worth the hand-over.

A small operation between two of the CPU costs a job and two transfers. The decision weighs modelled times: each
operation by itself on the accelerator; on the CPU its operations and the DDR traffic of its f32 tensors; for each
tensor that changes sides its int8 traffic, written and read; for each segment the call. Traffic moves at the rate of a
core's port. A target without the CPU's figures leaves every operation to the accelerator.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from mavcg.accelerators.codegen.division import Division, divide
from mavcg.accelerators.fusion.costs import GroupCosts, ModelledGroupCosts
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph, XNode, operations

_F32_BYTES, _SIDES = 4, 2  # bytes of an element on the CPU; a tensor that changes sides is written and read


@dataclass(frozen=True)
class HandOver:
    """Counts of what changes sides in one run. calls: jobs of the accelerator. moved_bytes: bytes of int8 tensors."""

    calls: int
    moved_bytes: int


def hand_over(graph: XGraph, division: Division) -> HandOver:
    """Return the hand-over of a divided network."""
    nodes = graph.by_name()
    moved = [prod(nodes[n].shape) for segment in division.segments for n in (*segment.inputs, *segment.outputs)]
    return HandOver(len(division.segments), sum(moved))


def assign_operations(graph: XGraph, target: IsaTarget) -> XGraph:
    """Return the network with `on_cpu` set where that makes the modelled time of a run shorter.

    From all on the accelerator, the segment or connected part of one that gains most goes to the CPU, as long as one
    gains; the last one stays. A network of one segment stays as it is.
    """
    if target.host_gops is None or target.host_call_us is None or len(divide(graph).segments) < 2:
        return graph
    costs = _Costs(graph, ModelledGroupCosts(target), target)
    on_cpu: frozenset[str] = frozenset()
    best = costs.cycles(graph)
    while True:
        tried = [on_cpu | part for part in _parts(_with_cpu(graph, on_cpu))]
        timed = [(costs.cycles(_with_cpu(graph, names)), sorted(names)) for names in tried]
        cycles, chosen = min(timed, default=(best, []))
        if cycles >= best:
            return _with_cpu(graph, on_cpu)
        best, on_cpu = cycles, frozenset(chosen)


def _with_cpu(graph: XGraph, names: Iterable[str]) -> XGraph:
    nodes = graph.by_name()
    return graph.with_nodes({name: replace(nodes[name], on_cpu=True) for name in names})


def _parts(graph: XGraph) -> Iterator[frozenset[str]]:
    """Yield the segments and the connected parts of each; not one that is all that the accelerator computes."""
    division, nodes = divide(graph), graph.by_name()
    for segment in division.segments:
        inside = list[frozenset[str]]()
        for name in segment.nodes:
            joined = [part for part in inside if part & set(nodes[name].inputs)]
            inside = [part for part in inside if part not in joined] + [frozenset({name}).union(*joined)]
        for part in {frozenset(segment.nodes), *inside}:
            if len(part) < len(division.accelerator):
                yield part


class _Costs:
    """Modelled cycles of nodes on both sides, each computed once."""

    def __init__(self, graph: XGraph, costs: GroupCosts, target: IsaTarget) -> None:
        assert target.host_gops is not None and target.host_call_us is not None
        self.target = target
        self.call_cycles = target.host_call_us * target.frequency_mhz
        nodes = graph.by_name()
        self.ours = {n.name: _alone(graph, n, costs) for n in graph.nodes if n.on_accelerator}
        self.cpu = {n.name: self._cpu_cycles(graph, n, nodes) for n in graph.nodes if n.kind != "input"}

    def _cpu_cycles(self, graph: XGraph, node: XNode, nodes: Mapping[str, XNode]) -> float:
        assert self.target.host_gops is not None
        elements = prod(node.shape) + sum(prod(nodes[name].shape) for name in node.inputs)
        computed = operations(graph, node) / (self.target.host_gops * 1000) * self.target.frequency_mhz
        return computed + _F32_BYTES * elements / self.target.port_bytes_per_cycle

    def cycles(self, graph: XGraph) -> float:
        """Return the cycles of a run: of all nodes, where they are, and of the hand-over."""
        division = divide(graph)
        moved = hand_over(graph, division)
        ours = sum(self.ours[name] for name in division.accelerator)
        cpu = sum(self.cpu[name] for part in division.cpu for name in part)
        transfers = _SIDES * moved.moved_bytes / self.target.port_bytes_per_cycle
        return ours + cpu + transfers + moved.calls * self.call_cycles


def _alone(graph: XGraph, node: XNode, costs: GroupCosts) -> float:
    """Return the cycles of a node as a group by itself; 0 if it does not fit on chip, of which the search tells."""
    cost = costs.cost(graph, (node.name,))
    return 0.0 if cost is None else cost.cost
