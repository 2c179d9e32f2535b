"""Generate the program of a quantised network from its groups."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from mavcg.accelerators.codegen.code import CodeState
from mavcg.accelerators.codegen.division import Division, divide, host_plan, host_tensor
from mavcg.accelerators.codegen.fit import emit_fitted
from mavcg.accelerators.codegen.tokens import with_tokens
from mavcg.accelerators.concats import placements
from mavcg.accelerators.groups import FusedGroup
from mavcg.accelerators.image.host import HostPlan, own_outputs
from mavcg.accelerators.image.program import AccelProgram, NodeRadix, StoredTensor
from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.isa.forms import VERSION
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph, XNode, operations
from mavcg.errors import MavcgError
from mavcg.memory.arena import Arena, Lifetime, place_buffers


def generate(
    graph: XGraph, groups: Sequence[FusedGroup], target: IsaTarget, progress: Callable[[str], None] | None = None
) -> tuple[AccelProgram, tuple[FusedGroup, ...]]:
    """Return the program of a network, and its groups with the tiles that they were emitted with.

    graph: quantised. groups: contain each node of divide(graph).accelerator once, in an order in which each group reads
    only tensors that exist. Raises: MavcgError if a group does not fit, and for values that an instruction cannot
    encode.
    """
    division = divide(graph)
    _check_groups(graph, division, groups)
    names = [group.nodes for group in groups]
    tensors, arena = _stored_tensors(graph, names, division.inputs, division.outputs)
    code = CodeState(graph, datapath(target), tensors)
    code.emit("misc.start", {"version": VERSION})
    fitted = []
    for number, group in enumerate(groups):
        if progress is not None:
            progress(f"code of group {number + 1} of {len(groups)}: {group.nodes[-1]}")
        fitted.append(replace(group, tile=emit_fitted(code, group.nodes, tensors, group.tile)))
    code.emit("misc.end", {})
    chosen = {name for group in groups for name in group.nodes}
    program = replace(
        _program(code, target, arena, chosen),
        inputs=division.inputs,
        outputs=division.outputs,
        host=host_plan(graph, division),
        radices=_radices(graph),
        nchw=tuple(node.name for node in graph.inputs() if node.op == "nchw"),
    )
    return program, tuple(fitted)


def _program(code: CodeState, target: IsaTarget, arena: Arena, names: Collection[str]) -> AccelProgram:
    """Return the program of emitted code, without inputs and outputs. names: of the nodes that it computes."""
    graph = code.graph
    return AccelProgram(
        network=graph.name,
        target=target,
        instructions=with_tokens(code.instructions, code.path),
        parameters=bytes(code.parameters),
        feature_bytes=arena.bytes,
        nodes=tuple(node.name for node in graph.nodes),
        tensors=tuple(code.tensors.values()),
        inputs=(),
        outputs=(),
        operations=sum(operations(graph, node) for node in graph.nodes if node.name in names),
    )


def _radices(graph: XGraph) -> tuple[NodeRadix, ...]:
    nodes = [node for node in graph.nodes if node.radix is not None]
    return tuple(NodeRadix(n.name, n.radix or 0, n.weight_radix, n.bias_steps) for n in nodes)


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
    tensors, arena = _stored_tensors(graph, [group.nodes], inputs, outputs)
    code = CodeState(graph, datapath(target), tensors)
    code.emit("misc.start", {"version": VERSION})
    tile = emit_fitted(code, group.nodes, tensors, group.tile)
    code.emit("misc.end", {})
    moved = tuple(host_tensor(by_name[name]) for name in (*inputs, *outputs))
    program = replace(
        _program(code, target, arena, chosen),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        host=HostPlan(moved, tuple(inputs), own_outputs(moved, outputs)),
    )
    return program, replace(group, tile=tile)


def _stored_tensors(
    graph: XGraph, groups: Sequence[Sequence[str]], inputs: Sequence[str], outputs: Sequence[str]
) -> tuple[dict[str, StoredTensor], Arena]:
    """Place feature maps by their live ranges: return those in the features segment by name, and their arena.

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


def _check_groups(graph: XGraph, division: Division, groups: Sequence[FusedGroup]) -> None:
    by_name = graph.by_name()
    placed: set[str] = set(division.inputs)
    seen: list[str] = []
    for group in groups:
        inside = set(group.nodes)
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
    if node.shape and node.shape[0] != 1 and inside:
        raise MavcgError(f"{graph.name}: {node.name}: batch {node.shape[0]}; give the model a batch of 1")
