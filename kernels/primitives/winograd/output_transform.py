"""Emitter of the inverse transform A' s A, with bias, residual and activation: straight-line code over channels.

A tile inside of the image is stored in place if its vector of channels is whole. Any other tile is stored to a patch in
the scratch, of which the part inside of the image is copied.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.activation import unary
from mavcg.kernels.builder.arithmetic import round_to
from mavcg.kernels.builder.emit import (
    F32,
    I1,
    TYPES,
    address,
    const,
    f32_splat,
    fma,
    load_vector,
    repeat,
    scale_index,
    store_vector,
)
from mavcg.kernels.builder.float_math import like
from mavcg.kernels.builder.nest import minimum
from mavcg.kernels.primitives.common import lanes_of, load_partial, store_partial, transpose_vectors, zero_other_lanes
from mavcg.kernels.primitives.winograd.matrices import operations_of
from mavcg.kernels.primitives.winograd.planes import Planes, over_cache_lines, prefetches_pixels
from mavcg.kernels.primitives.winograd.tiles import Located, Tiles
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES

Value: TypeAlias = ir.Value

# Activations of a few operations, which are unrolled. Others are emitted in a loop over the rows of a square: unrolled
# for all outputs they would be most of the kernel's code and take the registers of the sums.
LIGHT = ("", "relu", "clip", "leaky_relu", "abs", "neg", "hard_sigmoid", "hard_swish")


@dataclass(frozen=True)
class WinogradEpilogue:
    """The epilogue of the outputs. bias: pointer to the first channel's bias. residual: the image that is added."""

    bias: Value | None
    residual: Located | None
    act: str
    act_args: tuple[float, ...]


@dataclass(frozen=True)
class _TileVector:
    """A vector of channels of a tile's outputs.

    out, residual: pointers to its first pixel. rows, columns: numbers of the tile's rows and columns inside of the
    image.
    """

    out: Value
    residual: Value | None
    rows: Value
    columns: Value
    used: Value  # channels of the vector, from 0 to lanes


