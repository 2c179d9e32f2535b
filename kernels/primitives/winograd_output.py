"""Sums of tiles transformed back, A' s A, with bias, residual and activation: straight-line code over channels.

A tile that lies inside the image, at a vector of channels that is whole there, is stored where it belongs; any other
goes through a patch in the scratch, of which what is inside the image is taken.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernel import Machine
from mavcg.kernels.activation import activate
from mavcg.kernels.emit import F32, I1, address, const, f32_splat, load_vector, repeat, scaled, store_vector
from mavcg.kernels.nest import minimum
from mavcg.kernels.primitives.common import lanes_of, load_some, only_first, store_some, transposed_pieces
from mavcg.kernels.primitives.winograd_linear import planned
from mavcg.kernels.primitives.winograd_lines import asks_for_pixels, by_lines
from mavcg.kernels.primitives.winograd_spec import Located, Planes, Tiles
from mavcg.kernels.tiling import lanes_f32
from mavcg.primitive import F32_BYTES

Value: TypeAlias = ir.Value

# Activations of a few operations. Of squares any other is written for a row of outputs, in a loop: for all of them it
# would be most of the kernel, and leave the sums no registers.
LIGHT = ("", "relu", "clip", "leaky_relu", "abs", "neg", "hard_sigmoid", "hard_swish")


@dataclass(frozen=True)
class Ends:
    """What is done to outputs. bias: of the first channel; None where there is none."""

    bias: Value | None
    act: str
    act_args: tuple[float, ...]


@dataclass(frozen=True)
class _Spot:
    """A vector of channels of a tile's outputs: where it goes, the residual there, how many rows and columns count."""

    out: Value
    residual: Value | None
    rows: Value
    columns: Value
    used: Value  # channels of the vector, from 0 to lanes


