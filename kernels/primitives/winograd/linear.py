"""Code for a constant matrix times a vector of values in registers, in few operations, the same on every machine.

Winograd's matrices have pairs of rows, or columns, that differ only in signs (those of the points a and -a) and share
sums. The other operations are chains of additions and fused multiply-adds. Their order depends only on the matrix: it
is computed once per matrix, in exact fractions, and emitted for each row and column of a tile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import fma
from mavcg.kernels.builder.float_math import like
from mavcg.kernels.primitives.winograd.matrices import Matrix, Row

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
