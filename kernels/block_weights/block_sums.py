"""Sums of lines of quantised activations plus a block's products: exact sums, times both scales, added in f32."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.block_weights.float_terms import PanelWeights
from mavcg.kernels.block_weights.integer_terms import CHUNK_TERMS, IntegerTerms
from mavcg.kernels.builder.emit import F32, I32, Values, address, const, fma, for_range, number, scale_index

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class BlockScales:
    """The factors of a block's exact sums, of each column of accumulators.

    scales: of the weights. zeros: zero points, i32, by which the sums of the lines' numbers are multiplied; (): there
    are none, and the exact sums begin with those sums, which come times the middle of the numbers' range, negative.
    """

    scales: Sequence[Value]
    zeros: Sequence[Value]


@dataclass(frozen=True)
class BlockActivations:
    """The activations of some lines in a block.

    lines: the first numbers of each line or pair. end: the first line's scale, which those of the next lines follow.
    sums: the sum of the first line's numbers, likewise.
    """

    lines: Sequence[Value]
    end: Value
    sums: Value


@dataclass(frozen=True)
class PanelOperands:
    """A panel's operands. ends: of QuantizedBlocks. weights: the panel's first block. out: of the first line, at the
    panel's first channel. scratch: of the spec. residual: as out; None: there is none."""

    numbers: Value
    ends: Value
    weights: Value
    out: Value
    scratch: Value
    residual: Value | None = None


@dataclass(frozen=True)
class BlockSums:
    """Emitter of sums plus a block's products. terms: emitter of exact sums. weights: reader of scales."""

    b: ir.IRBuilder
    terms: IntegerTerms
    weights: PanelWeights

    def scales(self, block: Value) -> BlockScales:
        """Emit the loads of a block's scales and zero points."""
        b, of_terms, vectors = self.b, self.terms, range(self.terms.vectors)
        scales = [part for v in vectors for part in of_terms.of_channels(self.weights.scale(block, v))]
        if not self.weights.form.zeros:
            return BlockScales(scales, ())
        zeros = [self.weights.zero_points(block, v) for v in vectors]
        less = [b.sub(x, number(x, of_terms.middle)) for x in zeros]
        return BlockScales(scales, [part for x in less for part in of_terms.of_channels(x)])

    def add(
        self,
        units: Value,
        x: BlockActivations,
        terms: int,
        of_block: Callable[[], BlockScales],
        acc: Callable[[int], Value],
    ) -> Values:
        """Return the accumulators plus a block's products.

        units: the block's first unit. terms: of the block. of_block, acc: emit its scales, and an accumulator by its
        number, which are needed behind the exact sums.
        """
        b, of_terms = self.b, self.terms
        totals, columns = self.exact(units, x, terms), of_terms.columns
        scales, factors = of_terms.of_lines(x.end, F32), of_block()
        if factors.zeros:
            sums = of_terms.of_lines(x.sums, I32)
            totals = tuple(
                b.sub(total, b.mul(factors.zeros[i % columns], sums[i // columns])) for i, total in enumerate(totals)
            )
        results = []
        for i, total in enumerate(totals):
            scale = b.fmul(factors.scales[i % columns], scales[i // columns])
            results.append(fma(b, b.sitofp(total, scale.type), scale, acc(i)))
        return tuple(results)

    def exact(self, units: Value, x: BlockActivations, terms: int) -> Values:
        """Return the exact sums of a block, without what zero points subtract."""
        b, of_terms, form = self.b, self.terms, self.weights.form
        chunk = CHUNK_TERMS if terms % CHUNK_TERMS == 0 else max(8, form.unit_terms)
        corrected = not form.zeros and not of_terms.middle  # by the sums of activations, times the numbers' middle

        def corrections() -> Values:
            return tuple(total for total in of_terms.of_lines(x.sums, I32) for _ in range(of_terms.columns))

        def add_chunk(first: Value, totals: Sequence[Value | None]) -> Values:
            at = address(b, units, scale_index(b, first, of_terms.term_bytes))
            places = [address(b, line, scale_index(b, first, 1 + of_terms.paired)) for line in x.lines]
            return of_terms.add(totals, at, places, chunk)

        begun = corrected and of_terms.accumulates
        start: Sequence[Value | None] = corrections() if begun else [None] * of_terms.accumulators
        if terms == chunk:
            totals = add_chunk(const(0), start)
        else:
            zero = ir.Constant(ir.VectorType(I32, of_terms.lanes), [0] * of_terms.lanes)
            first = tuple(zero if total is None else total for total in start)
            totals = for_range(b, const(0), const(terms), chunk, first, add_chunk, "chunk")
        if not corrected or begun:
            return totals
        return tuple(b.add(*pair) for pair in zip(totals, corrections(), strict=True))
