"""Matrices of Winograd's minimal filtering F(m, k), by the Cook-Toom construction in exact fractions.

m neighbouring outputs of a filter of k taps are A'[(G g) * (B' d)], where d are the m + k - 1 inputs, g the taps, and *
multiplies element by element. In two dimensions: A'[(G g G') * (B' d B)]A. Source: Lavin and Gray, "Fast Algorithms
for Convolutional Neural Networks" (CVPR 2016); Blahut, "Fast Algorithms for Signal Processing" (Cook-Toom).

The code for a matrix times a vector of values in registers has few operations, the same on every machine. The matrices
have pairs of rows, or columns, that differ only in signs (those of the points a and -a) and share sums. The other
operations are chains of additions and fused multiply-adds. Their order depends only on the matrix: it is computed once
per matrix, in exact fractions, and emitted for each row and column of a tile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.kernels.builder.emit import fma
from mavcg.kernels.builder.float_math import like
from mavcg.specs.kernel import Array

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]
# Interpolation points by the number of products, in addition to infinity. Points near 1 keep powers small, and opposite
# points share half of the sums; all squares and products are exact in f32. Among pairs of multiples of 1/8 up to 2,
# 5/8 and 3/2 have the least error for six products: a third of the error with 1 and 2.
POINTS: dict[int, tuple[Fraction, ...]] = {
    t: tuple(map(Fraction, points.split()))
    for t, points in {4: "0 1 -1", 6: "0 5/8 -5/8 3/2 -3/2", 8: "0 1 -1 2 -2 1/2 -1/2"}.items()
}


@dataclass(frozen=True)
class Filtering:
    """The matrices of F(m, k): inverse is A' [m, t], weights is G [t, k], inputs is B' [t, t]; t = m + k - 1."""

    m: int
    k: int
    inverse: Matrix
    weights: Matrix
    inputs: Matrix

    @property
    def t(self) -> int:
        """Number of inputs of a tile, which is also the number of products."""
        return self.m + self.k - 1


@cache
def filtering(m: int, k: int) -> Filtering:
    """Return the matrices of F(m, k) with interpolation points POINTS and infinity.

    Raises: ValueError where POINTS has no points for m + k - 1 products.
    """
    t = m + k - 1
    if m < 1 or k < 1 or t not in POINTS:
        raise ValueError(f"F({m}, {k}): m and k from 1, and {', '.join(map(str, POINTS))} products; it has {t}")
    points = POINTS[t]
    inverse = tuple(tuple(a**i for a in points) + (Fraction(int(i == m - 1)),) for i in range(m))
    weights, inputs = [], []
    for j, a in enumerate(points):
        others = [p for i, p in enumerate(points) if i != j]
        size = Fraction(1)
        for p in others:
            size *= a - p
        weights.append(tuple(a**i / size for i in range(k)))
        inputs.append(_product(others) + (Fraction(0),))
    weights.append(tuple(Fraction(int(i == k - 1)) for i in range(k)))
    inputs.append(_product(points))
    return Filtering(m, k, inverse, tuple(weights), tuple(inputs))


def _product(roots: tuple[Fraction, ...] | list[Fraction]) -> Row:
    """Return the coefficients of the product of (x - r) over the roots r, the lowest power first."""
    coefficients = [Fraction(1)]
    for root in roots:
        higher = [Fraction(0), *coefficients]
        lower = [*coefficients, Fraction(0)]
        coefficients = [high - root * low for high, low in zip(higher, lower, strict=True)]
    return tuple(coefficients)


def as_array(matrix: Matrix) -> Array:
    """Return a matrix of fractions as an array in double precision."""
    return np.array([[float(x) for x in row] for row in matrix])


def transform_weights(m: int, weights: Array, two_d: bool) -> Array:
    """Return weights [O, KH, KW, I] transformed in double precision: G g G' [t, t, O, I], along rows only [t, O, KH,
    I]."""
    g = as_array(filtering(m, weights.shape[2]).weights)
    across = np.einsum("tx,oyxi->toyi", g, weights.astype(np.float64))
    transformed: Array = np.einsum("sy,toyi->stoi", g, across) if two_d else across
    return transformed


Value: TypeAlias = ir.Value
Term = tuple[Fraction, int]
ONE = Fraction(1)


@dataclass(frozen=True)
class Operation:
    """An operation: fadd or fsub of two values, fneg of one, fmul of one by `factor`, or fma: first * factor + second.

    operands: numbers of values; inputs are numbered first, then the results of the operations.
    """

    kind: str
    operands: tuple[int, ...]
    factor: float = 1.0


@dataclass(frozen=True)
class OperationList:
    """The operations of a matrix times a vector of `inputs` values. results: numbers of the product's elements."""

    inputs: int
    operations: tuple[Operation, ...]
    results: tuple[int, ...]

    def times(self, b: ir.IRBuilder, values: Sequence[Value]) -> list[Value]:
        """Emit matrix * values; each value is an f32 vector or scalar."""
        numbered = list(values)
        assert len(numbered) == self.inputs
        for operation in self.operations:
            numbered.append(_emit(b, operation, [numbered[i] for i in operation.operands]))
        return [numbered[i] for i in self.results]


