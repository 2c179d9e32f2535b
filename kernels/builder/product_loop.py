"""The one emitter of sums of products: a register tile of sums, to which each term adds left values times right values.

A data type is three callables: the loads of a term's left values, those of its right values, and the multiply-add.
Every family of products gives its own to a ProductLoop, which emits terms and loops over terms
(docs/add-a-data-type.md). A left value is multiplied with every right value of its term. What a value is, is the data
type's own affair: one number in all lanes, a vector, several groups of bytes, a small matrix.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Generic, TypeAlias, TypeVar

from llvmlite import ir

from mavcg.kernels.builder.emit import I8, Values, address, const, for_range, prefetch_line, scale_index
from mavcg.kernels.builder.run_numbers import Number, times

Value: TypeAlias = ir.Value
Step = TypeVar("Step")  # what the two loads need to find the operands of a term, or of terms multiplied at once
Place = TypeVar("Place")
# The values of a step; those of an iterator are emitted one by one, each just before it is multiplied.
Loads: TypeAlias = Callable[[Step], Iterable[Any]]
# multiply_add(sum, left value, right value, row, column) -> sum. sum: None where a run of terms begins without one.
MultiplyAdd: TypeAlias = Callable[[Any, Any, Any, int, int], Value]
# steps(index, count): emits the addresses of `count` terms from number `index` on, with prefetches and loads of several
# terms at once, step by step. index: an int where it is known.
Steps: TypeAlias = Callable[[Value | int, int], Iterable[Step]]

ROWS, COLUMNS, CHAINS = "row", "column", "chain"


@dataclass(frozen=True)
class SumTile:
    """A register tile of sums, one for each of `rows` left values and `columns` right values.

    holds_left: all left values of a step are loaded first, and its right values one by one; else vice versa. chains:
    partial sums of each output, to which steps add in turn. order: of the sums, outermost first.
    """

    rows: int
    columns: int
    holds_left: bool = False
    chains: int = 1
    order: tuple[str, str, str] = (CHAINS, ROWS, COLUMNS)

    def number(self, row: int, column: int, chain: int = 0) -> int:
        """Return the number of a sum."""
        sizes = {ROWS: self.rows, COLUMNS: self.columns, CHAINS: self.chains}
        position = {ROWS: row, COLUMNS: column, CHAINS: chain}
        number = 0
        for name in self.order:
            number = number * sizes[name] + position[name]
        return number


@dataclass(frozen=True)
class ProductLoop(Generic[Step]):
    """Emitter of the sums of a tile. left, right, multiply_add: the three callables of a data type."""

    b: ir.IRBuilder
    tile: SumTile
    left: Loads[Step]
    right: Loads[Step]
    multiply_add: MultiplyAdd

    def terms(self, steps: Iterable[Step], sums: Sequence[Value | None]) -> Values:
        """Emit steps without a loop; return the sums. sums: so far; None for those that begin with the first step."""
        tile, new = self.tile, list[Any](sums)
        for number, step in enumerate(steps):
            lefts, rights = self.left(step), self.right(step)
            held, streamed = (lefts, rights) if tile.holds_left else (rights, lefts)
            kept = tuple(held)
            for n, loaded in enumerate(streamed):
                for m, value in enumerate(kept):
                    row, left, column, right = (m, value, n, loaded) if tile.holds_left else (n, loaded, m, value)
                    i = tile.number(row, column, number % tile.chains)
                    new[i] = self.multiply_add(new[i], left, right, row, column)
        return tuple(new)

    def loop(
        self, begin: Value, end: Value, unroll: int, steps: Steps[Step], sums: Sequence[Value], name: str = "k"
    ) -> Values:
        """Emit a loop over the terms begin to end - 1, `unroll` per iteration, of which their number is a multiple."""

        def iteration(index: Value, carried: Values) -> Values:
            return self.terms(steps(index, unroll), carried)

        return for_range(self.b, begin, end, unroll, sums, iteration, name)

    def run(self, count: int, unroll: int, steps: Steps[Step], sums: Values | None) -> Values:
        """Emit `count` terms, `unroll` per iteration of a loop, and those that remain after it.

        sums: so far; None where the first terms begin them, which are emitted before the loop.
        """
        begun, whole = 0, count - count % unroll
        if sums is None:
            begun = min(count, unroll)
            tile = self.tile
            sums = self.terms(steps(0, begun), [None] * (tile.rows * tile.columns * tile.chains))
        if whole > begun:
            sums = self.loop(const(begun), const(whole), unroll, steps, sums)
        if count > max(whole, begun):
            sums = self.terms(steps(whole, count - whole), sums)
        return sums


def single_products(
    b: ir.IRBuilder,
    left: Callable[[Step], Value],
    right: Callable[[Step], Value],
    multiply_add: Callable[[Value, Value, Value], Value],
) -> ProductLoop[Step]:
    """Return the emitter of one sum, of one product a step. multiply_add(sum, left value, right value) -> sum."""
    return ProductLoop(
        b,
        SumTile(1, 1, holds_left=True),
        lambda step: (left(step),),
        lambda step: (right(step),),
        lambda total, x, y, row, column: multiply_add(total, x, y),
    )


def nested_loops(
    b: ir.IRBuilder,
    counts: Sequence[int],
    at: Place,
    move: Callable[[Place, int, Value], Place],
    inside: Callable[[Place, Values], Values],
    sums: Values,
    name: str = "tap",
) -> Values:
    """Emit loops of these counts, outermost first, around inside(place, sums); return the sums.

    move(place, level, index): the place of an iteration of a level, from that of the level.
    """

    def loop(level: int, here: Place, carried: Values) -> Values:
        def iteration(index: Value, inner: Values) -> Values:
            return loop(level + 1, move(here, level, index), inner)

        if level == len(counts):
            return inside(here, carried)
        return for_range(b, const(0), const(counts[level]), 1, carried, iteration, name)

    return loop(0, at, sums)


@dataclass(frozen=True)
class TermPointers:
    """Pointers to the left and to the right values of a term."""

    left: Value
    right: Value


def neighbouring_terms(
    b: ir.IRBuilder, first: Callable[[Value | int, int], TermPointers], left_bytes: int, right_bytes: int
) -> Steps[TermPointers]:
    """Return the steps of terms whose values lie next to each other.

    first(index, count): pointers of the first of `count` terms. left_bytes, right_bytes: of a term's values.
    """

    def steps(index: Value | int, count: int) -> Iterable[TermPointers]:
        at = first(index, count)
        return (
            TermPointers(address(b, at.left, n * left_bytes), address(b, at.right, n * right_bytes))
            for n in range(count)
        )

    return steps


@dataclass(frozen=True)
class SumPosition:
    """A position within the loops of a sum over an image: pointer to the inputs, and number of the term."""

    inputs: Value
    term: Value

    def panel(self, b: ir.IRBuilder, weights: Value, term_bytes: int) -> Value:
        """Return the pointer to the term's weights. weights: pointer to those of the first term."""
        return address(b, weights, scale_index(b, self.term, term_bytes), "panel")


