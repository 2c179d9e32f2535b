"""Steps that cross a bounded dimension, as attention does: kernels that read lengths and strides of the run.

The specs of a step at several lengths have to be equal but for some of their integers, each of which follows from the
lengths as a count (samples.py): lowering multiplies lengths, so the lengths of loops and the strides of dense
tensors are products of them. The merged kernel reads such a number as an operand, a count of the program, in place of a
constant of its code. So at any lengths it has the numbers of the kernel that would be lowered for these.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MappingProxyType

from mavcg.choose.lengths.samples import Lengths, fit_count
from mavcg.graph.counts import Count, Dimension, product_of, quotient_of, sum_of, value_at
from mavcg.kernels.attention.spec import Attention
from mavcg.kernels.builder.nest import NestKernel
from mavcg.kernels.tensor.copies import CopySpec
from mavcg.kernels.tensor.elementwise import ElementwiseSpec
from mavcg.kernels.tensor.gather import GatherSpec
from mavcg.kernels.tensor.reduce import Reduce
from mavcg.kernels.tensor.transpose import TransposeSpec
from mavcg.specs.kernel import KernelSpec

# The integers of a spec that its kernel can read in a run: paths, or the beginnings of paths.
_OF_RUN: Mapping[type[KernelSpec], tuple[str, ...]] = MappingProxyType(
    {
        Attention: (
            "outer",
            "keys",
            *(f"{name}.{dim}" for name in ("query", "key", "value", "out") for dim in (0, 2)),
            *(f"mask.{dim}" for dim in (0, 1, 2)),
        ),
        CopySpec: ("nest", "source_offset", "target_offset"),
        ElementwiseSpec: ("nest",),
        GatherSpec: ("nest", "length"),
        Reduce: ("kept", "reduced.shape.0"),
    }
)


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
) -> MergedSpec | None:
    """Return the kernel of a step for all lengths; None if there is none, or the specs differ otherwise.

    specs: of the step at each sample, of which the first has the longest lengths. known: counts of the step's tensors,
    which no fit finds where they are no products of lengths.
    """
    specs = [_comparable(spec) for spec in specs]
    longest = specs[0]
    leaves = [dict(_leaves(spec)) for spec in specs]
    if type(longest) not in _OF_RUN or any(each.keys() != leaves[0].keys() for each in leaves):
        return None
    counts: dict[str, Count] = {}
    for path in leaves[0]:
        values = [each[path] for each in leaves]
        if all(value == values[0] for value in values):
            continue
        numbers = [value for value in values if isinstance(value, int) and value >= 0]
        count = _count_of(numbers, samples, dimensions, known) if len(numbers) == len(values) else None
        if count is None or not any(f"{path}.".startswith(f"{each}.") for each in _OF_RUN[type(longest)]):
            return None
        counts[path] = count
    if isinstance(longest, Reduce) and longest.along and f"kept.shape.{len(longest.kept.shape) - 1}" in counts:
        return None
    words = tuple(dict.fromkeys(counts.values()))
    of_run = tuple((path, words.index(count)) for path, count in counts.items())
    rows = _rows(longest, {path: counts.get(path, value) for path, value in leaves[0].items()})  # type: ignore[arg-type]
    return MergedSpec(replace(longest, words=of_run), words, rows)  # type: ignore[call-arg]


def _count_of(
    numbers: Sequence[int], samples: Sequence[Lengths], dimensions: Sequence[Dimension], known: Sequence[Count]
) -> Count | None:
    """Return the count that has these numbers at the samples; None if there is none, or several of different values."""
    found = dict.fromkeys(count for count in [fit_count(numbers, samples, dimensions)] if count is not None)
    for count in known:
        unit, rest = divmod(numbers[0], max(1, value_at(count, samples[0])))
        if not rest and list(numbers) == [unit * value_at(count, sample) for sample in samples]:
            found[product_of(unit, count)] = None
    probes = [
        {**samples[0], d.name: length} for d in dimensions for length in range(d.least, min(d.most, d.least + 64) + 1)
    ]
    values = {tuple(value_at(count, probe) for probe in probes) for count in found}
    return next(iter(found)) if len(values) == 1 else None


def _comparable(spec: KernelSpec) -> KernelSpec:
    """Return the spec of a kernel that may read numbers of the run, without strides that have no meaning."""
    match spec:
        case TransposeSpec():  # a copy by the same loops
            return CopySpec(spec.item_bytes, spec.nest)
        case Attention(outer=(1, _)):
            query, key, value, out = ((0, *strides[1:]) for strides in (spec.query, spec.key, spec.value, spec.out))
            return replace(spec, query=query, key=key, value=value, out=out)
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
        case NestKernel():
            at, block = spec.nest.row_split
            outer = (counts[f"nest.shape.{i}"] for i in range(at))
            return product_of(*outer, quotient_of(sum_of(counts[f"nest.shape.{at}"], block - 1), block))
        case Attention():
            return product_of(counts["outer.0"], counts["outer.1"], spec.heads[1])
        case Reduce():
            return product_of(*(counts[f"kept.shape.{i}"] for i in range(len(spec.kept.shape) - spec.along)))
    raise AssertionError(f"{type(spec).__name__} reads no numbers of the run")
