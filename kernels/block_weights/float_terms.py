"""Sums of a block of f32 activations and packed weights, and the scales and zero points of the packed weights.

A channel's sum of a block is two chains of fma, of terms with even and odd numbers in the order in which they are
packed, which are added.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TypeAlias

from llvmlite import ir

from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.block_weights.packing import UNIT_BYTES, BlockFormat
from mavcg.kernels.builder.emit import (
    F16,
    F32,
    I8,
    I32,
    Values,
    address,
    const,
    fma,
    index_value,
    number,
    prefetch_line,
    scale_index,
)
from mavcg.kernels.builder.lanes import f32_splat, splat
from mavcg.kernels.builder.product_loop import CHAINS, COLUMNS, ROWS, ProductLoop, SumTile
from mavcg.specs.kernel import F32_BYTES

Value: TypeAlias = ir.Value
PARTIAL_SUMS = 2  # of a channel's sum of a block
STREAM_BYTES = 4096  # to the weights that are prefetched: x86's own prefetchers end with a page


@dataclass(frozen=True)
class PanelWeights:
    """Reader of a block of a panel of packed weights by vectors of channels, of so many lanes."""

    b: ir.IRBuilder
    form: BlockFormat
    lanes: int

    @property
    def vectors(self) -> int:
        """Vectors of a panel."""
        return self.form.panel // self.lanes

    def prefetch(self, block: Value, panel_bytes: int, tile: Value, tiles: int) -> None:
        """Emit a tile's part of the prefetches of a block of the next panel, which `tiles` tiles share.

        block: of this panel. tile: number of the tile.
        """
        lines = ceil(self.form.block_bytes / LINE_BYTES / tiles)
        ahead = self.b.add(scale_index(self.b, tile, lines * LINE_BYTES), const(panel_bytes))
        for line in range(lines):
            # Not inbounds: behind the last panel, or the block, may be other memory.
            place = self.b.gep(block, [self.b.add(ahead, const(line * LINE_BYTES))], name="ahead", source_etype=I8)
            prefetch_line(self.b, place, level=2)

    def prefetch_stream(self, block: Value) -> None:
        """Emit prefetches of the weights a page behind a block, of panels that are gone through once, one by one."""
        for line in range(0, self.form.block_bytes, LINE_BYTES):
            place = self.b.gep(block, [const(STREAM_BYTES + line)], name="ahead", source_etype=I8)  # as above
            prefetch_line(self.b, place)

    def zero_points(self, weights: Value, v: int) -> Value:
        """Return the zero points of a vector of channels, i32."""
        place = address(self.b, weights, self.form.zeros_at + v * self.lanes)
        zeros = self.b.load(place, name="zeros", align=1, typ=ir.VectorType(I8, self.lanes))
        return self.b.zext(zeros, ir.VectorType(I32, self.lanes))

    def float_zero_points(self, weights: Value, v: int) -> Value:
        """Return the zero points of a vector of channels, f32."""
        b, typ = self.b, ir.VectorType(F32, self.lanes)
        if not self.form.float_zeros:
            return b.uitofp(self.zero_points(weights, v), typ)
        place = address(b, weights, self.form.zeros_at + v * self.lanes * F32_BYTES)
        return b.load(place, name="zeros", align=1, typ=typ)

    def scale(self, weights: Value, v: int) -> Value:
        """Return the scales of a vector of channels, f32."""
        b, form = self.b, self.form
        typ = ir.VectorType(F16 if form.scale == "f16" else F32, self.lanes)
        place = address(b, weights, form.number_bytes + v * self.lanes * form.scale_bytes)
        loaded = b.load(place, name="scales", align=1, typ=typ)
        return b.fpext(loaded, ir.VectorType(F32, self.lanes)) if form.scale == "f16" else loaded


@dataclass(frozen=True)
class FloatLines:
    """The activations of a block: their first places, the elements from one to the next, and how many there are."""

    places: Sequence[Value]
    step: int
    terms: int


@dataclass(frozen=True)
class _Term:
    """A term of a unit of 32 bits, at bit `shift` of each word. places: of the unit's first activations.

    Without words and places it adds nothing, and has its turn among the chains all the same.
    """

    number: int
    shift: int
    words: Sequence[Value]
    places: Sequence[Value]


def add_float_block(w: PanelWeights, weights: Value, x: FloatLines, acc: Values) -> Values:
    """Return sums [line * vectors + vector] plus those of a block of f32 activations."""
    b, form, typ = w.b, w.form, ir.VectorType(I32, w.lanes)
    if form.zeros:
        zeros = [w.float_zero_points(weights, v) for v in range(w.vectors)]
    else:
        zeros = [f32_splat(form.middle, w.lanes)] * w.vectors
    of_byte = 8 // form.bits
    mask = ir.Constant(typ, [(1 << form.bits) - 1] * w.lanes)

    def terms(index: Value | int, count: int) -> Iterator[_Term]:
        """Emit the loads of a unit's words; yield its terms in the order in which they are packed, `count` of them."""
        first = index_value(index)
        unit = address(b, weights, scale_index(b, first, form.panel * UNIT_BYTES // form.unit_terms))
        here = [address(b, place, scale_index(b, first, x.step * F32_BYTES)) for place in x.places]
        words = [
            b.load(address(b, unit, v * w.lanes * UNIT_BYTES), name="w", align=1, typ=typ) for v in range(w.vectors)
        ]
        for position, shift in enumerate(range(0, 32, form.bits)):
            term = position // of_byte + position % of_byte * UNIT_BYTES  # packing.py
            yield _Term(term, shift, words, here) if term < count else _Term(term, shift, (), ())

    def activations(term: _Term) -> Iterator[Value]:
        for place in term.places:
            yield b.load(address(b, place, term.number * x.step * F32_BYTES), name="x", align=4, typ=F32)

    def factors(term: _Term) -> Iterator[Value]:
        for word, zero in zip(term.words, zeros, strict=False):
            bits = b.and_(b.lshr(word, number(word, term.shift)), mask) if term.shift else b.and_(word, mask)
            yield b.fsub(b.sitofp(bits, zero.type), zero)

    def multiply_add(total: Value, value: Value, factor: Value, line: int, v: int) -> Value:
        return fma(b, splat(b, value, w.lanes), factor, total)

    tile = SumTile(len(x.places), w.vectors, holds_left=True, chains=PARTIAL_SUMS, order=(ROWS, COLUMNS, CHAINS))
    products = ProductLoop(b, tile, activations, factors, multiply_add)
    chains: Values = (f32_splat(0.0, w.lanes),) * (len(acc) * PARTIAL_SUMS)
    whole = x.terms // form.unit_terms * form.unit_terms
    chains = products.loop(const(0), const(whole), form.unit_terms, terms, chains, "unit")
    if x.terms > whole:
        chains = products.terms(terms(whole, x.terms - whole), chains)
    totals = [b.fadd(even, odd) for even, odd in zip(chains[::PARTIAL_SUMS], chains[1::PARTIAL_SUMS], strict=True)]
    return tuple(fma(b, total, w.scale(weights, i % w.vectors), acc[i]) for i, total in enumerate(totals))
