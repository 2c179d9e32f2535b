"""Divide a network between the accelerator's program and the CPU, which computes before and after the program."""

from dataclasses import dataclass

from mavcg.accelerators.image.host import CpuPart, HostPlan, HostTensor, own_outputs
from mavcg.accelerators.xgraph import XGraph, XNode


@dataclass(frozen=True)
class Division:
    """Nodes of the accelerator's program, with the tensors that it reads and writes, and the CPU's nodes.

    accelerator: names in the graph's order. before: CPU nodes whose results the accelerator needs. after: all other CPU
    nodes. inputs: tensors that exist before the program starts. outputs: tensors that the graph returns or the CPU
    reads.
    """

    accelerator: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def divide(graph: XGraph) -> Division:
    """Divide a network so that the accelerator runs once.

    A node that needs the result of a CPU node, which in turn needs the accelerator, is computed by the CPU too.
    """
    accelerator: list[str] = []
    cpu: list[str] = []
    after_accelerator: set[str] = set()  # CPU nodes that depend on the accelerator
    chosen: set[str] = set()
    for node in graph.nodes:
        if node.kind == "input":
            continue
        if node.on_accelerator and not after_accelerator & set(node.inputs):
            accelerator.append(node.name)
            chosen.add(node.name)
            continue
        cpu.append(node.name)
        if (chosen | after_accelerator) & set(node.inputs):
            after_accelerator.add(node.name)
    before = _dependencies(graph, chosen)
    readers = graph.readers()
    inputs = [
        node.name
        for node in graph.nodes
        if node.name not in chosen and any(reader in chosen for reader in readers[node.name])
    ]
    outputs = [
        name for name in accelerator if name in graph.outputs or any(reader not in chosen for reader in readers[name])
    ]
    return Division(
        tuple(accelerator),
        tuple(name for name in cpu if name in before),
        tuple(name for name in cpu if name not in before),
        tuple(inputs),
        tuple(outputs),
    )


def _dependencies(graph: XGraph, chosen: set[str]) -> set[str]:
    """Return the nodes outside of `chosen` that the chosen nodes depend on."""
    needed: set[str] = set()
    for node in reversed(graph.nodes):
        if node.name in chosen or node.name in needed:
            needed.update(name for name in node.inputs if name not in chosen)
    return needed


def host_plan(graph: XGraph, division: Division) -> HostPlan:
    """Return the plan of the host: tensors to move, and CPU parts, whose libraries are not named yet."""
    before = _cpu_part(graph, division.before, (*division.inputs, *_read_by(graph, division.after)))
    after = _cpu_part(graph, division.after, ())
    inputs = tuple(node.name for node in graph.inputs())
    moved = dict.fromkeys(
        (
            *inputs,
            *before.inputs,
            *before.outputs,
            *division.inputs,
            *division.outputs,
            *after.inputs,
            *after.outputs,
            *graph.outputs,
        )
    )
    by_name = graph.by_name()
    tensors = tuple(host_tensor(by_name[name]) for name in moved)
    outputs = graph.model_outputs or own_outputs(tensors, graph.outputs)
    return HostPlan(tensors, inputs, outputs, before, after)


def _read_by(graph: XGraph, names: tuple[str, ...]) -> tuple[str, ...]:
    by_name = graph.by_name()
    return tuple(dict.fromkeys(i for name in names for i in by_name[name].inputs if i not in names))


def _cpu_part(graph: XGraph, names: tuple[str, ...], read_later: tuple[str, ...]) -> CpuPart:
    kept = {*read_later, *graph.outputs}
    return CpuPart(names, _read_by(graph, names), tuple(name for name in names if name in kept))


def host_tensor(node: XNode) -> HostTensor:
    """Return the description of a node's tensor for the host."""
    nchw = node.op == "nchw" and node.kind == "input"
    dims = (node.shape[0], node.shape[3], node.shape[1], node.shape[2]) if nchw else node.shape
    return HostTensor(node.name, dims, node.radix, nchw)
