"""Kernel of the products of each tap's weights with the image, added to the output or stored as partial results."""

from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import I1, address, const, finish_rows, kernel_function, operands, repeat, scale_index
from mavcg.kernels.builder.nest_loops import minimum
from mavcg.kernels.builder.tiles import emit_full_or_tail
from mavcg.kernels.gemm.tile import Part, Pointers, Sum
from mavcg.kernels.primitives.common import PANEL, Image, epilogue_operands, transpose_work
from mavcg.kernels.primitives.kn2.shift import ChannelSpan, OutputRows
from mavcg.kernels.primitives.matrix_product import (
    STRIP_PIXELS,
    MatrixProduct,
    channels_of_part,
    emit_in_blocks,
    emit_product,
    packed_product,
)
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.kernel_symbol import shape_text
from mavcg.specs.packed_constant import WeightParts
from mavcg.specs.primitive import F32_BYTES, Epilogue, Layout, Scenario
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import OperandBytes, TileProduct, WeightReads, WorkCounts

Value: TypeAlias = ir.Value


@spec_format("kn2_products")
@dataclass(frozen=True)
class TapProducts(KernelSpec):
    """The products of each tap's weights with rows of the image; operands: x, weights, out, bias?, residual?.

    accumulating: out is the convolution's output, and a row of work is a block of its rows for a group's output
    channels, or a part of them. Else out has the products of all taps, tap by tap, as channels of each pixel of x, and
    a row of work is a row of x for one tap and group. Weights: [taps, M, terms] for vectors of pixels, else [taps,
    groups, panels, terms, PANEL], where the terms of a group include the padding of blocks.
    """

    scenario: Scenario
    x: Image
    out: Image
    accumulating: bool
    epilogue: Epilogue

    @property
    def family(self) -> str:
        return "kn2_acc_f32" if self.accumulating else "kn2_taps_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(self.x.layout_text, self.out.layout_text, self.out.sizes_text, self.scenario.window_text)

    @property
    def channels(self) -> int:
        """Number of output channels of a group."""
        return self.scenario.m // self.scenario.groups

    @property
    def terms(self) -> int:
        """Number of terms of one tap's sum."""
        per_group = self.scenario.c // self.scenario.groups
        return -(-per_group // self.x.block) * self.x.block if self.x.layout is Layout.CHWC else per_group

    @property
    def block_rows(self) -> int:
        """Number of output rows of a block, for all of which a tap's weights are used before the next tap's."""
        return min(self.out.height, max(1, STRIP_PIXELS // self.out.width)) if self.accumulating else 1

    @property
    def blocks(self) -> int:
        """Number of blocks of rows."""
        return -(-self.out.height // self.block_rows)

    @property
    def part_channels(self) -> int:
        """Number of output channels of a part of a group."""
        if not self.accumulating:
            return self.channels
        return channels_of_part(self.channels, self.blocks * self.scenario.groups)

    @property
    def parts(self) -> int:
        """Number of parts of a group's output channels."""
        return -(-self.channels // self.part_channels)

    @property
    def taps(self) -> int:
        """Number of taps of the kernel."""
        return self.scenario.taps

    @property
    def rows(self) -> int:
        return self.blocks * self.scenario.groups * (self.parts if self.accumulating else self.taps)

    @property
    def weight_parts(self) -> WeightParts:
        groups = self.scenario.groups
        if self.accumulating:
            return WeightParts(groups * self.parts, groups)
        return WeightParts(groups * self.taps, groups * self.taps, self.taps)

    @property
    def multiply_adds(self) -> int:
        return self.scenario.macs

    @property
    def work(self) -> int:
        return 2 * self.multiply_adds

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        s, x, out, along_pixels = self.scenario, self.x, self.out, self.out.layout.planar
        rows, columns = (self.channels, out.width) if along_pixels else (out.width, self.channels)
        name = "product_kn2_row" if along_pixels else "product_kn2_col"
        return WorkCounts(
            products=(TileProduct(name, rows, columns, self.terms, out.height * self.taps * s.groups),),
            vectors=transpose_work(x, along_pixels) if self.taps > 1 else (),
            read=x.operand_bytes,
            written=out.operand_bytes
            if self.accumulating
            else OperandBytes(out.operand_bytes.size, 2 * out.operand_bytes.size),
            weights=WeightReads(s.m * s.c // s.groups * self.taps * F32_BYTES),
        )

    def columns(self, kx: int) -> tuple[int, int]:
        """Return (first, count) of the output columns that read the image, not the border, through a column of taps."""
        shift = kx * self.scenario.along.dilation - self.scenario.along.pad
        first = max(0, -shift)
        return first, max(0, min(self.out.width, self.x.width - shift) - first)


@dataclass(frozen=True)
class _TapRow:
    """One tap's products with `width` pixels of a row: `count` of a group's output channels, from `first` on.

    source, out: offsets of the pixels in x and of the outputs, in bytes.
    """

    tap: Value
    group: Value
    first: Value
    count: int
    width: int
    source: Value
    out: Value


def emit_tap_products(module: ir.Module, spec: TapProducts, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    emitter = _TapProductEmitter(b, spec, machine)
    row = emitter.block if spec.accumulating else emitter.partial
    return finish_rows(b, row)


class _TapProductEmitter:
    """Emitter of the loops of one function."""

    def __init__(self, b: ir.IRBuilder, spec: TapProducts, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        self.x, self.w, self.out = operands(b, "x", "weights", "out")
        bias, residual = epilogue_operands(b, spec.epilogue, 3)
        self.outputs = OutputRows(b, machine, spec.out, spec.epilogue, self.out, bias, residual)

    def partial(self, index: Value) -> None:
        """Emit one tap's product with a row of x."""
        b, spec = self.b, self.spec
        rest, y = b.udiv(index, const(spec.blocks)), b.urem(index, const(spec.blocks))
        group, tap = b.udiv(rest, const(spec.taps)), b.urem(rest, const(spec.taps))
        channel = b.add(scale_index(b, tap, spec.scenario.m), scale_index(b, group, spec.channels))
        out = b.add(spec.out.channel_bytes(b, channel), self.outputs.row_bytes(y))
        source = scale_index(b, y, spec.x.row_step * F32_BYTES)
        self.product(_TapRow(tap, group, const(0), spec.channels, spec.x.width, source, out))

    def block(self, index: Value) -> None:
        """Emit a block of rows of output, of a part of the channels."""
        b, spec = self.b, self.spec
        number, part = b.udiv(index, const(spec.parts)), b.urem(index, const(spec.parts))
        group, block = b.udiv(number, const(spec.blocks)), b.urem(number, const(spec.blocks))
        begin = scale_index(b, block, spec.block_rows)
        end = b.add(begin, const(spec.block_rows))
        end = minimum(b, end, const(spec.out.height))
        first = scale_index(b, part, spec.part_channels)
        rest = spec.channels - (spec.parts - 1) * spec.part_channels
        last = b.icmp_unsigned("==", part, const(spec.parts - 1))

        def emit_span(count: int) -> None:
            channels = ChannelSpan(b.add(scale_index(b, group, spec.channels), first), count)
            repeat(b, begin, end, lambda row: self.outputs.begin(row, channels), "row")
            self.taps(group, first, channels, begin, end)
            repeat(b, begin, end, lambda row: self.outputs.finish(row, channels), "row")

        emit_full_or_tail(b, last, spec.part_channels, rest, emit_span)

    def taps(self, group: Value, first: Value, channels: ChannelSpan, begin: Value, end: Value) -> None:
        """Emit all taps' products, added to a block of rows.

        Columns of taps with equally many outputs share their code and are processed together, in the order in which
        each number of outputs first occurs. That fixes the order of each sum.
        """
        b, spec, s = self.b, self.spec, self.spec.scenario
        along = s.along
        widths: dict[int, list[int]] = {}
        for kx in range(along.k):
            widths.setdefault(spec.columns(kx)[1], []).append(kx)
        widths.pop(0, None)
        for width, columns in widths.items():

            def column(number: Value, width: int = width, columns: list[int] = columns) -> None:
                kx = table_entry(b, number, columns)
                start = table_entry(b, number, [spec.columns(kx)[0] for kx in columns])
                from_ = b.add(start, b.sub(scale_index(b, kx, along.dilation), const(along.pad)))
                repeat(b, 0, s.k, lambda ky: tap(ky, kx, start, from_, width), "ky")

            def tap(ky: Value, kx: Value, start: Value, from_: Value, width: int) -> None:
                shift = b.sub(scale_index(b, ky, s.dilation), const(s.pad))
                number = b.add(scale_index(b, ky, along.k), kx)
                low = b.select(b.icmp_signed("<", b.add(begin, shift), const(0)), b.sub(const(0), shift), begin)
                stop = b.sub(const(s.h), shift)
                high = b.select(b.icmp_signed(">", end, stop), stop, end)

                def row(y: Value) -> None:
                    source = scale_index(b, b.add(y, shift), spec.x.row_step * F32_BYTES)
                    source = b.add(source, scale_index(b, from_, spec.x.column_step * F32_BYTES))
                    out = b.add(self.outputs.row_bytes(y), scale_index(b, start, spec.out.column_step * F32_BYTES))
                    out = b.add(out, spec.out.channel_bytes(b, channels.first))
                    part = Part(const(0, I1), const(0, I1))
                    self.product(_TapRow(number, group, first, channels.count, width, source, out), part)

                repeat(b, low, high, row, "row")

            repeat(b, 0, len(columns), column, "kx")

    def product(self, row: _TapRow, part: Part | None = None) -> None:
        """Emit products. part: position among the taps' sums in out; None: they are stored by themselves."""
        b, spec, x = self.b, self.spec, self.spec.x
        per_group = spec.scenario.c // spec.scenario.groups
        source = b.add(row.source, x.channel_bytes(b, scale_index(b, row.group, per_group)))
        to, from_ = address(b, self.out, row.out), address(b, self.x, source)
        if spec.out.layout.planar:
            channel = b.add(scale_index(b, row.tap, spec.scenario.m), scale_index(b, row.group, spec.channels))
            channel = b.add(channel, row.first)
            weights = address(b, self.w, scale_index(b, channel, spec.terms * F32_BYTES))
            product = MatrixProduct(
                row.count,
                row.width,
                Sum(((spec.terms, F32_BYTES),)),
                spec.terms * F32_BYTES,
                x.channel_step * F32_BYTES,
                PANEL * F32_BYTES,
                False,
                spec.out.channel_step * F32_BYTES,
                "",
                "",
                (),
                True,
            )
            emit_product(b, self.machine, product, Pointers(weights, from_, to), part)
            return
        if x.layout is Layout.CHWC:
            levels: tuple[tuple[int, int], ...] = (
                (spec.terms // x.block, x.block_step * F32_BYTES),
                (x.block, F32_BYTES),
            )
        elif x.layout is Layout.HWC:
            levels = ((spec.terms, F32_BYTES),)
        else:
            levels = ((spec.terms, x.channel_step * F32_BYTES), (1, F32_BYTES))
        steps = x.column_step * F32_BYTES, spec.out.column_step * F32_BYTES
        product = packed_product(row.width, row.count, Sum(levels), *steps)
        panels = -(-spec.channels // PANEL)
        panel = b.add(scale_index(b, row.tap, spec.scenario.groups * panels), scale_index(b, row.group, panels))
        panel = b.add(panel, b.udiv(row.first, const(PANEL)))
        at = Pointers(from_, address(b, self.w, b.mul(panel, const(product.panel_step))), to)
        if spec.out.layout is Layout.CHWC:
            emit_in_blocks(b, self.machine, product, at, spec.out, part)
        else:
            emit_product(b, self.machine, product, at, part)


def table_entry(b: ir.IRBuilder, index: Value, numbers: list[int]) -> Value:
    """Return numbers[index]: by a product and a sum if the numbers are evenly spaced, else by a chain of selects."""
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 0
    if all(after - before == step for before, after in zip(numbers, numbers[1:], strict=False)):
        return b.add(const(numbers[0]), scale_index(b, index, step))
    entry: Value = const(numbers[0])
    for position, number in enumerate(numbers[1:], 1):
        entry = b.select(b.icmp_unsigned("==", index, const(position)), const(number), entry)
    return entry
