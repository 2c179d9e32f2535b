"""Lowered graphs for any lengths of bounded dimensions, whose steps compute the first rows of work.

The graph is lowered for the longest lengths and for others. Where the kernels of a step are equal except for the count
of their outermost loop, the kernel for the longest lengths computes, in its first rows, what a kernel for shorter ones
computes in all of its rows: the count is the bound of a loop, and neither strides nor sums depend on it. Other steps
have kernels that read numbers of the run (run_words.py, read_length.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeGuard

import numpy as np

from mavcg.choose.lengths.axis_counts import AxisCounts, axis_counts, sample_of
from mavcg.choose.lengths.read_length import has_all_rows, merge_by_length, rows_at
from mavcg.choose.lengths.run_words import merge_by_words
from mavcg.choose.lengths.samples import Lengths, fit_count, lengths_text
from mavcg.choose.lowering.lower import LoweredGraph, LoweredStep
from mavcg.errors import MavcgError
from mavcg.graph import Node
from mavcg.kernels.block_weights.expand import ExpandedBlocks
from mavcg.kernels.block_weights.spec import Lines, QuantizedBlocks
from mavcg.kernels.builder.nest import Nest, NestKernel, collapse
from mavcg.kernels.conv.depthwise import Depthwise
from mavcg.kernels.conv.matmul import MatMul, as_image
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.int8.integer_sums import IntegerConv2d, IntegerDepthwise
from mavcg.kernels.int8.matmul import QMatMul
from mavcg.kernels.int8.mean_pool import QAvgPoolSpec
from mavcg.kernels.int8.means import QMeanSpec
from mavcg.kernels.int8.specs import QConv2d, QDepthwise
from mavcg.kernels.tensor.arg_reduce import ArgReduce
from mavcg.kernels.tensor.copies import CopySpec
from mavcg.kernels.tensor.elementwise import ElementwiseSpec
from mavcg.kernels.tensor.gather import GatherSpec, LookupSpec
from mavcg.kernels.tensor.layer_norm import LayerNormSpec
from mavcg.kernels.tensor.pad import PadBorder
from mavcg.kernels.tensor.pool import Pool
from mavcg.kernels.tensor.reduce import Reduce
from mavcg.kernels.tensor.resample import ResampleSpec
from mavcg.kernels.tensor.run_indices import FlatIndexSpec
from mavcg.kernels.tensor.softmax import Softmax
from mavcg.kernels.tensor.transpose import TransposeSpec
from mavcg.memory.storage import Storage
from mavcg.specs.count import Count, product_of, value_at
from mavcg.specs.dimension import Dimension, dimensions_text, remedy_text
from mavcg.specs.kernel import Array, KernelSpec, Operand, View
from mavcg.specs.packed_constant import PackedConstant
from mavcg.specs.row_kernel import RowKernel, transpose_image

# The fields of a spec whose first length, apart from lengths of 1, counts the outermost loop over rows of work.
_COUNTED: Mapping[type[KernelSpec], tuple[str, ...]] = MappingProxyType(
    {
        ArgReduce: ("kept",),
        Conv2d: ("x", "out", "residual"),
        CopySpec: ("nest",),
        Depthwise: ("x", "out", "residual"),
        ElementwiseSpec: ("nest",),
        ExpandedBlocks: ("w", "scales", "zeros", "out"),
        FlatIndexSpec: ("nest",),
        GatherSpec: ("nest",),
        IntegerConv2d: ("x", "out", "residual"),
        IntegerDepthwise: ("x", "out", "residual"),
        LayerNormSpec: ("outer",),
        LookupSpec: ("nest",),
        MatMul: ("batch",),
        PadBorder: ("out",),
        Pool: ("x", "out"),
        QAvgPoolSpec: ("x", "out"),
        QConv2d: ("x", "out", "residual"),
        QDepthwise: ("x", "out"),
        QMatMul: ("batch",),
        QMeanSpec: ("kept",),
        QuantizedBlocks: ("x",),
        Reduce: ("kept",),
        ResampleSpec: ("nest",),
        Softmax: ("outer",),
        TransposeSpec: ("nest",),
    }
)

_MATRIX_STRIDES = ("a_strides", "b_strides", "out_strides", "residual_strides")


@dataclass(frozen=True)
class FreeRows:
    """A graph lowered for the longest lengths.

    counts: of the rows of each step, where they follow from the lengths. trips: so of each loop's iterations.
    """

    lowered: LoweredGraph
    counts: tuple[Count | None, ...]
    trips: tuple[Count | None, ...] = ()


def with_free_rows(
    graphs: Sequence[LoweredGraph],
    samples: Sequence[Lengths],
    dimensions: Sequence[Dimension],
    inputs: Mapping[str, AxisCounts],
    windows: Mapping[str, Sequence[Count]],
) -> FreeRows:
    """Return the graph lowered for the longest lengths with kernels that take all lengths.

    graphs: the graph lowered for each sample, of which the first has the longest lengths; the others change each
    dimension alone, and all of them. inputs: counts of the axes of inputs. windows: those of windows by the node of the
    file. Raises: MavcgError naming the node that has no such kernel.
    """
    most = graphs[0]
    for other, sample in zip(graphs[1:], samples[1:], strict=True):
        pairs = list(zip(most.steps, other.steps, strict=False))
        if len(most.steps) != len(other.steps) or any(a.node.op != b.node.op for a, b in pairs):
            different = next((a for a, b in pairs if a.node.op != b.node.op), most.steps[-1])
            raise _refusal(different, dimensions, f"it is computed in other steps at {lengths_text(sample)}")
        for a, b in pairs:
            _check_operands(a, b, most, other, dimensions)
    origin = {step.node: step for step in most.steps}

    def refusal(node: Node, reason: str) -> MavcgError:
        return _refusal(origin.get(node, most.steps[-1]), dimensions, f"it {reason}")

    known = {name: inputs[name] for name in most.graph.inputs}
    seen = [sample_of(low.graph, lengths) for low, lengths in zip(graphs, samples, strict=True)]
    axes = axis_counts(most.graph, seen, known, refusal, windows)
    merger = _Merger(graphs, samples, dimensions, axes)
    found = [merger.step(number) for number in range(len(most.steps))]
    steps = tuple(step for step, _ in found)
    specs = dict.fromkeys(step.spec for step in steps)
    lowered, rows = replace(most, steps=steps, specs=tuple(specs)), tuple(rows for _, rows in found)
    return FreeRows(lowered, rows, _trips_of(graphs, samples, dimensions))


@dataclass(frozen=True)
class _Merger:
    """Finds the kernels of steps for all lengths. graphs, samples: as with_free_rows. axes: of all tensors."""

    graphs: Sequence[LoweredGraph]
    samples: Sequence[Lengths]
    dimensions: Sequence[Dimension]
    axes: Mapping[str, AxisCounts]

    def step(self, number: int) -> tuple[LoweredStep, Count | None]:
        """Return a step whose kernel takes all lengths, and the rows that follow from them; None: always the same.

        Raises: MavcgError for a step without a kernel.
        """
        plain = self.graphs[0].steps[number]
        for in_pixels in (_in_pixels, _in_one_column):
            steps = [in_pixels(graph.steps[number], graph.storage) for graph in self.graphs]
            specs = [_plain(step.spec) for step in steps]
            if all(spec == specs[0] for spec in specs):
                return plain, None
            written = [operand.tensor for operand in plain.operands if operand.written]
            tensors = [*(operand.tensor for operand in plain.operands), *plain.node.inputs]
            for count in self._counts(tensors):
                if (merged := merge_by_length(specs, self._at(count))) is not None:
                    return self._reading(steps, merged, count, self._counts([*written, *tensors]))
            for count in self._counts([*written, *tensors]):
                indices = self._at(count)
                if (spec := _counted_spec([step.spec for step in steps], indices)) is not None:
                    return replace(steps[0], spec=spec), product_of(spec.rows // indices[0], count)
        return self._by_words(number, self._counts([*written, *tensors]))

    def _at(self, count: Count) -> list[int]:
        return [value_at(count, sample) for sample in self.samples]

    def _counts(self, tensors: Sequence[str]) -> list[Count]:
        """Return the first axis of each tensor that follows from lengths, then products of its first such axes."""
        of_run = [[axis for axis in self.axes.get(name, ()) if not isinstance(axis, int)] for name in tensors]
        firsts = [axes[0] for axes in of_run if axes]
        products = [product_of(*axes[:size]) for axes in of_run for size in range(2, len(axes) + 1)]
        return list(dict.fromkeys((*firsts, *products)))

    def _reading(
        self, steps: Sequence[LoweredStep], merged: tuple[KernelSpec, bool], count: Count, counts: Sequence[Count]
    ) -> tuple[LoweredStep, Count | None]:
        """Return a step that reads a count. counts: those that its rows may be multiples of."""
        spec, reads = merged
        step = replace(steps[0], spec=spec, operands=(*steps[0].operands, *[Operand(count=count)] * reads))
        rows = [each.spec.rows for each in steps]
        if (in_blocks := rows_at(spec, count)) is not None:
            return step, in_blocks
        if has_all_rows(spec) or all(each == rows[0] for each in rows):
            return step, None
        for each in counts:
            unit, rest = divmod(rows[0], value_at(each, self.samples[0]))
            if not rest and rows == [unit * index for index in self._at(each)]:
                return step, product_of(unit, each)
        raise _refusal(step, self.dimensions, _INSIDE)

    def _by_words(self, number: int, counts: Sequence[Count]) -> tuple[LoweredStep, Count]:
        plain = self.graphs[0].steps[number]
        specs = [graph.steps[number].spec for graph in self.graphs]
        merged = merge_by_words(specs, self.samples, self.dimensions, counts)
        if merged is None:
            raise _refusal(plain, self.dimensions, f"no kernel of it ({plain.spec.family}) takes all lengths")
        operands = (*plain.operands, *(Operand(count=count) for count in merged.words))
        return replace(plain, spec=merged.spec, operands=operands), merged.rows


def _trips_of(
    graphs: Sequence[LoweredGraph], samples: Sequence[Lengths], dimensions: Sequence[Dimension]
) -> tuple[Count | None, ...]:
    """Return the count of iterations of each loop with steps; None where it is the same for all lengths.

    Raises: MavcgError for loops of other steps, or a number of iterations that does not follow from the lengths.
    """
    counts: list[Count | None] = []
    most = graphs[0]
    for number, (begin, end, loop) in enumerate(most.loops):
        others = [graph.loops[number] for graph in graphs if len(graph.loops) == len(most.loops)]
        same = len(others) == len(graphs) and all(
            (first, last, other.number) == (begin, end, loop.number) for first, last, other in others
        )
        count = fit_count([other.trips for _, _, other in others], samples, dimensions) if same else None
        if count is None:
            raise _refusal(most.steps[begin], dimensions, "it is in another loop at other lengths")
        counts.append(None if isinstance(count, int) else count)
    return tuple(counts)


_INSIDE = "it has it inside of its rows of work, not as the outermost dimension"


def _counted_spec(specs: Sequence[KernelSpec], indices: Sequence[int]) -> KernelSpec | None:
    """Return a spec whose rows may end after any index; None if that is not so.

    specs: of a step, whose outermost loops go over these numbers of indices.
    """
    longest = specs[0]
    if type(longest) not in _COUNTED or any(type(spec) is not type(longest) for spec in specs):
        return None
    pairs = zip(specs[1:], indices[1:], strict=True)
    found = [_first_rows(longest, spec, indices[0], count) for spec, count in pairs]
    return None if any(spec is None for spec in found) else found[0]


def _first_rows(long: KernelSpec, short: KernelSpec, most: int, length: int) -> KernelSpec | None:
    """Return the spec whose rows are those of `most` indices, each by itself; None if its first rows are not those of
    `short`, which has `length` indices."""
    spec, other = _single_rows(long, most), _single_rows(short, length)
    if _is_column(spec) and _is_column(other):  # windows read as many rows of x as those of out need
        other = replace(other, x=replace(other.x, shape=(1, spec.x.shape[1], *other.x.shape[2:])))  # type: ignore[call-arg]
        resized = _resize(spec, most, length, ("out", "residual"))
    else:
        if isinstance(spec, ResampleSpec) and isinstance(other, ResampleSpec):
            other = replace(other, length=spec.length)  # of x; its tables have no index from the end
        resized = _resize(spec, most, length)
    inside = isinstance(spec, TransposeSpec) and spec.outer[:1] != (0,)
    whole = spec.rows % most == 0 and other.rows * most == spec.rows * length
    if inside or not whole or _plain(resized) != _plain(other):
        return None
    return spec


def _refusal(step: LoweredStep, dimensions: Sequence[Dimension], reason: str) -> MavcgError:
    return MavcgError(
        f"node '{step.name}' ({step.node.op}): the {dimensions_text(dimensions)}: {reason}; {remedy_text(dimensions)}"
    )


def _is_column(spec: KernelSpec) -> TypeGuard[RowKernel]:
    """Return True for windows over the height of a single image."""
    return isinstance(spec, RowKernel) and spec.x.shape[0] == spec.out.shape[0] == 1


def _single_rows(spec: KernelSpec, count: int) -> KernelSpec:
    """Return the spec with the loop over `count` indices apart from the loops inside, if it counts rows by a nest."""
    if isinstance(spec, NestKernel) and spec.nest.shape[0] % count == 0:
        return replace(spec, nest=_single(spec.nest, count))  # type: ignore[call-arg]
    if isinstance(spec, FlatIndexSpec | ResampleSpec) and spec.nest.shape[0] % count == 0:
        return replace(spec, nest=_single(spec.nest, count))
    if isinstance(spec, QMeanSpec) and spec.kept.shape[0] % count == 0:
        return replace(spec, kept=_single(spec.kept, count))
    return spec


def _single(nest: Nest, count: int) -> Nest:
    """Return the nest with `count` indices of its outermost loop, each a row of work or several."""
    inside, rest = nest.shape[0] // count, nest.shape[1:]
    if inside == 1 and rest:
        return replace(nest, single=True)
    # The stride of a loop of length 1 is free: 1 lets vectors of a line be loaded and stored, 0 is for a broadcast.
    strides = tuple((s[0] * inside, s[0] if inside > 1 else min(s[0], 1), *s[1:]) for s in nest.strides)
    return Nest((count, inside, *rest), strides, single=True)


def _in_pixels(step: LoweredStep, storage: Storage) -> LoweredStep:
    """Return the step of a product in the rows of its tensors, each of single pixels where a tensor has one row.

    Lowering cut the pixels of a product into rows of a length that depends on their number.
    """
    spec = step.spec
    if isinstance(spec, QDepthwise | IntegerDepthwise | Conv2d | QConv2d | IntegerConv2d):
        spec = replace(spec, free_rows=True)
    if not isinstance(spec, Conv2d | QConv2d | IntegerConv2d) or spec.kernel != (1, 1) or spec.stride != (1, 1):
        row = isinstance(spec, RowKernel) and spec.x.shape[:2] == spec.out.shape[:2] == (spec.kernel[0], 1)
        return replace(step, spec=transpose_image(spec) if isinstance(spec, RowKernel) and row else spec)
    if not step.operands[0].tensor:
        return replace(step, spec=spec)
    numbers = (0, 2, len(step.operands) - 1) if spec.residual is not None else (0, 2)
    views = [storage.view(step.operands[number].tensor) for number in numbers]
    images = [view if len(view.shape) == 4 else as_image(view) for view in views]
    pixels = [_pixel_rows(image) for image in images if image is not None]
    if len(pixels) != len(views):
        return replace(step, spec=spec)
    x, out, *rest = pixels
    return replace(step, spec=replace(spec, x=x, out=out, residual=rest[0] if rest else None))


def _in_one_column(step: LoweredStep, storage: Storage) -> LoweredStep:
    """Return the step of a product with all rows of its tensors below each other, if they are evenly spaced.

    The batch of products of two matrices, and the loops around a softmax, have as few dimensions as possible.
    """
    step = _in_pixels(step, storage)
    spec = step.spec
    if isinstance(spec, MatMul | QMatMul):
        return replace(step, spec=_with_one_batch(spec))
    if isinstance(spec, Softmax):
        return replace(step, spec=replace(spec, outer=collapse(spec.outer.shape, spec.outer.strides)))
    if not isinstance(spec, Conv2d | QConv2d | IntegerConv2d) or spec.kernel != (1, 1) or spec.stride != (1, 1):
        return step
    x, out, residual = (image and _column(image) for image in (spec.x, spec.out, spec.residual))
    if x is None or out is None or (residual is None) != (spec.residual is None):
        return step
    return replace(step, spec=replace(spec, x=x, out=out, residual=residual))


def _with_one_batch(spec: MatMul | QMatMul) -> MatMul | QMatMul:
    """Return the spec of a product with neighbouring dimensions of its batch as one, where they are evenly spaced."""
    names = [name for name in _MATRIX_STRIDES if getattr(spec, name, None) is not None]
    strides = [getattr(spec, name) for name in names]
    nest = collapse(spec.batch, [each[:-2] for each in strides])
    batch = nest.shape if spec.batch else ()
    merged: dict[str, Any] = {
        name: (*outer[: len(batch)], *each[-2:]) for name, each, outer in zip(names, strides, nest.strides, strict=True)
    }
    return replace(spec, batch=batch, **merged)


def _column(image: View) -> View | None:
    """Return an image as one of a single column; None if its pixels are not evenly spaced."""
    n, h, w, channels = image.shape
    loops = [(count, stride) for count, stride in zip((n, h, w), image.strides[:3], strict=True) if count > 1]
    if any(outer != inner * count for (_, outer), (count, inner) in pairwise(loops)):
        return None
    step = loops[-1][1] if loops else image.strides[2]
    return View(image.dtype, (1, n * h * w, 1, channels), (0, step, 0, image.strides[3]))


def _pixel_rows(image: View) -> View:
    """Return an image of a single row as one of a single column; another image as it is."""
    n, h, w, channels = image.shape
    if n * h > 1:
        return image
    return View(image.dtype, (1, w, 1, channels), (0, image.strides[2], 0, image.strides[3]))


def _resize(spec: KernelSpec, most: int, length: int, among: Sequence[str] | None = None) -> KernelSpec:
    """Return the spec for `length` indices in place of `most`; the spec itself where it does not count them.

    among: the fields that are changed; None: all that count.
    """
    names = [name for name in _COUNTED[type(spec)] if among is None or name in among]
    changed = {name: _with_count(getattr(spec, name), most, length) for name in names}
    return replace(spec, **changed)


def _with_count(value: View | Nest | Lines | Sequence[int] | None, most: int, length: int) -> object:
    if value is None:
        return None
    if isinstance(value, Lines):
        return replace(value, count=value.count // most * length)
    if isinstance(value, Nest | View):
        return replace(value, shape=_with_first(value.shape, most, length))
    return _with_first(value, most, length)


def _with_first(shape: Sequence[int], most: int, length: int) -> tuple[int, ...]:
    """Return a shape with its first length other than 1 for `length` indices in place of `most`; -1 if it does not
    count them."""
    at = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return (*shape[:at], *(-1 if n % most else n // most * length for n in shape[at : at + 1]), *shape[at + 1 :])


def _plain(spec: KernelSpec) -> KernelSpec:
    """Return the spec with strides along dimensions of length 1, which have no meaning, as 0."""
    plain: dict[str, object] = {}
    for name in _COUNTED.get(type(spec), ()):
        value = getattr(spec, name)
        if isinstance(value, View):
            plain[name] = replace(value, strides=_meaningful(value.shape, value.strides))
        elif isinstance(value, Nest):
            strides = tuple(_meaningful(value.shape, strides) for strides in value.strides)
            plain[name] = replace(value, strides=strides)
    if isinstance(spec, MatMul | QMatMul):
        for name in _MATRIX_STRIDES:
            if (own := getattr(spec, name, None)) is not None:
                plain[name] = (*_meaningful(spec.batch, own[:-2]), *own[-2:])
    return replace(spec, **plain) if plain else spec


def _meaningful(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(stride if length > 1 else 0 for length, stride in zip(shape, strides, strict=True))


def _check_operands(
    a: LoweredStep, b: LoweredStep, most: LoweredGraph, other: LoweredGraph, dimensions: Sequence[Dimension]
) -> None:
    """Raise MavcgError unless both steps have the same operands, and constants of which one begins with the other."""
    same = len(a.operands) == len(b.operands) and all(
        _same_operand(x, y, most, other) for x, y in zip(a.operands, b.operands, strict=False)
    )
    if not same:
        raise _refusal(a, dimensions, "its constants change, or where its tensors lie in their buffers")


def _same_operand(a: Operand, b: Operand, most: LoweredGraph, other: LoweredGraph) -> bool:
    if a.workspace_bytes and b.workspace_bytes:  # it is that of the longest length, and so are its parts
        return replace(a, workspace_bytes=0, offset=0) == replace(b, workspace_bytes=0, offset=0)
    if replace(a, constant=None) != replace(b, constant=None):
        return False
    if a.constant is not None or b.constant is not None:
        return _same_constant(a.constant, b.constant, most, other)
    if not a.tensor:
        return True
    return _place(a.tensor, most) == _place(b.tensor, other)


def _place(tensor: str, lowered: LoweredGraph) -> tuple[str, int, tuple[tuple[int, int], ...]]:
    """Return a tensor's buffer, the first of its places there, and how it advances in loops; by the last iteration it
    may be before its offset."""
    location = lowered.storage.locations[tensor]
    trips = {loop.number: loop.trips for loop in lowered.storage.loops}
    down = sum(elements * (trips[loop] - 1) for loop, elements in location.advance if elements < 0)
    return location.root, location.offset + down, location.advance


def _same_constant(
    a: Array | PackedConstant | None, b: Array | PackedConstant | None, most: LoweredGraph, other: LoweredGraph
) -> bool:
    if isinstance(a, PackedConstant) and isinstance(b, PackedConstant):
        return a == b and all(
            np.array_equal(most.graph.constants[name], other.graph.constants[name]) for name in a.sources
        )
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return _begins_with(a, b)
    return False


def _begins_with(long: Array, short: Array) -> bool:
    """Return True if two arrays are equal, or one is the beginning of the other along the first axis longer than 1."""
    if long.dtype != short.dtype or long.ndim != short.ndim:
        return False
    at = next((i for i, (n, m) in enumerate(zip(long.shape, short.shape, strict=True)) if n != m), None)
    if at is not None:
        if any(n != 1 for n in (*long.shape[:at], *short.shape[:at])):
            return False
        count = min(long.shape[at], short.shape[at])
        index = (*[slice(None)] * at, slice(count))
        long, short = long[index], short[index]
    return long.shape == short.shape and long.tobytes() == short.tobytes()
