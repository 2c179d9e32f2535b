"""Patches of an image as a matrix: for each output pixel all inputs that it is a sum of, zeros for those in the border.

im2col: a row for each of a pixel's terms, a column for each pixel. im2row: the other way round.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernel import KernelSpec, Machine
from mavcg.kernels.emit import F32, address, const, f32_splat, kernel_function, load_vector, operand, repeat, scaled
from mavcg.kernels.primitives.common import Image, image_of
from mavcg.kernels.primitives.im2_product import PANEL
from mavcg.kernels.primitives.runs import copy_run, fill_zeros
from mavcg.kernels.tiling import lanes_f32
from mavcg.primitive import F32_BYTES, Layout, Scenario

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Patches:
    """A matrix of patches of `pixels` output pixels of an image.

    columns: im2col, [C * K * K, stride of a row], the terms in order of channel, then tap. Else im2row,
    [pixels, C * K * K], the terms in that order too, or, where channels are neighbours in the image, in order of group,
    tap, channel: what is read together lies together.
    """

    scenario: Scenario
    layout: Layout
    block: int
    columns: bool
    pixels: int

    @property
    def image(self) -> Image:
        """Whose patches they are."""
        s = self.scenario
        return image_of(self.layout, s.c, s.h, s.w, self.block)

    @property
    def terms(self) -> int:
        """Of all groups."""
        return self.scenario.c * self.scenario.k * self.scenario.k

    @property
    def group_terms(self) -> int:
        """Of one group: of one output's sum."""
        return self.terms // self.scenario.groups

    @property
    def taps_first(self) -> bool:
        """Whether a patch's terms are in order of tap, then channel."""
        return not self.columns and self.layout in (Layout.HWC, Layout.CHWC)

    @property
    def row_bytes(self) -> int:
        """From a row of the matrix to the next."""
        return (-(-self.pixels // PANEL) * PANEL if self.columns else self.terms) * F32_BYTES

    @property
    def matrix_bytes(self) -> int:
        """Of all; vectors that begin at any pixel may be read whole."""
        return (self.terms if self.columns else self.pixels) * self.row_bytes + (PANEL * F32_BYTES)

    @property
    def pixel_bytes(self) -> int:
        """From a pixel to the next."""
        return F32_BYTES if self.columns else self.row_bytes

    @property
    def term_bytes(self) -> int:
        """From a term to the next."""
        return self.row_bytes if self.columns else F32_BYTES


@dataclass(frozen=True)
class PatchMatrix(KernelSpec):
    """The whole matrix of an image; operands: x, matrix. A row of work is a channel's row of taps (im2col), or a row of
    output pixels (im2row)."""

    patches: Patches

    @property
    def family(self) -> str:
        return "im2col_f32" if self.patches.columns else "im2row_f32"

    @property
    def rows(self) -> int:
        s = self.patches.scenario
        return s.c * s.k if self.patches.columns else s.out_h

    @property
    def work(self) -> int:
        return 2 * self.patches.terms * self.patches.pixels


def emit_patch_matrix(module: ir.Module, spec: PatchMatrix, machine: Machine) -> ir.Function:
    """The function of a spec for a machine."""
    function, b = kernel_function(module, spec, machine)
    x, target = operand(b, 0, "x"), operand(b, 1, "matrix")
    patches, s = spec.patches, spec.patches.scenario

    def row(index: Value) -> None:
        if patches.columns:
            channel, ky = b.udiv(index, const(s.k)), b.urem(index, const(s.k))
            tap_row(b, machine, patches, x, target, channel, ky, Region(const(0), const(0), s.out_h, s.out_w))
        else:
            first = address(b, target, b.mul(index, const(s.out_w * patches.pixel_bytes)))
            emit_patches(b, machine, patches, x, first, Region(index, const(0), 1, s.out_w))

    repeat(b, function.args[1], function.args[2], row, "row")
    b.ret_void()
    return function


@dataclass(frozen=True)
class Region:
    """Output pixels: `rows` x `columns` from (row, column) on."""

    row: Value
    column: Value
    rows: int
    columns: int


def emit_patches(
    b: ir.IRBuilder, machine: Machine, patches: Patches, x: Value, target: Value, region: Region
) -> None:  # fmt: skip
    """Write the patches of a region; target: of the first pixel's first term."""
    if patches.taps_first:
        _by_pixel(b, machine, patches, x, target, region)
        return
    s = patches.scenario

    def channel(c: Value) -> None:
        repeat(b, 0, s.k, lambda ky: tap_row(b, machine, patches, x, target, c, ky, region), "ky")

    repeat(b, 0, s.c, channel, "channel")


def tap_row(
    b: ir.IRBuilder, machine: Machine, patches: Patches, x: Value, target: Value, channel: Value, ky: Value,
    region: Region,
) -> None:  # fmt: skip
    """Write the terms of one channel and row of taps, for a region; terms are in order of channel."""
    s, image = patches.scenario, patches.image
    plane = address(b, x, image.channel_bytes(b, channel))
    first = b.mul(b.add(b.mul(channel, const(s.k)), ky), const(s.k))

    def tap(kx: Value) -> None:
        place = address(b, target, scaled(b, b.add(first, kx), patches.term_bytes))
        repeat(b, 0, region.rows, lambda row: line(kx, place, row), "row")

    def line(kx: Value, place: Value, row: Value) -> None:
        to = address(b, place, scaled(b, row, region.columns * patches.pixel_bytes))
        y = b.add(scaled(b, b.add(region.row, row), s.stride), b.sub(scaled(b, ky, s.dilation), const(s.pad)))
        # Of the columns, those from `low` to `high` see the image.
        shift = b.sub(const(s.pad), scaled(b, kx, s.dilation))
        end = b.add(region.column, const(region.columns))
        low = b.sdiv(b.add(shift, const(s.stride - 1)), const(s.stride))
        low = _between(b, low, region.column, end)
        high = b.sdiv(b.add(shift, const(s.w - 1 + s.stride * (s.pad + 1))), const(s.stride))
        high = b.sub(high, const(s.pad))
        high = _between(b, high, low, end)
        in_image = b.icmp_unsigned("<", y, const(s.h))
        low, high = b.select(in_image, low, end), b.select(in_image, high, end)
        before, inside, after = b.sub(low, region.column), b.sub(high, low), b.sub(end, high)
        step = patches.pixel_bytes
        zero_run_of(b, machine, to, before, step)
        column = b.sub(scaled(b, low, s.stride), shift)
        offset = b.add(scaled(b, y, image.row_step * F32_BYTES), scaled(b, column, image.column_step * F32_BYTES))
        source = address(b, plane, offset)
        inner = address(b, to, scaled(b, before, step))
        copy_run_of(b, machine, source, inner, inside, image.column_step * s.stride * F32_BYTES, step)
        zero_run_of(b, machine, address(b, inner, scaled(b, inside, step)), after, step)

    repeat(b, 0, s.k, tap, "kx")


def _by_pixel(
    b: ir.IRBuilder, machine: Machine, patches: Patches, x: Value, target: Value, region: Region
) -> None:  # fmt: skip
    """Terms in order of tap: for each pixel runs of channels, or of a row of taps' channels."""
    s, image, lanes = patches.scenario, patches.image, lanes_f32(machine)
    channels = s.c // s.groups
    together = s.groups == 1 and s.dilation == 1 and image.layout is Layout.HWC

    def pixel(row: Value, column: Value) -> None:
        number = b.add(scaled(b, row, region.columns), column)
        place = address(b, target, b.mul(number, const(patches.row_bytes)))
        y0 = b.sub(scaled(b, b.add(region.row, row), s.stride), const(s.pad))
        x0 = b.sub(scaled(b, b.add(region.column, column), s.stride), const(s.pad))

        def tap_row_of(ky: Value) -> None:
            y = b.add(y0, scaled(b, ky, s.dilation))
            line = address(b, x, scaled(b, y, image.row_step * F32_BYTES))
            here = address(b, place, scaled(b, ky, s.k * channels * F32_BYTES))
            seen = b.icmp_unsigned("<", y, const(s.h))
            if together:
                low = _between(b, b.sub(const(0), x0), const(0), const(s.k))
                high = _between(b, b.sub(const(s.w), x0), low, const(s.k))
                low, high = b.select(seen, low, const(s.k)), b.select(seen, high, const(s.k))
                unit = s.c * F32_BYTES
                zero_run_of(b, machine, here, scaled(b, low, s.c), F32_BYTES)
                source = address(b, line, b.mul(b.add(x0, low), const(unit)))
                count = scaled(b, b.sub(high, low), s.c)
                copy_run_of(b, machine, source, address(b, here, b.mul(low, const(unit))), count, F32_BYTES, F32_BYTES)
                rest = scaled(b, b.sub(const(s.k), high), s.c)
                zero_run_of(b, machine, address(b, here, b.mul(high, const(unit))), rest, F32_BYTES)
                return

            def tap(kx: Value) -> None:
                column = b.add(x0, scaled(b, kx, s.dilation))
                source = address(b, line, scaled(b, column, image.column_step * F32_BYTES))
                to = address(b, here, scaled(b, kx, channels * F32_BYTES))
                with b.if_else(b.and_(seen, b.icmp_unsigned("<", column, const(s.w)))) as (inside, border):
                    with inside:
                        groups(lambda group: _channels(b, image, source, to_group(to, group), group, channels, lanes))
                    with border:
                        groups(lambda group: fill_zeros(b, to_group(to, group), channels, lanes))

            repeat(b, 0, s.k, tap, "kx")

        def to_group(to: Value, group: Value) -> Value:
            return address(b, to, scaled(b, group, patches.group_terms * F32_BYTES))

        def groups(body: Callable[[Value], None]) -> None:
            if s.groups == 1:
                body(const(0))
            else:
                repeat(b, 0, s.groups, body, "group")

        repeat(b, 0, s.k, tap_row_of, "ky")

    repeat(b, 0, region.rows, lambda row: repeat(b, 0, region.columns, lambda c: pixel(row, c), "column"), "row")


def _channels(
    b: ir.IRBuilder, image: Image, source: Value, target: Value, group: Value, channels: int, lanes: int
) -> None:  # fmt: skip
    """Copy a group's channels of one pixel."""
    first = scaled(b, group, channels)
    if image.layout is Layout.HWC:
        copy_run(b, address(b, source, scaled(b, first, F32_BYTES)), target, channels, lanes)
        return
    begin = address(b, source, image.channel_bytes(b, first))
    whole, rest = divmod(channels, image.block)

    def block(number: Value, count: int) -> None:
        from_ = address(b, begin, scaled(b, number, image.block_step * F32_BYTES))
        copy_run(b, from_, address(b, target, scaled(b, number, image.block * F32_BYTES)), count, lanes)

    repeat(b, 0, whole, lambda number: block(number, image.block), "block")
    if rest:
        block(const(whole), rest)


def _between(b: ir.IRBuilder, value: Value, low: Value, high: Value) -> Value:
    """value, at least low and at most high."""
    value = b.select(b.icmp_signed("<", value, low), low, value)
    return b.select(b.icmp_signed(">", value, high), high, value)


def copy_run_of(
    b: ir.IRBuilder, machine: Machine, source: Value, target: Value, count: Value, source_step: int, target_step: int
) -> None:  # fmt: skip
    """`count` elements, known at run time, steps in bytes; in vectors where both lie densely."""

    def move(index: Value, typ: ir.Type) -> None:
        value = load_vector(b, address(b, source, scaled(b, index, source_step)), typ, name="value")
        b.store(value, address(b, target, scaled(b, index, target_step)), align=F32_BYTES)

    _run(b, machine, count, source_step == target_step == F32_BYTES, move)


def zero_run_of(b: ir.IRBuilder, machine: Machine, target: Value, count: Value, step: int) -> None:
    """Clear `count` elements, known at run time."""

    def clear(index: Value, typ: ir.Type) -> None:
        lanes = typ.count if isinstance(typ, ir.VectorType) else 1
        b.store(f32_splat(0.0, lanes), address(b, target, scaled(b, index, step)), align=F32_BYTES)

    _run(b, machine, count, step == F32_BYTES, clear)


def _run(
    b: ir.IRBuilder, machine: Machine, count: Value, dense: bool, body: Callable[[Value, ir.Type], None]
) -> None:  # fmt: skip
    first: Value = const(0)
    if dense:
        lanes = lanes_f32(machine)
        first = b.and_(count, const(-lanes), name="whole")
        repeat(b, 0, first, lambda i: body(i, ir.VectorType(F32, lanes)), "vector", lanes)
    repeat(b, first, count, lambda i: body(i, F32), "element")
