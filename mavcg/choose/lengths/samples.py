"""The lengths of bounded dimensions for which a model is read, and counts found from numbers that were seen there."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import gcd

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node, TensorType
from mavcg.graph.counts import Count, Dimension, Length, product_of, sum_of, value_at

Lengths = Mapping[str, int]  # by the name of the dimension, in its steps
ReadGraph = Callable[[Lengths], Graph]
AxisCounts = tuple[Count, ...]
Refusal = Callable[[Node, str], MavcgError]  # of a node, for a reason
_MOST_SAMPLES = 64
_MANY = 4  # a greatest length from which on graphs rarely have operators that those of shorter lengths lack


@dataclass(frozen=True)
class ShapeSample:
    """The types of a graph's tensors at some lengths of its dimensions, and its nodes there, by their first output."""

    lengths: Mapping[str, int]
    types: Mapping[str, TensorType]
    nodes: Mapping[str, Node]


def sample_of(graph: Graph, lengths: Mapping[str, int]) -> ShapeSample:
    """Return the sample of a graph that was read for these lengths."""
    return ShapeSample(lengths, graph.types, {node.outputs[0]: node for node in graph.nodes})


def kernel_samples(
    dimensions: Sequence[Dimension], period: int = 1, unstrided: Collection[str] = ()
) -> tuple[Lengths, ...]:
    """Return the lengths whose kernels are compared: the longest, each dimension changed alone, and all of them.

    period: a multiple of all strides (axis_counts.distances), by which lengths differ. unstrided: dimensions without
    strides, which differ by 1. Lengths are at least 2, as 1 is a special case in many operators, and every tensor has
    another length there; they exceed the bounds if these are 1 and 2, or if strides leave few rows.
    """
    most = {dimension.name: dimension.most for dimension in dimensions}
    periods = {each.name: 1 if each.name in unstrided else _in_steps(each, period) for each in dimensions}
    first = {dimension.name: _first_sample(dimension, periods[dimension.name]) for dimension in dimensions}
    alone = [{**most, name: first[name]} for name in most]
    return (most, *alone, *([first] if len(dimensions) > 1 else []))


def _in_steps(dimension: Dimension, distance: int) -> int:
    """Return the number of a dimension's steps that is a multiple of a distance in elements."""
    return distance // gcd(distance, dimension.step)


def _first_sample(dimension: Dimension, period: int) -> int:
    least, most = dimension.least_read, dimension.most
    few = most <= (3 * period if period > 1 else 2) or (period > 1 and most - period < least)
    return most + period if few else most - period


def further_samples(
    dimensions: Sequence[Dimension], distances_down: Sequence[int], unstrided: Collection[str] = ()
) -> list[Lengths]:
    """Return lengths whose graphs are compared besides: of all dimensions together, and the shortest of each alone.

    distances_down: from the longest length to those that have to be among them (axis_counts.distances). unstrided:
    dimensions without strides.
    """
    most = {dimension.name: dimension.most for dimension in dimensions}
    down = {each.name: (1,) if each.name in unstrided else distances_down for each in dimensions}
    others = {dimension.name: _further_lengths(dimension, down[dimension.name]) for dimension in dimensions}
    count = max(map(len, others.values()))
    together: list[Lengths] = [
        {name: each[i] if i < len(each) else most[name] for name, each in others.items()} for i in range(count)
    ]
    alone = [{**most, dimension.name: dimension.least_read} for dimension in dimensions]
    return [*together, *alone] if len(dimensions) > 1 else together


