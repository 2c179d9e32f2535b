"""A graph and its storage -> the engine's program: kernels called in order, every operand's place, packed constants."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from mavcg.graph import DTYPES, Graph, Node
from mavcg.kernel import KernelSpec, Operand, Packing, Step
from mavcg.kernels.emit import kernel_name
from mavcg.kernels.pad import lower_border
from mavcg.kernels.registry import lower
from mavcg.kernels.winograd_step import winograd_choices, winograd_steps
from mavcg.memory.arena import Arena, Lifetime, aligned, place_buffers
from mavcg.memory.storage import Storage, assign_storage, lifetimes_of
from mavcg.model_program import Place, Program, ProgramStep, ProgramTensor
from mavcg.tile_plan import TilePlan, least_claim_rows, least_task_rows

NO_WAYS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Lowered:
    """program: what the engine runs. specs: its kernels, each once. constants: the bytes of all packed constants.
    storage: which tensors share buffers; arena: where these are; nodes: the node behind each step. workspaces: bytes,
    by the output of the node whose steps share them; ways: of nodes that are not computed in their family's own way;
    packed: bytes of what was packed of a node's constants, by its output."""

    program: Program
    specs: tuple[KernelSpec, ...]
    constants: bytes
    storage: Storage
    arena: Arena
    nodes: tuple[Node, ...]
    workspaces: Mapping[str, int] = field(default_factory=dict)
    ways: Mapping[str, str] = field(default_factory=dict)
    packed: Mapping[str, int] = field(default_factory=dict)


def lower_graph(graph: Graph, packing: Packing, ways: Mapping[str, str] = NO_WAYS) -> Lowered:
    """The program of an optimised graph.

    ways: how a node is computed, by the name of its output: one that `ways_of` gives; else in its family's own way.
    Raises: MavcgError for an operator or a form of one that no kernel computes, naming the node.
    """
    storage = assign_storage(graph)
    graph = storage.graph
    constants = _Constants()
    made: list[tuple[Node, Step, tuple[Place | Operand, ...]]] = []
    workspaces: dict[str, int] = {}
    specs: dict[KernelSpec, None] = {}
    packed: dict[str, int] = {}
    for node in graph.nodes:
        steps_made = _steps_of(node, storage, packing, ways.get(node.output, ""))
        arrays = {id(o.constant): o.constant for step in steps_made for o in step.operands if o.constant is not None}
        if arrays:
            packed[node.output] = sum(array.nbytes for array in arrays.values())
        for step in steps_made:
            specs[step.spec] = None
            if step.spec.rows:
                made.append((node, step, tuple(_constant(operand, graph, constants) for operand in step.operands)))
                wanted = max((operand.workspace_bytes for operand in step.operands), default=0)
                workspaces[node.output] = max(wanted, workspaces.get(node.output, 0))
    workspaces = {name: size for name, size in workspaces.items() if size}
    arena = _arena(storage, workspaces)
    steps: list[ProgramStep] = []
    for node, step, operands in made:
        spec = step.spec
        places = tuple(one if isinstance(one, Place) else _place(one, node, storage, arena) for one in operands)
        name = step.origin or node.origin or node.output
        grain, block = task_rows(spec)
        steps.append(ProgramStep(name, node.op, kernel_name(spec), places, spec.rows, grain, spec.work, block=block))
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
    return Lowered(
        program, tuple(specs), data, storage, arena, tuple(node for node, _, _ in made), workspaces, ways, packed
    )


