"""Generate the program of a quantised network from its groups, with its tensors placed in the features segment.

Tensors are placed by their live ranges over all segments of a program.

"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.accelerators.codegen.code import CodeState
from mavcg.accelerators.codegen.division import Division, divide, host_plan, host_tensor
from mavcg.accelerators.codegen.fit import emit_fitted
from mavcg.accelerators.codegen.vta_code import VtaCode
from mavcg.accelerators.concats import placements
from mavcg.accelerators.groups import FusedGroup
from mavcg.accelerators.image.host import HostPlan, own_outputs
from mavcg.accelerators.image.program import AccelProgram, AccelSegment, NodeRadix, StoredTensor
from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.isa.vta import BLOCK
from mavcg.accelerators.target import VTA, IsaTarget
from mavcg.accelerators.xgraph import XGraph, XNode, operations
from mavcg.errors import MavcgError
from mavcg.memory.arena import Arena, Lifetime, align_size, place_buffers


@dataclass(frozen=True)
class ScheduledSegment:
    """A segment with the nodes of its groups, in the order of execution."""

    groups: Sequence[Sequence[str]]
    segment: AccelSegment


def stored_tensors(
    graph: XGraph, scheduled: Sequence[ScheduledSegment], alignment: int = 1
) -> tuple[dict[str, StoredTensor], Arena]:
    """Return the tensors in the features segment by name, and their arena.

    A tensor that only its own group reads is not stored, unless a concat contains it. A segment's inputs exist from its
    first group on, its outputs until the host has read them: between its last group and the next segment. alignment:
    pixels begin at multiples of so many bytes.
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
    sizes = {root: _bytes(by_name[root].shape, alignment) for root in first}
    arena = place_buffers([Lifetime(root, sizes[root], first[root], last[root]) for root in first])
    tensors = {}
    for name in kept:
        node, placement = by_name[name], places[name]
        offset = arena.offsets[placement.root] + placement.first
        tensors[name] = StoredTensor(
            name,
            node.shape[1],
            node.shape[2],
            node.channels,
            node.radix or 0,
            offset,
            align_size(placement.stride, alignment),
            node.shape[0],
        )
    return tensors, arena


def _bytes(shape: tuple[int, ...], alignment: int) -> int:
    return shape[0] * shape[1] * shape[2] * align_size(shape[3], alignment)


def _alignment(target: IsaTarget) -> int:
    return BLOCK if target.isa == VTA else 1


def _new_code(graph: XGraph, target: IsaTarget, tensors: Mapping[str, StoredTensor]) -> CodeState | VtaCode:
    return (VtaCode if target.isa == VTA else CodeState)(graph, datapath(target), tensors)


def generate(
    graph: XGraph, groups: Sequence[FusedGroup], target: IsaTarget, progress: Callable[[str], None] | None = None
) -> tuple[AccelProgram, tuple[FusedGroup, ...]]:
    """Return the program of a network, and its groups with the tiles that they were emitted with.

    graph: quantised. groups: contain each node of divide(graph).accelerator once, each group within one segment, in an
    order in which each group reads only tensors that exist. Raises: MavcgError if a group does not fit, and for values
    that an instruction cannot encode.
    """
    division = divide(graph)
    _check_groups(graph, division, groups)
    by_segment = [[g for g in groups if g.nodes[0] in segment.nodes] for segment in division.segments]
    scheduled = [
        ScheduledSegment([group.nodes for group in own], segment)
        for own, segment in zip(by_segment, division.segments, strict=True)
    ]
    tensors, arena = stored_tensors(graph, scheduled, _alignment(target))
    code = _new_code(graph, target, tensors)
    fitted = list[FusedGroup]()
    for own in by_segment:
        code.begin_job()
        for group in own:
            if progress is not None:
                progress(f"code of group {len(fitted) + 1} of {len(groups)}: {group.nodes[-1]}")
            fitted.append(replace(group, tile=emit_fitted(code, group.nodes, tensors, group.tile)))
        code.end_job()
    program = replace(
        _program(code, target, arena, division.segments),
        host=host_plan(graph, division),
        radices=_radices(graph),
        nchw=tuple(node.name for node in graph.inputs() if node.op == "nchw"),
    )
    return program, tuple(fitted)


