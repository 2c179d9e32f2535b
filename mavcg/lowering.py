"""A graph and its storage -> the engine's program: kernels called in order, every operand's place, packed constants."""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernel import KernelSpec, Operand, Packing, Step
from mavcg.kernels.emit import kernel_name
from mavcg.kernels.pad import lower_border
from mavcg.kernels.registry import lower
from mavcg.memory.arena import Arena, Lifetime, aligned, place_buffers
from mavcg.memory.storage import Storage, assign_storage, lifetimes_of
from mavcg.model_program import Place, Program, ProgramStep, ProgramTensor
from mavcg.tile_plan import TilePlan, least_task_rows


@dataclass(frozen=True)
class Lowered:
    """program: what the engine runs. specs: its kernels, each once. constants: the bytes of all packed constants.
    storage: which tensors share buffers; arena: where these are; nodes: the node behind each step."""

    program: Program
    specs: tuple[KernelSpec, ...]
    constants: bytes
    storage: Storage
    arena: Arena
    nodes: tuple[Node, ...]


def lower_graph(graph: Graph, packing: Packing) -> Lowered:
    """The program of an optimised graph.

    Raises: MavcgError for an operator or a form of one that no kernel computes, naming the node.
    """
    storage = assign_storage(graph)
    graph = storage.graph
    arena = _arena(storage)
    constants = _Constants()
    steps: list[ProgramStep] = []
    nodes: list[Node] = []
    specs: dict[KernelSpec, None] = {}
    for node in graph.nodes:
        for step in _steps_of(node, storage, packing):
            operands = tuple(_place(operand, storage, arena, constants) for operand in step.operands)
            spec = step.spec
            specs[spec] = None
            if spec.rows:
                steps.append(
                    ProgramStep(
                        step.origin or node.origin or node.output,
                        node.op,
                        kernel_name(spec),
                        operands,
                        spec.rows,
                        least_task_rows(spec),
                        spec.work,
                    )  # fmt: skip
                )
                nodes.append(node)
    data = constants.bytes()
    program = Program(
        graph.name,
        tuple(ProgramTensor(name, graph.types[name]) for name in graph.inputs),
        tuple(ProgramTensor(name, graph.types[name]) for name in graph.outputs),
        tuple(steps),
        arena.bytes,
        max((aligned(spec.scratch_bytes) for spec in specs), default=0),
        len(data),
        arena.lower_bound_bytes,
    )
    return Lowered(program, tuple(specs), data, storage, arena, tuple(nodes))


def with_tasks(lowered: Lowered, plan: TilePlan) -> Lowered:
    """The same with tasks as large as planned; what the plan does not name keeps the least that is worth a thread."""
    steps = tuple(replace(step, grain=plan.task_rows(step.kernel) or step.grain) for step in lowered.program.steps)
    return replace(lowered, program=replace(lowered.program, steps=steps))


def _steps_of(node: Node, storage: Storage, packing: Packing) -> tuple[Step, ...]:
    if any(name in storage.silent for name in node.outputs):
        return ()
    views = storage.views(node)
    if node.output in storage.bordered:
        return lower_border(node, storage.graph, views, packing)
    return lower(node, storage.graph, views, packing)


def _arena(storage: Storage) -> Arena:
    graph = storage.graph
    outside = {*graph.inputs, *graph.outputs}
    return place_buffers(
        [
            Lifetime(root, storage.graph.types[root].bytes, first, last)
            for root, (first, last) in lifetimes_of(storage, graph.nodes).items()
            if root not in outside
        ]
    )


class _Constants:
    """Packed constants one after the other; equal ones once."""

    def __init__(self) -> None:
        self.offsets: dict[bytes, int] = {}
        self.parts: list[bytes] = []
        self.end = 0

    def add(self, operand: Operand) -> int:
        assert operand.constant is not None
        data = np.ascontiguousarray(operand.constant).tobytes()
        key = hashlib.sha256(data).digest() + operand.align.to_bytes(4, "little")
        if key not in self.offsets:
            start = aligned(self.end, operand.align)
            self.parts += [bytes(start - self.end), data]
            self.offsets[key], self.end = start, start + len(data)
        return self.offsets[key]

    def bytes(self) -> bytes:
        return b"".join(self.parts)


def _place(operand: Operand, storage: Storage, arena: Arena, constants: _Constants) -> Place:
    if operand.constant is not None:
        return Place("constants", constants.add(operand))
    graph, name = storage.graph, operand.tensor
    if name in graph.constants:  # a kernel that reads a constant as it is
        return Place("constants", constants.add(replace(operand, constant=graph.constants[name])))
    location = storage.locations[name]
    offset = location.offset * DTYPES[graph.types[name].dtype].itemsize
    if location.root in graph.inputs:
        return Place("input", offset, graph.inputs.index(location.root))
    if location.root in graph.outputs:
        return Place("output", offset, graph.outputs.index(location.root))
    return Place("arena", arena.offsets[location.root] + offset)
