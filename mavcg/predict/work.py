"""What a step of a model's program computes and which bytes it touches, whatever its kernel's family."""

from bisect import bisect_right
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mavcg.kernel import KernelSpec, View
from mavcg.kernels.conv_spec import Conv2d
from mavcg.kernels.depthwise import Depthwise
from mavcg.kernels.emit import kernel_name
from mavcg.kernels.matmul import MatMul
from mavcg.kernels.pad import PadBorder
from mavcg.kernels.plain_product import PlainProduct
from mavcg.kernels.primitive_step import scenario_of
from mavcg.kernels.primitives.winograd_spec import Winograd, WinogradProducts
from mavcg.kernels.qconv_spec import QConv2d
from mavcg.kernels.qdepthwise import QDepthwise
from mavcg.lowering import Lowered, workspace_name
from mavcg.model_program import Place

INPUT, WEIGHT, OUTPUT = "input", "weight", "output"


@dataclass(frozen=True)
class Touch:
    """An operand in memory. role: INPUT, WEIGHT (any constant) or OUTPUT. base, begin: the buffer, such as "arena", and
    the first byte in it. bytes: of its elements; span: from its first byte to behind its last, gaps included."""

    role: str
    base: str
    begin: int
    bytes: int
    span: int

    @property
    def end(self) -> int:
        """The byte behind its last."""
        return self.begin + self.span