def _program(
    code: CodeState | VtaCode, target: IsaTarget, arena: Arena, segments: tuple[AccelSegment, ...]
) -> AccelProgram:
    """Return the program of emitted code, without the host's plan."""
    graph = code.graph
    return AccelProgram(
        network=graph.name,
        target=target,
        instructions=code.program_code(),
        parameters=bytes(code.parameters),
        feature_bytes=arena.bytes,
        nodes=tuple(node.name for node in graph.nodes),
        tensors=tuple(code.tensors.values()),
        segments=segments,
    )


def _radices(graph: XGraph) -> tuple[NodeRadix, ...]:
    nodes = [node for node in graph.nodes if node.radix is not None and node.scale is None]
    return tuple(NodeRadix(n.name, n.radix or 0, n.weight_radix, n.bias_steps, n.multipliers) for n in nodes)


def generate_group(graph: XGraph, group: FusedGroup, target: IsaTarget) -> tuple[AccelProgram, FusedGroup]:
    """Return a program of a single group, to simulate or measure its cost.

    The group's inputs are in the features segment.
    Raises: MavcgError as generate.
    """
    chosen, readers = set(group.nodes), graph.readers()
    by_name = graph.by_name()
    inputs = list(dict.fromkeys(i for name in group.nodes for i in by_name[name].inputs if i not in chosen))
    outputs = [
        name
        for name in group.nodes
        if name in graph.outputs or not readers[name] or any(reader not in chosen for reader in readers[name])
    ]
    total = sum(operations(graph, by_name[name]) for name in group.nodes)
    segment = AccelSegment(group.nodes, tuple(inputs), tuple(outputs), total)
    tensors, arena = stored_tensors(graph, [ScheduledSegment([group.nodes], segment)], _alignment(target))
    code = _new_code(graph, target, tensors)
    code.begin_job()
    tile = emit_fitted(code, group.nodes, tensors, group.tile)
    code.end_job()
    moved = tuple(host_tensor(by_name[name]) for name in (*inputs, *outputs))
    program = replace(
        _program(code, target, arena, (segment,)),
        host=HostPlan(moved, tuple(inputs), own_outputs(moved, outputs)),
    )
    return program, replace(group, tile=tile)


def _check_groups(graph: XGraph, division: Division, groups: Sequence[FusedGroup]) -> None:
    by_name = graph.by_name()
    placed: set[str] = set(division.inputs)
    seen: list[str] = []
    for group in groups:
        inside = set(group.nodes)
        if not any(inside <= set(segment.nodes) for segment in division.segments):
            raise MavcgError(f"{graph.name}: the group of {group.nodes[0]} is not within one segment")
        for name in group.nodes:
            lacking = [i for i in by_name[name].inputs if i not in placed | inside]
            if lacking:
                raise MavcgError(
                    f"{graph.name}: the group of {name} reads {lacking[0]}, which no earlier group computes"
                )
        placed |= inside
        seen += group.nodes
    if sorted(seen) != sorted(division.accelerator):
        count = len(division.accelerator)
        raise MavcgError(f"{graph.name}: the groups contain {len(seen)} nodes; the accelerator computes {count}")
    for node in graph.nodes:
        _check_node(graph, node, inside=node.name in division.accelerator)


def _check_node(graph: XGraph, node: XNode, inside: bool) -> None:
    """Raise MavcgError for a node that no instruction computes."""
    if inside and node.kind == "concat" and node.act:
        raise MavcgError(f"{graph.name}: concat {node.name}: move its activation {node.act} to its inputs")
