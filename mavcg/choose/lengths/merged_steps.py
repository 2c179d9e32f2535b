"""One step for all lengths, from the step that was lowered for each sample.

Its kernel is that for the longest lengths where a run computes its first rows (first_rows.py), or one that reads
numbers of the run (read_length.py, run_words.py). Its constants are those of the longest lengths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mavcg.choose.lengths.first_rows import counted_spec, plain_spec
from mavcg.choose.lengths.moved_parts import part_offsets
from mavcg.choose.lengths.pixel_rows import in_images, in_one_column, in_pixels
from mavcg.choose.lengths.read_length import has_all_rows, merge_by_length, rows_at
from mavcg.choose.lengths.run_views import RunView, meets_at_some_lengths, start_of_inside, view_of_slice
from mavcg.choose.lengths.run_words import merge_by_words
from mavcg.choose.lengths.samples import AxisCounts, Lengths, dimensions_text, remedy_text
from mavcg.choose.lengths.window_pads import ImagePads, pad_numbers
from mavcg.choose.lowering.lower import LoweredGraph, LoweredStep
from mavcg.errors import MavcgError
from mavcg.graph import Node
from mavcg.graph.counts import Count, Dimension, is_symbolic, product_of, value_at
from mavcg.kernels.tensor.resample import ResampleSpec
from mavcg.specs.kernel import Array, KernelSpec, Operand
from mavcg.specs.packed_constant import PackedConstant

_INSIDE = "it has it inside of its rows of work, not as the outermost dimension"


@dataclass(frozen=True)
class StepMerger:
    """Makes steps whose kernels take all lengths.

    graphs: the graph lowered for each of the samples, in equal steps. axes: the counts of the axes of all tensors.
    views: the places of tensors, where they follow from the lengths. pads: those of pads and pools that do, by their
    output.
    """

    graphs: Sequence[LoweredGraph]
    samples: Sequence[Lengths]
    dimensions: Sequence[Dimension]
    axes: Mapping[str, AxisCounts]
    views: Mapping[str, RunView]
    pads: Mapping[str, ImagePads]

    def step(self, number: int) -> LoweredStep:
        """Return a step whose kernel takes all lengths. Raises: MavcgError for a step without such a kernel."""
        plain = self.graphs[0].steps[number]
        written = [operand.tensor for operand in plain.operands if operand.written]
        tensors = [*(operand.tensor for operand in plain.operands), *plain.node.inputs]
        moves = plain.node.output in self.pads or any(
            view is not None and is_symbolic(view.offset) for view in self._views(plain)
        )
        self._check_axes(plain)
        for in_rows in () if moves else (in_pixels, in_one_column):
            steps = [in_rows(graph.steps[number], graph.storage) for graph in self.graphs]
            specs = [plain_spec(step.spec) for step in steps]
            if all(spec == specs[0] for spec in specs):
                return plain
            for count in self._counts(tensors):
                if self._is_there(count) and (merged := merge_by_length(specs, self._at(count))) is not None:
                    return self._reading(steps, merged, count, self._counts([*written, *tensors]))
            for count in self._counts([*written, *tensors]):
                indices = self._at(count)
                if (spec := counted_spec([step.spec for step in steps], indices)) is not None:
                    return replace(steps[0], spec=spec, row_count=product_of(spec.rows // indices[0], count))
        return self._by_words(number, self._counts([*written, *tensors]))

    def _check_axes(self, step: LoweredStep) -> None:
        """Raise MavcgError for a step with axes that are one at some lengths only: its loops follow from these."""
        longest = self.samples[0]
        others = [
            {**longest, d.name: length} for d in self.dimensions for length in range(d.least, min(d.most, d.least + 64))
        ]
        for view in (*self._views(step), view_of_slice(step.node, self.views, self.axes)):
            if view is not None and meets_at_some_lengths(view, longest, others):
                reason = "rows of its tensors follow each other at some lengths only; give these, as in 32..512:2"
                raise step_refusal(step, self.dimensions, reason)

    def _is_there(self, count: Count) -> bool:
        """Return True unless a count may be 0 in a run, of which a kernel would read the first element."""
        return value_at(count, {dimension.name: dimension.least for dimension in self.dimensions}) > 0

    def _at(self, count: Count) -> list[int]:
        return [value_at(count, sample) for sample in self.samples]

    def _counts(self, tensors: Sequence[str]) -> list[Count]:
        """Return the first axis of each tensor that follows from lengths, then products of its first such axes."""
        of_run = [[axis for axis in self.axes.get(name, ()) if is_symbolic(axis)] for name in tensors]
        firsts = [axes[0] for axes in of_run if axes]
        products = [product_of(*axes[:size]) for axes in of_run for size in range(2, len(axes) + 1)]
        return list(dict.fromkeys((*firsts, *products)))

    def _reading(
        self, steps: Sequence[LoweredStep], merged: tuple[KernelSpec, bool], count: Count, counts: Sequence[Count]
    ) -> LoweredStep:
        """Return a step that reads a count. counts: those that its rows may be multiples of."""
        spec, reads = merged
        step = replace(steps[0], spec=spec, operands=(*steps[0].operands, *[Operand(count=count)] * reads))
        rows = [each.spec.rows for each in steps]
        if (in_blocks := rows_at(spec, count)) is not None:
            return replace(step, row_count=in_blocks)
        if has_all_rows(spec) or all(each == rows[0] for each in rows):
            return step
        for each in counts:
            unit, rest = divmod(rows[0], value_at(each, self.samples[0]))
            if not rest and rows == [unit * index for index in self._at(each)]:
                return replace(step, row_count=product_of(unit, each))
        raise step_refusal(step, self.dimensions, _INSIDE)

    def _by_words(self, number: int, counts: Sequence[Count]) -> LoweredStep:
        steps = [in_images(graph.steps[number], graph.storage) for graph in self.graphs]
        plain, specs = steps[0], [step.spec for step in steps]
        views, start = self._views(plain), start_of_inside(plain.node, self.views, self.pads)
        pads = self.pads.get(plain.node.outputs[0])
        if pads is not None and pads.image and start is None:
            raise step_refusal(plain, self.dimensions, "its place in a loop follows from the length")
        known = {} if pads is None else pad_numbers(plain.spec, pads, start)
        offsets = part_offsets([step.node for step in steps], self.samples, self.axes, self.views)
        starts = [*offsets, *([] if start is None else [start])]
        merged = merge_by_words(specs, self.samples, self.dimensions, [*counts, *starts], views, known, starts)
        if merged is None:
            raise step_refusal(plain, self.dimensions, f"no kernel of it ({plain.spec.family}) takes all lengths")
        operands = (
            _of_buffer(operand, view, self.samples[0]) for operand, view in zip(plain.operands, views, strict=True)
        )
        words = (Operand(count=count) for count in merged.words)
        return replace(plain, spec=merged.spec, operands=(*operands, *words), row_count=merged.rows)

    def _views(self, step: LoweredStep) -> list[RunView | None]:
        """Return the places of a step's operands; None for those that are no tensors, or lie there at all lengths."""
        return [self.views.get(operand.tensor) for operand in step.operands]


