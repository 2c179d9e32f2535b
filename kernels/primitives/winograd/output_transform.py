"""Emitter of the inverse transform A' s A, with bias: straight-line code over channels."""

from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.arithmetic import round_to
from mavcg.kernels.builder.emit import F32, I1, address, const, fma, repeat, scale_index
from mavcg.kernels.builder.float_math import like
from mavcg.kernels.builder.lanes import f32_splat, load_vector
from mavcg.kernels.builder.nest_loops import minimum
from mavcg.kernels.primitives.common import load_partial
from mavcg.kernels.primitives.winograd.matrices import operations_of
from mavcg.kernels.primitives.winograd.output_stores import OutputStores, TileVector, WinogradEpilogue
from mavcg.kernels.primitives.winograd.planes import Planes, over_cache_lines, prefetches_pixels
from mavcg.kernels.primitives.winograd.tiles import Located, Tiles
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES

Value: TypeAlias = ir.Value


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
        self.stores = OutputStores(b, machine, tiles, image, epilogue, patch)
        self.lanes, self.item = self.stores.lanes, tiles.item_bytes

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
                if residual is not None and self.epilogue.residual is not None:
                    residual_pointer = self.address_of(self.epilogue.residual, residual, y, x, here)
                target = TileVector(self.address_of(self.image, out, y, x, here), residual_pointer, rows, columns, used)
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
                b, address(b, source, plane * planes.plane), self.stores.vector, name=f"s_{plane}", align=self.item
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

    def finish(self, target: TileVector, values: list[list[Value]], channel: Value) -> None:
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
                self.stores.store_whole(target, values)
            with patched:
                self.stores.store_partial(target, values, whole)

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
