"""Kernel of the products of patches with weights: the second stage of im2, or its only stage with strips."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import address, const, finish_rows, kernel_function, operands, repeat, scale_index
from mavcg.kernels.builder.tiles import emit_full_or_tail
from mavcg.kernels.gemm.tile import Pointers, Sum
from mavcg.kernels.primitives.common import PANEL, Image, epilogue_operands, fill_last_block
from mavcg.kernels.primitives.im2.patch_copy import PatchCopy, PixelRegion
from mavcg.kernels.primitives.im2.patches import Patches
from mavcg.kernels.primitives.matrix_product import (
    MatrixProduct,
    PixelPieces,
    activation_of,
    channels_of_part,
    emit_in_blocks,
    emit_product,
    packed_product,
    pieces_of,
)
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.kernel_symbol import shape_text
from mavcg.specs.packed_constant import WHOLE_WEIGHTS, WeightParts
from mavcg.specs.primitive import F32_BYTES, Epilogue, Layout
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import TileProduct, WeightReads, WorkCounts

Value: TypeAlias = ir.Value


@spec_format("im2_product")
@dataclass(frozen=True)
class PatchProduct(KernelSpec):
    """act(bias + patches x weights + residual); operands: patches, weights, out, bias?, residual?.

    With strips, the first operand is x, and the patches of each piece are copied into the thread's scratch. Weights
    that are vectors are in panels; weights that are scalars are in panels if transposed, else [M, terms]. A row of work
    is a piece of the pixels for a group's output channels, or a part of them.
    """

    patches: Patches
    out: Image
    transposed: bool
    strips: bool
    epilogue: Epilogue

    @property
    def family(self) -> str:
        return "im2_strips_f32" if self.strips else "im2_product_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(
            self.patches.image.layout_text, self.out.layout_text, self.out.sizes_text, self.patches.scenario.window_text
        )

    @property
    def along_pixels(self) -> bool:
        """True if vectors run along pixels; else they run along output channels."""
        return self.out.layout.planar

    @property
    def pieces(self) -> PixelPieces:
        """The cut of the output's pixels into pieces."""
        return pieces_of(self.out.height, self.out.width, self.out.layout is Layout.HCW)

    @property
    def groups(self) -> int:
        """Groups of channels."""
        return self.patches.scenario.groups

    @property
    def channels(self) -> int:
        """Number of output channels of a group."""
        return self.out.channels // self.groups

    @property
    def part_channels(self) -> int:
        """Number of output channels of a part of a group."""
        return self.channels if self.strips else channels_of_part(self.channels, self.pieces.count * self.groups)

    @property
    def parts(self) -> int:
        """Number of parts of a group's output channels."""
        return -(-self.channels // self.part_channels)

    @property
    def rows(self) -> int:
        return self.pieces.count * (1 if self.strips else self.groups * self.parts)

    @property
    def weight_parts(self) -> WeightParts:
        return WHOLE_WEIGHTS if self.strips else WeightParts(self.groups * self.parts, self.groups)

    @property
    def scratch_bytes(self) -> int:
        return self.strip.matrix_bytes if self.strips else 0

    @property
    def strip(self) -> Patches:
        """The patches of one piece; all patches without strips."""
        if not self.strips:
            return self.patches
        p = self.patches
        return Patches(p.scenario, p.layout, p.block, p.columns, self.pieces.rows * self.pieces.columns)

    @property
    def multiply_adds(self) -> int:
        return self.patches.scenario.macs

    @property
    def work(self) -> int:
        return 2 * self.multiply_adds

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        out, patches, terms = self.out, self.patches, self.patches.group_terms
        pixels = out.height * out.width
        piece = min(pixels, self.pieces.rows * self.pieces.columns)
        rows, columns = (self.channels, piece) if self.along_pixels else (piece, self.channels)
        name = "im2_rows" if not self.along_pixels else "im2_columns_turned" if self.transposed else "im2_columns"
        return WorkCounts(
            products=(TileProduct(f"product_{name}", rows, columns, terms, pixels / piece * self.groups),),
            vectors=patches.copy_work(machine, pixels) if self.strips else (),
            read=patches.image.operand_bytes if self.strips else patches.operand_bytes,
            written=out.operand_bytes,
            weights=WeightReads(out.channels * terms * F32_BYTES, self.pieces.count if self.strips else 1),
        )


def emit_patch_product(module: ir.Module, spec: PatchProduct, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    emitter = _PatchProductEmitter(b, spec, machine)
    return finish_rows(b, emitter.row)


class _PatchProductEmitter:
    """Emitter of the loops of one function."""

    def __init__(self, b: ir.IRBuilder, spec: PatchProduct, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        self.source, self.w, self.out = operands(b, "source", "weights", "out")
        self.bias, self.residual = epilogue_operands(b, spec.epilogue, 3)

    def row(self, index: Value) -> None:
        """Emit one row of work."""
        b, spec = self.b, self.spec
        if spec.strips:
            self.piece(index, self.strip)
            return
        number, part = b.udiv(index, const(spec.parts)), b.urem(index, const(spec.parts))
        group, piece = b.udiv(number, const(spec.pieces.count)), b.urem(number, const(spec.pieces.count))

        def emit_span(region: PixelRegion) -> None:
            first = b.mul(b.add(b.mul(region.row, const(spec.out.width)), region.column), const(self.pixel_bytes))
            matrix = address(b, self.source, first)
            last = b.icmp_unsigned("==", part, const(spec.parts - 1))
            rest = spec.channels - (spec.parts - 1) * spec.part_channels
            channel = scale_index(b, part, spec.part_channels)
            emit_full_or_tail(
                b, last, spec.part_channels, rest, lambda count: self.product(region, matrix, group, channel, count)
            )

        self.piece(piece, emit_span)

    @property
    def pixel_bytes(self) -> int:
        """Distance from a pixel's patch to the next, in bytes."""
        return self.spec.strip.pixel_bytes

    def piece(self, index: Value, body: Callable[[PixelRegion], None]) -> None:
        """Emit body(region) for the piece of this number."""
        b, pieces = self.b, self.spec.pieces
        down, across = b.udiv(index, const(pieces.across)), b.urem(index, const(pieces.across))
        row, column = scale_index(b, down, pieces.rows), scale_index(b, across, pieces.columns)
        rows, columns = pieces.rest
        position, end = (across, pieces.across) if pieces.across > 1 else (index, pieces.count)
        last = b.icmp_unsigned("==", position, const(end - 1))
        full = pieces.rows * pieces.columns

        def emit_span(count: int) -> None:
            body(PixelRegion(row, column, *((rows, columns) if count != full else (pieces.rows, pieces.columns))))

        emit_full_or_tail(b, last, full, rows * columns, emit_span)

    def strip(self, region: PixelRegion) -> None:
        """Emit the copy of a piece's patches, then their products for all groups."""
        b, spec = self.b, self.spec
        scratch = b.function.args[3]
        PatchCopy(b, self.machine, spec.strip, self.source).emit(scratch, region)

        def group(index: Value) -> None:
            self.product(region, scratch, index, const(0), spec.channels)

        if spec.groups == 1:
            group(const(0))
        else:
            repeat(b, 0, spec.groups, group, "group")

    def product(self, region: PixelRegion, matrix: Value, group: Value, first: Value, count: int) -> None:
        """Emit `count` output channels of a group from `first` on, for a region.

        matrix: pointer to the patches of the region's first pixel, all groups.
        """
        b, spec, out = self.b, self.spec, self.spec.out
        strip = spec.strip
        terms = strip.group_terms
        patches = address(b, matrix, b.mul(group, const(terms * strip.term_bytes)))
        channel = b.add(b.mul(group, const(spec.channels)), first)
        pixel = b.add(
            scale_index(b, region.row, out.row_step * F32_BYTES),
            scale_index(b, region.column, out.column_step * F32_BYTES),
        )
        offset = b.add(pixel, out.channel_bytes(b, channel))
        bias = address(b, self.bias, scale_index(b, channel, F32_BYTES)) if self.bias is not None else None
        residual = address(b, self.residual, offset) if self.residual is not None else None
        act, args = activation_of(spec.epilogue)
        pixels = region.rows * region.columns
        if spec.along_pixels:
            per_group = -(-spec.channels // PANEL) * PANEL if spec.transposed else spec.channels
            before = b.mul(b.add(b.mul(group, const(per_group)), first), const(terms * F32_BYTES))
            at = Pointers(address(b, self.w, before), patches, address(b, self.out, offset), bias, residual)
            self.by_rows(count, pixels, at)
            return
        levels = Sum(((terms, strip.term_bytes), (1, F32_BYTES)) if strip.columns else ((terms, F32_BYTES),))
        panels = -(-spec.channels // PANEL)
        step = out.column_step * F32_BYTES
        product = packed_product(pixels, count, levels, strip.pixel_bytes, step, "columns", act, args)
        panel = b.add(scale_index(b, group, panels), b.udiv(first, const(PANEL)))
        weights = address(b, self.w, b.mul(panel, const(product.panel_step)))
        at = Pointers(patches, weights, address(b, self.out, offset), bias, residual)
        if out.layout is Layout.HWC:
            emit_product(b, self.machine, product, at)
        else:
            emit_in_blocks(b, self.machine, product, at, out)
            fill_last_block(b, address(b, self.out, offset), out, count, pixels)

    def by_rows(self, count: int, pixels: int, at: Pointers) -> None:
        """Emit a product whose rows are `count` output channels, panel by panel if weights are transposed."""
        b, spec, out = self.b, self.spec, self.spec.out
        terms, act, args = spec.strip.group_terms, *activation_of(spec.epilogue)
        levels = ((terms, PANEL * F32_BYTES), (1, F32_BYTES)) if spec.transposed else ((terms, F32_BYTES),)
        product = MatrixProduct(
            count,
            pixels,
            Sum(levels),
            F32_BYTES if spec.transposed else terms * F32_BYTES,
            spec.strip.row_bytes,
            PANEL * F32_BYTES,
            True,
            out.channel_step * F32_BYTES,
            "rows",
            act,
            args,
            True,
        )
        if not spec.transposed:
            emit_product(b, self.machine, product, at)
            return

        def panel(number: Value, rows: int) -> None:
            def at_panel(base: Value | None, step: int) -> Value | None:
                return address(b, base, scale_index(b, number, PANEL * step)) if base is not None else None

            step = out.channel_step * F32_BYTES
            here = Pointers(
                address(b, at.inputs, scale_index(b, number, PANEL * terms * F32_BYTES)),
                at.weights,
                address(b, at.out, scale_index(b, number, PANEL * step)),
                at_panel(at.bias, F32_BYTES),
                at_panel(at.residual, step),
            )
            emit_product(b, self.machine, replace(product, rows=rows), here)

        whole, rest = divmod(count, PANEL)
        if whole:
            repeat(b, 0, whole, lambda number: panel(number, PANEL), "panel")
        if rest:
            panel(const(whole), rest)
