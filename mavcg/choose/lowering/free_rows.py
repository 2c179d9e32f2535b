"""Lowered graphs whose steps compute only the first rows of work, as many as a run has: one bounded dimension.

The graph is lowered for the longest length and for another one. Their kernels must be equal except for the count of
their outermost loop. Then a kernel for the longest length computes, in its first rows, what a kernel for a shorter one
computes in all of its rows: the count is the bound of a loop, and neither strides nor sums depend on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeGuard

import numpy as np

from mavcg.choose.lowering.axis_counts import AxisCounts, axis_counts, sample_of
from mavcg.choose.lowering.lower import LoweredGraph, LoweredStep
from mavcg.choose.lowering.read_length import has_all_rows, merge_by_length, rows_at
from mavcg.errors import MavcgError
from mavcg.graph import Node
from mavcg.kernels.block_weights.expand import ExpandedBlocks
from mavcg.kernels.block_weights.spec import Lines, QuantizedBlocks
from mavcg.kernels.builder.nest import Nest, NestKernel
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
from mavcg.specs.count import Count, Length, product_of
from mavcg.specs.dimension import Dimension
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


@dataclass(frozen=True)
class FreeRows:
    """A graph lowered for the longest length.

    counts: of the rows of each step, where they follow from the length. trips: so of each loop's iterations.
    """

    lowered: LoweredGraph
    counts: tuple[Count | None, ...]
    trips: tuple[Count | None, ...] = ()


@dataclass(frozen=True)
class _Axis:
    """The axis of a tensor that follows from the length: its longest length, that of the other graph, and its count."""

    longest: int
    other: int
    count: Count


def with_free_rows(
    most: LoweredGraph,
    other: LoweredGraph,
    dimension: Dimension,
    length: int,
    inputs: Mapping[str, AxisCounts],
    windows: Mapping[str, Sequence[Count]],
) -> FreeRows:
    """Return the graph lowered for the longest length with kernels whose rows may end after any index.

    other: the same graph lowered for another length. inputs: counts of the axes of inputs. windows: those of windows by
    the node of the file. Raises: MavcgError naming the node whose rows of work the dimension does not count.
    """
    pairs = list(zip(most.steps, other.steps, strict=False))
    if len(most.steps) != len(other.steps) or any(a.node.op != b.node.op for a, b in pairs):
        different = next((a for a, b in pairs if a.node.op != b.node.op), most.steps[-1])
        raise _refusal(different, dimension, f"is computed in other steps at the length {length}")
    samples = [sample_of(low.graph, {dimension.name: n}) for low, n in ((most, dimension.most), (other, length))]
    origin = {step.node: step for step in most.steps}

    def refusal(node: Node, reason: str) -> MavcgError:
        return _refusal(origin.get(node, most.steps[-1]), dimension, reason)

    known = {name: inputs[name] for name in most.graph.inputs}
    axes = axis_counts(most.graph, samples, known, refusal, windows)

    def axis_of(tensor: str) -> _Axis | None:
        """Return the first axis of a tensor that follows from the length."""
        at = next((i for i, count in enumerate(axes.get(tensor, ())) if not isinstance(count, int)), None)
        if at is None:
            return None
        longest, shorter = (low.graph.types[tensor].shape[at] for low in (most, other))
        return _Axis(longest, shorter, axes[tensor][at])

    steps: list[LoweredStep] = []
    counts: list[Count | None] = []
    for a, b in pairs:
        _check_operands(a, b, most, other, dimension)
        long, short = _in_pixels(a, most.storage), _in_pixels(b, other.storage)
        if _plain(long.spec) == _plain(short.spec):
            steps.append(a)
            counts.append(None)
            continue
        tensors = [*(operand.tensor for operand in a.operands), *a.node.inputs]
        written = [operand.tensor for operand in a.operands if operand.written]
        found = [axis for name in (*written, *tensors) if (axis := axis_of(name)) is not None]
        read = next((axis for name in tensors if (axis := axis_of(name)) is not None), None)
        plain = _plain(long.spec), _plain(short.spec)
        merged = None if read is None else merge_by_length(*plain, read.longest, read.other)
        if read is None or merged is None:
            step, count = _counted_step(long, short, dimension, found)
            steps.append(step)
            counts.append(count)
            continue
        spec, reads_length = merged
        operands = (*long.operands, *[Operand(count=read.count)] * reads_length)
        steps.append(replace(long, spec=spec, operands=operands))
        counted = long.spec.rows != short.spec.rows and not has_all_rows(spec)
        in_blocks = rows_at(spec, read.count)
        counts.append(in_blocks or (_rows_of(long, short, dimension, found) if counted else None))
    specs = dict.fromkeys(step.spec for step in steps)
    lowered = replace(most, steps=tuple(steps), specs=tuple(specs))
    return FreeRows(lowered, tuple(counts), _trips_of(most, other, dimension, length))


def _trips_of(most: LoweredGraph, other: LoweredGraph, dimension: Dimension, length: int) -> tuple[Count | None, ...]:
    """Return the count of iterations of each loop with steps; None where it is the same for both lengths.

    Raises: MavcgError for loops of other steps, or a number of iterations that is no multiple of the length.
    """
    counts: list[Count | None] = []
    for (begin, end, a), (first, last, b) in zip(most.loops, other.loops, strict=True):
        each, rest = divmod(a.trips, dimension.most)
        if (begin, end, a.number) != (first, last, b.number) or (
            a.trips != b.trips and (rest or each * length != b.trips)
        ):
            raise _refusal(most.steps[begin], dimension, f"is in another loop at the length {length}")
        counts.append(None if a.trips == b.trips else product_of(each, Length(dimension.name)))
    return tuple(counts)


_INSIDE = "has it inside of its rows of work, not as the outermost dimension"


def _rows_of(long: LoweredStep, short: LoweredStep, dimension: Dimension, axes: Sequence[_Axis]) -> Count:
    """Return the count of a step's rows. axes: of its tensors, the one that it writes first."""
    for axis in axes:
        if long.spec.rows % axis.longest == 0 and short.spec.rows * axis.longest == long.spec.rows * axis.other:
            return product_of(long.spec.rows // axis.longest, axis.count)
    raise _refusal(long, dimension, _INSIDE)


def _counted_step(
    long: LoweredStep, short: LoweredStep, dimension: Dimension, axes: Sequence[_Axis]
) -> tuple[LoweredStep, Count]:
    """Return a step whose rows may end after any index, and their count. Raises: MavcgError for a step that cannot.

    axes: of its tensors, the one that it writes first: a step computes rows of that, or copies those of another.
    """
    if type(long.spec) not in _COUNTED or not axes:
        raise _refusal(long, dimension, f"has no kernel for it ({long.spec.family})")
    for axis in axes:
        spec = _first_rows(long.spec, short.spec, axis.longest, axis.other)
        if spec is not None:
            return replace(long, spec=spec), product_of(spec.rows // axis.longest, axis.count)
    raise _refusal(long, dimension, _INSIDE)


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


def _refusal(step: LoweredStep, dimension: Dimension, reason: str) -> MavcgError:
    return MavcgError(
        f"node '{step.name}' ({step.node.op}): the bounded dimension {dimension} {reason}; give a list of lengths in "
        f"its place, such as {dimension.least},{dimension.most}, for a size of each (docs/lengths.md)"
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
    """Return a shape with its first length other than 1 for `length` indices in place of `most`."""
    at = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return (*shape[:at], *(n // most * length for n in shape[at : at + 1]), *shape[at + 1 :])


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
        for name in ("a_strides", "b_strides", "out_strides", "residual_strides"):
            if (own := getattr(spec, name, None)) is not None:
                plain[name] = (*_meaningful(spec.batch, own[:-2]), *own[-2:])
    return replace(spec, **plain) if plain else spec


def _meaningful(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(stride if length > 1 else 0 for length, stride in zip(shape, strides, strict=True))


def _check_operands(
    a: LoweredStep, b: LoweredStep, most: LoweredGraph, other: LoweredGraph, dimension: Dimension
) -> None:
    """Raise MavcgError unless both steps have the same operands, and constants of which one begins with the other."""
    same = len(a.operands) == len(b.operands) and all(
        _same_operand(x, y, most, other) for x, y in zip(a.operands, b.operands, strict=False)
    )
    if not same:
        raise _refusal(a, dimension, "changes its constants, or where its tensors lie in their buffers")


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