def _further_lengths(dimension: Dimension, distances_down: Sequence[int]) -> list[int]:
    """Return lengths of a dimension whose graphs are compared besides: the shortest two, two in between, and those of
    all remainders of strides. Where strides leave too few lengths for these, all lengths, if they are not too many.
    """
    down = [_in_steps(dimension, distance) for distance in distances_down]
    least, most, period = dimension.least_read, dimension.most, down[-1]
    if period > 1 and most - period < least and most - least <= _MOST_SAMPLES:
        return list(range(least, most))
    others = [least, least + 1, (least + most) // 2, (least + 2 * most) // 3 | 1, *(most - n for n in down)]
    return [n for n in dict.fromkeys(others) if least <= n < most]


def fit_count(values: Sequence[int], samples: Sequence[Lengths], dimensions: Sequence[Dimension]) -> Count | None:
    """Return the count that has a value at each sample, in one of the forms below; None if no form fits all.

    Of several that fit, the first: of fewest dimensions. The samples have to tell the forms apart, and each change of a
    dimension alone. A fixed number; a multiple of a length, or of a product of lengths: 8 * batch * tokens.
    """
    if len(set(values)) == 1:
        return values[0]
    for size in range(1, len(dimensions) + 1):
        for chosen in combinations(dimensions, size):
            lengths = product_of(*(Length(dimension.name) for dimension in chosen))
            unit = value_at(lengths, samples[0])
            count = product_of(values[0] // unit, lengths)
            if all(value_at(count, sample) == value for sample, value in zip(samples, values, strict=True)):
                return count
    return None


def fit_sum(values: Sequence[int], samples: Sequence[Lengths], dimensions: Sequence[Dimension]) -> Count | None:
    """Return the count that has a value at each sample: a sum of multiples of lengths and a number, as past + tokens.

    samples: kernel_samples, of which those after the first change each dimension alone. None if no such sum fits.
    """
    terms = list[Count]()
    for number, dimension in enumerate(dimensions, 1):
        change = samples[0][dimension.name] - samples[number][dimension.name]
        factor, rest = divmod(values[0] - values[number], change)
        if rest or factor < 0:
            return None
        terms.append(product_of(factor, Length(dimension.name)))
    return index_count(values, samples, [sum_of(*terms)])


def index_count(values: Sequence[int], samples: Sequence[Lengths], bases: Iterable[Count]) -> Count | None:
    """Return the index that has a value at each sample, a fixed number of places from the first base that explains it.

    None without such a base. bases: counts, such as 0 and the length of the axis.
    """
    for base in bases:
        away = {value - value_at(base, sample) for value, sample in zip(values, samples, strict=True)}
        if len(away) == 1:
            return sum_of(base, *away)
    return None


def lengths_text(lengths: Lengths, dimensions: Sequence[Dimension]) -> str:
    """Return the length 3, or the lengths batch=2 tokens=3. dimensions: at least those of the lengths."""
    elements = {each.name: lengths[each.name] * each.step for each in dimensions if each.name in lengths}
    if len(elements) == 1:
        return f"the length {next(iter(elements.values()))}"
    return "the lengths " + " ".join(f"{name}={length}" for name, length in elements.items())


def dimensions_text(dimensions: Sequence[Dimension]) -> str:
    """Return bounded dimension tokens (1 to 512), or bounded dimensions batch (1 to 8), tokens (1 to 512)."""
    return f"bounded dimension{'s' if len(dimensions) > 1 else ''} {', '.join(map(str, dimensions))}"


def remedy_text(dimensions: Sequence[Dimension], *, graphs_differ: bool = False) -> str:
    """Return what to give in place of ranges for which no library can be built.

    graphs_differ: the refusal is of graphs that differ between lengths, which those of long ranges do less.
    """
    lengths = " and ".join(",".join(map(str, dimension.bounds[:2])) for dimension in dimensions)
    place = "its place" if len(dimensions) == 1 else "their place"
    few = " and ".join(
        f"{_MANY * each.step} for {each.name}" for each in dimensions if graphs_differ and each.most < _MANY
    )
    longer = f"try a greatest length of {few}, with which graphs differ less, or " if few else ""
    return f"{longer}give a list of lengths in {place}, such as {lengths}, for a size of each (docs/lengths.md)"
