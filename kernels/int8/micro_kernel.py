"""Emitter of the 8-bit micro-kernel: a register tile of exact sums, followed by an epilogue.

Packed weights have groups of four terms for each channel of a panel, so that one instruction computes four terms of a
vector of channels; or groups of eight, so that one computes eight terms of two channels and two pixels. Inputs are read
in place, as many bytes at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from llvmlite import ir

from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.builder.emit import (
    I8,
    I16,
    I32,
    I64,
    Values,
    address,
    call_intrinsic,
    const,
    note_tile,
)
from mavcg.kernels.builder.lanes import shuffle, splat
from mavcg.kernels.builder.product_loop import (
    ProductLoop,
    SumPosition,
    SumTile,
    TermPointers,
    prefetch,
    term_address,
    window_loops,
)
from mavcg.kernels.int8.register_tile import GROUP, MATRIX_GROUP, ProductForm, SumRun, chains
from mavcg.kernels.int8.second_parts import ExcessPointers
from mavcg.kernels.int8.tile import QPointers, QTile, TileEnding, TileSums
from mavcg.specs.kernel import F32_BYTES as F32_BYTES
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value
# Groups of terms per iteration; half of them on x86 with 16 registers, and IN_ORDER_NEIGHBOURS on NEON's in-order
# cores.
UNROLL = {"sdot": 4, "vnni": 4, "madd": 2, "mull": 2, "maddubs": 2, "smmla": 2, "usmmla": 2}
# Groups of a pixel's inputs per load, where products read them by lane. An in-order core dual-issues a load of 64 bits
# with a product, but needs three instructions for one of 128 bits (passes/asm/transforms/split_loads.py): loads of
# eight pixels then take 16 issue slots instead of 24 for four groups. An iteration has one load per pixel: LLVM would
# pair two of them, with live ranges twice as long, for which the core lacks registers.
NEIGHBOURS, IN_ORDER_NEIGHBOURS = 4, 2
IN_ORDER_OUTPUTS = (
    4  # with fewer, an in-order core waits for results unless an iteration's groups have several accumulators
)

# x86 instructions that add neighbouring products of i16, and of u8 x i8, by the i32 lanes of their registers.
MADD = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
MADDUBS = {4: "ssse3.pmadd.ub.sw.128", 8: "avx2.pmadd.ub.sw", 16: "avx512.pmaddubs.w.512"}


def emit_qtile(
    b: ir.IRBuilder,
    machine: Machine,
    form: ProductForm,
    run: SumRun,
    tile: QTile,
    at: QPointers,
    ending: TileEnding,
) -> None:
    """Emit the computation and the stores of one tile."""
    note_tile(b, len(tile.in_offsets), tile.vectors)
    start = ending.start(form, tile)
    ending.store(form, tile, at, _Int8MicroKernel(b, machine, form, tile, at, run).sums(start))


@dataclass(frozen=True)
class _Groups:
    """Groups that are multiplied at once, each of a product's terms. at: pointers to the first of the unrolled ones.
    groups: their numbers. pieces: number of vectors of weights.

    wide: of each pixel the inputs of several groups, if these are loaded at once. terms: as in SumRun.terms.
    """

    at: TermPointers
    groups: range
    wide: Sequence[Value]
    terms: tuple[int, ...]
    pieces: int


def _share_inputs(offsets: Sequence[int], groups: int) -> bool:
    """Return True if one of `groups` neighbouring groups of a pixel is another group of a later pixel.

    LLVM then loads and broadcasts it once, early, and spills it and the sums: twice the time of one group an iteration.
    """
    first, *others = offsets
    return any(offset - first in range(GROUP, groups * GROUP, GROUP) for offset in others)


class _Int8MicroKernel:
    """The products of 8 bits: groups of pixels' inputs are the left values, those of weights the right ones.

    A product of matrices takes the inputs of two pixels as its left value.
    """

    def __init__(
        self, b: ir.IRBuilder, machine: Machine, form: ProductForm, tile: QTile, at: QPointers, run: SumRun
    ) -> None:
        self.b, self.form, self.tile, self.at, self.run = b, form, tile, at, run
        # With window_sums the last piece is the sum of inputs.
        self.weight_pieces = tile.vectors * form.parts
        self.pixels, self.pieces = len(tile.in_offsets), self.weight_pieces + form.window_sums
        self.unroll = UNROLL[form.kind] // (2 if form.kind == "vnni" and machine.vector_registers < 32 else 1)
        self.by_lane_at_once = IN_ORDER_NEIGHBOURS if machine.in_order else NEIGHBOURS
        if form.kind == "sdot" and machine.in_order and self.pixels * self.pieces >= IN_ORDER_OUTPUTS:
            self.unroll = IN_ORDER_NEIGHBOURS
        # Groups whose products are added before they are widened; an iteration has a multiple of them.
        self.at_once = 2 if form.kind == "mull" and tile.narrow else form.together
        self.unroll = max(self.unroll, self.at_once)
        self.rows = form.rows(self.pixels)
        self.chains = chains(form, self.pixels, self.pieces, machine.vector_registers, self.unroll)
        loops = form.kind == "vnni" and self.chains == 1 and run.groups >= self.unroll
        if loops and _share_inputs(tile.in_offsets, self.unroll):
            self.unroll = 1

    def sums(self, begin: Sequence[Value] = ()) -> TileSums:
        """Emit the loops over all terms and return the tile's sums.

        begin: what the sums of each piece begin with; empty for 0.
        """
        b, form, size = self.b, self.form, self.rows * self.pieces
        zero = ir.Constant(ir.VectorType(I32, form.lanes), [0] * form.lanes)
        row = (*begin, *[zero] * (self.pieces - len(begin)))
        start = row * self.rows + (zero,) * (size * (self.chains - 1))
        acc = window_loops(b, self.run.levels, self.run.groups, self.at.inputs, self.neighbours, start)
        if self.at.excess is not None:
            acc = self.second_parts(self.at.excess, acc)
        total = list(acc[:size])
        for chain in range(1, self.chains):
            total = [b.add(x, y) for x, y in zip(total, acc[chain * size : (chain + 1) * size], strict=True)]
        rows = [total[p * self.pieces : p * self.pieces + self.weight_pieces] for p in range(self.rows)]
        windows = total[self.weight_pieces :: self.pieces] if form.window_sums else []
        if form.parts == 1:
            return TileSums(rows, windows)
        if form.matrix:
            return TileSums(self.by_pixels(rows), [x for (x,) in self.by_pixels([[w, w] for w in windows])])
        rows = [[self.add_neighbours(x, y) for x, y in zip(row[::2], row[1::2], strict=True)] for row in rows]
        return TileSums(rows, [self.add_neighbours(x, x) for x in windows])

    def by_pixels(self, rows: list[list[Value]]) -> list[list[Value]]:
        """Return [pixel][vector] of sums of pairs of pixels: lanes are two channels of the first, then of the second
        pixel."""
        sides = [(row, side) for row in rows for side in ((0, 1, 4, 5), (2, 3, 6, 7))]
        return [
            [shuffle(self.b, x, y, side) for x, y in zip(row[::2], row[1::2], strict=True)]
            for row, side in sides[: self.pixels]
        ]

    def add_neighbours(self, x: Value, y: Value) -> Value:
        """Return the sums of neighbouring lanes of x, then of y."""
        lanes = 2 * self.form.lanes
        even, odd = (shuffle(self.b, x, y, range(i, lanes, 2)) for i in (0, 1))
        return self.b.add(even, odd)

    def neighbours(self, at: SumPosition, acc: Values) -> Values:
        """Emit one run of contiguous inputs, whose terms are groups."""
        b, terms, group_bytes = self.b, self.form.terms, self.group_bytes
        packed, length = self.form.packed, self.run.length
        whole = length // packed * packed
        tile = SumTile(self.rows, self.pieces, holds_left=self.form.matrix, chains=self.chains)
        products = ProductLoop(b, tile, self.pixel_inputs, self.piece_weights, self.multiply_add)
        panel = at.panel(b, self.at.weights, self.tile.panel * packed)

        def steps(index: Value | int, count: int) -> Iterator[_Groups]:
            here = term_address(b, at.inputs, index, terms, "x")
            return self.steps(count, TermPointers(here, term_address(b, panel, index, group_bytes, "w")))

        acc = products.run(whole // terms, self.unroll, steps, acc)
        if length > whole:
            here = address(b, at.inputs, max(0, length - packed))
            last = TermPointers(here, address(b, panel, whole * self.tile.panel))
            acc = products.terms(self.steps(packed // terms, last, self.run.terms()[-1]), acc)
        return acc

    def second_parts(self, at: ExcessPointers, sums: Values) -> Values:
        """Emit the products of second parts of weights, panel by panel; return the sums."""
        of_panel = self.tile.panel // self.form.piece
        for panel, first in enumerate(range(0, self.pieces, of_panel)):
            pieces = range(first, min(first + of_panel, self.pieces))
            sums = at.add(self.b, self.run, self.at.inputs, panel, partial(self.second_part, pieces), sums)
        return sums

    def second_part(self, pieces: range, at: TermPointers, sums: Values) -> Values:
        """Emit the products of one group with second parts of some pieces' weights; return all sums."""
        tile = SumTile(self.rows, len(pieces))
        products = ProductLoop(self.b, tile, self.pixel_inputs, self.piece_weights, self.multiply_add)
        numbers = [row * self.pieces + piece for row in range(self.rows) for piece in pieces]
        group = _Groups(at, range(1), (), (0,) * GROUP, len(pieces))
        after = dict(zip(numbers, products.terms([group], [sums[n] for n in numbers]), strict=True))
        return tuple(after.get(number, value) for number, value in enumerate(sums))

    @property
    def group_bytes(self) -> int:
        """Size of the packed weights of one product's terms, of all channels of a panel."""
        return self.tile.panel * self.form.terms

    def steps(self, count: int, at: TermPointers, terms: tuple[int, ...] = ()) -> Iterator[_Groups]:
        """Emit the prefetches of `count` groups, and loads of several groups' inputs, step by step.

        terms: as in SumRun.terms; terms of -1 do not count in window sums.
        """
        terms = terms or (0,) * count * self.form.terms
        self.prefetch_weights(count * self.group_bytes, at.right)
        wide: list[Value] = []
        for done in range(0, count, self.at_once):
            if self.by_lane(count) and done % self.by_lane_at_once == 0:
                wide = [self.wide(address(self.b, at.left, o + done * GROUP)) for o in self.tile.in_offsets]
            at_once = range(done, min(count, done + self.at_once))
            of_product = terms[done * self.form.terms :][: self.form.terms]
            yield _Groups(at, at_once, wide, of_product, self.weight_pieces)

    def pixel_inputs(self, step: _Groups) -> Iterator[list[Value]]:
        """Return the groups of each pixel's inputs, broadcast; for products of matrices, those of each two pixels."""
        if self.form.matrix:
            (group,) = step.groups
            for first in range(0, self.pixels, 2):
                pair = self.tile.in_offsets[first : first + 2]
                yield [self.pair([address(self.b, step.at.left, offset + group * MATRIX_GROUP) for offset in pair])]
            return
        for groups in step.wide:
            yield [self.lane(groups, g % self.by_lane_at_once) for g in step.groups]
        for offset in () if step.wide else self.tile.in_offsets:
            yield [self.word(address(self.b, step.at.left, offset + g * GROUP)) for g in step.groups]

    def piece_weights(self, step: _Groups) -> Iterator[list[Value]]:
        """Return the groups of each piece's weights; the last piece is 1 for window sums."""
        for piece in range(step.pieces):
            yield [self.weight(step.at.right, g, piece) for g in step.groups]
        if self.form.window_sums:
            yield [self.ones(step.terms)] * len(step.groups)

    def prefetch_weights(self, size: int, panel: Value) -> None:
        """Emit prefetches of `size` bytes of weights at the prefetch distance, in each panel."""
        tile, form = self.tile, self.form
        if not tile.ahead:
            return
        for number in dict.fromkeys(piece * form.piece // tile.panel for piece in range(self.weight_pieces)):
            for offset in range(0, size, LINE_BYTES):
                prefetch(self.b, panel, number * tile.panel_bytes + offset + tile.ahead)

    def by_lane(self, count: int) -> bool:
        """Return True if inputs of `count` groups are loaded several groups at a time and multiplied by lane."""
        return self.form.kind == "sdot" and count % self.by_lane_at_once == 0

    def pair(self, pointers: Sequence[Value]) -> Value:
        """Emit the loads of eight inputs of one or two pixels, a matrix of two rows; both are the same of one pixel."""
        b = self.b
        rows = [b.load(pointer, name="x8", align=1, typ=I64) for pointer in pointers]
        both = splat(b, rows[0], 2)
        if len(rows) == 2:
            both = b.insert_element(both, rows[1], const(1, I32))
        return b.bitcast(both, ir.VectorType(I8, 2 * MATRIX_GROUP))

    def wide(self, pointer: Value) -> Value:
        """Emit the load of the inputs of by_lane_at_once groups."""
        typ = ir.VectorType(I8, self.by_lane_at_once * GROUP)
        return self.flip_signs(self.b.load(pointer, name="xs", align=1, typ=typ))

    def flip_signs(self, x: Value) -> Value:
        """Convert u8 to i8, or i8 to u8, by a difference of 128, which the bias corrects."""
        if self.at.flip is None:
            return x
        flip = self.at.flip
        return self.b.xor(x, flip if flip.type == x.type else shuffle(self.b, flip, flip, range(x.type.count)))

    def lane(self, groups: Value, group: int) -> Value:
        """Return one group of a load of several, broadcast to all lanes of a product."""
        words = self.b.bitcast(groups, ir.VectorType(I32, groups.type.count // GROUP))
        copies = shuffle(self.b, words, words, [group] * (self.form.weight_bytes // GROUP))
        return self.b.bitcast(copies, ir.VectorType(I8, self.form.weight_bytes))

    def word(self, pointer: Value) -> Value:
        """Emit the load of four neighbouring bytes, or of a shorter run, broadcast as a product reads them."""
        b, length = self.b, min(GROUP, self.run.length)
        if length == GROUP:
            value = b.load(pointer, name="x4", align=1, typ=I32)
        else:
            value = b.zext(b.load(pointer, align=1, typ=I8), I32)
            for i in range(1, length):
                byte = b.zext(b.load(address(b, pointer, i), align=1, typ=I8), I32)
                value = b.or_(value, b.shl(byte, const(8 * i, I32)))
        words = splat(b, value, self.form.lanes)
        x = self.flip_signs(b.bitcast(words, ir.VectorType(I8, 4 * self.form.lanes)))
        if self.form.kind == "madd":
            return self.widen_u8(x)
        return self.input(self.lane(x, 0)) if self.form.widens else x

    def widen_u8(self, x: Value) -> Value:
        """Widen broadcast u8 to i16, where all i32 lanes hold the same four bytes.

        Bytes are interleaved with zeros within each 16 bytes. A plain extension would move bytes from one half of the
        register to the other, which takes three times as long.
        """
        b, count = self.b, x.type.count
        places = [half + i + side for half in range(0, count, 16) for i in range(8) for side in (0, count)]
        pairs = shuffle(b, x, ir.Constant(x.type, [0] * count), places)
        return b.bitcast(pairs, ir.VectorType(I16, count // 2))

    def input(self, x: Value) -> Value:
        """Return bytes in the type that the product takes."""
        return self.b.sext(x, ir.VectorType(I16, x.type.count)) if self.form.widens else x

    def weight(self, panel: Value, group: int, piece: int) -> Value:
        """Emit the load of a group's weights of one piece. panel: pointer to those of the iteration's first group in
        the chunk's first panel."""
        b, form, tile = self.b, self.form, self.tile
        channel, (packed, half) = piece * form.piece, divmod(group, form.packed // form.terms)
        offset = channel // tile.panel * tile.panel_bytes + channel % tile.panel * form.packed
        pointer, size = address(b, address(b, panel, packed * tile.panel * form.packed), offset), form.weight_bytes
        if not form.unpacks:
            return self.input(b.load(pointer, name="w", align=size, typ=ir.VectorType(I8, size)))
        words = b.load(pointer, name="w8", align=2 * size, typ=ir.VectorType(I32, 2 * form.piece))
        return self.input(b.bitcast(shuffle(b, words, words, range(half, 2 * form.piece, 2)), ir.VectorType(I8, size)))

    def ones(self, terms: tuple[int, ...]) -> Value:
        """Return weights of 1, and of 0 for inputs that are not terms."""
        pattern = [int(term >= 0) for term in terms]
        return self.input(ir.Constant(ir.VectorType(I8, self.form.weight_bytes), pattern * self.form.piece))

    def multiply_add(self, acc: Value, xs: Sequence[Value], weights: Sequence[Value], pixel: int, piece: int) -> Value:
        """Return acc plus the products of some groups."""
        b, kind = self.b, self.form.kind
        if kind == "sdot":
            return self.call("llvm.aarch64.neon.sdot.v4i32.v16i8", acc.type, acc, weights[0], xs[0])
        if self.form.matrix:
            return self.call(f"llvm.aarch64.neon.{kind}.v4i32.v16i8", acc.type, acc, xs[0], weights[0])
        if kind == "vnni":
            name = f"llvm.x86.avx512.vpdpbusd.{self.form.lanes * 32}"
            return self.call(name, acc.type, acc, xs[0], weights[0])
        if kind == "madd":
            return b.add(acc, self.call(f"llvm.x86.{MADD[self.form.lanes]}", acc.type, xs[0], weights[0]))
        if kind == "maddubs":
            total = self.pairs(xs[0], weights[0])
            for x, w in zip(xs[1:], weights[1:], strict=True):
                total = b.add(total, self.pairs(x, w))
            ones = ir.Constant(total.type, [1] * total.type.count)
            return b.add(acc, self.call(f"llvm.x86.{MADD[self.form.lanes]}", acc.type, total, ones))
        product = b.mul(xs[0], weights[0])
        for x, w in zip(xs[1:], weights[1:], strict=True):
            product = b.add(product, b.mul(x, w))
        return b.add(acc, self.call("llvm.aarch64.neon.saddlp.v4i32.v8i16", acc.type, product))

    def pairs(self, x: Value, weights: Value) -> Value:
        """Return products u8 x i8 added in pairs, as i16. The instruction saturates, but sums with these weights
        fit."""
        return self.call(f"llvm.x86.{MADDUBS[self.form.lanes]}", ir.VectorType(I16, 2 * self.form.lanes), x, weights)

    def call(self, name: str, result: ir.Type, *args: Value) -> Value:
        """Emit the call of a target intrinsic."""
        return call_intrinsic(self.b, name, result, *args)
