"""Exact sums of 8-bit activations times numbers of 2, 4 or 8 bits, in the instructions that each core has.

The numbers of a vector of channels come as units of 32 bits (packing.py). A chunk of a sum is at most CHUNK_TERMS
terms, which all partial sums of 16 bits hold: of eight products of two neighbouring terms, at most 8 * 2 * 15 * 127.
Activations of several lines come in pairs of lines (spec.py), of which products of matrices take eight terms at once.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.block_weights.packing import UNIT_BYTES, BlockFormat
from mavcg.kernels.block_weights.spec import PAIR_TERMS
from mavcg.kernels.builder.emit import I8, I16, I32, Values, address, call_intrinsic, number
from mavcg.kernels.builder.lanes import broadcast_lane, shuffle, splat
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile
from mavcg.kernels.int8.micro_kernel import MADD, MADDUBS
from mavcg.kernels.int8.register_tile import MATRIX_GROUP, ProductForm, form_of
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value
_Group: TypeAlias = tuple[int, tuple[Value, ...]]  # number of a group of activations; its factors, of each vector
CHUNK_TERMS = 32
GROUP = 4  # neighbouring terms of a channel in 32 bits of 8-bit numbers
WIDE_WORDS = 4  # groups of activations in a load of 16 bytes, of which NEON multiplies by lane
FEWEST_CHAINS = 4  # sums that hide the latency of a product; with fewer, the halves of bytes have a sum each


def product_form(machine: Machine, panel: int, paired: bool, bits: int) -> ProductForm:
    """Return the machine's products of 8 bits, with registers no longer than a panel. paired: of pairs of lines."""
    if paired and machine.matrix_product:
        return form_of(machine, panel, "i8" if bits < 8 else "u8", packed=MATRIX_GROUP)
    return form_of(machine, panel, "u8", together=CHUNK_TERMS // GROUP)


class IntegerTerms:
    """Emitter of exact sums for `lines` lines of activations and `vectors` vectors of channels.

    Accumulators are [row][column]: a line by a vector of channels; or, of products of matrices, a pair of lines by half
    a vector, as [channel, line] with two of each. unpacked: True if the factors of a panel's units lie in memory as
    `unpack` writes them.
    """

    def __init__(
        self,
        b: ir.IRBuilder,
        form: ProductForm,
        weights: BlockFormat,
        lines: int,
        vectors: int,
        paired: bool,
        unpacked: bool = False,
    ) -> None:
        self.b, self.form, self.kind, self.lanes, self.weights = b, form, form.kind, form.lanes, weights
        self.lines, self.vectors, self.paired, self.unpacked = lines, vectors, paired, unpacked
        self.split = weights.bits < 8 or form.kind == "maddubs"  # bytes into parts, of which sums of 16 bits hold 32
        self.signed = not self.split and form.kind in ("sdot", "mull")  # numbers of 8 bits as i8, less 128

    @property
    def middle(self) -> int:
        """The difference of a number from the factor that is multiplied in its place."""
        return 128 if self.signed else 0

    @property
    def accumulates(self) -> bool:
        """True if products, of four terms and more, are added to a total as they are."""
        return self.kind in ("sdot", "vnni") or self.form.matrix

    @property
    def parts(self) -> int:
        """Vectors of factors that a vector of units becomes."""
        return 8 // min(self.weights.bits, 4) if self.split else 1

    @property
    def term_bytes(self) -> int:
        """Bytes of a term of all channels of a panel, packed or unpacked."""
        return self.weights.panel * UNIT_BYTES * (self.parts if self.unpacked else 1) // self.weights.unit_terms

    @property
    def columns(self) -> int:
        """Accumulators of a row."""
        return self.vectors * (1 + self.form.matrix)

    @property
    def accumulators(self) -> int:
        """Accumulators of all lines."""
        return (-(-self.lines // 2) if self.form.matrix else self.lines) * self.columns

    @property
    def chains(self) -> int:
        """Partial sums of a total in a chunk."""
        in_16_bits = self.kind == "maddubs" or (self.kind == "mull" and not self.signed)
        of_halves = self.weights.bits == 8 or (not in_16_bits and self.accumulators < FEWEST_CHAINS)
        return 1 + (self.split and of_halves)

    def of_lines(self, numbers: Value, typ: ir.Type) -> list[Value]:
        """Return a number of each line, which lie one after the other, as vectors by which its row is multiplied."""
        b, rows = self.b, list[Value]()
        for line in range(0, self.lines, 1 + self.form.matrix):
            place = address(b, numbers, line * GROUP)
            if self.form.matrix and line + 1 < self.lines:
                both = b.load(place, name="of_lines", align=4, typ=ir.VectorType(typ, 2))
                rows.append(shuffle(b, both, both, (0, 1) * (self.lanes // 2)))
            else:
                rows.append(splat(b, b.load(place, name="of_line", align=4, typ=typ), self.lanes))
        return rows

    def of_channels(self, x: Value) -> list[Value]:
        """Return a vector of channels as vectors by which its columns are multiplied."""
        if not self.form.matrix:
            return [x]
        return [shuffle(self.b, x, x, (i, i, i + 1, i + 1)) for i in (0, 2)]

    def by_line(self, accumulators: Values) -> list[Value]:
        """Return the vectors of each line: [line * vectors + vector]."""
        if not self.form.matrix:
            return list(accumulators)
        vectors = []
        for line in range(self.lines):
            for v in range(self.vectors):
                first = line // 2 * self.columns + 2 * v
                lanes = range(line % 2, 2 * self.lanes, 2)
                vectors.append(shuffle(self.b, accumulators[first], accumulators[first + 1], lanes))
        return vectors

    def add(self, totals: Sequence[Value | None], panel: Value, places: Sequence[Value], terms: int) -> Values:
        """Return totals, None: 0, plus the products of a chunk.

        panel: its first unit. places: its activations, of each line or pair. terms: of the chunk, whole units, and a
        multiple of 8.
        """
        b, form = self.b, self.weights
        x = _Activations(b, places, terms, self.lanes, self.kind in ("sdot", "mull"), self.paired)
        if self.form.matrix:
            return self._add_matrices(totals, panel, x, terms)
        several = self.chains > 1
        of_unit = form.unit_terms // GROUP

        def groups() -> Iterator[_Group]:
            """Emit the loads of units; yield each part of them with the number of its first group of activations."""
            for unit in range(terms // form.unit_terms):
                numbers = zip(*(self.numbers(panel, unit, v) for v in range(self.vectors)), strict=True)
                for part, of_vectors in enumerate(numbers):
                    yield unit * of_unit + part % of_unit, of_vectors

        products: ProductLoop[_Group] = ProductLoop(
            b,
            SumTile(self.lines, self.vectors, chains=1 + several),
            lambda group: (x.group(line, group[0]) for line in range(self.lines)),
            lambda group: group[1],
            lambda total, group, numbers, *_: self.add_products(total, numbers, group),
        )
        # Products of other kinds begin anew, without a sum.
        start = totals if self.accumulates else (None,) * len(totals)
        parts = products.terms(groups(), (*start, *(None,) * (several * len(totals))))
        return tuple(self._total(total, parts[i :: len(totals)]) for i, total in enumerate(totals))

    def numbers(self, panel: Value, unit: int, v: int) -> list[Value]:
        """Return the bytes of a vector's units as factors: parts of bytes, or whole ones."""
        b, typ = self.b, ir.VectorType(I8, self.lanes * UNIT_BYTES)
        if self.unpacked:
            places = [self._unpacked_place(panel, unit, v, part) for part in range(self.parts)]
            return [b.load(place, name="factors", align=UNIT_BYTES * self.lanes, typ=typ) for place in places]
        place = address(b, panel, (unit * self.weights.panel + v * self.lanes) * UNIT_BYTES)
        units = b.load(place, name="w", align=1, typ=typ)
        if self.split:
            bits = min(self.weights.bits, 4)
            parts = [b.and_(units, number(units, (1 << bits) - 1))]
            for at in range(bits, 8, bits):
                shifted = b.lshr(units, number(units, at))
                parts.append(shifted if at + bits == 8 else b.and_(shifted, number(units, (1 << bits) - 1)))
            return parts
        return [b.xor(units, number(units, self.middle))] if self.signed else [units]

    def unpack(self, panel: Value, to: Value, terms: int) -> None:
        """Emit the stores of the factors of a panel's `terms` terms, for an emitter of unpacked ones.

        to: aligned to a vector.
        """
        for unit in range(terms // self.weights.unit_terms):
            for v in range(self.vectors):
                for part, factors in enumerate(self.numbers(panel, unit, v)):
                    self.b.store(factors, self._unpacked_place(to, unit, v, part), align=UNIT_BYTES * self.lanes)

    def _unpacked_place(self, panel: Value, unit: int, v: int, part: int) -> Value:
        """Return the address of a part of a vector of unpacked units."""
        vector = (unit * self.parts + part) * self.vectors + v
        return address(self.b, panel, vector * self.lanes * UNIT_BYTES)

    def _add_matrices(self, totals: Sequence[Value | None], panel: Value, x: "_Activations", terms: int) -> Values:
        """Return totals plus a chunk's products of two channels' and two lines' eight terms."""
        b, name, of_sums = self.b, f"llvm.aarch64.neon.{self.kind}.v4i32.v16i8", ir.VectorType(I32, self.lanes)
        of_unit = self.weights.unit_terms // GROUP

        def halves(eight: int) -> Iterator[Value]:
            """Yield the eight terms of two channels, of each half of a vector."""
            for v in range(self.vectors):
                unit, first = divmod(2 * eight, of_unit)
                parts = [part for i in range(max(1, 2 // of_unit)) for part in self.numbers(panel, unit + i, v)]
                low, high = parts[first : first + 2]
                near, far = (b.bitcast(part, ir.VectorType(I32, self.lanes)) for part in (low, high))
                for lanes in ((0, 4, 1, 5), (2, 6, 3, 7)):  # zip1, zip2
                    yield b.bitcast(shuffle(b, near, far, lanes), low.type)

        products: ProductLoop[int] = ProductLoop(
            b,
            SumTile(len(x.places), self.columns, holds_left=True),
            lambda eight: ((pair, eight) for pair in range(len(x.places))),  # loaded where they are multiplied
            halves,
            lambda total, pair, channels, *_: call_intrinsic(
                b, name, of_sums, total or _zero(of_sums), channels, x.pair(*pair)
            ),
        )
        return products.terms(range(terms // PAIR_TERMS), totals)

    def add_products(self, total: Value | None, numbers: Value, x: Value) -> Value:
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
            # Saturating, though no sum is too large: of plain additions LLVM makes a tree, which needs more registers.
            return product if total is None else b.add(total, product)
        else:
            wide = ir.VectorType(I16, 4 * self.lanes)
            product = b.mul(b.sext(numbers, wide), b.sext(x, wide))
            if self.signed:  # up to 128 * 127: neighbours are added in 32 bits
                product = self._add_neighbours(product, widen=True)
        return product if total is None else b.add(total, product)

    def _total(self, total: Value | None, parts: Sequence[Value]) -> Value:
        """Return a total, None: 0, plus a chunk's partial sums, of both halves of bytes if there are two.

        Sums that begin at the total have it.
        """
        b = self.b
        if self.accumulates:
            return parts[0] if len(parts) == 1 else b.add(*parts)
        if self.kind == "maddubs":
            factors = (1, 16)[: len(parts)]  # the upper half of a byte of 8 bits counts 16 times
            name, of_sums = f"llvm.x86.{MADD[self.lanes]}", ir.VectorType(I32, self.lanes)
            sums = [
                call_intrinsic(b, name, of_sums, part, number(part, factor))
                for part, factor in zip(parts, factors, strict=True)
            ]
        elif self.signed:
            sums = [self._add_neighbours(parts[0])]
        else:
            sums = [self._add_neighbours(self._add_neighbours(parts[0]), widen=True)]
        return reduce(b.add, sums if total is None else [total, *sums])

    def _add_neighbours(self, x: Value, widen: bool = False) -> Value:
        """Return sums of neighbouring lanes. widen: from 16 to 32 bits before they are added."""
        even, odd = (shuffle(self.b, x, x, range(i, x.type.count, 2)) for i in (0, 1))
        if widen:
            even, odd = (self.b.sext(side, ir.VectorType(I32, side.type.count)) for side in (even, odd))
        return self.b.add(even, odd)


class _Activations:
    """The activations of a chunk: each group in all lanes of a vector, loaded where it is first used.

    places: of each line, or pair of lines. by_lane: True if several groups are loaded at once, of which products take a
    lane.
    """

    def __init__(
        self, b: ir.IRBuilder, places: Sequence[Value], terms: int, lanes: int, by_lane: bool, paired: bool
    ) -> None:
        self.b, self.places, self.groups, self.lanes = b, places, terms // GROUP, lanes
        self.by_lane, self.paired = by_lane, paired
        self.loaded: dict[tuple[int, int], Value] = {}

    def group(self, line: int, index: int) -> Value:
        """Return a group of a line as bytes."""
        b, bytes = self.b, ir.VectorType(I8, self.lanes * GROUP)
        eight, odd = divmod(index, PAIR_TERMS // GROUP)
        # The word of the group, counted from the place: in a pair the lines take turns, eight terms each.
        place, word = line, index
        if self.paired:
            place, word = line // 2, eight * WIDE_WORDS + line % 2 * (PAIR_TERMS // GROUP) + odd
        words = self.groups * (1 + self.paired)
        if self.by_lane:
            first = word // WIDE_WORDS * WIDE_WORDS
            wide = self._load(place, first, min(WIDE_WORDS, words - first))
            return b.bitcast(broadcast_lane(b, wide, word - first, self.lanes), bytes)
        return b.bitcast(splat(b, self._load(place, word, 1), self.lanes), bytes)

    def pair(self, number: int, eight: int) -> Value:
        """Return eight terms of the first line of a pair, then of the second, as bytes."""
        return self.b.bitcast(self._load(number, eight * WIDE_WORDS, WIDE_WORDS), ir.VectorType(I8, 2 * PAIR_TERMS))

    def _load(self, place: int, word: int, count: int) -> Value:
        if (place, word) not in self.loaded:
            typ = ir.VectorType(I32, count) if count > 1 else I32
            at = address(self.b, self.places[place], word * GROUP)
            self.loaded[place, word] = self.b.load(at, name="xs", align=1, typ=typ)
        return self.loaded[place, word]


def _zero(typ: ir.VectorType) -> ir.Constant:
    return ir.Constant(typ, [0] * typ.count)