class OutputTransform:
    """The code of one kernel's output transform. patch: scratch of tiles.patch_bytes. ahead: pixels are asked for."""

    def __init__(
        self, b: ir.IRBuilder, machine: Machine, tiles: Tiles, image: Located, residual: Located | None, ends: Ends,
        patch: Value, ahead: bool = False,
    ) -> None:  # fmt: skip
        self.ahead = ahead and asks_for_pixels(machine, tiles, image)
        self.b, self.machine, self.tiles, self.image, self.ends = b, machine, tiles, image, ends
        self.other = residual
        blocks = [i.block for i in (image, residual) if i is not None and i.block]
        self.lanes = lanes_of(machine, min(blocks)) if blocks else lanes_f32(machine)
        self.vector = ir.VectorType(F32, self.lanes)
        self.pixel = self.lanes * F32_BYTES
        self.patch = patch
        self.vectorised = image.along_channels and (residual is None or residual.along_channels)

    def emit(
        self, planes: Planes, sums: Value, out: Value, residual: Value | None, first: Value, count: Value
    ) -> None:  # fmt: skip
        """Tiles first .. first + count - 1 of an image at out; sums: of the first of these. residual: as out."""
        b, tiles = self.b, self.tiles
        across = const(max(1, tiles.across))
        vectors = -(-self.image.stored_channels // self.lanes)

        def one(index: Value) -> None:
            number = b.add(first, index)
            y = scaled(b, b.udiv(number, across), tiles.m_h, "y")
            x = scaled(b, b.urem(number, across), tiles.m, "x")
            rows = minimum(b, b.sub(const(tiles.out_h), y), const(tiles.m_h))
            columns = minimum(b, b.sub(const(tiles.out_w), x), const(tiles.m))
            source = address(b, sums, scaled(b, index, planes.pitch))

            def vector(number: Value) -> None:
                here = scaled(b, number, self.lanes, "channel")
                left = b.sub(const(tiles.out_ch), here)
                used = minimum(b, left, const(self.lanes))
                if self.image.block:
                    used = b.select(b.icmp_signed("<", used, const(0)), const(0), used)
                other = None
                if residual is not None and self.other is not None:
                    other = self.place(self.other, residual, y, x, here)
                spot = _Spot(self.place(self.image, out, y, x, here), other, rows, columns, used)
                values = self.transform(planes, address(b, source, scaled(b, number, self.lanes * F32_BYTES)))
                self.finish(spot, values, here)

            _, down, right, _ = (step * F32_BYTES for step in self.image.view.strides)
            next_tile = [i * down + j * right for i in range(tiles.m_h) for j in range(tiles.m)]
            corner = address(b, self.place(self.image, out, y, x, const(0)), tiles.m * right) if self.ahead else None
            by_lines(b, planes, source, vectors, self.lanes, vector, False, corner, next_tile)

        repeat(b, const(0), count, one, "tile")

    def place(self, image: Located, base: Value, y: Value, x: Value, channel: Value) -> Value:
        """Of an output."""
        b = self.b
        _, down, right, across = (s * F32_BYTES for s in image.view.strides)
        pixel = b.add(scaled(b, y, down), scaled(b, x, right))
        if image.block:
            block = const(image.block)
            within = b.add(
                scaled(b, b.udiv(channel, block), image.block_step * F32_BYTES), scaled(b, b.urem(channel, block), 4)
            )
        else:
            within = scaled(b, channel, across)
        return address(b, base, b.add(pixel, within), "place")

    def transform(self, planes: Planes, source: Value) -> list[list[Value]]:
        """Outputs of one vector of channels, by row and column."""
        b, tiles = self.b, self.tiles
        inverse, t = planned(tiles.filtering.inverse), tiles.t

        def get(plane: int) -> Value:
            return load_vector(b, address(b, source, plane * planes.plane), self.vector, name=f"s_{plane}", align=4)

        if not tiles.two_d:
            return [inverse.times(b, [get(j) for j in range(t)])]
        columns = [inverse.times(b, [get(i * t + j) for i in range(t)]) for j in range(t)]
        return [inverse.times(b, [column[i] for column in columns]) for i in range(tiles.m)]

    @property
    def always_whole(self) -> bool:
        """Whether every vector of channels is whole."""
        channels = self.tiles.out_ch
        return channels % self.lanes == 0 and self.image.stored_channels == channels

    def finish(self, spot: _Spot, values: list[list[Value]], channel: Value) -> None:
        """Store the outputs that count."""
        b, tiles = self.b, self.tiles
        whole = const(1, I1) if self.always_whole else b.icmp_signed("==", spot.used, const(self.lanes))
        if self.ends.bias is not None:
            bias = self.bias(self.ends.bias, channel, spot.used, whole)
            values = [[b.fadd(value, bias, name="with_bias") for value in row] for row in values]
        inside = b.and_(
            b.icmp_signed("==", spot.rows, const(tiles.m_h)), b.icmp_signed("==", spot.columns, const(tiles.m))
        )
        if tiles.out_h % tiles.m_h == 0 and tiles.out_w % tiles.m == 0:
            inside = const(1, I1)
        direct = b.and_(inside, whole, name="direct")
        with b.if_else(direct) as (here, patched):
            with here:
                (self.store_all if self.vectorised else self.store_turned)(spot, values)
            with patched:
                self.store_some(spot, values, whole)

    def bias(self, base: Value, channel: Value, used: Value, whole: Value) -> Value:
        """Of a vector of channels; zeros where there are none."""
        b, tail = self.b, self.tiles.out_ch % self.lanes
        place = address(b, base, scaled(b, channel, F32_BYTES))
        if self.always_whole:
            return load_vector(b, place, self.vector, name="bias")
        none = b.icmp_signed("==", used, const(0))
        join = b.append_basic_block("bias_join")
        full, other, part = (b.append_basic_block(f"bias_{name}") for name in ("full", "other", "part"))
        b.cbranch(whole, full, other)
        b.position_at_end(full)
        all_of = load_vector(b, place, self.vector, name="bias")
        b.branch(join)
        b.position_at_end(other)
        b.cbranch(none, join, part)
        b.position_at_end(part)
        some = load_some(b, self.machine, place, self.lanes, tail, "bias") if tail else f32_splat(0.0, self.lanes)
        part_end = b.block
        b.branch(join)
        b.position_at_end(join)
        found = b.phi(self.vector, name="bias")
        found.add_incoming(all_of, full)
        found.add_incoming(f32_splat(0.0, self.lanes), other)
        found.add_incoming(some, part_end)
        return found

    def ended(self, value: Value, residual: Value | None) -> Value:
        """+ residual, activated."""
        b = self.b
        if residual is not None:
            value = b.fadd(value, residual, name="with_residual")
        return activate(b, self.ends.act, self.ends.act_args, value)

    def moved(
        self, image: Located | None, base: Value | None, i: Value | int, j: Value | int, lane: Value | int = 0
    ) -> Value | None:
        """base, some rows, columns and channels on."""
        if image is None or base is None:
            return None
        b = self.b
        _, down, right, across = (s * F32_BYTES for s in image.view.strides)
        place = base
        for index, step in ((i, down), (j, right), (lane, F32_BYTES if image.block else across)):
            offset = index * step if isinstance(index, int) else scaled(b, index, step)
            place = address(b, place, offset)
        return place

    def by_rows(self, values: list[list[Value]], store_row: Callable[[Value | int, list[Value]], None]) -> None:
        """store_row(number, outputs) of each row of a tile."""
        if self.ends.act in LIGHT or len(values) == 1:
            for i, row in enumerate(values):
                store_row(i, row)
            return
        self.to_patch(values)
        m = self.tiles.m
        repeat(self.b, 0, m, lambda i: store_row(i, [self.from_patch(i, const(j)) for j in range(m)]), "row")

    def store_all(self, spot: _Spot, values: list[list[Value]]) -> None:
        """A tile that is all inside, channels being neighbours."""

        def store_row(i: Value | int, row: list[Value]) -> None:
            for j, value in enumerate(row):
                other = self.moved(self.other, spot.residual, i, j)
                residual = load_vector(self.b, other, self.vector, name="residual") if other is not None else None
                store_vector(self.b, self.ended(value, residual), self.moved(self.image, spot.out, i, j))

        self.by_rows(values, store_row)

    def to_patch(self, values: list[list[Value]]) -> None:
        """Outputs of a tile before what is done at the end."""
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                store_vector(self.b, value, address(self.b, self.patch, (i * self.tiles.m + j) * self.pixel), align=4)

    def patch_at(self, i: Value, j: Value) -> Value:
        """Of an output."""
        b = self.b
        return address(b, self.patch, b.add(scaled(b, i, self.tiles.m * self.pixel), scaled(b, j, self.pixel)))

    def from_patch(self, i: Value, j: Value) -> Value:
        """An output of to_patch."""
        return load_vector(self.b, self.patch_at(i, j), self.vector, name="result", align=4)

    def store_turned(self, spot: _Spot, values: list[list[Value]]) -> None:
        """A tile that is all inside, columns being neighbours: turned in registers where out is so."""
        b, lanes = self.b, self.lanes
        neighbours = all(i is None or i.view.strides[2] == 1 for i in (self.image, self.other))
        largest = lanes if neighbours else 1

        def store_row(i: Value | int, row: list[Value]) -> None:
            at = 0
            while at < len(row):
                size = min(largest, 1 << ((len(row) - at).bit_length() - 1))
                for lane, piece in enumerate(transposed_pieces(b, row[at : at + size])):
                    other = self.moved(self.other, spot.residual, i, at, lane)
                    residual = load_vector(b, other, piece.type, name="residual") if other is not None else None
                    store_vector(b, self.ended(piece, residual), self.moved(self.image, spot.out, i, at, lane))
                at += size

        self.by_rows(values, store_row)

    def store_some(self, spot: _Spot, values: list[list[Value]], whole: Value) -> None:
        """What counts of a tile, through the patch."""
        b, tiles, lanes = self.b, self.tiles, self.lanes
        self.to_patch(values)

        def every(body: Callable[[Value, Value], None]) -> None:
            rows, columns = spot.rows, spot.columns
            repeat(b, const(0), rows, lambda i: repeat(b, const(0), columns, lambda j: body(i, j), "j"), "i")

        def pixel(i: Value, j: Value, used: int) -> None:
            value = self.from_patch(i, j)
            other = self.moved(self.other, spot.residual, i, j)
            residual = None
            if other is not None:
                residual = load_some(b, self.machine, other, lanes, used, "residual") if used else f32_splat(0.0, lanes)
            value = self.ended(value, residual)
            place = self.moved(self.image, spot.out, i, j)
            if self.image.block:
                store_vector(b, only_first(b, value, lanes, used), place)
            elif used:
                store_some(b, self.machine, value, place, lanes, used)

        def single(i: Value, j: Value, lane: Value) -> None:
            value = b.load(address(b, self.patch_at(i, j), scaled(b, lane, F32_BYTES)), name="result", align=4, typ=F32)
            other = self.moved(self.other, spot.residual, i, j, lane)
            residual = b.load(other, name="residual", align=4, typ=F32) if other is not None else None
            b.store(self.ended(value, residual), self.moved(self.image, spot.out, i, j, lane), align=4)

        if not self.vectorised:
            repeat(b, const(0), spot.used, lambda lane: every(lambda i, j: single(i, j, lane)), "lane")
            if self.image.block:
                zero = ir.Constant(F32, 0.0)

                def fill(lane: Value) -> None:
                    every(lambda i, j: b.store(zero, self.moved(self.image, spot.out, i, j, lane), align=4) and None)

                repeat(b, spot.used, const(lanes), fill, "filled")
            return
        tail = tiles.out_ch % lanes
        with b.if_else(whole) as (full, other):
            with full:
                every(lambda i, j: pixel(i, j, lanes))
            with other, b.if_else(b.icmp_signed("!=", spot.used, const(0))) as (part, empty):
                with part:
                    if tail:
                        every(lambda i, j: pixel(i, j, tail))
                with empty:
                    if self.image.block:
                        every(lambda i, j: pixel(i, j, 0))