class OutputTransform:
    """Emitter of a kernel's output transform.

    patch: pointer to scratch of tiles.patch_bytes. ahead: True to prefetch the next tile's pixels if that is worthwhile
    (planes.prefetches_pixels).
    """

    def __init__(
        self,
        b: ir.IRBuilder,
        machine: Machine,
        tiles: Tiles,
        image: Located,
        epilogue: WinogradEpilogue,
        patch: Value,
        ahead: bool = False,
    ) -> None:
        self.ahead = ahead and prefetches_pixels(machine, tiles, image)
        self.b, self.machine, self.tiles, self.image, self.epilogue = b, machine, tiles, image, epilogue
        self.residual = epilogue.residual
        blocks = [i.block for i in (image, self.residual) if i is not None and i.block]
        self.lanes = lanes_of(machine, min(blocks)) if blocks else tiles.vector_lanes(machine)
        self.item, self.element = tiles.item_bytes, TYPES[tiles.dtype]
        self.vector = ir.VectorType(self.element, self.lanes)
        self.zeros = ir.Constant(self.vector, [0.0] * self.lanes)
        self.pixel = self.lanes * self.item
        self.patch = patch
        self.vectorised = image.along_channels and (self.residual is None or self.residual.along_channels)

    def emit(self, planes: Planes, sums: Value, out: Value, residual: Value | None, first: Value, count: Value) -> None:
        """Emit the transform of `count` tiles from `first` of an image at out. sums: pointer to the first tile's
        sums."""
        b, tiles = self.b, self.tiles
        across = const(max(1, tiles.across))
        vectors = -(-self.image.stored_channels // self.lanes)

        def emit_tile(index: Value) -> None:
            number = b.add(first, index)
            y = scale_index(b, b.udiv(number, across), tiles.m_h, "y")
            x = scale_index(b, b.urem(number, across), tiles.m, "x")
            rows = minimum(b, b.sub(const(tiles.out_h), y), const(tiles.m_h))
            columns = minimum(b, b.sub(const(tiles.out_w), x), const(tiles.m))
            source = address(b, sums, scale_index(b, index, planes.pitch))

            def vector(number: Value) -> None:
                here = scale_index(b, number, self.lanes, "channel")
                left = b.sub(const(tiles.out_ch), here)
                used = minimum(b, left, const(self.lanes))
                if self.image.block:
                    used = b.select(b.icmp_signed("<", used, const(0)), const(0), used)
                residual_pointer = None
                if residual is not None and self.residual is not None:
                    residual_pointer = self.address_of(self.residual, residual, y, x, here)
                target = _TileVector(
                    self.address_of(self.image, out, y, x, here), residual_pointer, rows, columns, used
                )
                values = self.transform(planes, address(b, source, scale_index(b, number, self.lanes * self.item)))
                self.finish(target, values, here)

            _, down, right, _ = (step * self.item for step in self.image.view.strides)
            next_tile = [i * down + j * right for i in range(tiles.m_h) for j in range(tiles.m)]
            pixels = None
            if self.ahead:
                pixels = address(b, self.address_of(self.image, out, y, x, const(0)), tiles.m * right), next_tile
            over_cache_lines(b, planes, source, vectors, self.lanes, vector, False, pixels)

        repeat(b, const(0), count, emit_tile, "tile")

    def address_of(self, image: Located, base: Value, y: Value, x: Value, channel: Value) -> Value:
        """Emit the address of an output."""
        b = self.b
        _, down, right, across = (s * self.item for s in image.view.strides)
        pixel = b.add(scale_index(b, y, down), scale_index(b, x, right))
        if image.block:
            block = const(image.block)
            within = b.add(
                scale_index(b, b.udiv(channel, block), image.block_step * self.item),
                scale_index(b, b.urem(channel, block), self.item),
            )
        else:
            within = scale_index(b, channel, across)
        return address(b, base, b.add(pixel, within), "place")

    def transform(self, planes: Planes, source: Value) -> list[list[Value]]:
        """Emit the inverse transform of one vector of channels; return the outputs by row, then column."""
        b, tiles = self.b, self.tiles
        inverse, t = operations_of(tiles.filtering.inverse), tiles.t

        def get(plane: int) -> Value:
            return load_vector(
                b, address(b, source, plane * planes.plane), self.vector, name=f"s_{plane}", align=self.item
            )

        if not tiles.two_d:
            return [inverse.times(b, [get(j) for j in range(t)])]
        columns = [inverse.times(b, [get(i * t + j) for i in range(t)]) for j in range(t)]
        return [inverse.times(b, [column[i] for column in columns]) for i in range(tiles.m)]

    @property
    def always_whole(self) -> bool:
        """Return True if every vector of channels is whole."""
        channels = self.tiles.out_ch
        return channels % self.lanes == 0 and self.image.stored_channels == channels

    def finish(self, target: _TileVector, values: list[list[Value]], channel: Value) -> None:
        """Emit the epilogue and the stores of the outputs inside of the image."""
        b, tiles = self.b, self.tiles
        whole = const(1, I1) if self.always_whole else b.icmp_signed("==", target.used, const(self.lanes))
        bias = None
        if self.epilogue.bias is not None:
            bias = round_to(b, self.bias(self.epilogue.bias, channel, target.used, whole), tiles.dtype)
        values = [[self.with_bias(value, bias) for value in row] for row in values]
        inside = b.and_(
            b.icmp_signed("==", target.rows, const(tiles.m_h)), b.icmp_signed("==", target.columns, const(tiles.m))
        )
        if tiles.out_h % tiles.m_h == 0 and tiles.out_w % tiles.m == 0:
            inside = const(1, I1)
        direct = b.and_(inside, whole, name="direct")
        with b.if_else(direct) as (here, patched):
            with here:
                (self.store_all if self.vectorised else self.store_transposed)(target, values)
            with patched:
                self.store_partial(target, values, whole)

    def with_bias(self, value: Value, bias: Value | None) -> Value:
        """Return an output without the scale of the inputs, with the bias if there is one."""
        b, scale = self.b, 1 / self.tiles.input_scale
        if scale == 1:
            return value if bias is None else b.fadd(value, bias, name="with_bias")
        factor = like(value, scale)
        return b.fmul(value, factor) if bias is None else fma(b, value, factor, bias, "with_bias")

    def bias(self, base: Value, channel: Value, used: Value, whole: Value) -> Value:
        """Return the bias of a vector of channels, with zeros in unused lanes."""
        b, tail = self.b, self.tiles.out_ch % self.lanes
        whole_type, zeros = ir.VectorType(F32, self.lanes), f32_splat(0.0, self.lanes)
        pointer = address(b, base, scale_index(b, channel, F32_BYTES))
        if self.always_whole:
            return load_vector(b, pointer, whole_type, name="bias")
        empty = b.icmp_signed("==", used, const(0))
        join = b.append_basic_block("bias_join")
        full, not_full, part = (b.append_basic_block(f"bias_{name}") for name in ("full", "other", "part"))
        b.cbranch(whole, full, not_full)
        b.position_at_end(full)
        whole_bias = load_vector(b, pointer, whole_type, name="bias")
        b.branch(join)
        b.position_at_end(not_full)
        b.cbranch(empty, join, part)
        b.position_at_end(part)
        partial_bias = load_partial(b, self.machine, pointer, self.lanes, tail, "bias") if tail else zeros
        part_end = b.block
        b.branch(join)
        b.position_at_end(join)
        joined = b.phi(whole_type, name="bias")
        joined.add_incoming(whole_bias, full)
        joined.add_incoming(zeros, not_full)
        joined.add_incoming(partial_bias, part_end)
        return joined

    def finish_value(self, value: Value, residual: Value | None) -> Value:
        """Return activation(value + residual)."""
        b = self.b
        if residual is not None:
            value = b.fadd(value, residual, name="with_residual")
        act, dtype = self.epilogue.act, self.tiles.dtype
        return unary(b, act, self.epilogue.act_args, dtype, value) if act else value

    def pixel_address(
        self, image: Located | None, base: Value | None, i: Value | int, j: Value | int, lane: Value | int = 0
    ) -> Value | None:
        """Return a pointer i rows, j columns and `lane` channels after base; None if there is no image."""
        if image is None or base is None:
            return None
        b = self.b
        _, down, right, across = (s * self.item for s in image.view.strides)
        pointer = base
        for index, step in ((i, down), (j, right), (lane, self.item if image.block else across)):
            offset = index * step if isinstance(index, int) else scale_index(b, index, step)
            pointer = address(b, pointer, offset)
        return pointer

    def by_rows(self, values: list[list[Value]], store_row: Callable[[Value | int, list[Value]], None]) -> None:
        """Emit store_row(number, outputs) for each row of a tile, in a loop if the activation is long."""
        if self.epilogue.act in LIGHT or len(values) == 1:
            for i, row in enumerate(values):
                store_row(i, row)
            return
        self.to_patch(values)
        m = self.tiles.m
        repeat(self.b, 0, m, lambda i: store_row(i, [self.from_patch(i, const(j)) for j in range(m)]), "row")

    def store_all(self, target: _TileVector, values: list[list[Value]]) -> None:
        """Emit the stores of a tile inside of the image, to a layout with contiguous channels."""

        def store_row(i: Value | int, row: list[Value]) -> None:
            for j, value in enumerate(row):
                source = self.pixel_address(self.residual, target.residual, i, j)
                residual = load_vector(self.b, source, self.vector, name="residual") if source is not None else None
                store_vector(
                    self.b, self.finish_value(value, residual), self.pixel_address(self.image, target.out, i, j)
                )

        self.by_rows(values, store_row)

    def to_patch(self, values: list[list[Value]]) -> None:
        """Emit the stores of a tile's outputs to the patch, before residual and activation."""
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                store_vector(
                    self.b, value, address(self.b, self.patch, (i * self.tiles.m + j) * self.pixel), align=self.item
                )

    def patch_at(self, i: Value, j: Value) -> Value:
        """Emit the address of an output in the patch."""
        b = self.b
        return address(
            b, self.patch, b.add(scale_index(b, i, self.tiles.m * self.pixel), scale_index(b, j, self.pixel))
        )

    def from_patch(self, i: Value, j: Value) -> Value:
        """Return an output that to_patch stored."""
        return load_vector(self.b, self.patch_at(i, j), self.vector, name="result", align=self.item)

    def store_transposed(self, target: _TileVector, values: list[list[Value]]) -> None:
        """Emit the stores of a tile inside of the image, transposed in registers for a layout with contiguous
        columns."""
        b, lanes = self.b, self.lanes
        neighbours = all(i is None or i.view.strides[2] == 1 for i in (self.image, self.residual))
        largest = lanes if neighbours else 1

        def store_row(i: Value | int, row: list[Value]) -> None:
            at = 0
            while at < len(row):
                size = min(largest, 1 << ((len(row) - at).bit_length() - 1))
                for lane, piece in enumerate(transpose_vectors(b, row[at : at + size])):
                    source = self.pixel_address(self.residual, target.residual, i, at, lane)
                    residual = load_vector(b, source, piece.type, name="residual") if source is not None else None
                    store_vector(
                        b, self.finish_value(piece, residual), self.pixel_address(self.image, target.out, i, at, lane)
                    )
                at += size

        self.by_rows(values, store_row)

    def store_partial(self, target: _TileVector, values: list[list[Value]], whole: Value) -> None:
        """Emit the stores of the part of a tile inside of the image, through the patch."""
        b, tiles, lanes = self.b, self.tiles, self.lanes
        self.to_patch(values)

        def every(body: Callable[[Value, Value], None]) -> None:
            rows, columns = target.rows, target.columns
            repeat(b, const(0), rows, lambda i: repeat(b, const(0), columns, lambda j: body(i, j), "j"), "i")

        def pixel(i: Value, j: Value, used: int) -> None:
            value = self.from_patch(i, j)
            source = self.pixel_address(self.residual, target.residual, i, j)
            residual = None
            if source is not None:
                residual = (
                    load_partial(b, self.machine, source, lanes, used, "residual", self.element) if used else self.zeros
                )
            value = self.finish_value(value, residual)
            pointer = self.pixel_address(self.image, target.out, i, j)
            if self.image.block:
                store_vector(b, zero_other_lanes(b, value, lanes, used), pointer)
            elif used:
                store_partial(b, self.machine, value, pointer, lanes, used)

        def single(i: Value, j: Value, lane: Value) -> None:
            value = b.load(
                address(b, self.patch_at(i, j), scale_index(b, lane, self.item)),
                name="result",
                align=self.item,
                typ=self.element,
            )
            source = self.pixel_address(self.residual, target.residual, i, j, lane)
            residual = (
                b.load(source, name="residual", align=self.item, typ=self.element) if source is not None else None
            )
            b.store(
                self.finish_value(value, residual),
                self.pixel_address(self.image, target.out, i, j, lane),
                align=self.item,
            )

        if not self.vectorised:
            repeat(b, const(0), target.used, lambda lane: every(lambda i, j: single(i, j, lane)), "lane")
            if self.image.block:
                zero = ir.Constant(self.element, 0.0)

                def fill(lane: Value) -> None:
                    every(
                        lambda i, j: (
                            b.store(zero, self.pixel_address(self.image, target.out, i, j, lane), align=self.item)
                            and None
                        )
                    )

                repeat(b, target.used, const(lanes), fill, "filled")
            return
        tail = tiles.out_ch % lanes
        with b.if_else(whole) as (full, not_full):
            with full:
                every(lambda i, j: pixel(i, j, lanes))
            with not_full, b.if_else(b.icmp_signed("!=", target.used, const(0))) as (part, empty):
                with part:
                    if tail:
                        every(lambda i, j: pixel(i, j, tail))
                with empty:
                    if self.image.block:
                        every(lambda i, j: pixel(i, j, 0))
