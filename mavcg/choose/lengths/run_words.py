"""Steps that cross a bounded dimension, as attention does: kernels that read lengths and strides of the run.

The specs of a step at several lengths have to be equal but for some of their integers, each of which follows from the
lengths as a count (samples.py): lowering multiplies lengths, so the lengths of loops and the strides of dense
tensors are products of them. The merged kernel reads such a number as an operand, a count of the program, in place of a
constant of its code. So at any lengths it has the numbers of the kernel that would be lowered for these.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MappingProxyType

from mavcg.choose.lengths.run_views import RunView
from mavcg.choose.lengths.samples import Lengths, fit_count
from mavcg.choose.lowering.lower import LoweredStep
from mavcg.graph.counts import Count, Dimension, bounds_of, is_symbolic, product_of, quotient_of, sum_of, value_at
from mavcg.kernels.attention.spec import Attention
from mavcg.kernels.builder.nest import NestKernel, collapse
from mavcg.kernels.builder.run_numbers import PLACE
from mavcg.kernels.conv.depthwise import Depthwise
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.conv.transpose_phases import ConvTranspose2d
from mavcg.kernels.int8.integer_sums import IntegerConv2d, IntegerDepthwise
from mavcg.kernels.int8.mean_pool import QAvgPoolSpec
from mavcg.kernels.int8.specs import EightBitConvolution, QConv2d, QDepthwise
from mavcg.kernels.tensor.arg_reduce import ArgReduce
from mavcg.kernels.tensor.arg_top import ArgTop
from mavcg.kernels.tensor.copies import CopySpec
from mavcg.kernels.tensor.cumulative import Cumulative
from mavcg.kernels.tensor.elementwise import ElementwiseSpec
from mavcg.kernels.tensor.gather import GatherSpec
from mavcg.kernels.tensor.pad import PadBorder
from mavcg.kernels.tensor.pool import Pool
from mavcg.kernels.tensor.reduce import Reduce
from mavcg.kernels.tensor.resample import ResampleSpec
from mavcg.kernels.tensor.run_indices import FlatIndexSpec
from mavcg.kernels.tensor.softmax import Softmax
from mavcg.kernels.tensor.transpose import TransposeSpec
from mavcg.memory.locations import Storage
from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.row_kernel import RowKernel

_OF_POOLS = ("x.shape", "out.shape", "x.strides", "out.strides", "pads.0", "pads.1")
_OF_IMAGES = (
    "out.shape.1",
    "out.shape.2",
    *(f"{name}.strides.{i}" for name in ("x", "out", "residual") for i in (0, 1)),
)
# The integers of a spec that its kernel can read in a run: paths, or the beginnings of paths.
_OF_RUN: Mapping[type[KernelSpec], tuple[str, ...]] = MappingProxyType(
    {
        ArgReduce: ("kept", "length", "stride"),
        ArgTop: ("lines", "length", "stride", "out_stride"),
        Attention: (
            "outer",
            "keys",
            *(f"{name}.{dim}" for name in ("query", "key", "value", "out") for dim in (0, 2)),
            *(f"mask.{dim}" for dim in (0, 1, 2)),
        ),
        Conv2d: _OF_IMAGES,
        ConvTranspose2d: (*_OF_IMAGES, "x.shape.1", "x.shape.2"),
        CopySpec: ("nest", "source_offset", "target_offset"),
        Cumulative: ("outer", "axis", "line"),
        Depthwise: _OF_IMAGES,
        ElementwiseSpec: ("nest",),
        FlatIndexSpec: ("nest", "lengths", "index_strides"),
        GatherSpec: ("nest", "length", "step"),
        PadBorder: ("out", "before", "after"),
        Pool: _OF_POOLS,
        QAvgPoolSpec: _OF_POOLS,
        **dict.fromkeys((IntegerConv2d, IntegerDepthwise, QConv2d, QDepthwise), _OF_IMAGES),
        Reduce: ("kept", "reduced"),
        ResampleSpec: ("nest", "length", "step"),
        Softmax: ("outer", "axis", "line"),
    }
)
# Integers that no kernel reads: the rows of all images are a step's rows of work, and windows end where rows do.
_UNREAD: Mapping[type[KernelSpec], tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(
            (Conv2d, Depthwise, IntegerConv2d, IntegerDepthwise, QConv2d, QDepthwise),
            ("x.shape", "out.shape.0", "residual.shape"),
        ),
        ConvTranspose2d: ("x.shape.0", "out.shape.0"),
        **dict.fromkeys((Pool, QAvgPoolSpec), ("x.shape.0", "out.shape.0", "pads.2", "pads.3")),
    }
)
# Of specs of images: the number of the operand that each of their views is of; -1: the last one.
_VIEWS: Mapping[type[KernelSpec], Mapping[str, int]] = MappingProxyType(
    {
        **dict.fromkeys(
            (Conv2d, Depthwise, IntegerConv2d, IntegerDepthwise, QConv2d), {"x": 0, "out": 2, "residual": -1}
        ),
        QDepthwise: {"x": 0, "out": 2},
        ConvTranspose2d: {"x": 0, "out": 2},
        PadBorder: {"out": 0},
        **dict.fromkeys((Pool, QAvgPoolSpec), {"x": 0, "out": 1}),
    }
)
# Kernels that read no element of a tensor that has none in a run.
_TAKES_NOTHING = (CopySpec, Cumulative, ElementwiseSpec, Reduce, Softmax)
_AT_FIXED_PLACES = (Attention, GatherSpec)  # kernels whose operands begin where they do at all lengths


@dataclass(frozen=True)
class MergedSpec:
    """A spec for the longest lengths whose kernel takes every one. words: its operands of the run. rows: of work."""

    spec: KernelSpec
    words: tuple[Count, ...]
    rows: Count


def merge_by_words(
    specs: Sequence[KernelSpec],
    samples: Sequence[Lengths],
    dimensions: Sequence[Dimension],
    known: Sequence[Count] = (),
    views: Sequence[RunView | None] = (),
    given: Mapping[str, Count] = {},
) -> MergedSpec | None:
    """Return the kernel of a step for all lengths; None if there is none, or the specs differ otherwise.

    specs: of the step at each sample, of which the first has the longest lengths. known: counts of the step's tensors,
    which no fit finds where they are no products of lengths. views: of its operands, where they are known.
    given: integers of the spec that the samples do not tell, by path.
    """
    specs = [_comparable(spec) for spec in specs]
    longest, kind = specs[0], type(specs[0])
    leaves = [dict(_leaves(spec)) for spec in specs]
    if kind not in _OF_RUN or any(each.keys() != leaves[0].keys() for each in leaves):
        return None
    of_views, candidates = {**_of_images(longest, views), **given}, _of_tensors(views)
    of_operands = {f"nest.strides.{i}": _of_tensors([view]) for i, view in enumerate(views) if view is not None}
    counts: dict[str, Count] = {}
    for path in leaves[0]:
        values = [each[path] for each in leaves]
        if path in of_views:
            count: Count | None = of_views[path]
            if count is None:  # a stride that has no meaning
                continue
            if any(value_at(count, sample) != value for sample, value in zip(samples, values, strict=True)):
                return None
        elif all(value == values[0] for value in values) or _begins(path, _UNREAD.get(kind, ())):
            continue
        else:
            numbers = [value for value in values if isinstance(value, int) and value >= 0]
            fits = len(numbers) == len(values)
            own = of_operands.get(path.rpartition(".")[0], ())
            count = _count_of(numbers, samples, dimensions, known, (own, candidates)) if fits else None
        if count is None:
            return None
        if is_symbolic(count):
            counts[path] = count
    read = {path: count for path, count in counts.items() if not _begins(path, _UNREAD.get(kind, ()))}
    places = {
        f"{PLACE}.{number}": product_of(view.item_bytes, view.offset)
        for number, view in enumerate(views)
        if view is not None and is_symbolic(view.offset)
    }
    if not all(_begins(path, _OF_RUN[kind]) for path in read) or (places and kind in _AT_FIXED_PLACES):
        return None
    if kind not in _TAKES_NOTHING and any(_can_be_nothing(*each, dimensions) for each in read.items()):
        return None
    if "x.strides.1" in read and not _has_free_tap_rows(longest, views[0] if views else None, dimensions):
        return None
    if isinstance(longest, Softmax) and longest.line == 1 and not read.keys().isdisjoint(("axis.1", "axis.2")):
        return None
    if isinstance(longest, Reduce) and f"reduced.strides.0.{len(longest.reduced.shape) - 1}" in counts:
        if longest.reduced.strides[0][-1] == 1:
            return None
    read |= places
    words = tuple(dict.fromkeys(read.values()))
    of_run = tuple((path, words.index(count)) for path, count in read.items())
    rows = _rows(longest, {path: counts.get(path, value) for path, value in leaves[0].items()})  # type: ignore[arg-type]
    return MergedSpec(replace(longest, words=of_run), words, rows)  # type: ignore[call-arg]


def _can_be_nothing(path: str, count: Count, dimensions: Sequence[Dimension]) -> bool:
    """Return True for a length that may be 0 in a run; strides and pads may."""
    least = {dimension.name: dimension.least for dimension in dimensions}
    free = "strides" in path or _begins(path, ("before", "after", "pads"))
    return not free and not value_at(count, least)


def _has_free_tap_rows(spec: KernelSpec, image: RunView | None, dimensions: Sequence[Dimension]) -> bool:
    """Return True if a window's rows of taps may lie anywhere, with the same sums.

    Sums of f16 are cut otherwise where a row of taps continues the one before it, as in images that are as wide as the
    window: so no image may be. image: place of the first operand.
    """
    match spec:
        case EightBitConvolution():
            return spec.free_tap_rows
        case ConvTranspose2d():
            return spec.packed
        case Conv2d(x=View(dtype="f16"), kernel=(height, width), dilation=(down, right)) if height > 1:
            return image is not None and down * bounds_of(image.shape[2], dimensions)[0] > right * width
    return True


def _begins(path: str, beginnings: Sequence[str]) -> bool:
    return any(f"{path}.".startswith(f"{each}.") for each in beginnings)


def _of_images(spec: KernelSpec, views: Sequence[RunView | None]) -> dict[str, Count | None]:
    """Return the counts of the lengths and strides of a spec's images, by path; None for a stride that has no
    meaning."""
    found: dict[str, Count | None] = {}
    for name, number in _VIEWS.get(type(spec), {}).items():
        view = views[number] if views and getattr(spec, name) is not None else None
        if view is not None:
            for axis, (length, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
                found[f"{name}.shape.{axis}"] = length
                found[f"{name}.strides.{axis}"] = None if length == 1 else stride
    return found


def _of_tensors(views: Sequence[RunView | None]) -> list[Count]:
    """Return the strides of a step's tensors, and the lengths of axes and of neighbouring axes as one."""
    found: dict[Count, None] = {}
    for view in views:
        if view is not None:
            axes = range(len(view.shape))
            found |= dict.fromkeys(view.strides)
            found |= {product_of(*view.shape[first : last + 1]): None for first in axes for last in axes[first:]}
    return [count for count in found if is_symbolic(count)]


