"""Steps that cross a bounded dimension, as attention does: kernels that read lengths and strides of the run.

The specs of a step at several lengths have to be equal but for some of their integers, each of which follows from the
lengths as a count (samples.py): lowering multiplies lengths, so the lengths of loops and the strides of dense
tensors are products of them. The merged kernel reads such a number as an operand, a count of the program, in place of a
constant of its code. So at any lengths it has the numbers of the kernel that would be lowered for these.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace

from mavcg.choose.lengths.readable_numbers import (
    VIEWS,
    begins_anywhere,
    computes_alike,
    has_meaning,
    has_run_numbers,
    is_unread,
    may_go_back,
    rows_of,
)
from mavcg.choose.lengths.run_views import RunView
from mavcg.choose.lengths.samples import Lengths, fit_count
from mavcg.graph.counts import Count, Dimension, is_symbolic, product_of, value_at
from mavcg.kernels.attention.spec import Attention
from mavcg.kernels.builder.nest import collapse
from mavcg.kernels.builder.run_numbers import BACK, PLACE
from mavcg.kernels.tensor.copies import CopySpec
from mavcg.kernels.tensor.resample import ResampleSpec
from mavcg.kernels.tensor.softmax import Softmax
from mavcg.kernels.tensor.transpose import TransposeSpec
from mavcg.specs.kernel import KernelSpec


@dataclass(frozen=True)
class MergedSpec:
    """A spec for the longest lengths whose kernel takes every one. words: its operands of the run. rows: of work."""

    spec: KernelSpec
    words: tuple[Count, ...]
    rows: Count


def merge_by_words(
    specs: Sequence[KernelSpec],
    all_samples: Sequence[Lengths],
    dimensions: Sequence[Dimension],
    known: Sequence[Count] = (),
    views: Sequence[RunView | None] = (),
    given: Mapping[str, Count] = {},
    starts: Sequence[Count] = (),
) -> MergedSpec | None:
    """Return the kernel of a step for all lengths; None if there is none, or the specs differ otherwise.

    specs: of the step at each of all_samples, of which the first has the longest lengths. known: counts of the step's
    tensors, which no fit finds where they are no products of lengths. views: of its operands, where they are known.
    given: integers of the spec that the samples do not tell, by path. starts: offsets of the node's parts, of which a
    copy's offset is one: 4 * (height / 2) * (width / 2) is height * width at even samples.
    """
    specs = [_comparable(spec) for spec in specs]
    longest = specs[0]
    leaves = [dict(_leaves(spec)) for spec in specs]
    if not has_run_numbers(longest) or any(each.keys() != leaves[0].keys() for each in leaves):
        return None
    of_views, candidates = {**_of_images(longest, views), **given}, _of_tensors(views)
    of_operands = {f"nest.strides.{i}": _of_tensors([view]) for i, view in enumerate(views) if view is not None}
    if isinstance(longest, ResampleSpec):  # it loops over its result, and reads rows of the first operand
        of_operands |= {"nest.shape": _of_tensors(views[-1:]), "": _of_tensors(views[:1])}
    if isinstance(longest, CopySpec):
        of_operands[""] = [start for start in starts if is_symbolic(start)]
    counts: dict[str, Count] = {}
    for path in leaves[0]:
        if not has_meaning(longest, path):
            continue
        told = [n for n, spec in enumerate(specs) if has_meaning(spec, path)]
        values, samples = [leaves[n][path] for n in told], [all_samples[n] for n in told]
        if path in of_views:
            count: Count | None = of_views[path]
            if count is None:  # a stride that has no meaning
                continue
            if any(value_at(count, sample) != value for sample, value in zip(samples, values, strict=True)):
                return None
        elif all(value == values[0] for value in values) or is_unread(longest, path):
            continue
        else:
            numbers = [abs(value) for value in values if isinstance(value, int)]
            signs = {value < 0 for value in values if isinstance(value, int)}
            fits = len(numbers) == len(values) and (
                signs == {False} or (signs == {True} and may_go_back(longest, path))
            )
            own = of_operands.get(path.rpartition(".")[0], ())
            count = _count_of(numbers, samples, dimensions, known, (own, candidates)) if fits else None
        if count is None:
            return None
        if is_symbolic(count):
            counts[path] = count
    read = {path: count for path, count in counts.items() if not is_unread(longest, path)}
    places = {
        f"{PLACE}.{number}": product_of(view.item_bytes, view.offset)
        for number, view in enumerate(views)
        if view is not None and is_symbolic(view.offset)
    }
    image = views[0] if views else None
    if not computes_alike(longest, read, image, dimensions) or (places and not begins_anywhere(longest)):
        return None
    read |= places
    words = tuple(dict.fromkeys(read.values()))
    back = {path for path, number in leaves[0].items() if isinstance(number, int) and number < 0}
    of_run = tuple((BACK * (path in back) + path, words.index(count)) for path, count in read.items())
    rows = rows_of(longest, {path: counts.get(path, value) for path, value in leaves[0].items()})  # type: ignore[arg-type]
    return MergedSpec(replace(longest, words=of_run), words, rows)  # type: ignore[call-arg]


def _of_images(spec: KernelSpec, views: Sequence[RunView | None]) -> dict[str, Count | None]:
    """Return the counts of the lengths and strides of a spec's images, by path; None for a stride that has no
    meaning."""
    found: dict[str, Count | None] = {}
    for name, number in VIEWS.get(type(spec), {}).items():
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
