"""Copies of the patches of an image: the kernel of the whole matrix, and the emitter for a region of output pixels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import address, const, finish_rows, kernel_function, operand, repeat, scale_index
from mavcg.kernels.builder.nest_loops import clamp
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.kernels.primitives.im2.patches import Patches
from mavcg.kernels.primitives.runs import copy_run, copy_run_of, fill_zeros, zero_run_of
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.primitive import F32_BYTES, Layout
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import WorkCounts

Value: TypeAlias = ir.Value


@spec_format("im2_patches")
@dataclass(frozen=True)
class PatchMatrix(KernelSpec):
    """The copy of an image's whole matrix of patches; operands: x, matrix.

    A row of work is a channel's row of taps (im2col), or a row of output pixels (im2row).
    """

    patches: Patches

    @property
    def family(self) -> str:
        return "im2col_f32" if self.patches.columns else "im2row_f32"

    @property
    def symbol_shape(self) -> str:
        s = self.patches.scenario
        return shape_text(self.patches.image.layout_text, sizes_text(s.out_h, s.out_w, s.c), s.window_text)

    @property
    def rows(self) -> int:
        s = self.patches.scenario
        return s.c * s.k if self.patches.columns else s.out_h

    @property
    def work(self) -> int:
        return 2 * self.patches.terms * self.patches.pixels

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        p = self.patches
        return WorkCounts(vectors=p.copy_work(machine, p.pixels), read=p.image.operand_bytes, written=p.operand_bytes)


def emit_patch_matrix(module: ir.Module, spec: PatchMatrix, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    x, target = operand(b, 0, "x"), operand(b, 1, "matrix")
    patches, s = spec.patches, spec.patches.scenario
    copy = PatchCopy(b, machine, patches, x)

    def row(index: Value) -> None:
        if patches.columns:
            channel, ky = b.udiv(index, const(s.k)), b.urem(index, const(s.k))
            copy.tap_row(target, channel, ky, PixelRegion(const(0), const(0), s.out_h, s.out_w))
        else:
            first = address(b, target, b.mul(index, const(s.out_w * patches.pixel_bytes)))
            copy.emit(first, PixelRegion(index, const(0), 1, s.out_w))

    return finish_rows(b, row)


@dataclass(frozen=True)
class PixelRegion:
    """A rectangle of `rows` x `columns` output pixels from (row, column) on."""

    row: Value
    column: Value
    rows: int
    columns: int


@dataclass(frozen=True)
class PatchCopy:
    """Emitter of copies of patches. x: pointer to the image. target: pointer to the first pixel's first term."""

    b: ir.IRBuilder
    machine: Machine
    patches: Patches
    x: Value

    def emit(self, target: Value, region: PixelRegion) -> None:
        """Emit the copy of a region's patches."""
        b, s = self.b, self.patches.scenario
        if self.patches.taps_first:
            self._by_pixel(target, region)
            return

        def channel(c: Value) -> None:
            repeat(b, 0, s.k, lambda ky: self.tap_row(target, c, ky, region), "ky")

        repeat(b, 0, s.c, channel, "channel")

    def tap_row(self, target: Value, channel: Value, ky: Value, region: PixelRegion) -> None:
        """Emit the copy of the terms of one channel and row of taps, for a region; terms are in order of channel."""
        b, machine, patches = self.b, self.machine, self.patches
        s, image = patches.scenario, patches.image
        plane = address(b, self.x, image.channel_bytes(b, channel))
        across = s.along
        first = b.mul(b.add(b.mul(channel, const(s.k)), ky), const(across.k))

        def tap(kx: Value) -> None:
            pointer = address(b, target, scale_index(b, b.add(first, kx), patches.term_bytes))
            repeat(b, 0, region.rows, lambda row: line(kx, pointer, row), "row")

        def line(kx: Value, pointer: Value, row: Value) -> None:
            to = address(b, pointer, scale_index(b, row, region.columns * patches.pixel_bytes))
            y = b.add(
                scale_index(b, b.add(region.row, row), s.stride), b.sub(scale_index(b, ky, s.dilation), const(s.pad))
            )
            # Columns `low` to `high` read pixels of the image, the others zeros of the border.
            shift = b.sub(const(across.pad), scale_index(b, kx, across.dilation))
            end = b.add(region.column, const(region.columns))
            low = b.sdiv(b.add(shift, const(across.stride - 1)), const(across.stride))
            low = clamp(b, low, region.column, end)
            high = b.sdiv(b.add(shift, const(s.w - 1 + across.stride * (across.pad + 1))), const(across.stride))
            high = b.sub(high, const(across.pad))
            high = clamp(b, high, low, end)
            in_image = b.icmp_unsigned("<", y, const(s.h))
            low, high = b.select(in_image, low, end), b.select(in_image, high, end)
            before, inside, after = b.sub(low, region.column), b.sub(high, low), b.sub(end, high)
            step = patches.pixel_bytes
            zero_run_of(b, machine, to, before, step)
            column = b.sub(scale_index(b, low, across.stride), shift)
            offset = b.add(
                scale_index(b, y, image.row_step * F32_BYTES), scale_index(b, column, image.column_step * F32_BYTES)
            )
            source = address(b, plane, offset)
            inner = address(b, to, scale_index(b, before, step))
            copy_run_of(b, machine, source, inner, inside, image.column_step * across.stride * F32_BYTES, step)
            zero_run_of(b, machine, address(b, inner, scale_index(b, inside, step)), after, step)

        repeat(b, 0, across.k, tap, "kx")

    def _by_pixel(self, target: Value, region: PixelRegion) -> None:
        """Emit the copy of patches in order of tap: for each pixel runs of channels, or of all channels of a row of
        taps."""
        b, machine, patches = self.b, self.machine, self.patches
        s, image, across, channels = patches.scenario, patches.image, patches.scenario.along, self._group_channels
        together = s.groups == 1 and across.dilation == 1 and image.layout is Layout.HWC

        def pixel(row: Value, column: Value) -> None:
            number = b.add(scale_index(b, row, region.columns), column)
            pointer = address(b, target, b.mul(number, const(patches.row_bytes)))
            y0 = b.sub(scale_index(b, b.add(region.row, row), s.stride), const(s.pad))
            x0 = b.sub(scale_index(b, b.add(region.column, column), across.stride), const(across.pad))

            def tap_row_of(ky: Value) -> None:
                y = b.add(y0, scale_index(b, ky, s.dilation))
                line = address(b, self.x, scale_index(b, y, image.row_step * F32_BYTES))
                here = address(b, pointer, scale_index(b, ky, across.k * channels * F32_BYTES))
                seen = b.icmp_unsigned("<", y, const(s.h))
                if together:
                    low = clamp(b, b.sub(const(0), x0), const(0), const(across.k))
                    high = clamp(b, b.sub(const(s.w), x0), low, const(across.k))
                    low, high = b.select(seen, low, const(across.k)), b.select(seen, high, const(across.k))
                    unit = s.c * F32_BYTES
                    zero_run_of(b, machine, here, scale_index(b, low, s.c), F32_BYTES)
                    source = address(b, line, b.mul(b.add(x0, low), const(unit)))
                    count = scale_index(b, b.sub(high, low), s.c)
                    copy_run_of(
                        b, machine, source, address(b, here, b.mul(low, const(unit))), count, F32_BYTES, F32_BYTES
                    )
                    rest = scale_index(b, b.sub(const(across.k), high), s.c)
                    zero_run_of(b, machine, address(b, here, b.mul(high, const(unit))), rest, F32_BYTES)
                    return

                def tap(kx: Value) -> None:
                    column = b.add(x0, scale_index(b, kx, across.dilation))
                    source = address(b, line, scale_index(b, column, image.column_step * F32_BYTES))
                    to = address(b, here, scale_index(b, kx, channels * F32_BYTES))
                    with b.if_else(b.and_(seen, b.icmp_unsigned("<", column, const(s.w)))) as (inside, border):
                        with inside:
                            groups(lambda group: self._channels(source, to_group(to, group), group))
                        with border:
                            groups(lambda group: fill_zeros(b, to_group(to, group), channels, lanes_f32(machine)))

                repeat(b, 0, across.k, tap, "kx")

            def to_group(to: Value, group: Value) -> Value:
                return address(b, to, scale_index(b, group, patches.group_terms * F32_BYTES))

            def groups(body: Callable[[Value], None]) -> None:
                if s.groups == 1:
                    body(const(0))
                else:
                    repeat(b, 0, s.groups, body, "group")

            repeat(b, 0, s.k, tap_row_of, "ky")

        repeat(b, 0, region.rows, lambda row: repeat(b, 0, region.columns, lambda c: pixel(row, c), "column"), "row")

    @property
    def _group_channels(self) -> int:
        return self.patches.scenario.c // self.patches.scenario.groups

    def _channels(self, source: Value, target: Value, group: Value) -> None:
        """Emit the copy of a group's channels of one pixel."""
        b, image, channels, lanes = self.b, self.patches.image, self._group_channels, lanes_f32(self.machine)
        first = scale_index(b, group, channels)
        if image.layout is Layout.HWC:
            copy_run(b, address(b, source, scale_index(b, first, F32_BYTES)), target, channels, lanes)
            return
        begin = address(b, source, image.channel_bytes(b, first))
        whole, rest = divmod(channels, image.block)

        def block(number: Value, count: int) -> None:
            from_ = address(b, begin, scale_index(b, number, image.block_step * F32_BYTES))
            copy_run(b, from_, address(b, target, scale_index(b, number, image.block * F32_BYTES)), count, lanes)

        repeat(b, 0, whole, lambda number: block(number, image.block), "block")
        if rest:
            block(const(whole), rest)