def _count_of(
    numbers: Sequence[int],
    samples: Sequence[Lengths],
    dimensions: Sequence[Dimension],
    known: Sequence[Count],
    candidates: Sequence[Sequence[Count]],
) -> Count | None:
    """Return the count that has these numbers at the samples; None if there is none, or several of different values.

    candidates: strides and lengths of the tensor, then of all of the step, which count before a multiple of a length.
    """
    probes = [
        {**samples[0], d.name: length} for d in dimensions for length in range(d.least, min(d.most, d.least + 64) + 1)
    ]

    def only(found: Iterable[Count]) -> Count | None:
        values = {tuple(value_at(count, probe) for probe in probes): count for count in found}
        return next(iter(values.values())) if len(values) == 1 else None

    def fits(count: Count) -> bool:
        return all(value_at(count, sample) == number for sample, number in zip(samples, numbers, strict=True))

    for group in candidates:
        if exact := [count for count in group if fits(count)]:
            return only(exact)
    found = [count for count in [fit_count(numbers, samples, dimensions)] if count is not None]
    for count in known:
        unit, rest = divmod(numbers[0], max(1, value_at(count, samples[0])))
        if not rest and fits(product_of(unit, count)):
            found.append(product_of(unit, count))
    return only(found)


def in_images(step: LoweredStep, storage: Storage) -> LoweredStep:
    """Return the step of a convolution with the images that its tensors are, whatever rows lowering cut them into."""
    if not isinstance(step.spec, Conv2d | QConv2d | IntegerConv2d):
        return step
    numbers = {name: number for name, number in _VIEWS[type(step.spec)].items() if getattr(step.spec, name) is not None}
    views = {name: storage.view(step.operands[number].tensor) for name, number in numbers.items()}
    if any(len(view.shape) != 4 for view in views.values()):
        return step
    return replace(step, spec=replace(step.spec, free_rows=True, **views))  # type: ignore[arg-type]


