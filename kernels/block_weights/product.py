"""Kernels of products with weights in blocks: of quantised activations as whole numbers, of f32 ones in f32.

Lanes are output channels, and a channel's sum has one order on every core: over the blocks, with an fma each. The sum
of a block is exact of quantised activations; of f32 ones it is two chains of fma, of terms with even and odd numbers in
the order in which they are packed, which are added.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.block_weights.activations import emit_quantized_blocks
from mavcg.kernels.block_weights.block_lines import BlockLines
from mavcg.kernels.block_weights.block_sums import BlockActivations, BlockSums, PanelOperands
from mavcg.kernels.block_weights.float_terms import FloatLines, PanelWeights, add_float_block
from mavcg.kernels.block_weights.integer_terms import IntegerTerms, product_form
from mavcg.kernels.block_weights.spec import (
    END_BYTES,
    BlockProduct,
    Lines,
    QuantizedBlocks,
    block_pitch,
    least_tile_lines,
    lower_block_matmul,
)
from mavcg.kernels.block_weights.tile_lines import TileLines
from mavcg.kernels.builder.emit import (
    F32,
    I32,
    Values,
    address,
    const,
    finish_rows,
    for_range,
    kernel_function,
    length_times,
    note_tile,
    operands,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import f32_splat, load_lanes, store_lanes
from mavcg.kernels.builder.x86_tiles import TILE_ROWS, release_tiles
from mavcg.kernels.int8.register_tile import ProductForm
from mavcg.specs.kernel import F32_BYTES, Machine

Value: TypeAlias = ir.Value
FULL_REGISTERS = 32  # which hold the sums of a tile of lines over all blocks beside those of a block


def tile_lines(machine: Machine, product: ProductForm, quantize: bool) -> int:
    """Return the lines of a register tile: as many as registers hold sums of a block and of all blocks before it.

    Those of f32 activations have PARTIAL_SUMS accumulators a vector beside the sums.
    """
    if quantize and product.kind == "vnni" and machine.vector_registers >= 32:
        return 8
    return 4 if quantize or machine.vector_registers >= 32 else 2


@dataclass(frozen=True)
class _Tile:
    """Some lines of a row of work.

    count: lines. first: number of the first. lines: their first activations, or numbers. ends: of QuantizedBlocks, at
    the first block; unused of f32 activations.
    """

    count: int
    first: Value
    lines: Value
    ends: Value


def emit_block_product(module: ir.Module, spec: BlockProduct, machine: Machine) -> ir.Function:
    """Emit the loops over panels, tiles of lines, and blocks."""
    function, b = kernel_function(module, spec, machine)
    panel = _Panel(b, spec, machine)
    if panel.tiles is None:
        return finish_rows(b, panel.emit)
    with b.if_then(panel.many_lines):
        panel.tiles.configure()
    repeat(b, function.args[1], function.args[2], panel.emit, "row")
    with b.if_then(panel.many_lines):
        release_tiles(b)
    b.ret_void()
    return function


class _Panel:
    """Emitter of a row of work: the channels of a panel, of all lines."""

    def __init__(self, b: ir.IRBuilder, spec: BlockProduct, machine: Machine) -> None:
        self.b, self.spec, self.form = b, spec, spec.weights
        self.paired = spec.paired
        # From the numbers of a line to those of the next; of pairs: half of the bytes from a pair to the next.
        self.line_bytes = self.form.block if spec.blocked else spec.blocks * self.form.block
        self.product = product_form(machine, spec.weights.panel, self.paired, spec.weights.bits)
        self.of_a_line = product_form(machine, spec.weights.panel, False, spec.weights.bits)
        self.lanes = self.product.lanes
        self.vectors = spec.weights.panel // self.lanes
        self.weights = PanelWeights(b, spec.weights, self.lanes)
        self.most_lines = tile_lines(machine, self.product, spec.quantize)
        names = [
            *(("numbers", "ends") if spec.quantize else ("x",)),
            "weights",
            "out",
            *(["bias"] if spec.bias else []),
            *(["residual"] if spec.residual is not None else []),
        ]
        self.operands = dict(zip(names, operands(b, *names), strict=True))
        self.lines = length_times(b, len(names), spec.per_index) if spec.per_index else const(spec.x.count)
        self.tiles = TileLines(b, spec, machine) if spec.tiled and machine.int8_tiles else None
        few_registers = spec.blocked and machine.vector_registers < FULL_REGISTERS
        self.block_lines = BlockLines(b, spec, self.product) if few_registers and not self.tiles else None
        least = least_tile_lines(self.form) if self.tiles else self.most_lines
        self.many_lines = b.icmp_signed(">=", self.lines, const(least)) if self.tiles or few_registers else const(0)

    def emit(self, panel: Value) -> None:
        """Emit tiles of as many lines as registers hold, and one of the others."""
        b, spec, most = self.b, self.spec, self.most_lines
        weights = address(b, self.operands["weights"], scale_index(b, panel, spec.panel_bytes))
        if self.tiles is not None:
            self.free_lines(panel, weights, self.tile_lines(self.tiles, panel, weights), most)
        elif spec.per_index and self.block_lines is not None:
            with b.if_else(self.many_lines) as (many, few):
                with many:
                    self.emit_blocks(self.block_lines, panel, weights)
                with few:
                    self.free_lines(panel, weights, const(0), most // 2)
        elif spec.per_index:
            self.free_lines(panel, weights, const(0), most)
        elif self.block_lines is not None and spec.x.count >= most:
            self.emit_blocks(self.block_lines, panel, weights)
        else:
            whole = spec.x.count // most * most
            if whole:
                repeat(b, 0, whole, lambda first: self.tile(panel, weights, first, most), "lines", most)
            if spec.x.count > whole:
                self.tile(panel, weights, const(whole), spec.x.count - whole)

    def of_panel(self, panel: Value, weights: Value) -> PanelOperands:
        """Return the operands of a panel of quantised activations."""
        b, channel = self.b, scale_index(self.b, panel, self.form.panel)
        (out,), residuals = self.outs(channel, const(0), 1), self.residuals(channel, const(0), 1)
        scratch, residual = b.function.args[3], residuals[0] if residuals else None
        return PanelOperands(self.operands["numbers"], self.operands["ends"], weights, out, scratch, residual)

    def store_lines(self, panel: Value) -> Callable[[Value, Values], None]:
        """Return the emitter of the stores of a panel's lines: (first line, their vectors)."""

        def store(first: Value, sums: Values) -> None:
            self.store(panel, first, sums)

        return store

    def emit_blocks(self, block_lines: BlockLines, panel: Value, weights: Value) -> None:
        """Emit all lines block by block."""
        lines = self.lines if self.spec.per_index else self.spec.x.count
        block_lines.emit(self.of_panel(panel, weights), lines, self.store_lines(panel))

    def tile_lines(self, tiles: TileLines, panel: Value, weights: Value) -> Value:
        """Emit tiles of TILE_ROWS lines, the last of which may have fewer; return the lines that they compute."""
        b, lines = self.b, self.lines
        rest = b.urem(lines, const(TILE_ROWS), name="rest")
        few = b.icmp_signed("<", rest, const(least_tile_lines(self.form)))
        end = b.sub(lines, b.select(few, rest, const(0)), name="tiles_end")

        with b.if_then(self.many_lines):
            tiles.emit(self.of_panel(panel, weights), end, self.store_lines(panel))
        return end

    def free_lines(self, panel: Value, weights: Value, done: Value, count: int) -> None:
        """Emit tiles of `count` of a run's lines from `done` on, then one of each smaller power of two."""
        b, lines = self.b, self.lines
        while count:
            end = b.sub(lines, b.urem(b.sub(lines, done), const(count)), name="lines_end")
            repeat(b, done, end, lambda first, count=count: self.tile(panel, weights, first, count), "lines", count)  # type: ignore[misc]
            count, done = count // 2, end

    def tile(self, panel: Value, weights: Value, first: Value, count: int) -> None:
        """Emit `count` lines from number `first` on."""
        b, spec = self.b, self.spec
        note_tile(b, count, self.vectors)
        if spec.quantize:
            lines = address(b, self.operands["numbers"], scale_index(b, first, self.line_bytes), "numbers")
            ends = address(b, self.operands["ends"], scale_index(b, first, F32_BYTES), "ends")
        else:
            lines = ends = address(b, self.operands["x"], scale_index(b, first, spec.x.pitch * F32_BYTES), "x")
        self.store(panel, first, self.blocks(weights, _Tile(count, first, lines, ends)))

    def outs(self, channel: Value, first: Value, count: int) -> list[Value]:
        """Return the outputs of a channel of `count` lines from number `first` on."""
        return self.places("out", self.spec.out, channel, first, count)

    def residuals(self, channel: Value, first: Value, count: int) -> list[Value]:
        """Return what is added to these outputs; [] for nothing."""
        lines = self.spec.residual
        return [] if lines is None else self.places("residual", lines, channel, first, count)

    def places(self, name: str, lines: Lines, channel: Value, first: Value, count: int) -> list[Value]:
        """Return the addresses of an operand's channel in `count` lines from number `first` on."""
        b = self.b
        place = address(b, self.operands[name], scale_index(b, channel, lines.step * F32_BYTES))
        place = address(b, place, scale_index(b, first, lines.pitch * F32_BYTES))
        return [address(b, place, i * lines.pitch * F32_BYTES) for i in range(count)]

    def blocks(self, weights: Value, tile: _Tile) -> Values:
        """Emit the loop over blocks; return the sums [line * vectors + vector]."""
        b, spec, block = self.b, self.spec, self.form.block
        count = self.terms_of(tile).accumulators if spec.quantize else tile.count * self.vectors
        start: Values = (f32_splat(0.0, self.lanes),) * count
        add = self.add_integers if spec.quantize else self.add_floats

        def whole_block(index: Value, acc: Values) -> Values:
            return add(tile, index, address(b, weights, scale_index(b, index, self.form.block_bytes)), block, acc)

        whole = spec.x.length // block if not spec.quantize else spec.blocks
        acc = for_range(b, const(0), const(whole), 1, start, whole_block, "block")
        if spec.blocks > whole:
            last = address(b, weights, whole * self.form.block_bytes)
            acc = add(tile, const(whole), last, spec.x.length % block, acc)
        return tuple(self.terms_of(tile).by_line(acc)) if spec.quantize else acc

    def terms_of(self, tile: _Tile) -> IntegerTerms:
        """Return the emitter of exact sums for a tile; one line has no other to be multiplied with."""
        product = self.product if tile.count > 1 else self.of_a_line
        return IntegerTerms(self.b, product, self.form, tile.count, self.vectors, self.paired)

    def add_integers(self, tile: _Tile, index: Value, weights: Value, terms: int, acc: Values) -> Values:
        """Return the accumulators plus a block of quantised activations."""
        b, spec, form = self.b, self.spec, self.form
        together, tiles = 1 + self.paired, spec.x.count // self.most_lines
        if spec.by_blocks and tiles > 1 and tile.count == self.most_lines:
            self.weights.prefetch(weights, spec.panel_bytes, b.udiv(tile.first, const(tile.count)), tiles)
        elif spec.by_blocks and tile.count == 1 and (spec.x.count == 1 or spec.per_index):
            self.weights.prefetch_stream(weights)
        of_block = block_pitch(spec.x, form.block) if spec.blocked else form.block * together
        here = address(b, tile.lines, scale_index(b, index, of_block))
        lines = [address(b, here, i * self.line_bytes) for i in range(0, tile.count, together)]
        end = address(b, tile.ends, scale_index(b, index, spec.x.count * END_BYTES))
        x = BlockActivations(lines, end, address(b, end, spec.x.count * F32_BYTES))
        sums = BlockSums(b, self.terms_of(tile), self.weights)
        return sums.add(weights, x, terms, lambda: sums.scales(weights), lambda i: acc[i])

    def add_floats(self, tile: _Tile, index: Value, weights: Value, terms: int, acc: Values) -> Values:
        """Return the sums plus those of a block of f32 activations, of which there are `terms`."""
        b, x = self.b, self.spec.x
        at = scale_index(b, index, self.form.block * x.step * F32_BYTES)
        lines = [address(b, address(b, tile.lines, i * x.pitch * F32_BYTES), at) for i in range(tile.count)]
        return add_float_block(self.weights, weights, FloatLines(lines, x.step, terms), acc)

    def store(self, panel: Value, first: Value, sums: Values) -> None:
        """Emit the stores of lines from number `first` on, with bias and residual; the last panel may have fewer
        channels."""
        b, spec, channel = self.b, self.spec, scale_index(self.b, panel, self.form.panel)
        rest = spec.out.length % self.form.panel
        if not rest:
            self.store_channels(channel, first, sums, self.form.panel)
            return
        last = b.icmp_signed("==", panel, const(spec.rows - 1))
        with b.if_else(last) as (then, otherwise):
            with then:
                self.store_channels(channel, first, sums, rest)
            with otherwise:
                self.store_channels(channel, first, sums, self.form.panel)

    def store_channels(self, channel: Value, first: Value, sums: Values, channels: int) -> None:
        """Emit the stores of the first `channels` channels of a panel."""
        b, spec, count = self.b, self.spec, len(sums) // self.vectors
        outs, residuals = self.outs(channel, first, count), self.residuals(channel, first, count)
        for v in range(-(-channels // self.lanes)):
            used = min(self.lanes, channels - v * self.lanes)
            bias = None
            if spec.bias:
                place = address(
                    b, self.operands["bias"], scale_index(b, b.add(channel, const(v * self.lanes)), F32_BYTES)
                )
                bias = load_lanes(b, place, F32, self.lanes, used, "bias")
            for line, out in enumerate(outs):
                total = sums[line * self.vectors + v]
                total = total if bias is None else b.fadd(total, bias)
                if spec.residual is not None:
                    place = address(b, residuals[line], v * self.lanes * spec.residual.step * F32_BYTES)
                    total = b.fadd(total, self.load_vector(place, spec.residual.step, used))
                self.store_vector(total, address(b, out, v * self.lanes * spec.out.step * F32_BYTES), used)

    def load_vector(self, place: Value, step: int, used: int) -> Value:
        """Emit the load of the first `used` lanes, `step` elements apart."""
        b = self.b
        if step == 1:
            return load_lanes(b, place, F32, self.lanes, used, "residual")
        value = f32_splat(0.0, self.lanes)
        for i in range(used):
            one = b.load(address(b, place, i * step * F32_BYTES), align=F32_BYTES, typ=F32)
            value = b.insert_element(value, one, const(i, I32))
        return value

    def store_vector(self, value: Value, place: Value, used: int) -> None:
        """Emit the store of the first `used` lanes."""
        b, step = self.b, self.spec.out.step
        if step == 1:
            store_lanes(b, value, place, self.lanes, used)
            return
        for i in range(used):
            b.store(b.extract_element(value, const(i, I32)), address(b, place, i * step * F32_BYTES), align=F32_BYTES)


LOWER: dict[str, Callable[..., object]] = {"block_matmul": lower_block_matmul}
EMIT = {QuantizedBlocks: emit_quantized_blocks, BlockProduct: emit_block_product}
