"""Sums of a block of f32 activations and packed weights, and the scales and zero points of the packed weights.

A channel's sum of a block is two chains of fma, of terms with even and odd numbers in the order in which they are
packed, which are added.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.block_weights.packing import UNIT_BYTES, BlockFormat
from mavcg.kernels.builder.emit import (
    F16,
    F32,
    I8,
    I32,
    Values,
    address,
    const,
    f32_splat,
    fma,
    for_range,
    number,
    scale_index,
    splat,
)
from mavcg.specs.kernel import F32_BYTES

Value: TypeAlias = ir.Value
CHAINS = 2  # partial sums of a block


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

    def zero_points(self, weights: Value, v: int) -> Value:
        """Return the zero points of a vector of channels, i32."""
        place = address(self.b, weights, self.form.zeros_at + v * self.lanes)
        zeros = self.b.load(place, name="zeros", align=1, typ=ir.VectorType(I8, self.lanes))
        return self.b.zext(zeros, ir.VectorType(I32, self.lanes))

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


def add_float_block(w: PanelWeights, weights: Value, x: FloatLines, acc: Values) -> Values:
    """Return sums [line * vectors + vector] plus those of a block of f32 activations."""
    b, form = w.b, w.form
    if form.zeros:
        zeros = [b.uitofp(w.zero_points(weights, v), ir.VectorType(F32, w.lanes)) for v in range(w.vectors)]
    else:
        zeros = [f32_splat(form.middle, w.lanes)] * w.vectors
    start: Values = (f32_splat(0.0, w.lanes),) * (len(acc) * CHAINS)

    def add_units(first: Value, used: int, chains: Values) -> Values:
        """Emit `used` terms from a unit's first on."""
        unit = address(b, weights, scale_index(b, first, form.panel * UNIT_BYTES // form.unit_terms))
        here = [address(b, place, scale_index(b, first, x.step * F32_BYTES)) for place in x.places]
        return _unit_products(w, unit, FloatLines(here, x.step, used), zeros, chains)

    unit = form.unit_terms
    whole = x.terms // unit * unit
    chains = for_range(b, const(0), const(whole), unit, start, lambda i, c: add_units(i, unit, c), "unit")
    if x.terms > whole:
        chains = add_units(const(whole), x.terms - whole, chains)
    pairs = zip(chains[::CHAINS], chains[1::CHAINS], strict=True)
    totals = [b.fadd(x, y) for x, y in pairs]
    return tuple(fma(b, total, w.scale(weights, i % w.vectors), acc[i]) for i, total in enumerate(totals))


def _unit_products(w: PanelWeights, unit: Value, x: FloatLines, zeros: Sequence[Value], chains: Values) -> Values:
    """Return the chains plus the terms of a unit."""
    b, bits, typ = w.b, w.form.bits, ir.VectorType(I32, w.lanes)
    results = list(chains)
    words = [b.load(address(b, unit, v * w.lanes * UNIT_BYTES), name="w", align=1, typ=typ) for v in range(w.vectors)]
    mask = ir.Constant(typ, [(1 << bits) - 1] * w.lanes)
    for position, shift in enumerate(range(0, 32, bits)):
        term = position // 2 + position % 2 * UNIT_BYTES if bits == 4 else position  # packing.py
        if term >= x.terms:
            continue
        inputs = [
            b.load(address(b, place, term * x.step * F32_BYTES), name="x", align=4, typ=F32) for place in x.places
        ]
        for v, word in enumerate(words):
            numbers = b.and_(b.lshr(word, number(word, shift)), mask) if shift else b.and_(word, mask)
            weight = b.fsub(b.sitofp(numbers, zeros[v].type), zeros[v])
            for line, value in enumerate(inputs):
                chain = (line * w.vectors + v) * CHAINS + position % CHAINS
                results[chain] = fma(b, splat(b, value, w.lanes), weight, results[chain])
    return tuple(results)