def _comparable(spec: KernelSpec) -> KernelSpec:
    """Return the spec of a kernel that may read numbers of the run, without strides that have no meaning."""
    match spec:
        case TransposeSpec():  # a copy by the same loops
            return CopySpec(spec.item_bytes, spec.nest)
        case Attention(outer=(1, _)):
            query, key, value, out = ((0, *strides[1:]) for strides in (spec.query, spec.key, spec.value, spec.out))
            return replace(spec, query=query, key=key, value=value, out=out)
        case Softmax():
            return replace(spec, outer=collapse(spec.outer.shape, spec.outer.strides))
    return spec


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield (path, value) of each part of a spec that has no parts."""
    if isinstance(value, tuple):
        parts = {str(i): part for i, part in enumerate(value)}
    elif is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
    else:
        parts = {}
    if not parts:
        yield path, value
    for name, part in parts.items():
        yield from _leaves(part, f"{path}.{name}" if path else name)


def _rows(spec: KernelSpec, counts: Mapping[str, Count]) -> Count:
    """Return the rows of work of a spec in a run. counts: its integers, by path."""
    match spec:
        case NestKernel() | ResampleSpec():
            at, block = spec.nest.row_split
            outer = (counts[f"nest.shape.{i}"] for i in range(at))
            return product_of(*outer, quotient_of(sum_of(counts[f"nest.shape.{at}"], block - 1), block))
        case ArgReduce():
            return product_of(*(counts[f"kept.shape.{i}"] for i in range(len(spec.kept.shape))))
        case ArgTop():
            return product_of(*(counts[f"lines.shape.{i}"] for i in range(len(spec.lines.shape))))
        case Cumulative() | Softmax():
            return product_of(*(counts[f"outer.shape.{i}"] for i in range(len(spec.outer.shape))))
        case FlatIndexSpec():
            positions = product_of(*(counts[f"nest.shape.{i}"] for i in range(len(spec.nest.shape))))
            return quotient_of(sum_of(positions, spec.row_positions - 1), spec.row_positions)
        case Attention():
            return product_of(counts["outer.0"], counts["outer.1"], spec.heads[1])
        case RowKernel():
            return product_of(counts["out.shape.0"], counts["out.shape.1"])
        case PadBorder():
            return counts[f"out.shape.{spec.axis}"]
        case Reduce():
            return product_of(*(counts[f"kept.shape.{i}"] for i in range(len(spec.kept.shape) - spec.along)))
    raise AssertionError(f"{type(spec).__name__} reads no numbers of the run")
