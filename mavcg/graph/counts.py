"""Numbers that follow from the lengths of a run's bounded dimensions: rows of a step, lengths of an axis, strides.

A count is an int, which is the same in every run, or a tree of the classes below; its leaves are ints and `Length`.
`value_at` computes it from lengths, `text_of` writes it as text such as `(tokens + 2) / 2`, or as C, `extent_of` proves
what it can become. The engine computes all counts of a program once for each set of lengths (runtime/count_tables.py).

A new form, such as a maximum, is a frozen dataclass here that is part of `Count`, a constructor that simplifies, and a
case in each of `value_at`, `text_of`, `parts_of` and `bounds_of`. Counts of rows and axes have to grow with each
length, or stay, which `extent_of` proves: that is what makes the counts of the longest lengths, for which memory is
planned, the largest ones. A cycle does not grow, and so is only part of numbers that kernels read, such as pads. What
finds the count of numbers that were seen at some lengths is choose/lengths/samples.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import TypeAlias

from mavcg.errors import MavcgError

_MOST = 1 << 62  # every number on the way to a count; 64-bit sums of two such do not overflow


@dataclass(frozen=True)
class Dimension:
    """A dimension of inputs and outputs whose length is known in a run only (docs/lengths.md).

    step: of which its lengths are multiples; counts follow from the number of steps, so that what a network divides by
    a divisor of the step has no remainder. least, most: bounds of that number, both included; most is at least 1.
    """

    name: str
    least: int
    most: int
    step: int = 1

    @property
    def least_read(self) -> int:
        """The least number for which a file is read: tensors without elements are left out of graphs."""
        return max(1, self.least)

    @property
    def bounds(self) -> tuple[int, ...]:
        """Bounds of the length, and the step, unless that is 1: (1, 512) or (32, 512, 32)."""
        return (self.least * self.step, self.most * self.step, *([self.step] if self.step > 1 else []))

    def __str__(self) -> str:
        return f"{self.name} ({bounds_words(*self.bounds)})"


def bounds_words(least: int, most: int, step: int = 1) -> str:
    """Return the bounds of a length as text: 1 to 512, or 32 to 512 in steps of 32."""
    return f"{least} to {most}" + (f" in steps of {step}" if step > 1 else "")


@dataclass(frozen=True)
class Length:
    """The length of the dimension of this name, in its steps."""

    name: str


@dataclass(frozen=True)
class CountSum:
    """A sum, of which at most the last term is an int, negative or not, but not 0. Made by sum_of."""

    terms: tuple["Count", ...]


@dataclass(frozen=True)
class CountProduct:
    """A product, of which at most the first factor is an int, 2 or more. Made by product_of."""

    factors: tuple["Count", ...]


@dataclass(frozen=True)
class CountQuotient:
    """A quotient by an int of 2 or more, rounded down. Made by quotient_of."""

    count: "Count"
    divisor: int


@dataclass(frozen=True)
class CountCycle:
    """A number that follows from a remainder: values[count % len(values)]. None is negative. Made by cycle_of."""

    count: "Count"
    values: tuple[int, ...]


Count: TypeAlias = int | Length | CountSum | CountProduct | CountQuotient | CountCycle


def sum_of(*terms: Count) -> Count:
    """Return the sum of counts."""
    flat = [inner for term in terms for inner in _terms(term)]
    constant = sum(term for term in flat if isinstance(term, int))
    others = [term for term in flat if is_symbolic(term)]
    kept = (*sorted(others, key=text_of), *([constant] if constant else []))
    return CountSum(kept) if len(kept) > 1 else kept[0] if kept else 0


def product_of(*factors: Count) -> Count:
    """Return the product of counts, of which no int is negative."""
    flat = [inner for factor in factors for inner in _factors(factor)]
    constant = prod(factor for factor in flat if isinstance(factor, int))
    others = sorted((factor for factor in flat if is_symbolic(factor)), key=text_of)
    kept = (*([constant] if constant != 1 else []), *others)
    if not constant or not kept:
        return constant
    return CountProduct(kept) if len(kept) > 1 else kept[0]


def quotient_of(count: Count, divisor: int) -> Count:
    """Return a count divided by a number of 1 or more, rounded down: (32 * n + 1) / 2 is 16 * n."""
    if isinstance(count, int):
        return count // divisor
    *terms, last = _terms(count)
    constant, terms = (last, terms) if isinstance(last, int) else (0, [*terms, last])
    common = gcd(divisor, factor_of(count))
    if common > 1:  # the constant's remainder is less than what all others are multiples of
        parts = (product_of(factor_of(term) // common, *_others(term)) for term in terms)
        return quotient_of(sum_of(*parts, constant // common), divisor // common)
    return CountQuotient(count, divisor) if divisor > 1 else count


def cycle_of(count: Count, values: Sequence[int]) -> Count:
    """Return values[count % len(values)]."""
    if isinstance(count, int):
        return values[count % len(values)]
    return CountCycle(count, tuple(values)) if len(set(values)) > 1 else values[0]


def factor_of(count: Count) -> int:
    """Return a number by a multiple of which a count changes with the lengths: 32 for 32 * n + 1; 0 for an int."""
    match count:
        case int():
            return 0
        case CountSum():
            return gcd(*map(factor_of, count.terms))
        case CountProduct((int(factor), *_)):
            return factor
    return 1


def _terms(count: Count) -> tuple[Count, ...]:
    """Return the terms of a count; one that is no sum is its only term."""
    return count.terms if isinstance(count, CountSum) else (count,)


def _factors(count: Count) -> tuple[Count, ...]:
    """Return the factors of a count; one that is no product is its only factor."""
    return count.factors if isinstance(count, CountProduct) else (count,)


def _others(count: Count) -> tuple[Count, ...]:
    """Return the factors of a count that are no ints."""
    return tuple(factor for factor in _factors(count) if is_symbolic(factor))


def is_symbolic(count: Count) -> bool:
    """Return True for a count that follows from the lengths of a run; False for one that is the same in all runs."""
    return not isinstance(count, int)


def value_at(count: Count, lengths: Mapping[str, int]) -> int:
    """Return a count at some lengths of the dimensions, by name."""
    match count:
        case int():
            return count
        case Length():
            return lengths[count.name]
        case CountSum():
            return sum(value_at(term, lengths) for term in count.terms)
        case CountProduct():
            return prod(value_at(factor, lengths) for factor in count.factors)
        case CountQuotient():
            return value_at(count.count, lengths) // count.divisor
        case CountCycle():
            return count.values[value_at(count.count, lengths) % len(count.values)]


def text_of(count: Count, name: Callable[[str], str] = str) -> str:
    """Return a count as text, which is an expression of C, too, where no quotient is of a negative number.

    name: what stands for the length of a dimension.
    """
    match count:
        case int():
            return str(count)
        case Length():
            return name(count.name)
        case CountSum():
            first, *others = (text_of(term, name) for term in count.terms)
            return first + "".join(f" - {each[1:]}" if each[0] == "-" else f" + {each}" for each in others)
        case CountProduct():
            return " * ".join(_inside(factor, name) for factor in count.factors)
        case CountQuotient():
            return f"{_inside(count.count, name)} / {count.divisor}"
        case CountCycle():
            remainder = f"{_inside(count.count, name)} % {len(count.values)}"
            terms = ((value, f"({remainder} == {i})") for i, value in enumerate(count.values) if value)
            return " + ".join(text if value == 1 else f"{value} * {text}" for value, text in terms)


def _inside(count: Count, name: Callable[[str], str]) -> str:
    """Return the text of an operand of a product or quotient."""
    text = text_of(count, name)
    return f"({text})" if isinstance(count, CountSum | CountProduct | CountQuotient | CountCycle) else text


def parts_of(count: Count) -> Iterator[Count]:
    """Yield a count and all counts that it is computed from."""
    yield count
    inner: tuple[Count, ...] = ()
    match count:
        case CountSum():
            inner = count.terms
        case CountProduct():
            inner = count.factors
        case CountQuotient() | CountCycle():
            inner = (count.count,)
    for part in inner:
        yield from parts_of(part)


def in_elements(count: Count, dimensions: Sequence[Dimension]) -> Count:
    """Return a count by the lengths of dimensions in place of their steps, for its text: height / 2 for 16 * height."""
    match count:
        case int():
            return count
        case CountSum():
            return sum_of(*(in_elements(term, dimensions) for term in count.terms))
        case CountQuotient():
            return quotient_of(in_elements(count.count, dimensions), count.divisor)
        case CountCycle():
            return cycle_of(in_elements(count.count, dimensions), count.values)
    steps = {dimension.name: dimension.step for dimension in dimensions}
    others = _others(count)
    unit = prod(steps[each.name] for each in others if isinstance(each, Length))
    common = gcd(unit, factor_of(count))
    parts = (each if isinstance(each, Length) else in_elements(each, dimensions) for each in others)
    return quotient_of(product_of(factor_of(count) // common, *parts), unit // common)


def lengths_in(count: Count) -> frozenset[str]:
    """Return the names of the dimensions that a count follows from; none for an int."""
    return frozenset(part.name for part in parts_of(count) if isinstance(part, Length))


def affine_of(count: Count) -> tuple[int, int] | None:
    """Return (factor, addend) of a count that is factor * length + addend of one dimension; None for another."""
    match count:
        case Length():
            return 1, 0
        case CountProduct((int(factor), Length())):
            return factor, 0
        case CountSum((inner, int(addend))) if (affine := affine_of(inner)) is not None:
            return affine[0], affine[1] + addend
    return None


def extent_of(count: Count, dimensions: Sequence[Dimension]) -> tuple[int, int]:
    """Return a count at the least and at the most lengths: the bounds of what it can be.

    Raises: MavcgError unless it provably grows with each length, or stays, and as bounds_of.
    """
    if any(isinstance(part, CountCycle) for part in parts_of(count)):
        raise MavcgError(f"the count {text_of(count)} follows from a remainder, so it does not grow with the lengths")
    return bounds_of(count, dimensions)


def bounds_of(count: Count, dimensions: Sequence[Dimension]) -> tuple[int, int]:
    """Return the least and the largest number that a count can be. Raises: MavcgError if a number on the way
    overflows, or may be negative in a product or quotient."""
    bounds = {dimension.name: (dimension.least, dimension.most) for dimension in dimensions}
    return _extent(count, bounds)


def _extent(count: Count, bounds: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    match count:
        case int():
            least = most = count
        case Length():
            if count.name not in bounds:
                raise MavcgError(f"the count {text_of(count)} is of a dimension that the program does not have")
            least, most = bounds[count.name]
        case CountSum():
            ends = [_extent(term, bounds) for term in count.terms]
            least, most = sum(low for low, _ in ends), sum(high for _, high in ends)
        case CountProduct():
            ends = [_not_negative(factor, bounds) for factor in count.factors]
            least, most = prod(low for low, _ in ends), prod(high for _, high in ends)
        case CountQuotient():
            least, most = (end // count.divisor for end in _not_negative(count.count, bounds))
        case CountCycle():
            _not_negative(count.count, bounds)
            least, most = min(count.values), max(count.values)
    if max(-least, most) > _MOST:
        raise MavcgError(f"the count {text_of(count)} becomes {most}; at most {_MOST} is computed")
    return least, most


def _not_negative(count: Count, bounds: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Return the extent of a part, whose product and quotient grow with it. Raises: MavcgError for a negative one."""
    ends = _extent(count, bounds)
    if ends[0] < 0:
        raise MavcgError(f"the count {text_of(count)} becomes {ends[0]} at the least lengths, in a product or quotient")
    return ends