def window_loops(
    b: ir.IRBuilder,
    levels: Sequence[tuple[int, Number]],
    run_terms: int,
    inputs: Value,
    run: Callable[[SumPosition, Values], Values],
    sums: Values,
    first_term: Value | None = None,
) -> Values:
    """Emit the loops over the taps of a window around run(position, sums), which adds a run of contiguous inputs.

    levels: (count, step in bytes), outermost first. run_terms: number of terms of a run. first_term: number of the
    first term; None: 0.
    """
    counts = [count for count, _ in levels]

    def move(at: SumPosition, level: int, index: Value) -> SumPosition:
        inside = prod(counts[level + 1 :]) * run_terms
        first = address(b, at.inputs, times(b, index, levels[level][1]), "taps")
        return SumPosition(first, b.add(at.term, scale_index(b, index, inside)))

    return nested_loops(b, counts, SumPosition(inputs, first_term or const(0)), move, run, sums)


def term_address(b: ir.IRBuilder, base: Value, index: Value | int, step: int, name: str) -> Value:
    """Return base + index * step. name: of an address that is computed in a loop, where the index is no int."""
    if isinstance(index, int):
        return address(b, base, index * step)
    return address(b, base, scale_index(b, index, step), name)


def prefetch(b: ir.IRBuilder, base: ir.Value, offset_bytes: int) -> None:
    """Emit a prefetch of the cache line at base + offset_bytes, which may be invalid."""
    # Without inbounds, as the address may lie outside of the memory that base points into.
    prefetch_line(b, b.gep(base, [const(offset_bytes)], name="ahead", source_etype=I8))