def task_rows(spec: KernelSpec) -> tuple[int, int]:
    """Rows that a thread claims at least, and rows that one call gets at most.

    A call of many rows is the faster, small claims end at the same time: so these are smaller than a call, where a
    call of fewer rows does not read more. Work that is cut along output channels is claimed by whole calls, each of
    which is made for its register tiles. Where rows share a reading of the weights, a call gets a whole claim. They
    are cut evenly for two or four threads: as many parts as readings, two at least, and of more a multiple of four.
    """
    if spec.shared_rows > 1 and spec.rows:
        parts = max(2, -(-spec.rows // spec.shared_rows))
        parts = parts if parts == 2 else -(-parts // 4) * 4
        return max(least_claim_rows(spec), -(-spec.rows // parts)), spec.rows
    return _claimed(spec, least_task_rows(spec)), least_task_rows(spec)


def with_tasks(lowered: Lowered, plan: TilePlan) -> Lowered:
    """The same with calls and claims as large as planned, rows counted in parts where they have any; what the plan does
    not name keeps the least that is worth one."""
    specs = {kernel_name(spec): spec for spec in lowered.specs}

    def planned(step: ProgramStep) -> ProgramStep:
        macro = plan.any_of(step.kernel)
        if macro is None:
            return step
        grain = macro.claim_rows or _claimed(specs[step.kernel], macro.task_rows, macro.parts)
        return replace(step, rows=step.rows * macro.parts, grain=grain, block=macro.task_rows * macro.parts)

    return replace(lowered, program=replace(lowered.program, steps=tuple(map(planned, lowered.program.steps))))


def _claimed(spec: KernelSpec, task_rows: int, parts: int = 1) -> int:
    """Rows of a claim at least, or parts of rows, where calls have up to `task_rows`."""
    if getattr(spec, "by_channels", False):
        return task_rows
    return min(task_rows * parts, least_claim_rows(spec, parts))


def ways_of(lowered: Lowered, max_error: float) -> dict[str, tuple[str, ...]]:
    """Other ways to compute nodes than those of a lowering, by the names of their outputs.

    max_error: that a way may be off by, over the node's largest sum before the activation.
    """
    graph = lowered.storage.graph
    found = {node.output: winograd_choices(node, graph, max_error) for node in lowered.nodes}
    return {name: ways for name, ways in found.items() if ways}


def _steps_of(node: Node, storage: Storage, packing: Packing, way: str) -> tuple[Step, ...]:
    if any(name in storage.silent for name in node.outputs):
        return ()
    views = storage.views(node)
    if way:
        return winograd_steps(way, node, storage.graph, views, packing)
    if node.output in storage.bordered:
        return lower_border(node, storage.graph, views, packing)
    return lower(node, storage.graph, views, packing)


def workspace_name(output: str) -> str:
    """How the arena calls the workspace of the node that makes a tensor; no tensor has such a name."""
    return f"workspace of %{output}"


def _arena(storage: Storage, workspaces: Mapping[str, int]) -> Arena:
    graph = storage.graph
    outside = {*graph.inputs, *graph.outputs}
    return place_buffers(
        [
            Lifetime(root, storage.graph.types[root].bytes, first, last)
            for root, (first, last) in lifetimes_of(storage, graph.nodes).items()
            if root not in outside
        ]
        + [
            Lifetime(workspace_name(node.output), workspaces[node.output], index, index)
            for index, node in enumerate(graph.nodes)
            if node.outputs[0] in workspaces
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


def _constant(operand: Operand, graph: Graph, constants: _Constants) -> Place | Operand:
    """The place of what is packed or constant; anything else as it is."""
    if operand.constant is None and operand.tensor in graph.constants:  # a kernel that reads a constant as it is
        operand = replace(operand, constant=graph.constants[operand.tensor])
    return operand if operand.constant is None else Place("constants", constants.add(operand) + operand.offset)


def _place(operand: Operand, node: Node, storage: Storage, arena: Arena) -> Place:
    graph, name = storage.graph, operand.tensor
    if operand.workspace_bytes:
        return Place("arena", arena.offsets[workspace_name(node.output)] + operand.offset)
    location = storage.locations[name]
    offset = location.offset * DTYPES[graph.types[name].dtype].itemsize + operand.offset
    if location.root in graph.inputs:
        return Place("input", offset, graph.inputs.index(location.root))
    if location.root in graph.outputs:
        return Place("output", offset, graph.outputs.index(location.root))
    return Place("arena", arena.offsets[location.root] + offset)