def _emit(b: ir.IRBuilder, operation: Operation, values: Sequence[Value]) -> Value:
    x = values[0]
    match operation.kind:
        case "fadd":
            return b.fadd(*values)
        case "fsub":
            return b.fsub(*values)
        case "fneg":
            return b.fneg(x)
        case "fmul":
            return b.fmul(x, like(x, operation.factor))
        case _:
            return fma(b, x, like(x, operation.factor), values[1])


@cache
def operations_of(matrix: Matrix) -> OperationList:
    """Return the operations that compute matrix * values."""
    writer = _OperationWriter(len(matrix[0]))
    twins = _twins(tuple(zip(*matrix, strict=True)))
    results = _by_columns(writer, matrix, twins) if twins else _by_rows(writer, matrix, _twins(matrix))
    return OperationList(writer.inputs, tuple(writer.operations), tuple(results))


class _OperationWriter:
    """A list of operations under construction."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.operations: list[Operation] = []

    def add(self, kind: str, *operands: int, factor: Fraction = ONE) -> int:
        """Append an operation; return the number of its result."""
        self.operations.append(Operation(kind, operands, float(factor)))
        return self.inputs + len(self.operations) - 1


def _twins(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Return disjoint pairs of rows that differ in the signs of some, but not all, elements."""
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    for i, row in enumerate(rows):
        for j in range(i + 1, len(rows)):
            later = rows[j]
            if {i, j} & taken or [abs(x) for x in row] != [abs(x) for x in later]:
                continue
            even = any(x == y != 0 for x, y in zip(row, later, strict=True))
            odd = any(x == -y != 0 for x, y in zip(row, later, strict=True))
            if even and odd:
                pairs.append((i, j))
                taken |= {i, j}
    return pairs


def _by_columns(writer: _OperationWriter, matrix: Matrix, twins: Sequence[tuple[int, int]]) -> list[int]:
    """Write the product by sum and difference of the values of each pair of columns, one of which each row uses."""
    both = {pair: (writer.add("fadd", *pair), writer.add("fsub", *pair)) for pair in twins}
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
                terms.append((coefficient, i))
        results.append(_write_sum(writer, terms))
    return results


def _by_rows(writer: _OperationWriter, matrix: Matrix, twins: Sequence[tuple[int, int]]) -> list[int]:
    """Write the product by the sum and difference of a pair of rows' common terms and terms with opposite signs."""
    results: dict[int, int] = {}
    for i, j in twins:
        even: list[Term] = []
        odd: list[Term] = []
        for value, (x, y) in enumerate(zip(matrix[i], matrix[j], strict=True)):
            if x:
                (even if x == y else odd).append((x, value))
        (even_scale, even_sum), (odd_scale, odd_sum) = _scaled_sum(writer, even), _scaled_sum(writer, odd)
        results[i] = _write_sum(writer, [(even_scale, even_sum), (odd_scale, odd_sum)])
        results[j] = _write_sum(writer, [(even_scale, even_sum), (-odd_scale, odd_sum)])
    for i, row in enumerate(matrix):
        if i not in results:
            results[i] = _write_sum(writer, [(x, value) for value, x in enumerate(row) if x])
    return [results[i] for i in range(len(matrix))]


def _scaled_sum(writer: _OperationWriter, terms: Sequence[Term]) -> tuple[Fraction, int]:
    """Write a sum divided by a factor s; return (s, number of the result). s makes most coefficients 1 or -1."""
    scales = (ONE, *(abs(c) for c, _ in terms))
    scale = max(scales, key=lambda s: sum(abs(c) == s for c, _ in terms))
    if any(c == -scale for c, _ in terms) and not any(c == scale for c, _ in terms):
        scale = -scale
    return scale, _write_sum(writer, [(c / scale, x) for c, x in terms])


def _write_sum(writer: _OperationWriter, terms: Sequence[Term]) -> int:
    """Write the sum of coefficient * value, beginning with a coefficient of 1 if possible; all are exact in f32."""
    ordered = sorted(terms, key=lambda term: (abs(term[0]) != 1, term[0] < 0))  # stable: 1, then -1, then the others
    coefficient, total = ordered[0]
    if coefficient == -1:
        total = writer.add("fneg", total)
    elif coefficient != 1:
        total = writer.add("fmul", total, factor=coefficient)
    for coefficient, value in ordered[1:]:
        if coefficient == 1:
            total = writer.add("fadd", total, value)
        elif coefficient == -1:
            total = writer.add("fsub", total, value)
        else:
            total = writer.add("fma", value, total, factor=coefficient)
    return total
