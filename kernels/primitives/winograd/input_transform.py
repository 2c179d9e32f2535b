"""Emitter of the input transform B' d B: straight-line code over a vector of channels, a tile at a time.

A tile inside of the image is read in place if its vector of channels is whole. Any other tile is first copied to a
patch in the scratch, with zeros outside of the image, so that the transform is emitted once.
"""

from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import I1, TYPES, address, const, index_value, repeat, scale_index
from mavcg.kernels.builder.float_math import like
from mavcg.kernels.builder.lanes import load_vector, shuffle, store_vector
from mavcg.kernels.builder.nest_loops import maximum, minimum
from mavcg.kernels.primitives.common import lanes_of, load_partial, transpose_vectors
from mavcg.kernels.primitives.winograd.matrices import operations_of
from mavcg.kernels.primitives.winograd.planes import Planes, over_cache_lines, prefetches_pixels
from mavcg.kernels.primitives.winograd.tiles import Located, Tiles
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class _TileInputs:
    """The inputs of a tile: position of the first in the image, and the ranges of rows and columns inside of the
    image."""

    y: Value
    x: Value
    first_row: Value
    last_row: Value
    first_column: Value
    last_column: Value
    columns_inside: Value
    inside: Value


class InputTransform:
    """Emitter of a kernel's input transform.

    patch: pointer to scratch of tiles.patch_bytes. ahead: True to prefetch the next tile's pixels if that is worthwhile
    (planes.prefetches_pixels).
    """

    def __init__(
        self, b: ir.IRBuilder, machine: Machine, tiles: Tiles, image: Located, patch: Value, ahead: bool = False
    ) -> None:
        self.ahead = ahead and prefetches_pixels(machine, tiles, image)
        self.b, self.machine, self.tiles, self.image = b, machine, tiles, image
        self.lanes = lanes_of(machine, image.block) if image.block else tiles.vector_lanes(machine)
        self.item, self.element = tiles.item_bytes, TYPES[tiles.dtype]
        self.vector = ir.VectorType(self.element, self.lanes)
        self.pixel = self.lanes * self.item  # bytes of a patch's pixel
        self.patch = patch
        _, self.row_step, self.column_step, self.channel_step = (s * self.item for s in image.view.strides)

    def emit(self, x: Value, planes: Planes, target: Value, first: Value, count: Value) -> None:
        """Emit the transform of `count` tiles from `first` of the image at x, into planes at target.

        Tiles are numbered along the rows of tiles, or, if transforms are along rows only, along the rows of inputs.
        """
        b, tiles = self.b, self.tiles
        across = const(max(1, tiles.across))

        def emit_tile(index: Value) -> None:
            number = b.add(first, index)
            window = self.window(b.udiv(number, across), b.urem(number, across))
            corner = b.add(scale_index(b, window.y, self.row_step), scale_index(b, window.x, self.column_step))
            self.tile(window, address(b, x, corner), planes, address(b, target, scale_index(b, index, planes.pitch)))

        repeat(b, const(0), count, emit_tile, "tile")

    def window(self, row: Value, column: Value) -> _TileInputs:
        """Emit the position and bounds of a tile's inputs."""
        b, tiles = self.b, self.tiles
        y = b.sub(scale_index(b, row, tiles.m_h), const(tiles.pad[0]), name="y")
        x = b.sub(scale_index(b, column, tiles.m), const(tiles.pad[1]), name="x")

        def bounds(start: Value, length: int, size: int) -> tuple[Value, Value, Value]:
            low = maximum(b, b.neg(start), const(0))
            high = minimum(b, b.sub(const(size), start), const(length))
            return low, high, b.and_(b.icmp_signed("==", low, const(0)), b.icmp_signed("==", high, const(length)))

        first_row, last_row, rows_inside = bounds(y, tiles.t_h, tiles.in_h)
        first_column, last_column, columns_inside = bounds(x, tiles.t, tiles.in_w)
        inside = b.and_(rows_inside, columns_inside)
        if self.all_inside:
            inside = const(1, I1)
        return _TileInputs(y, x, first_row, last_row, first_column, last_column, columns_inside, inside)

    @property
    def all_inside(self) -> bool:
        """Return True if no tile extends beyond the image."""
        tiles = self.tiles
        rows = tiles.rows + tiles.taps - 1
        below = (rows - 1) * tiles.m_h + tiles.t_h - tiles.in_h
        return tiles.pad == (0, 0) and below <= 0 and (tiles.across - 1) * tiles.m + tiles.t <= tiles.in_w

    def tile(self, window: _TileInputs, corner: Value, planes: Planes, target: Value) -> None:
        """Emit the transform of all channels of one tile. corner: pointer to its first input."""
        b, tiles, lanes = self.b, self.tiles, self.lanes
        if not self.all_inside:
            with b.if_then(b.not_(window.inside)):
                zero = ir.Constant(self.vector, [0.0] * lanes)
                repeat(
                    b,
                    0,
                    tiles.t_h * tiles.t,
                    lambda i: store_vector(
                        b, zero, address(b, self.patch, scale_index(b, i, self.pixel)), align=self.item
                    ),
                    "zero",
                )
        vectors = -(-tiles.in_ch // lanes)
        tail = 0 if self.image.block else tiles.in_ch % lanes

        def emit_vector(number: Value) -> None:
            pointer = address(b, corner, self.channel_bytes(number))
            whole = b.icmp_signed("!=", number, const(vectors - 1)) if tail else const(1, I1)
            if self.image.along_channels:
                direct = b.and_(window.inside, whole, name="direct")
                if not (self.all_inside and not tail):
                    with b.if_then(b.not_(direct)):
                        self.copy(window, pointer, whole, tail)
            else:
                direct = const(0, I1)
                self.copy_transposed(window, pointer, number)
            steps = self.row_step, self.column_step
            own = tiles.t * self.pixel, self.pixel
            start = b.select(direct, pointer, self.patch, name="start")
            down, right = (b.select(direct, const(s), const(p)) for s, p in zip(steps, own, strict=True))
            self.transform(start, down, right, planes, address(b, target, scale_index(b, number, lanes * self.item)))

        new = [i * self.row_step + j * self.column_step for i in range(tiles.t_h) for j in range(tiles.k - 1, tiles.t)]
        pixels = (address(b, corner, tiles.m * self.column_step), new) if self.ahead else None
        over_cache_lines(b, planes, target, vectors, lanes, emit_vector, True, pixels)

    def channel_bytes(self, number: Value) -> Value:
        """Emit the offset of vector `number` of channels within a pixel, in bytes."""
        b, block = self.b, self.image.block
        if not block:
            return scale_index(b, number, self.lanes * self.channel_step)
        per_block = const(block // self.lanes)
        outer = scale_index(b, b.udiv(number, per_block), self.image.block_step * self.item)
        return b.add(outer, scale_index(b, b.urem(number, per_block), self.lanes * self.item))

    def patch_at(self, i: Value, j: Value, lane: Value | int = 0) -> Value:
        """Emit the address of a pixel of the patch."""
        b = self.b
        offset = b.add(scale_index(b, i, self.tiles.t * self.pixel), scale_index(b, j, self.pixel))
        return address(b, address(b, self.patch, offset), scale_index(b, index_value(lane), self.item))

    def copy(self, window: _TileInputs, pointer: Value, whole: Value, tail: int) -> None:
        """Emit the copy of the tile's inputs inside of the image to the patch."""
        b = self.b

        def pixel(i: Value, j: Value, used: int) -> None:
            source = address(b, pointer, b.add(scale_index(b, i, self.row_step), scale_index(b, j, self.column_step)))
            value = load_partial(b, self.machine, source, self.lanes, used, "pixel", self.element)
            store_vector(b, value, self.patch_at(i, j), align=self.item)

        def every(used: int) -> None:
            rows = window.first_row, window.last_row
            columns = window.first_column, window.last_column
            repeat(b, *rows, lambda i: repeat(b, *columns, lambda j: pixel(i, j, used), "j"), "i")

        if not tail:
            every(self.lanes)
            return
        with b.if_else(whole) as (full, part):
            with full:
                every(self.lanes)
            with part:
                every(tail)

    def copy_transposed(self, window: _TileInputs, pointer: Value, number: Value) -> None:
        """Emit the copy of the tile to the patch from a layout with contiguous columns, transposed in registers."""
        b, tiles, lanes = self.b, self.tiles, self.lanes
        used = minimum(b, b.sub(const(tiles.in_ch), scale_index(b, number, lanes)), const(lanes))

        def copy_element(channel: Value, i: Value, j: Value) -> None:
            offset = b.add(scale_index(b, i, self.row_step), scale_index(b, j, self.column_step))
            source = address(b, address(b, pointer, offset), scale_index(b, channel, self.channel_step))
            b.store(
                b.load(source, name="pixel", align=self.item, typ=self.element),
                self.patch_at(i, j, channel),
                align=self.item,
            )

        def singly() -> None:
            def channel(lane: Value) -> None:
                columns = window.first_column, window.last_column
                rows = window.first_row, window.last_row
                repeat(b, *rows, lambda i: repeat(b, *columns, lambda j: copy_element(lane, i, j), "j"), "i")

            repeat(b, const(0), used, channel, "lane")

        if self.image.view.strides[2] != 1 or tiles.in_ch < lanes:
            singly()
            return
        squares = b.and_(window.columns_inside, b.icmp_signed("==", used, const(lanes)))
        with b.if_else(squares) as (fast, slow):
            with fast:
                repeat(b, window.first_row, window.last_row, lambda i: self.copy_row_transposed(pointer, i), "i")
            with slow:
                singly()

    def copy_row_transposed(self, pointer: Value, i: Value) -> None:
        """Emit the copy of a whole row of a tile, for a whole vector of channels, transposed in registers."""
        b, t, lanes = self.b, self.tiles.t, self.lanes
        length = 1 << (t - 1).bit_length()
        group = min(length, lanes)
        start = address(b, pointer, scale_index(b, i, self.row_step))
        pieces: list[list[Value]] = []
        for first in range(0, lanes, group):
            rows = [
                load_partial(
                    b, self.machine, address(b, start, (first + c) * self.channel_step), length, t, "row", self.element
                )
                for c in range(group)
            ]
            pieces.append(transpose_vectors(b, rows)[:t])
        for j in range(t):
            parts = [piece[j] for piece in pieces]
            while len(parts) > 1:
                count = 2 * parts[0].type.count
                parts = [shuffle(b, x, y, range(count)) for x, y in zip(parts[::2], parts[1::2], strict=True)]
            store_vector(b, parts[0], self.patch_at(i, const(j)), align=self.item)

    def transform(self, start: Value, down: Value, right: Value, planes: Planes, target: Value) -> None:
        """Emit the transform of one vector of channels of a tile. down, right: bytes to the next row and column of
        inputs."""
        b, tiles = self.b, self.tiles
        inputs = operations_of(tiles.filtering.inputs)
        columns = [b.mul(right, const(j)) for j in range(tiles.t)]
        rows = []
        for i in range(tiles.t_h):
            row = address(b, start, b.mul(down, const(i)), "row")
            pixels = [
                load_vector(b, address(b, row, columns[j]), self.vector, name=f"d_{i}_{j}") for j in range(tiles.t)
            ]
            if tiles.input_scale != 1:
                pixels = [b.fmul(pixel, like(pixel, tiles.input_scale)) for pixel in pixels]
            rows.append(inputs.times(b, pixels))

        def put(plane: int, value: Value) -> None:
            store_vector(b, value, address(b, target, plane * planes.plane), align=self.item)

        if not tiles.two_d:
            for j, value in enumerate(rows[0]):
                put(j, value)
            return
        for j in range(tiles.t):
            for i, value in enumerate(inputs.times(b, [row[j] for row in rows])):
                put(i * tiles.t + j, value)
