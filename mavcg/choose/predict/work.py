"""Work of the steps of a model's program: operations and bytes touched, for kernels of all families."""

from bisect import bisect_right
from dataclasses import astuple, dataclass, replace
from typing import Any

from mavcg.choose.lowering.context_memory import context_address
from mavcg.choose.lowering.lower import LoweredGraph
from mavcg.choose.lowering.memory_plan import tensor_address
from mavcg.choose.plan import Plan
from mavcg.kernels.primitives.registry import scenario_of
from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.model_program import WORDS, OperandAddress
from mavcg.specs.packed_constant import WHOLE_WEIGHTS, WeightParts

INPUT, WEIGHT, OUTPUT = "input", "weight", "output"


@dataclass(frozen=True)
class Touch:
    """An operand in memory. role: INPUT, WEIGHT (any constant) or OUTPUT.

    base, begin: the buffer, such as "arena", and its first byte. bytes: of its elements. span: from its first byte to
    its last, gaps included.
    """

    role: str
    base: str
    begin: int
    bytes: int
    span: int

    @property
    def end(self) -> int:
        """The byte after its last byte."""
        return self.begin + self.span


@dataclass(frozen=True)
class StepWork:
    """Work of a step.

    macs: multiply-accumulates, 0 if it has none. operations: elementary operations, two per MAC, as the kernel's spec
    counts them for the size of tasks. call_rows: rows of a task. by_channels: a task is output channels of all images,
    so every task reads the whole input; else it is rows of the output, and every task reads all weights, or a part of
    them (weight_parts). disjoint_reads: no two tasks read the same. min_chunk_rows: minimum rows that a thread takes;
    0: a task. operands: as the kernel gets them; none for a library whose note lacks them. trips: iterations of the
    loop that repeats it, each with all other figures.
    """

    name: str
    op: str
    kernel: str
    family: str
    rows: int
    call_rows: int
    macs: int
    operations: int
    touches: tuple[Touch, ...]
    by_channels: bool = False
    disjoint_reads: bool = False
    min_chunk_rows: int = 0
    weight_parts: WeightParts = WHOLE_WEIGHTS
    operands: tuple[OperandAddress, ...] = ()
    trips: int = 1

    @property
    def chunk_rows(self) -> int:
        """Minimum rows of a chunk."""
        return self.min_chunk_rows or self.call_rows

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return -(-self.rows // self.call_rows)

    def bytes_of(self, role: str) -> int:
        """Return the unique bytes touched as INPUT, WEIGHT or OUTPUT."""
        return sum(touch.bytes for touch in self.touches if touch.role == role)

    @property
    def first_weight_bytes(self) -> int:
        """Size of the first constant, which is the weights of a kernel that has weights; 0 without constants."""
        return next((touch.bytes for touch in self.touches if touch.role == WEIGHT), 0)

    def as_json(self) -> dict[str, Any]:
        """Return a document from which `works_from_json` restores the step's work."""
        return {
            "macs": self.macs,
            "by_channels": self.by_channels,
            "apart": self.disjoint_reads,
            "weight_parts": list(astuple(self.weight_parts)),
            "touches": [[t.role, t.base, t.begin, t.bytes, t.span] for t in self.touches],
            "call_rows": self.call_rows,
            "operands": [[o.base, o.offset, o.index] for o in self.operands],
        } | ({"trips": self.trips} if self.trips > 1 else {})


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


def works_from_json(steps: list[dict[str, Any]]) -> tuple[StepWork, ...]:
    """Read the work of the steps in a library's note; each has as_json's entries beside its own."""
    return tuple(
        StepWork(
            s["name"],
            s["op"],
            s["kernel"],
            s["kernel"].rpartition("_")[0],
            s["rows"],
            s.get("call_rows", s["grain"]),
            s["macs"],
            max(1, s["work"]),
            tuple(Touch(*touch) for touch in s["touches"]),
            s["by_channels"],
            s.get("apart", False),
            weight_parts=WeightParts(*s.get("weight_parts", ())),
            operands=tuple(OperandAddress(*operand) for operand in s.get("operands", ())),
            trips=s.get("trips", 1),
        )
        for s in steps
    )


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


def base_of(operand: OperandAddress) -> str:
    """Return the name of the buffer that an operand lies in, as Touch.base."""
    return operand.base if operand.base in ("arena", "constants", *WORDS) else f"{operand.base} {operand.index}"


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
