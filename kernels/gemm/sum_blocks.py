"""Loops over blocks of terms of a sum (KC blocking), in the order of the terms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import const, repeat, scale_index
from mavcg.kernels.gemm.tile import Part, Sum

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class SumBlock:
    """A block of neighbouring terms of a sum.

    total: the loops over its terms. in_bytes: offset of its first input. first_term: number of its first term. part:
    its position in the whole sum; None where it is the whole sum.
    """

    total: Sum
    in_bytes: Value
    first_term: Value
    part: Part | None


def cut_at(total: Sum, kc: int | None) -> tuple[int, int] | None:
    """Return (number of the loop level that is cut, its iterations per block); None where a block is the whole sum.

    A block has at most kc terms (None: any number), and at least one iteration of the innermost level.
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
    """Return (terms of a whole block, terms of a shorter last block if there is one)."""
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

        def iteration(index: Value, inner: Callable[[Value, Value], None]) -> None:
            inner(b.add(in_bytes, scale_index(b, index, step)), b.add(first, scale_index(b, index, inside)))

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
