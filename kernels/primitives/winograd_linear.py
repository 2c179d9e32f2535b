"""A constant matrix times a vector of values in registers, in few operations that are the same on every machine.

Winograd's matrices have rows, or columns, that differ in signs only (those of the points a and -a): these share their
sums. What is left is chains of additions and fused multiply-adds, in an order that the matrix alone decides.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.emit import fma
from mavcg.kernels.float_math import like
from mavcg.kernels.primitives.winograd_matrices import Matrix, Row

Value: TypeAlias = ir.Value
Term = tuple[Fraction, Value]
ONE = Fraction(1)


def times(b: ir.IRBuilder, matrix: Matrix, values: Sequence[Value]) -> list[Value]:
    """matrix * values, each an f32 vector or scalar."""
    twins = _twins(tuple(zip(*matrix, strict=True)))
    return _by_columns(b, matrix, values, twins) if twins else _by_rows(b, matrix, values, _twins(matrix))


def _twins(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Pairs of rows that are equal but for signs, of which some but not all differ; each row in one pair at most."""
    found: list[tuple[int, int]] = []
    taken: set[int] = set()
    for i, one in enumerate(rows):
        for j in range(i + 1, len(rows)):
            other = rows[j]
            if {i, j} & taken or [abs(x) for x in one] != [abs(x) for x in other]:
                continue
            even = any(x == y != 0 for x, y in zip(one, other, strict=True))
            odd = any(x == -y != 0 for x, y in zip(one, other, strict=True))
            if even and odd:
                found.append((i, j))
                taken |= {i, j}
    return found


def _by_columns(
    b: ir.IRBuilder, matrix: Matrix, values: Sequence[Value], twins: Sequence[tuple[int, int]]
) -> list[Value]:
    """Sum and difference of the values of each pair of columns first: every row wants one of them."""
    both = {pair: (b.fadd(*(values[i] for i in pair)), b.fsub(*(values[i] for i in pair))) for pair in twins}
    partner = dict(twins)
    seconds = set(partner.values())
    results = []
    for row in matrix:
        terms = []
        for i, coefficient in enumerate(row):
            if i in seconds or not coefficient:
                continue
            if i in partner:
                total, difference = both[i, partner[i]]
                terms.append((coefficient, total if row[partner[i]] == coefficient else difference))
            else:
                terms.append((coefficient, values[i]))
        results.append(combine(b, terms))
    return results


def _by_rows(b: ir.IRBuilder, matrix: Matrix, values: Sequence[Value], twins: Sequence[tuple[int, int]]) -> list[Value]:
    """What two rows agree in and what they differ in, then sum and difference of these."""
    results: dict[int, Value] = {}
    for i, j in twins:
        even: list[Term] = []
        odd: list[Term] = []
        for x, y, value in zip(matrix[i], matrix[j], values, strict=True):
            if x:
                (even if x == y else odd).append((x, value))
        (even_scale, even_sum), (odd_scale, odd_sum) = _scaled_sum(b, even), _scaled_sum(b, odd)
        results[i] = combine(b, [(even_scale, even_sum), (odd_scale, odd_sum)])
        results[j] = combine(b, [(even_scale, even_sum), (-odd_scale, odd_sum)])
    for i, row in enumerate(matrix):
        if i not in results:
            results[i] = combine(b, [(x, value) for x, value in zip(row, values, strict=True) if x])
    return [results[i] for i in range(len(matrix))]


def _scaled_sum(b: ir.IRBuilder, terms: Sequence[Term]) -> tuple[Fraction, Value]:
    """(s, x) whose product is the sum: with s taken out as many coefficients as can be are 1 or -1."""
    scales = (ONE, *(abs(c) for c, _ in terms))
    scale = max(scales, key=lambda s: sum(abs(c) == s for c, _ in terms))
    if any(c == -scale for c, _ in terms) and not any(c == scale for c, _ in terms):
        scale = -scale
    return scale, combine(b, [(c / scale, x) for c, x in terms])


def combine(b: ir.IRBuilder, terms: Sequence[Term]) -> Value:
    """The sum of coefficient * value, beginning with a coefficient 1 where there is one; all are exact f32s."""
    ordered = sorted(terms, key=lambda term: (abs(term[0]) != 1, term[0] < 0))  # stable: 1, -1, then the others
    coefficient, total = ordered[0]
    if coefficient == -1:
        total = b.fneg(total)
    elif coefficient != 1:
        total = b.fmul(total, like(total, float(coefficient)))
    for coefficient, value in ordered[1:]:
        if coefficient == 1:
            total = b.fadd(total, value)
        elif coefficient == -1:
            total = b.fsub(total, value)
        else:
            total = fma(b, value, like(value, float(coefficient)), total)
    return total
