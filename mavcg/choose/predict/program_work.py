"""Work of the steps of a model's program, read from the plan: operations, and bytes touched in each buffer."""

from bisect import bisect_right
from dataclasses import replace

from mavcg.choose.lowering.context_memory import context_address
from mavcg.choose.lowering.lower import LoweredGraph
from mavcg.choose.lowering.memory_plan import tensor_address
from mavcg.choose.plan import Plan
from mavcg.choose.predict.work import INPUT, OUTPUT, WEIGHT, StepWork, Touch, base_of
from mavcg.kernels.primitives.registry import scenario_of
from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.model_program import WORDS, OperandAddress


def step_works(model: Plan) -> tuple[StepWork, ...]:
    """Return the work of every step of a program, in order."""
    lowered, program = model.lowered, model.program
    ends = _constant_ends(model)
    workspaces = _Workspaces(model)
    works = []
    counted = (loop for loop in program.loops if loop.condition is None)  # others count as one iteration
    trips = dict[int, int]()
    for loop in counted:
        for number in range(loop.begin, loop.end):
            trips[number] = trips.get(number, 1) * loop.trips
    for number, (step, lowered_step) in enumerate(zip(program.steps, lowered.steps, strict=True)):
        spec, node = lowered_step.spec, lowered_step.node
        places = _places(model, (*node.inputs, *node.outputs))
        written = {name for name in node.outputs}
        touches = []
        for address in dict.fromkeys(operand for operand in step.operands if operand.base not in WORDS):
            touches.append(workspaces.touch(node.output, address) or _touch(address, places, written, ends, spec))
        works.append(
            StepWork(
                step.name,
                step.op,
                step.kernel,
                spec.family,
                step.rows,
                step.min_chunk_rows if spec.shared_rows > 1 else step.call_rows or step.min_chunk_rows,
                spec.macs,
                max(1, spec.work),
                tuple(touches),
                spec.by_channels,
                spec.disjoint_reads,
                step.min_chunk_rows,
                spec.weight_parts,
                tuple(step.operands),
                trips.get(number, 1),
            )
        )
    return _with_macs_of_primitives(works, lowered)


def _with_macs_of_primitives(works: list[StepWork], lowered: LoweredGraph) -> tuple[StepWork, ...]:
    """Give primitives the multiply-accumulates of the definition.

    If no kernel of a primitive counts them, the largest stage gets them.
    """
    stages: dict[str, list[int]] = {}
    for number, node in enumerate(lowered.nodes):
        if node.op == "primitive_conv2d":
            stages.setdefault(node.output, []).append(number)
    for numbers in stages.values():
        if not any(works[number].macs for number in numbers):
            largest = max(numbers, key=lambda number: works[number].operations)
            macs = scenario_of(lowered.nodes[largest], lowered.graph).macs
            works[largest] = replace(works[largest], macs=macs)
    return tuple(works)


class _Workspaces:
    """The workspaces that the steps of a node share.

    A part of a workspace extends to the beginning of the next part. The first step with an operand in a part writes it;
    the other steps read it.
    """

    def __init__(self, model: Plan) -> None:
        self.ranges = {output: (begin, begin + size) for output, (begin, size) in model.memory.workspaces.items()}
        self.parts: dict[str, set[int]] = {}
        for step, node in zip(model.program.steps, model.lowered.nodes, strict=True):
            for operand in step.operands:
                if self._inside(node.output, operand):
                    self.parts.setdefault(node.output, set()).add(operand.offset)
        self.written: set[tuple[str, int]] = set()

    def _inside(self, output: str, operand: OperandAddress) -> bool:
        begin, end = self.ranges.get(output, (0, 0))
        return operand.base == "arena" and begin <= operand.offset < end

    def touch(self, output: str, operand: OperandAddress) -> Touch | None:
        """Return the touch of the next step of a node; None if the operand is no workspace."""
        if not self._inside(output, operand):
            return None
        end = min((o for o in self.parts[output] if o > operand.offset), default=self.ranges[output][1])
        role = INPUT if (output, operand.offset) in self.written else OUTPUT
        self.written.add((output, operand.offset))
        return Touch(role, "arena", operand.offset, end - operand.offset, end - operand.offset)


def _constant_ends(model: Plan) -> list[int]:
    """Return the first bytes of constants, in order, and the end of the last one.

    Including constants of other models.
    """
    starts = {p.offset for step in model.program.steps for p in step.operands if p.base == "constants"}
    return sorted({*starts, *(constant.offset for constant in model.memory.constants), model.memory.constants_bytes})


def _places(model: Plan, names: tuple[str, ...]) -> dict[OperandAddress, tuple[str, View]]:
    """Return the addresses of a node's tensors."""
    storage = model.lowered.storage
    by_address: dict[OperandAddress, tuple[str, View]] = {}
    for name in names:
        if not name or name not in storage.locations:
            continue
        address = tensor_address(name, model.lowered, model.memory.arena)
        address = context_address(address, model.lowered.graph, model.program.states)
        by_address[address] = (name, storage.locations[name].view)
    return by_address


def _touch(
    operand: OperandAddress,
    tensors: dict[OperandAddress, tuple[str, View]],
    written: set[str],
    ends: list[int],
    spec: KernelSpec,
) -> Touch:
    base = base_of(operand)
    if operand.base == "constants":
        size = ends[bisect_right(ends, operand.offset)] - operand.offset
        return Touch(WEIGHT, base, operand.offset, size, size)
    name, view = tensors.get(operand, ("", None))
    if view is None:
        # Part of a tensor, such as the slice that one of several steps writes; its size is that of the spec's own view.
        view = spec.out_view
        if view is None:
            return Touch(OUTPUT, base, operand.offset, 4 * spec.work, 4 * spec.work)
        written = {""}
    elements = view.elements if spec.accessed_elements is None else spec.accessed_elements
    moved = elements * view.item_bytes
    span = (sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)) + 1) * view.item_bytes
    role = OUTPUT if name in written else INPUT
    return Touch(role, base, operand.offset, moved, max(moved, span) if view.elements else 0)