@dataclass(frozen=True)
class StepWork:
    """One step. macs: multiply-accumulates, 0 where it has none; operations: elementary ones, two a MAC, as the
    kernel's spec counts them for the size of tasks. grain: rows of a task. by_channels: a task is output channels, of
    all images, so that every task reads the whole input; else it is rows of the output, and every task reads all
    weights. apart: no two tasks read the same. claim: rows that a thread claims at least; 0: a task.
    """

    name: str
    op: str
    kernel: str
    family: str
    rows: int
    grain: int
    macs: int
    operations: int
    touches: tuple[Touch, ...]
    by_channels: bool = False
    apart: bool = False
    claim: int = 0

    @property
    def claimed(self) -> int:
        """Rows that a thread claims at least."""
        return self.claim or self.grain

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return -(-self.rows // self.grain)

    def bytes_of(self, role: str) -> int:
        """Unique bytes touched as INPUT, WEIGHT or OUTPUT."""
        return sum(touch.bytes for touch in self.touches if touch.role == role)

    def as_json(self) -> dict[str, Any]:
        """Enough to make it again."""
        return {
            "macs": self.macs,
            "by_channels": self.by_channels,
            "apart": self.apart,
            "touches": [[t.role, t.base, t.begin, t.bytes, t.span] for t in self.touches],
        }


def macs_of(spec: KernelSpec) -> int:
    """Multiply-accumulates of a spec: of families that are sums of products; 0 of all others."""
    if isinstance(spec, Conv2d | QConv2d):
        channels = spec.x.shape[3] // spec.groups
        return spec.out.elements * spec.kernel[0] * spec.kernel[1] * channels
    if isinstance(spec, Winograd):
        return spec.out.view.elements * spec.tiles.k**2 * spec.tiles.in_ch
    if isinstance(spec, WinogradProducts):
        return spec.tiles.out_h * spec.tiles.out_w * spec.tiles.out_ch * spec.tiles.k**2 * spec.tiles.in_ch
    if isinstance(spec, Depthwise | QDepthwise):
        return spec.out.elements * spec.kernel[0] * spec.kernel[1]
    if isinstance(spec, MatMul):
        return prod(spec.batch) * spec.m * spec.k * spec.n
    if isinstance(spec, PlainProduct):
        return prod(d.length for d in spec.outer) * prod(n for n, _, _ in spec.inner)
    return spec.work // 2 if any(word in spec.family for word in ("matmul", "conv_transpose")) else 0


def step_works(lowered: Lowered) -> tuple[StepWork, ...]:
    """Of every step of a program, in order."""
    specs = {kernel_name(spec): spec for spec in lowered.specs}
    ends = _constant_ends(lowered)
    workspaces = _Workspaces(lowered)
    found = []
    for step, node in zip(lowered.program.steps, lowered.nodes, strict=True):
        spec = specs[step.kernel]
        places = _places(lowered, (*node.inputs, *node.outputs))
        written = {name for name in node.outputs}
        touches = []
        for place in dict.fromkeys(step.operands):
            touches.append(workspaces.touch(node.output, place) or _touch(place, places, written, ends, spec))
        found.append(
            StepWork(
                step.name,
                step.op,
                step.kernel,
                spec.family,
                step.rows,
                step.grain if spec.shared_rows > 1 else step.block or step.grain,
                macs_of(spec),
                max(1, spec.work),
                tuple(touches),
                bool(getattr(spec, "by_channels", False)),
                isinstance(spec, WinogradProducts),
                step.grain,
            )  # fmt: skip
        )
    return _with_macs_of_primitives(found, lowered)


def _with_macs_of_primitives(works: list[StepWork], lowered: Lowered) -> tuple[StepWork, ...]:
    """A primitive's multiply-accumulates are the definition's: where no kernel counts them, the largest stage's."""
    stages: dict[str, list[int]] = {}
    for number, node in enumerate(lowered.nodes):
        if node.op == "primitive_conv2d":
            stages.setdefault(node.output, []).append(number)
    for numbers in stages.values():
        if not any(works[number].macs for number in numbers):
            largest = max(numbers, key=lambda number: works[number].operations)
            macs = scenario_of(lowered.nodes[largest], lowered.storage.graph).macs
            works[largest] = replace(works[largest], macs=macs)
    return tuple(works)


def works_from_json(steps: list[dict[str, Any]]) -> tuple[StepWork, ...]:
    """Of the steps in a library's note; each has as_json's entries beside its own."""
    return tuple(
        StepWork(
            s["name"], s["op"], s["kernel"], s["kernel"].rpartition("_")[0], s["rows"], s["grain"], s["macs"],
            max(1, s["work"]), tuple(Touch(*touch) for touch in s["touches"]), s["by_channels"],
            s.get("apart", False),
        )
        for s in steps
    )  # fmt: skip


class _Workspaces:
    """What the steps of a node leave for one another. Each part of a workspace reaches to where the next begins; the
    first step that has a part writes it, the others read it."""

    def __init__(self, lowered: Lowered) -> None:
        self.ranges = {
            output: (begin := lowered.arena.offsets[workspace_name(output)], begin + size)
            for output, size in lowered.workspaces.items()
        }
        self.parts: dict[str, set[int]] = {}
        for step, node in zip(lowered.program.steps, lowered.nodes, strict=True):
            for place in step.operands:
                if self._inside(node.output, place):
                    self.parts.setdefault(node.output, set()).add(place.offset)
        self.written: set[tuple[str, int]] = set()

    def _inside(self, output: str, place: Place) -> bool:
        begin, end = self.ranges.get(output, (0, 0))
        return place.base == "arena" and begin <= place.offset < end

    def touch(self, output: str, place: Place) -> Touch | None:
        """Of the next step of a node; None for what is no workspace."""
        if not self._inside(output, place):
            return None
        end = min((o for o in self.parts[output] if o > place.offset), default=self.ranges[output][1])
        role = INPUT if (output, place.offset) in self.written else OUTPUT
        self.written.add((output, place.offset))
        return Touch(role, "arena", place.offset, end - place.offset, end - place.offset)


def _constant_ends(lowered: Lowered) -> list[int]:
    """Where constants begin, in order, and where the last one ends."""
    starts = {p.offset for step in lowered.program.steps for p in step.operands if p.base == "constants"}
    return [*sorted(starts), lowered.program.constants_bytes]


def _places(lowered: Lowered, names: tuple[str, ...]) -> dict[Place, tuple[str, View]]:
    """Where the tensors of a node lie."""
    storage, arena = lowered.storage, lowered.arena
    graph = storage.graph
    found: dict[Place, tuple[str, View]] = {}
    for name in names:
        if not name or name not in storage.locations:
            continue
        location = storage.locations[name]
        offset = location.offset * location.view.item_bytes
        if location.root in graph.inputs:
            place = Place("input", offset, graph.inputs.index(location.root))
        elif location.root in graph.outputs:
            place = Place("output", offset, graph.outputs.index(location.root))
        else:
            place = Place("arena", arena.offsets[location.root] + offset)
        found[place] = (name, location.view)
    return found


def _touch(
    place: Place, tensors: dict[Place, tuple[str, View]], written: set[str], ends: list[int], spec: KernelSpec
) -> Touch:
    base = place.base if place.base in ("arena", "constants") else f"{place.base} {place.index}"
    if place.base == "constants":
        size = ends[bisect_right(ends, place.offset)] - place.offset
        return Touch(WEIGHT, base, place.offset, size, size)
    name, view = tensors.get(place, ("", None))
    if view is None:
        # Part of a tensor, such as a slice that a step of several writes: as large as the spec's own view of it.
        view = getattr(spec, "out", None)
        if not isinstance(view, View):
            return Touch(OUTPUT, base, place.offset, 4 * spec.work, 4 * spec.work)
        written = {""}
    moved = view.elements * view.item_bytes
    if isinstance(spec, PadBorder):
        moved = spec.elements * view.item_bytes
    span = (sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)) + 1) * view.item_bytes
    role = OUTPUT if name in written else INPUT
    return Touch(role, base, place.offset, moved, max(moved, span) if view.elements else 0)
