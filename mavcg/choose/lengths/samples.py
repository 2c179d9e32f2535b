"""Counts found from numbers that were seen at some lengths of the bounded dimensions."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from mavcg.specs.count import Count, Length, product_of, value_at
from mavcg.specs.dimension import Dimension

Lengths = Mapping[str, int]


def lengths_text(lengths: Lengths) -> str:
    """Return the length 3, or the lengths batch=2 tokens=3."""
    if len(lengths) == 1:
        return f"the length {next(iter(lengths.values()))}"
    return "the lengths " + " ".join(f"{name}={length}" for name, length in lengths.items())


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