def _of_buffer(operand: Operand, view: RunView | None, longest: Lengths) -> Operand:
    """Return the operand that begins where its buffer does, if its tensor's place there follows from the lengths."""
    if view is None or not is_symbolic(view.offset):
        return operand
    return replace(operand, offset=operand.offset - view.item_bytes * value_at(view.offset, longest))


def step_refusal(step: LoweredStep, dimensions: Sequence[Dimension], reason: str) -> MavcgError:
    """Return the error for a step that no kernel computes at all lengths."""
    return node_refusal(step.node, dimensions, reason, step.name)


def node_refusal(node: Node, dimensions: Sequence[Dimension], reason: str, name: str = "") -> MavcgError:
    """Return the error for a node that cannot be computed at all lengths. name: "" for the one in the user's file."""
    return MavcgError(
        f"node '{name or node.origin or node.outputs[0]}' ({node.op}): the {dimensions_text(dimensions)}: {reason}; "
        f"{remedy_text(dimensions)}"
    )


def check_operands(
    a: LoweredStep,
    b: LoweredStep,
    most: LoweredGraph,
    other: LoweredGraph,
    dimensions: Sequence[Dimension],
    views: Mapping[str, RunView],
) -> None:
    """Raise MavcgError unless both steps have the same operands, and constants of which one begins with the other.

    views: tensors whose places follow from the lengths.
    """
    operands = _as_read(a, b), _as_read(b, a)
    same = len(a.operands) == len(b.operands) and all(
        (x.tensor in views and x.tensor == y.tensor and x == y) or _same_operand(x, y, most, other)
        for x, y in zip(*operands, strict=False)
    )
    if not same:
        raise step_refusal(a, dimensions, "its constants change, or where its tensors lie in their buffers")


