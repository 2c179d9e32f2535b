"""Products of many lines of quantised activations with weights in blocks, on x86 cores with 16 vector registers.

A tile of lines has not enough registers for its exact sums in a block and its sums over all blocks. So the loop over
blocks is outside of the one over lines: a block's numbers are unpacked once for all lines, into scratch, where the sums
over all blocks are too, and a tile has registers for exact sums alone.
"""

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.block_weights.block_sums import BlockActivations, BlockSums, PanelOperands
from mavcg.kernels.block_weights.float_terms import PanelWeights
from mavcg.kernels.block_weights.integer_terms import IntegerTerms
from mavcg.kernels.block_weights.spec import END_BYTES, LINES_TOGETHER, BlockProduct, block_pitch
from mavcg.kernels.builder.emit import F32, Values, address, const, note_tile, repeat, scale_index
from mavcg.kernels.builder.lanes import f32_splat
from mavcg.kernels.builder.nest_loops import minimum
from mavcg.kernels.int8.register_tile import ProductForm
from mavcg.specs.kernel import F32_BYTES

Value: TypeAlias = ir.Value
TILE_SUMS = 8  # exact sums of a tile: half of the registers
Store: TypeAlias = Callable[[Value, Values], None]  # (first line, vectors of f32 of one line or several)


class BlockLines:
    """Emitter of the sums of a panel, block by block."""

    def __init__(self, b: ir.IRBuilder, spec: BlockProduct, product: ProductForm) -> None:
        self.b, self.spec, self.form, self.product = b, spec, spec.weights, product
        self.vectors = spec.weights.panel // product.lanes
        self.most = max(1, TILE_SUMS // (self.vectors * self.sums(1).terms.chains))
        self.vector_bytes = product.lanes * F32_BYTES

    def sums(self, lines: int, unpacked: bool = True) -> BlockSums:
        """Return the emitter of a block's sums of some lines."""
        terms = IntegerTerms(self.b, self.product, self.form, lines, self.vectors, False, unpacked)
        return BlockSums(self.b, terms, PanelWeights(self.b, self.form, self.product.lanes))

    def emit(self, panel: PanelOperands, lines: Value | int, store: Store) -> None:
        """Emit all lines, and store(line, its vectors) for each. lines: their number, an int where it is known."""
        b = self.b
        note_tile(b, self.most, self.vectors)

        together = const(LINES_TOGETHER)
        if isinstance(lines, int):
            whole = lines // LINES_TOGETHER * LINES_TOGETHER
            repeat(b, 0, whole, lambda first: self.together(panel, first, together, store), "together", LINES_TOGETHER)
            if lines > whole:
                self.together(panel, const(whole), const(lines - whole), store)
            return
        count = lines

        def several(first: Value) -> None:
            self.together(panel, first, minimum(b, b.sub(count, first), together), store)

        repeat(b, const(0), count, several, "together", LINES_TOGETHER)

    def together(self, panel: PanelOperands, first: Value, count: Value, store: Store) -> None:
        """Emit `count` lines from the first one on, at most LINES_TOGETHER."""
        b, spec, form = self.b, self.spec, self.form
        zero = f32_splat(0.0, self.product.lanes)
        factors = address(b, panel.scratch, spec.lines_bytes, "factors")

        def clear(line: Value) -> None:
            for v in range(self.vectors):
                b.store(zero, self.place(panel, line, v), align=self.vector_bytes)

        def block(index: Value) -> None:
            packed = address(b, panel.weights, scale_index(b, index, form.block_bytes))
            one = self.sums(1, unpacked=False)
            one.weights.prefetch(packed, spec.panel_bytes, const(0), 1)
            one.terms.unpack(packed, factors, form.block)
            scales = one.scales(packed)
            place = address(b, panel.numbers, scale_index(b, index, block_pitch(spec.x, form.block)))
            numbers = address(b, place, scale_index(b, first, form.block))
            place = address(b, panel.ends, scale_index(b, index, spec.x.count * END_BYTES))
            ends = address(b, place, scale_index(b, first, F32_BYTES))
            size, done = self.most, const(0)
            while size:
                sums = self.sums(size)

                def tile(line: Value, sums: BlockSums = sums, size: int = size) -> None:
                    at = address(b, numbers, scale_index(b, line, form.block))
                    end = address(b, ends, scale_index(b, line, F32_BYTES))
                    of_lines = [address(b, at, i * form.block) for i in range(size)]
                    x = BlockActivations(of_lines, end, address(b, end, spec.x.count * F32_BYTES))
                    new = sums.add(factors, x, form.block, lambda: scales, lambda i: self.load(panel, line, i))
                    for i, total in enumerate(new):
                        b.store(total, self.place(panel, line, i), align=self.vector_bytes)

                end = b.sub(count, b.urem(b.sub(count, done), const(size)), name="lines_end")
                repeat(b, done, end, tile, "lines", size)
                size, done = size // 2, end

        repeat(b, const(0), count, clear, "cleared")
        repeat(b, 0, spec.blocks, block, "block")
        repeat(
            b,
            const(0),
            count,
            lambda line: store(b.add(first, line), tuple(self.load(panel, line, v) for v in range(self.vectors))),
            "line",
        )

    def place(self, panel: PanelOperands, line: Value, i: int) -> Value:
        """Return the address in scratch of vector `i` of the sums of a line and the lines after it."""
        place = address(self.b, panel.scratch, scale_index(self.b, line, self.form.panel * F32_BYTES))
        return address(self.b, place, i * self.vector_bytes)

    def load(self, panel: PanelOperands, line: Value, i: int) -> Value:
        """Return that vector."""
        typ = ir.VectorType(F32, self.product.lanes)
        return self.b.load(self.place(panel, line, i), name="sum", align=self.vector_bytes, typ=typ)
