"""Emitter of the 8-bit micro-kernel: a register tile of exact sums, followed by an epilogue.

Packed weights have groups of four terms for each channel of a panel, so that one instruction computes four terms of a
vector of channels. Inputs are read in place, four bytes at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    I8,
    I16,
    I32,
    Values,
    address,
    const,
    note_tile,
    splat,
)
from mavcg.kernels.builder.nest import shuffle
from mavcg.kernels.builder.product_loop import (
    ProductLoop,
    SumPosition,
    SumTile,
    TermPointers,
    prefetch,
    term_address,
    window_loops,
)
from mavcg.kernels.gemm.tile import LINE_BYTES
from mavcg.kernels.int8.register_tile import GROUP, ProductForm, SumRun, chains
from mavcg.kernels.int8.tile import QPointers, QTile, TileEnding, TileSums
from mavcg.specs.kernel import F32_BYTES as F32_BYTES
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value
# Groups of terms per iteration; half of them on x86 with 16 registers, and IN_ORDER_NEIGHBOURS on NEON's in-order
# cores.
UNROLL = {"sdot": 4, "vnni": 4, "madd": 2, "mull": 2, "maddubs": 2}
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
    ending.store(form, tile, at, _Int8MicroKernel(b, machine, form, tile, at, run).sums())


@dataclass(frozen=True)
class _Groups:
    """Groups that are multiplied at once. at: pointers to the first of the unrolled ones. groups: their numbers.

    wide: of each pixel the inputs of several groups, if these are loaded at once. terms: as in SumRun.terms.
    """

    at: TermPointers
    groups: range
    wide: Sequence[Value]
    terms: tuple[int, ...]


class _Int8MicroKernel:
    """The products of 8 bits: groups of pixels' inputs are the left values, those of weights the right ones."""

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
        self.chains = chains(form, self.pixels, self.pieces, machine.vector_registers, self.unroll)

    def sums(self) -> TileSums:
        """Emit the loops over all terms and return the tile's sums."""
        b, form, size = self.b, self.form, self.pixels * self.pieces
        zero = ir.Constant(ir.VectorType(I32, form.lanes), [0] * form.lanes)
        start = (zero,) * (size * self.chains)
        acc = window_loops(b, self.run.levels, self.run.groups, self.at.inputs, self.neighbours, start)
        total = list(acc[:size])
        for chain in range(1, self.chains):
            total = [b.add(x, y) for x, y in zip(total, acc[chain * size : (chain + 1) * size], strict=True)]
        rows = [total[p * self.pieces : p * self.pieces + self.weight_pieces] for p in range(self.pixels)]
        windows = total[self.weight_pieces :: self.pieces] if form.window_sums else []
        if form.parts == 1:
            return TileSums(rows, windows)
        rows = [[self.add_neighbours(x, y) for x, y in zip(row[::2], row[1::2], strict=True)] for row in rows]
        return TileSums(rows, [self.add_neighbours(x, x) for x in windows])

    def add_neighbours(self, x: Value, y: Value) -> Value:
        """Return the sums of neighbouring lanes of x, then of y."""
        lanes = 2 * self.form.lanes
        even, odd = (shuffle(self.b, x, y, range(i, lanes, 2)) for i in (0, 1))
        return self.b.add(even, odd)

    def neighbours(self, at: SumPosition, acc: Values) -> Values:
        """Emit one run of contiguous inputs, whose terms are groups."""
        b, group_bytes, full = self.b, self.tile.panel * GROUP, self.run.length // GROUP
        tile = SumTile(self.pixels, self.pieces, chains=self.chains)
        products = ProductLoop(b, tile, self.pixel_inputs, self.piece_weights, self.multiply_add)
        panel = at.panel(b, self.at.weights, group_bytes)

        def steps(index: Value | int, count: int) -> Iterator[_Groups]:
            here = term_address(b, at.inputs, index, GROUP, "x")
            return self.steps(count, TermPointers(here, term_address(b, panel, index, group_bytes, "w")))

        acc = products.run(full, self.unroll, steps, acc)
        if self.run.length % GROUP:
            here = address(b, at.inputs, max(0, self.run.length - GROUP))
            last = TermPointers(here, address(b, panel, full * group_bytes))
            acc = products.terms(self.steps(1, last, self.run.terms()[-1]), acc)
        return acc

    def steps(self, count: int, at: TermPointers, terms: tuple[int, ...] = (0,) * GROUP) -> Iterator[_Groups]:
        """Emit the prefetches of `count` groups, and loads of several groups' inputs, step by step.

        terms: as in SumRun.terms; terms of -1 do not count in window sums.
        """
        self.prefetch_weights(count * self.tile.panel * GROUP, at.right)
        wide: list[Value] = []
        for done in range(0, count, self.at_once):
            if self.by_lane(count) and done % self.by_lane_at_once == 0:
                wide = [self.wide(address(self.b, at.left, o + done * GROUP)) for o in self.tile.in_offsets]
            yield _Groups(at, range(done, min(count, done + self.at_once)), wide, terms)

    def pixel_inputs(self, step: _Groups) -> Iterator[list[Value]]:
        """Return the groups of each pixel's inputs, broadcast."""
        for groups in step.wide:
            yield [self.lane(groups, g % self.by_lane_at_once) for g in step.groups]
        for offset in () if step.wide else self.tile.in_offsets:
            yield [self.word(address(self.b, step.at.left, offset + g * GROUP)) for g in step.groups]

    def piece_weights(self, step: _Groups) -> Iterator[list[Value]]:
        """Return the groups of each piece's weights; the last piece is 1 for window sums."""
        group_bytes = self.tile.panel * GROUP
        for piece in range(self.weight_pieces):
            yield [self.weight(address(self.b, step.at.right, g * group_bytes), piece) for g in step.groups]
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
        return x if self.form.parts == 1 else self.input(self.lane(x, 0))

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
        return x if self.form.parts == 1 else self.b.sext(x, ir.VectorType(I16, x.type.count))

    def weight(self, group: Value, piece: int) -> Value:
        """Emit the load of the weights of one piece. group: pointer to the group's weights in the chunk's first
        panel."""
        form, tile = self.form, self.tile
        channel = piece * form.piece
        offset = channel // tile.panel * tile.panel_bytes + channel % tile.panel * GROUP
        pointer, size = address(self.b, group, offset), form.weight_bytes
        return self.input(self.b.load(pointer, name="w", align=size, typ=ir.VectorType(I8, size)))

    def ones(self, terms: tuple[int, ...]) -> Value:
        """Return weights of 1, and of 0 for inputs that are not terms."""
        pattern = [int(term >= 0) for term in terms]
        return self.input(ir.Constant(ir.VectorType(I8, self.form.weight_bytes), pattern * self.form.piece))

    def multiply_add(self, acc: Value, xs: Sequence[Value], weights: Sequence[Value], pixel: int, piece: int) -> Value:
        """Return acc plus the products of some groups."""
        b, kind = self.b, self.form.kind
        if kind == "sdot":
            return self.call("llvm.aarch64.neon.sdot.v4i32.v16i8", acc.type, acc, weights[0], xs[0])
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
        kind = ir.FunctionType(result, [a.type for a in args])
        function = self.b.module.globals.get(name) or ir.Function(self.b.module, kind, name)
        return self.b.call(function, args)