def _as_read(step: LoweredStep, other: LoweredStep) -> Sequence[Operand]:
    """Return the operands of a step, of a resampling with the rows that its kernel reads of the shorter of both."""
    specs, index = (step.spec, other.spec), step.operands[1].constant if len(step.operands) > 1 else None
    lengths = [spec.length for spec in specs if isinstance(spec, ResampleSpec)]
    if len(lengths) < 2 or not isinstance(index, np.ndarray):
        return step.operands
    read = replace(step.operands[1], constant=np.minimum(index, min(lengths) - 1))
    return (step.operands[0], read, *step.operands[2:])


def _same_operand(a: Operand, b: Operand, most: LoweredGraph, other: LoweredGraph) -> bool:
    if a.workspace_bytes and b.workspace_bytes:  # it is that of the longest length, and so are its parts
        return replace(a, workspace_bytes=0, offset=0) == replace(b, workspace_bytes=0, offset=0)
    if a.constant is not None and b.constant is not None:  # equal ones of a graph have one name
        return replace(a, constant=None, tensor="") == replace(b, constant=None, tensor="") and _same_constant(
            a.constant, b.constant, most, other
        )
    if a.constant is not None or b.constant is not None or a != b:
        return False
    if not a.tensor:
        return True
    return _place(a.tensor, most) == _place(b.tensor, other)


def _place(tensor: str, lowered: LoweredGraph) -> tuple[str, int, tuple[tuple[int, int], ...]]:
    """Return a tensor's buffer, the first of its places there, and how it advances in loops; by the last iteration it
    may be before its offset."""
    location = lowered.storage.locations[tensor]
    trips = {loop.number: loop.trips for loop in lowered.storage.loops}
    down = sum(elements * (trips[loop] - 1) for loop, elements in location.advance if elements < 0)
    advance = tuple((loop, elements) for loop, elements in location.advance if trips[loop] > 1)
    return location.root, location.offset + down, advance


def _same_constant(
    a: Array | PackedConstant | None, b: Array | PackedConstant | None, most: LoweredGraph, other: LoweredGraph
) -> bool:
    match a, b:
        case PackedConstant(), PackedConstant():
            return a == b and all(
                np.array_equal(most.graph.constants[name], other.graph.constants[name]) for name in a.sources
            )
        case np.ndarray(), np.ndarray():
            return _begins_with(a, b)
    return False


def _begins_with(long: Array, short: Array) -> bool:
    """Return True if two arrays are equal, or one is the beginning of the other along the first axis longer than 1, or
    all numbers of both are the same, as zeros with which what a branch makes begins."""
    if long.dtype != short.dtype or long.ndim != short.ndim:
        return False
    if long.size and short.size and long.flat[0].tobytes() == short.flat[0].tobytes():
        if _is_uniform(long) and _is_uniform(short):
            return True
    at = next((i for i, (n, m) in enumerate(zip(long.shape, short.shape, strict=True)) if n != m), None)
    if at is not None:
        if any(n != 1 for n in (*long.shape[:at], *short.shape[:at])):
            return False
        count = min(long.shape[at], short.shape[at])
        index = (*[slice(None)] * at, slice(count))
        long, short = long[index], short[index]
    return long.shape == short.shape and long.tobytes() == short.tobytes()


def _is_uniform(array: Array) -> bool:
    """Return True if all numbers of an array have the same bits."""
    return bool(array.tobytes() == array.flat[0].tobytes() * array.size)
