"""Exact sums of 8-bit activations times numbers of 4 or 8 bits, in the instructions that each core has.

The numbers of a vector of channels come as units of 32 bits (packing.py). A chunk of a sum is at most CHUNK_TERMS
terms, which all partial sums of 16 bits hold: of eight products of two neighbouring terms, at most 8 * 2 * 15 * 127.
"""

from collections.abc import Sequence
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.block_weights.packing import UNIT_BYTES, BlockFormat
from mavcg.kernels.builder.emit import I8, I16, I32, address, broadcast_lane, call_intrinsic, number, splat
from mavcg.kernels.builder.nest import shuffle
from mavcg.kernels.int8.micro_kernel import MADD, MADDUBS
from mavcg.kernels.int8.register_tile import ProductForm, form_of
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value
CHUNK_TERMS = 32
GROUP = 4  # neighbouring terms of a channel in 32 bits of 8-bit numbers
WIDE_WORDS = 4  # groups of activations in a load of 16 bytes, of which NEON multiplies by lane


def product_form(machine: Machine, panel: int) -> ProductForm:
    """Return the machine's products of 8 bits, with registers no longer than a panel."""
    return form_of(machine, panel, "u8", together=CHUNK_TERMS // GROUP)


class IntegerTerms:
    """Emitter of the sums of a chunk for some lines of activations and vectors of channels."""

    def __init__(self, b: ir.IRBuilder, form: ProductForm, weights: BlockFormat) -> None:
        self.b, self.kind, self.lanes, self.weights = b, form.kind, form.lanes, weights
        self.split = weights.bits == 4 or form.kind == "maddubs"  # bytes into halves, of which sums of 16 bits hold 32
        self.signed = not self.split and form.kind != "vnni"  # numbers of 8 bits as i8, less 128

    @property
    def middle(self) -> int:
        """The difference of a number from the factor that is multiplied in its place."""
        return 128 if self.signed else 0

    def sums(self, panel: Value, lines: Sequence[Value], vectors: int, terms: int) -> list[list[Value]]:
        """Return i32 sums [line][vector] of a chunk.

        panel: its first unit. lines: the chunk's activations of each line. terms: of the chunk, a multiple of 8.
        """
        acc: dict[tuple[int, int, int], Value] = {}
        inputs = [_Activations(self.b, line, terms, self.lanes, self.kind in ("sdot", "mull")) for line in lines]
        of_unit = self.weights.unit_terms // GROUP
        for unit in range(terms // self.weights.unit_terms):
            for v in range(vectors):
                offset = (unit * self.weights.panel + v * self.lanes) * UNIT_BYTES
                for half, numbers in enumerate(self._numbers(address(self.b, panel, offset))):
                    for line, x in enumerate(inputs):
                        key = line, v, half
                        acc[key] = self._add(acc.get(key), numbers, x.group(unit * of_unit + half % of_unit))
        return [[self._total(acc, line, v) for v in range(vectors)] for line in range(len(lines))]

    def _numbers(self, place: Value) -> list[Value]:
        """Return the bytes of a vector's units as factors: halves of bytes, or whole ones."""
        b = self.b
        units = b.load(place, name="w", align=1, typ=ir.VectorType(I8, self.lanes * UNIT_BYTES))
        if self.split:
            return [b.and_(units, number(units, 15)), b.lshr(units, number(units, 4))]
        return [b.xor(units, number(units, self.middle))] if self.signed else [units]

    def _add(self, total: Value | None, numbers: Value, x: Value) -> Value:
        """Return a partial sum plus the products of a group; None: 0."""
        b, of_sums = self.b, ir.VectorType(I32, self.lanes)
        if self.kind == "sdot":
            return call_intrinsic(b, "llvm.aarch64.neon.sdot.v4i32.v16i8", of_sums, total or _zero(of_sums), numbers, x)
        if self.kind == "vnni":
            name = f"llvm.x86.avx512.vpdpbusd.{self.lanes * 32}"
            return call_intrinsic(b, name, of_sums, total or _zero(of_sums), numbers, x)
        if self.kind == "maddubs":
            product = call_intrinsic(
                b, f"llvm.x86.{MADDUBS[self.lanes]}", ir.VectorType(I16, 2 * self.lanes), numbers, x
            )
        else:
            wide = ir.VectorType(I16, 4 * self.lanes)
            product = b.mul(b.sext(numbers, wide), b.sext(x, wide))
            if self.signed:  # up to 128 * 127: neighbours are added in 32 bits
                product = self._add_neighbours(product, widen=True)
        return product if total is None else b.add(total, product)

    def _total(self, acc: dict[tuple[int, int, int], Value], line: int, v: int) -> Value:
        """Return the i32 sum of a line and vector from its partial sums of both halves of bytes."""
        b = self.b
        halves = [acc[key] for key in ((line, v, 0), (line, v, 1)) if key in acc]
        by_weight = self.weights.bits == 8 and self.split  # the upper half of a byte counts 16 times
        if self.kind == "maddubs":
            weighted = zip(halves, (1, 16), strict=True) if by_weight else [(b.add(*halves), 1)]
            name, of_sums = f"llvm.x86.{MADD[self.lanes]}", ir.VectorType(I32, self.lanes)
            low, *high = (call_intrinsic(b, name, of_sums, half, number(half, factor)) for half, factor in weighted)
            return b.add(low, high[0]) if high else low
        if self.kind == "mull":
            if self.signed:
                return self._add_neighbours(halves[0])
            return self._add_neighbours(self._add_neighbours(b.add(*halves)), widen=True)
        return halves[0] if len(halves) == 1 else b.add(*halves)

    def _add_neighbours(self, x: Value, widen: bool = False) -> Value:
        """Return sums of neighbouring lanes. widen: from 16 to 32 bits before they are added."""
        even, odd = (shuffle(self.b, x, x, range(i, x.type.count, 2)) for i in (0, 1))
        if widen:
            even, odd = (self.b.sext(side, ir.VectorType(I32, side.type.count)) for side in (even, odd))
        return self.b.add(even, odd)


class _Activations:
    """A line's activations of a chunk: each group in all lanes of a vector, loaded where it is first used.

    by_lane: True if several groups are loaded at once, of which products take a lane.
    """

    def __init__(self, b: ir.IRBuilder, line: Value, terms: int, lanes: int, by_lane: bool) -> None:
        self.b, self.line, self.groups, self.lanes, self.by_lane = b, line, terms // GROUP, lanes, by_lane
        self.loaded: dict[int, Value] = {}

    def group(self, index: int) -> Value:
        """Return a group as bytes."""
        if index not in self.loaded:
            self._load(index)
        return self.b.bitcast(self.loaded[index], ir.VectorType(I8, self.lanes * GROUP))

    def _load(self, index: int) -> None:
        b = self.b
        if not self.by_lane:
            word = b.load(address(b, self.line, GROUP * index), name="x4", align=1, typ=I32)
            self.loaded[index] = splat(b, word, self.lanes)
            return
        first = index // WIDE_WORDS * WIDE_WORDS
        count = min(WIDE_WORDS, self.groups - first)
        wide = b.load(address(b, self.line, GROUP * first), name="xs", align=1, typ=ir.VectorType(I32, count))
        for i in range(count):
            self.loaded[first + i] = broadcast_lane(b, wide, i, self.lanes)


def _zero(typ: ir.VectorType) -> ir.Constant:
    return ir.Constant(typ, [0] * typ.count)
