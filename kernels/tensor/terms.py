"""Loops over the terms of a reduction: in order, or in partial results that are combined at the end.

Lengths and strides of the loops may be known in a run only; the order of the terms is then that of a kernel for these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from llvmlite import ir

from mavcg.graph import DTYPES
from mavcg.kernels.builder.emit import I32, TYPES, Values, address, const, for_range, index_value, scale_index, vector
from mavcg.kernels.builder.lanes import load_lanes, shuffle
from mavcg.kernels.builder.nest import Nest, NestNumbers
from mavcg.kernels.builder.nest_loops import decode
from mavcg.kernels.builder.run_numbers import fixed_number, times

Value: TypeAlias = ir.Value
Combine = Callable[[ir.IRBuilder, Value, Value], Value]
PARTS = 16  # partial results of a reduction along the last axis; lane i takes terms i, i + 16, ...
POOL_PARTS = 4  # of a mean of f32 along the outputs: term i is in part i % 4; onnxruntime's global average pool


@dataclass(frozen=True)
class Reduction:
    """A reduction of one output's terms. combine: of two values. start: its identity.

    parts: partial results, in one vector, along a contiguous last axis; a power of 2. neighbours: after the upper half
    of the partial results was combined with the lower one, neighbours are combined, as horizontal additions do;
    otherwise halves to the end. partial: type of partial results; None: the elements' type.
    """

    combine: Combine
    start: Any
    parts: int = PARTS
    neighbours: bool = False
    partial: ir.Type | None = None


def walk(
    b: ir.IRBuilder,
    nest: Nest,
    size: int,
    pointer: Value,
    acc: Values,
    term: Callable[[Value, Values], Values],
    numbers: NestNumbers | None = None,
) -> Values:
    """Emit acc = term(address, acc) for every point of the nest in row-major order; return the final acc.

    numbers: lengths and strides of the nest, if a run sets some.
    """
    numbers = numbers or NestNumbers(nest.shape, nest.strides)
    lengths, strides = numbers.shape, numbers.strides[0]

    def level(axis: int, at: Value, acc: Values) -> Values:
        if axis == len(lengths):
            return term(at, acc)

        def iteration(index: Value, carried: Values) -> Values:
            return level(axis + 1, address(b, at, times(b, index, strides[axis], size)), carried)

        return for_range(b, const(0), index_value(lengths[axis]), 1, acc, iteration, f"term_{axis}")

    return level(0, pointer, acc)


def walk_in_parts(
    b: ir.IRBuilder,
    nest: Nest,
    size: int,
    pointer: Value,
    starts: Values,
    term: Callable[[Value, Values], Values],
    numbers: NestNumbers | None = None,
) -> Values:
    """Emit a sum of the terms of a nest, in POOL_PARTS partial sums that are added by halves; the rest is added last.

    starts: zeros, of the types of the sums. term: adds the term at an address to sums. numbers: as of `walk`.
    """
    whole, count = nest.elements // POOL_PARTS * POOL_PARTS, len(starts)
    end, whole_end = const(nest.elements), const(whole)
    if numbers is not None:
        end = number_of_terms(b, numbers)
        whole_end = b.sub(end, b.urem(end, const(POOL_PARTS)), name="whole")
    known = numbers or NestNumbers(nest.shape, nest.strides)

    def term_at(index: Value, acc: Values) -> Values:
        at = pointer
        for i, stride in zip(decode(b, index, known.shape), known.strides[0], strict=True):
            at = address(b, at, times(b, i, stride, size))
        return term(at, acc)

    def group(index: Value, acc: Values) -> Values:
        sums: Values = ()
        for part in range(POOL_PARTS):
            sums += term_at(b.add(index, const(part)), tuple(acc[part * count : (part + 1) * count]))
        return sums

    acc = for_range(b, const(0), whole_end, POOL_PARTS, tuple(starts) * POOL_PARTS, group, "group")
    while len(acc) > count:
        half = len(acc) // 2
        acc = tuple(b.fadd(x, y) for x, y in zip(acc[:half], acc[half:], strict=True))
    if numbers is not None:
        return for_range(b, whole_end, end, 1, acc, term_at, "rest")
    for index in range(whole, nest.elements):
        acc = term_at(const(index), tuple(acc))
    return tuple(acc)


def number_of_terms(b: ir.IRBuilder, numbers: NestNumbers) -> Value:
    """Return the number of points of a nest."""
    total: Value = const(1)
    for length in numbers.shape:
        total = times(b, total, length)
    return total


def total_of(
    b: ir.IRBuilder,
    nest: Nest,
    dtype: str,
    pointer: Value,
    reduction: Reduction,
    term: Callable[[Value], Value] = lambda value: value,
    numbers: NestNumbers | None = None,
) -> Value:
    """Return the reduction of all terms of one output, in partial results if the innermost loop is contiguous.

    term: maps an element, or a vector of elements, to terms. numbers: as of `walk`; not the stride of the innermost
    loop.
    """
    typ, size = TYPES[dtype], DTYPES[dtype].itemsize
    combine, count, partial = reduction.combine, reduction.parts, reduction.partial or typ
    length, known = nest.shape[-1], numbers or NestNumbers(nest.shape, nest.strides)
    in_run = known.shape[-1]

    def in_order() -> Value:
        def next_term(at: Value, acc: Values) -> Values:
            return (combine(b, acc[0], term(b.load(at, align=size, typ=typ))),)

        (value,) = walk(b, nest, size, pointer, (ir.Constant(partial, reduction.start),), next_term, known)
        return value

    if nest.strides[0][-1] != 1 or (length < count and fixed_number(in_run) is not None):
        return in_order()
    parts, starts = vector(typ, count), (ir.Constant(vector(partial, count), [reduction.start] * count),)
    outer = Nest(nest.shape[:-1] or (1,), ((nest.strides[0][:-1] or (0,)),))
    outer_numbers = NestNumbers(known.shape[:-1] or (1,), (known.strides[0][:-1] or (0,),))
    if fixed_number(in_run) is None:
        with b.if_else(b.icmp_signed("<", in_run, const(count))) as (is_short, is_long):
            with is_short:
                short, short_block = in_order(), b.block
            with is_long:
                line = _line_in_parts(b, dtype, reduction, term, in_run)
                (sums,) = walk(b, outer, size, pointer, starts, line, outer_numbers)
                long, long_block = _of_parts(b, reduction, sums), b.block
        total = b.phi(partial, name="total")
        total.add_incoming(short, short_block)
        total.add_incoming(long, long_block)
        return total
    whole, rest = length // count * count, length % count

    def run(at: Value, acc: Values) -> Values:
        def iteration(index: Value, carried: Values) -> Values:
            there = address(b, at, scale_index(b, index, size))
            return (combine(b, carried[0], term(b.load(there, align=size, typ=parts))),)

        (value,) = for_range(b, const(0), const(whole), count, acc, iteration, "part")
        if rest:
            loaded = term(load_lanes(b, address(b, at, whole * size), typ, count, rest))
            lanes = [i if i < rest else count + i for i in range(count)]
            value = combine(b, value, shuffle(b, loaded, ir.Constant(loaded.type, [reduction.start] * count), lanes))
        return (value,)

    (value,) = walk(b, outer, size, pointer, starts, run, outer_numbers)
    return _of_parts(b, reduction, value)


def _line_in_parts(
    b: ir.IRBuilder, dtype: str, reduction: Reduction, term: Callable[[Value], Value], length: Value
) -> Callable[[Value, Values], Values]:
    """Return what adds neighbouring terms from an address on, whose number is known in a run only, to partial
    results."""
    typ, size, count = TYPES[dtype], DTYPES[dtype].itemsize, reduction.parts
    parts, whole = vector(typ, count), b.sub(length, b.urem(length, const(count)), name="whole")
    none = ir.Constant(vector(reduction.partial or typ, count), [reduction.start] * count)

    def line(pointer: Value, acc: Values) -> Values:
        def add(index: Value, carried: Values) -> Values:
            there = address(b, pointer, scale_index(b, index, size))
            return (reduction.combine(b, carried[0], term(b.load(there, align=size, typ=parts))),)

        def insert(index: Value, carried: Values) -> Values:
            loaded = term(b.load(address(b, pointer, scale_index(b, index, size)), align=size, typ=typ))
            return (b.insert_element(carried[0], loaded, b.trunc(b.sub(index, whole), I32)),)

        (value,) = for_range(b, const(0), whole, count, acc, add, "part")
        (rest,) = for_range(b, whole, length, 1, (none,), insert, "rest")
        return (reduction.combine(b, value, rest),)

    return line


def _of_parts(b: ir.IRBuilder, reduction: Reduction, value: Value) -> Value:
    """Return the reduction of partial results."""
    width = reduction.parts
    while width > 1:
        pairs = reduction.neighbours and width < reduction.parts
        first, second = (
            (range(0, width, 2), range(1, width, 2)) if pairs else (range(width // 2), range(width // 2, width))
        )
        value = reduction.combine(b, shuffle(b, value, value, first), shuffle(b, value, value, second))
        width //= 2
    return b.extract_element(value, const(0, I32))
