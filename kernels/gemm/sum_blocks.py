"""A sum cut into blocks of neighbouring terms, in order: loops around whatever is done with each block."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import const, repeat, scale_index
from mavcg.kernels.gemm.tile import Part, Sum

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class SumBlock:
    """Some terms: their loops, where they begin in the inputs (bytes) and among all terms; part is None for all."""

    total: Sum
    in_bytes: Value
    first_term: Value
    part: Part | None


def cut_at(total: Sum, kc: int | None) -> tuple[int, int] | None:
    """Return (which level is cut, how many of its iterations a block has); None where a block is the whole sum.

    A block is at most kc terms (None: all of them), and at least one iteration of the innermost level.
    """
    if kc is None or kc >= total.length:
        return None
    inside = 1
    for number in range(len(total.levels) - 1, -1, -1):
        count, _ = total.levels[number]
        if kc < inside * count:
            return number, max(1, kc // inside)
        inside *= count
    return None


def block_terms(total: Sum, kc: int | None) -> tuple[int, ...]:
    """Return the terms of a whole block, then those of the shorter last one where there is any."""
    cut = cut_at(total, kc)
    if cut is None:
        return (total.length,)
    number, iterations = cut
    inside = Sum(total.levels[number + 1 :]).length
    rest = total.levels[number][0] % iterations
    return (iterations * inside, rest * inside) if rest else (iterations * inside,)


def sum_blocks(b: ir.IRBuilder, total: Sum, kc: int | None, body: Callable[[SumBlock], None]) -> None:
    """Emit body(block) for each block, in the order of the terms."""
    cut = cut_at(total, kc)
    if cut is None:
        body(SumBlock(total, const(0), const(0), None))
        return
    number, iterations = cut

    def block(levels: tuple[tuple[int, int], ...], in_bytes: Value, first: Value) -> None:
        piece = Sum(levels)
        last = b.icmp_signed("==", first, const(total.length - piece.length))
        body(SumBlock(piece, in_bytes, first, Part(b.icmp_signed("==", first, const(0)), last)))

    def nest(level: int, in_bytes: Value, first: Value) -> None:
        count, step = total.levels[level]
        inside = Sum(total.levels[level + 1 :]).length

        def iteration(index: Value, then: Callable[[Value, Value], None]) -> None:
            then(b.add(in_bytes, scale_index(b, index, step)), b.add(first, scale_index(b, index, inside)))

        if level < number:
            repeat(b, 0, count, lambda i: iteration(i, lambda x, k: nest(level + 1, x, k)), "tap")
            return
        deeper, whole = total.levels[level + 1 :], count // iterations * iterations
        repeat(
            b,
            0,
            whole,
            lambda i: iteration(i, lambda x, k: block(((iterations, step), *deeper), x, k)),
            "terms",
            iterations,
        )
        if count > whole:
            iteration(const(whole), lambda x, k: block(((count - whole, step), *deeper), x, k))

    nest(0, const(0), const(0))
