"""Blocks of neighbouring terms of a sum, which are computed one after the other, in the order of the terms.

f32 sums are cut where a macro-tile says so (KC blocking): the partial sums lie in the output, and all cuts give the
same bits. f16 sums are cut where their loops say so (group_cut, half_cut), as the cuts decide the roundings: products
are added in f16 within a block, blocks in f16 within a group, groups in f32.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.arithmetic import widen_half
from mavcg.kernels.builder.emit import F32, Values, const, for_range, scale_index, with_element
from mavcg.kernels.builder.run_numbers import times
from mavcg.kernels.gemm.loop_shape import F16_BLOCK_TERMS, F16_GROUP_TERMS, F16_TERMS
from mavcg.kernels.gemm.tile import Part, Sum
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value
# (number of the loop level that is cut, its iterations per block)
SumCut: TypeAlias = tuple[int, int]


def cut_at(total: Sum, kc: int | None) -> SumCut | None:
    """Return where a sum is cut into blocks of neighbouring terms; None where a block is the whole sum.

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


def half_cut(total: Sum) -> SumCut | None:
    """Return where an f16 sum is cut into blocks; None where it is one block.

    Equal blocks of at least half of the most terms are taken where there are any: their loop needs no code for a
    shorter last block. They are whole iterations of a loop by F16_TERMS terms.
    """
    cut = cut_at(total, F16_BLOCK_TERMS)
    if cut is None:
        return None
    number, iterations = cut
    count, inside = total.levels[number][0], Sum(total.levels[number + 1 :]).length
    even = [n for n in range(iterations, iterations // 2, -1) if count % n == 0 and n * inside % F16_TERMS == 0]
    return number, even[0] if even else iterations


def group_cut(total: Sum) -> SumCut | None:
    """Return where an f16 sum is cut into groups of blocks; None where it is one group.

    Equal groups are taken where there are any of more terms than a block's.
    """
    cut = cut_at(total, F16_GROUP_TERMS)
    if cut is None:
        return None
    number, iterations = cut
    count, inside = total.levels[number][0], Sum(total.levels[number + 1 :]).length
    even = [n for n in range(iterations, 0, -1) if count % n == 0 and n * inside > F16_BLOCK_TERMS]
    return number, even[0] if even else iterations


def begins_with_products(machine: Machine, total: Sum, block: Sum) -> bool:
    """Return True if a block of an f16 sum begins with its first products, without zeros.

    The bits are the same, as blocks are added to a sum from +0 on; a sum of one block would be -0 where it is +0
    from zeros on. It saves an instruction of each register on cores whose vector units are the bound; in-order
    cores move it beside others, and overlap all iterations of the loop.
    """
    several = half_cut(total) is not None or group_cut(total) is not None
    return machine.arch == "aarch64" and not machine.in_order and several and len(block.levels) == 1


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


def sum_blocks(b: ir.IRBuilder, total: Sum, kc: int | None, body: Callable[[SumBlock], None]) -> None:
    """Emit body(block) for each block of at most kc terms, in the order of the terms."""

    def with_part(block: SumBlock, _: Values) -> Values:
        if cut is not None:
            last = b.icmp_signed("==", block.first_term, const(total.length - block.total.length))
            block = replace(block, part=Part(b.icmp_signed("==", block.first_term, const(0)), last))
        body(block)
        return ()

    cut = cut_at(total, kc)
    fold_blocks(b, total, cut, (), with_part)


def fold_blocks(
    b: ir.IRBuilder, total: Sum, cut: SumCut | None, start: Values, body: Callable[[SumBlock, Values], Values]
) -> Values:
    """Emit carried = body(block, carried) for each block, in the order of the terms; return the last carried values.

    The blocks' part is None.
    """
    if cut is None:
        return body(SumBlock(total, const(0), const(0), None), start)
    number, iterations = cut

    def nest(level: int, in_bytes: Value, first: Value, carried: Values) -> Values:
        count, step = total.levels[level]
        deeper = total.levels[level + 1 :]
        inside = Sum(deeper).length

        def place(index: Value) -> tuple[Value, Value]:
            return b.add(in_bytes, times(b, index, step)), b.add(first, scale_index(b, index, inside))

        def block(index: Value, most: int, values: Values) -> Values:
            at = place(index)
            return body(SumBlock(Sum(((most, step), *deeper)), *at, None), values)

        if level < number:
            return for_range(
                b, const(0), const(count), 1, carried, lambda i, values: nest(level + 1, *place(i), values), "tap"
            )
        whole = count // iterations * iterations
        carried = for_range(
            b, const(0), const(whole), iterations, carried, lambda i, values: block(i, iterations, values), "terms"
        )
        return block(const(whole), count - whole, carried) if count > whole else carried

    return nest(0, const(0), const(0), start)


def half_sums(b: ir.IRBuilder, total: Sum, zeros: Values, add_block: Callable[[SumBlock], Values]) -> Values:
    """Emit f16 sums by blocks and groups; return them as f16 where they are one group, else as f32.

    zeros: of each f16 sum. add_block: emits a block's sums, from 0 on.
    """

    def add_group(group: SumBlock) -> Values:
        cut = half_cut(group.total)
        if cut is None:
            return add_block(group)

        def block(inner: SumBlock, so_far: Values) -> Values:
            in_bytes = b.add(group.in_bytes, inner.in_bytes)
            added = add_block(replace(inner, in_bytes=in_bytes, first_term=b.add(group.first_term, inner.first_term)))
            return tuple(b.fadd(value, more, name="sum") for value, more in zip(so_far, added, strict=True))

        return fold_blocks(b, group.total, cut, zeros, block)

    def group(block: SumBlock, so_far: Values) -> Values:
        added = (widen_half(b, more) for more in add_group(block))
        return tuple(b.fadd(value, more, name="total") for value, more in zip(so_far, added, strict=True))

    cut = group_cut(total)
    if cut is None:
        return add_group(SumBlock(total, const(0), const(0), None))
    wide = tuple(ir.Constant(with_element(zero, F32), [0.0] * zero.type.count) for zero in zeros)
    return fold_blocks(b, total, cut, wide, group)
