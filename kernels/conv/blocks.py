"""Loops inside a block of a convolution: chunks of output channels, rows and pixels, around the micro-kernels."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir

from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.builder.activation import activate, activation
from mavcg.kernels.builder.bf16_products import SMALLEST_NORMAL, round_flushed
from mavcg.kernels.builder.emit import address, const, index_value, repeat, scale_index
from mavcg.kernels.builder.nest_loops import maximum
from mavcg.kernels.builder.product_loop import prefetch
from mavcg.kernels.builder.run_numbers import Number, fixed_number, load_numbers, multiple, times
from mavcg.kernels.builder.tiles import emit_cases, repeat_tiles, row_pixel_tiles, row_tiles, whole_and_rest
from mavcg.kernels.conv.part_loops import ChannelRun, RowsOfWork
from mavcg.kernels.conv.spec import Conv2d, conv_sum
from mavcg.kernels.conv.tiling import (
    FEW_PIXELS,
    few_pixels_tiling,
    one_tile_runs,
    prefetches_inputs,
    prefetches_windows,
    register_tiling,
    share_bytes,
)
from mavcg.kernels.gemm.loop_shape import vector_lanes
from mavcg.kernels.gemm.micro_kernel import emit_tile
from mavcg.kernels.gemm.product_types import in_blocks, packed_terms
from mavcg.kernels.gemm.register_tile import RegisterTiling, short_tile
from mavcg.kernels.gemm.sum_blocks import SumBlock, sum_blocks
from mavcg.kernels.gemm.tile import F32_BYTES, Part, Pointers, RegisterTile, Sum, WeightLayout
from mavcg.kernels.gemm.tile_products import tile_rows
from mavcg.specs.kernel import Machine, View
from mavcg.specs.tile_plan import MacroTile

Value: TypeAlias = ir.Value
Offsets: TypeAlias = tuple[int | Value, ...]
SHORT_RUN = 32  # pixels of a run whose tiles prefetch all of the next chunk's weights; fewer, a part of them


@dataclass(frozen=True)
class _ChunkTiles:
    """The register tiles of a chunk: `vectors` vectors of output channels, with `used` channels in the last.

    emit: emits a tile. share_bytes: of the next chunk's weights, which a tile prefetches per term; share: in all.
    share_of_run: as in RegisterTile.
    """

    tiling: RegisterTiling
    vectors: int
    used: int
    emit: Callable[[RegisterTile, Pointers], None]
    share_bytes: int
    share: Number
    share_of_run: Value | None = None

    def tile_of_run(self, x: Offsets, out: Offsets, residual: Offsets) -> RegisterTile:
        """Return a tile of a run of any number of pixels, whose offsets in the three images are given."""
        shape = RegisterTile(x, out, residual, self.vectors, self.used, share_bytes=self.share_bytes)
        return replace(shape, share_of_run=self.share_of_run)


class Blocks(RowsOfWork[Conv2d]):
    """Emitter of the loops inside a convolution's blocks, with the operands of its function."""

    def __init__(self, b: ir.IRBuilder, spec: Conv2d, machine: Machine, macro: MacroTile) -> None:
        if not spec.tiling_rules.partial_sums:
            macro = replace(macro, kc=None)
        self.b, self.spec, self.machine, self.macro = b, spec, machine, macro
        self.numbers = numbers = load_numbers(b, spec.words, 3 + spec.bias + (spec.residual is not None))
        self.x, self.w, self.out = (numbers.operand(i, name) for i, name in enumerate(("x", "weights", "out")))
        self.bias = numbers.operand(3, "bias") if spec.bias else None
        self.residual = numbers.operand(3 + spec.bias, "residual") if spec.residual else None
        self.columns = numbers.at("out.shape.2", spec.out.shape[2])
        self.lanes, self.item = vector_lanes(machine, spec.product_type), spec.item_bytes
        self.total = self.sum_of_run()
        self.term_bytes, dtype = spec.weight_item_bytes * spec.terms, spec.product_type
        k = self.total.length * self.term_bytes
        if spec.packed:
            ahead = macro.prefetch_distance_bytes or 0
            panel, item = spec.lanes * self.term_bytes, spec.weight_item_bytes * packed_terms(spec.terms)
            self.weights = WeightLayout(panel, item, k * spec.lanes, spec.lanes, True, ahead, dtype, spec.stored)
        else:
            self.weights = WeightLayout(self.item, k, k * spec.lanes, spec.lanes, False, dtype=dtype)

    def sum_of_run(self) -> Sum:
        """Return the loops of a sum, whose rows of taps may be as far apart as the run says."""
        spec, down = self.spec, self.numbers.values.get("x.strides.1")
        if down is None or spec.kernel[0] == 1:
            return conv_sum(spec)
        row = conv_sum(replace(spec, kernel=(1, spec.kernel[1])))
        return Sum(((spec.kernel[0], scale_index(self.b, down, spec.dilation[0] * self.item)), *row.levels))

    def channels(self, run: ChannelRun) -> None:
        """Emit a block: for each block of terms all chunks; a chunk has the channels of one register tile."""
        sum_blocks(self.b, self.total, self.macro.kc, lambda block: self.chunks(run, block))

    def chunks(self, run: ChannelRun, block: SumBlock) -> None:
        """Emit all chunks of a block's channels for one block of terms.

        Where a run sets the number of pixels, few have tiles of their own: up to FEW_PIXELS of more channels, as the
        multiply-adds of narrow tiles wait for each other, and those of one_tile_runs of fewer channels.
        """
        which = (self.spec, self.machine, self.macro, run.count)
        tiling, crossing = register_tiling(*which)
        few, alone = few_pixels_tiling(*which), dict(one_tile_runs(*which, tiling.vectors))

        def of_several() -> None:
            if few is None or few.vectors <= tiling.vectors:
                self.chunks_of(run, block, tiling, crossing)
                return
            with self.b.if_else(self.b.icmp_signed("<=", self.pixel_count(run), const(FEW_PIXELS))) as (short, long):
                with short:
                    self.chunks_of(run, block, few, crossing)
                with long:
                    self.chunks_of(run, block, tiling, crossing)

        def of_one(pixels: int, tiles: RegisterTiling) -> Callable[[], None]:
            return lambda: self.chunks_of(replace(run, pixels=pixels), block, tiles, crossing)

        if alone:
            cases = {pixels: of_one(pixels, tiles) for pixels, tiles in alone.items()}
            emit_cases(self.b, self.pixel_count(run), cases, of_several)
        else:
            of_several()

    def chunks_of(self, run: ChannelRun, block: SumBlock, tiling: RegisterTiling, crossing: bool) -> None:
        """Emit all chunks by these register tiles."""
        b, step = self.b, tiling.vectors * self.lanes

        def chunk(index: Value, count: int) -> None:
            channels = replace(run, first=b.add(run.first, index), count=count)
            widths = tiling.widths if count == step else tiling.rest
            self.chunk(channels, replace(tiling, widths=widths), crossing, block)

        repeat_tiles(b, whole_and_rest(run.count, step), chunk, "channel")

    def chunk(self, run: ChannelRun, tiling: RegisterTiling, crossing: bool, block: SumBlock) -> None:
        """Emit a chunk: the channels of one register tile, or fewer, for the rows of a block.

        crossing: register tiles continue in the next row, and the block is all rows.
        """
        b, spec = self.b, self.spec
        vectors = -(-run.count // self.lanes)
        used = run.count - (vectors - 1) * self.lanes
        k_bytes = self.total.length * self.term_bytes
        in_first = b.mul(run.group, const(spec.in_channels * self.item))
        if block.part is not None:
            in_first = b.add(in_first, block.in_bytes)
        out_channel = b.add(b.mul(run.group, const(spec.out_channels)), run.first)
        out_first = b.mul(out_channel, const(self.item))
        panel_channels = spec.panels * spec.lanes if spec.packed else spec.out_channels
        w_first = b.mul(b.add(b.mul(run.group, const(panel_channels)), run.first), const(k_bytes))
        if block.part is not None:
            w_first = b.add(w_first, scale_index(b, block.first_term, self.weights.k_step))
        bias_first = out_first if self.item == F32_BYTES else b.mul(out_channel, const(F32_BYTES))
        images = [(self.x, "x", in_first), (self.out, "out", out_first)]
        if spec.residual is not None:
            images.append((self.residual, "residual", out_first))

        def pointers(row: Value | None) -> Pointers:
            """Return the addresses of a row's first pixel; row None: of the image's first pixel."""
            addresses = []
            for pointer, image, first in images:
                offset = first if row is None else b.add(self.row_offset(image, row), first)
                addresses.append(address(b, pointer, offset))
            bias = address(b, self.bias, bias_first) if self.bias is not None else None
            scales = address(b, bias, spec.out.shape[3] * F32_BYTES) if spec.stored == "i8" else None
            residual = addresses[2] if len(addresses) > 2 else None
            return Pointers(addresses[0], address(b, self.w, w_first), addresses[1], bias, residual, scales)

        def tile(shape: RegisterTile, at: Pointers) -> None:
            part: Part | None = block.part
            weights = self.weights
            if run.pixels is not None and spec.single_pixels:
                weights = replace(weights, ahead=0)  # of one tile: hardware prefetches them, 1 % sooner on an AMX Xeon
            emit_tile(b, self.machine, block.total, weights, shape, at, self.ending(), part)

        width, of_run = tiling.widths.count + tiling.widths.count_less, spec.single_pixels or spec.short_rows
        rows = 1 if crossing else self.pass_rows
        passed = width * rows
        if run.pixels is not None:
            passed = 1
        elif of_run:
            pixels = rows * (1 if spec.single_pixels else spec.run_pixels)
            passed = -(-min(pixels, SHORT_RUN) // tiling.widths.mr)
        chunk_bytes = vectors * self.lanes * self.term_bytes
        size = share_bytes(self.spec, self.macro, chunk_bytes, passed)
        if fixed_number(self.columns) is None and not spec.short_rows:
            size = 0  # the number of tiles is not known
        share_of_run = self.share_of_run(run, chunk_bytes, tiling.widths.mr, passed) if size and of_run else None
        share = multiple(b, size if share_of_run is None else share_of_run, block.total.length)
        tiles = _ChunkTiles(tiling, vectors, used, tile, size, share, share_of_run)

        def with_next_weights(at: Pointers, row: Value | None) -> Pointers:
            """Return the pointers with the next chunk's weights, of which each tile of the row prefetches a share."""
            if not size:
                return at
            ahead = address(b, at.weights, vectors * self.lanes * k_bytes)
            return replace(at, ahead=ahead if row is None else address(b, ahead, times(b, row, share, width)))

        if spec.single_pixels:
            self.pixels(tiles, run, lambda row: with_next_weights(pointers(row), None))
            return
        if crossing:
            self.crossing(tiles, with_next_weights(pointers(None), None))
            return
        if spec.short_rows:
            first, end = (times(b, row, self.columns) for row in (run.begin, run.end))
            at, short = with_next_weights(pointers(None), None), short_tile(self.machine, vectors)
            pixel_tile = self.crossing_tile(tiles, at, first)
            if run.pixels is not None:
                pixel_tile(first, run.pixels)
            else:
                row_tiles(b, first, end, tiling.widths.mr, pixel_tile, short)
            return

        def line(row: Value) -> None:
            self.tiles(tiles, with_next_weights(pointers(row), b.sub(row, run.begin)))

        repeat(b, run.begin, run.end, line, "row")

    def pixel_count(self, run: ChannelRun) -> Value:
        """Return the number of pixels of a run's rows, which are single ones or short_rows."""
        rows = self.b.sub(run.end, run.begin)
        return rows if self.spec.single_pixels else times(self.b, rows, self.columns)

    def share_of_run(self, run: ChannelRun, chunk_bytes: int, widest: int, fewest: int) -> Value:
        """Return the bytes per term that each tile of a run's pixels prefetches of the next chunk's weights: an even
        share.

        chunk_bytes: of the chunk per term. widest: pixels of a tile. fewest: tiles that prefetch the whole chunk.
        """
        b = self.b
        tiles = maximum(b, b.udiv(b.add(self.pixel_count(run), const(widest - 1)), const(widest)), const(fewest))
        return b.add(b.udiv(const(chunk_bytes - 1), tiles), const(1), name="share")

    def ending(self) -> Callable[[Value], Value]:
        """Return the emitter of an output's activation and rounding, of f32 lanes.

        Where no operation leaves a subnormal number (`flushed_subnormals`), an instruction rounds as others do.
        """
        b, spec, machine = self.b, self.spec, self.machine
        bounds = [abs(bound) for bound in spec.act_args] if spec.act == "clip" else []
        normal = spec.act in ("", "relu", "clip") and not any(0 < bound < SMALLEST_NORMAL for bound in bounds)
        if normal and spec.terms > 1 and machine.arch == "x86_64" and (machine.bf16_dot or machine.bf16_tiles):
            return lambda x: round_flushed(b, activate(b, spec.act, spec.act_args, x))
        return activation(b, spec.act, spec.act_args, spec.out.dtype)

    @property
    def pass_rows(self) -> int:
        """Maximum number of rows that are computed with a chunk of channels before the next chunk."""
        rows = self.spec.pixel_rows if self.spec.by_channels else min(self.macro.call_rows, self.spec.pixel_rows)
        return min(self.macro.mc or rows, rows)

    def strides(self, image: str) -> tuple[Number, ...]:
        """Return the strides of x, out or residual, in elements."""
        view: View = getattr(self.spec, image)
        return self.numbers.along(f"{image}.strides", view.strides)

    def row_offset(self, image: str, row: Value) -> Value:
        """Return the offset of a row of output pixels in out or residual, or of its window in x, in bytes."""
        b, height = self.b, self.numbers.at("out.shape.1", self.spec.out.shape[1])
        if self.spec.out.shape[0] == 1:
            number, y = const(0), row
        elif fixed_number(height) in (0, 1):
            number, y = row, const(0)
        else:
            number, y = b.udiv(row, index_value(height)), b.urem(row, index_value(height))
        outer, down, *_ = self.strides(image)
        step = self.item * (self.spec.stride[0] if image == "x" else 1)
        return b.add(times(b, number, outer, self.item), times(b, y, down, step))

    def crossing(self, chunk: _ChunkTiles, at: Pointers) -> None:
        """Emit all pixels of all rows as one sequence of register tiles, whose offsets are computed at run time."""
        repeat_tiles(self.b, chunk.tiling.widths.tiles, self.crossing_tile(chunk, at), "pixel")

    def crossing_tile(
        self, chunk: _ChunkTiles, at: Pointers, first: Value | None = None
    ) -> Callable[[Value, int], None]:
        """Return the emitter of a register tile of pixels from one on, by its number through all rows.

        first: pixel of a run of any number of pixels; None: tiles have the places that were planned.
        """
        b, spec, width = self.b, self.spec, index_value(self.columns)
        views = {"x": spec.x, "out": spec.out, "residual": spec.residual}

        def emit_at(pixel: Value, mr: int) -> None:
            offsets: list[list[Value]] = [[], [], []]
            for p in range(mr):
                number = b.add(pixel, const(p))
                row, column = b.udiv(number, width, name="y"), b.urem(number, width, name="x")
                for (image, view), view_offsets in zip(views.items(), offsets, strict=True):
                    if view is not None:
                        step = view.strides[2] * self.item * (spec.stride[1] if image == "x" else 1)
                        offset = b.add(self.row_offset(image, row), scale_index(b, column, step), name="offset")
                        view_offsets.append(offset)
            x, out, residual = map(tuple, offsets)
            tile = chunk.tile_of_run(x, out, residual)
            if first is None:
                chunk.emit(tile, self.advance_prefetch(at, pixel, mr, chunk.share))
            else:
                chunk.emit(tile, self.advance_in_run(at, b.sub(pixel, first), chunk))

        return emit_at

    def pixels(self, chunk: _ChunkTiles, run: ChannelRun, pointers: Callable[[Value], Pointers]) -> None:
        """Emit a run of rows of a single pixel each: the widest register tiles, then narrower ones for what is left."""
        spec, widest = self.spec, chunk.tiling.widths.mr
        views = ((spec.x, spec.stride[0]), (spec.out, 1), (spec.residual, 1))

        def tiles(pixel: Value, mr: int) -> None:
            steps = [view.strides[1] * down * self.item if view is not None else 0 for view, down in views]
            x, out, residual = (tuple(step * p for p in range(mr)) for step in steps)
            shape = chunk.tile_of_run(x, out, residual)
            chunk.emit(shape, self.advance_in_run(pointers(pixel), self.b.sub(pixel, run.begin), chunk))

        if run.pixels is not None:
            tiles(run.begin, run.pixels)
            return
        row_tiles(self.b, run.begin, run.end, widest, tiles, short_tile(self.machine, chunk.vectors))

    def advance_in_run(self, at: Pointers, passed: Value, chunk: _ChunkTiles) -> Pointers:
        """Return advance_prefetch behind so many pixels of a run of any number of them; a rest is the next tile."""
        widest = chunk.tiling.widths.mr
        return self.advance_prefetch(at, self.b.add(passed, const(widest - 1)), widest, chunk.share)

    def advance_prefetch(self, at: Pointers, pixel: Value, mr: int, share: Number) -> Pointers:
        """Return the pointers with the address of the weights that the tile from this pixel on prefetches.

        share: bytes that each tile prefetches.
        """
        if at.ahead is None:
            return at
        return replace(at, ahead=address(self.b, at.ahead, times(self.b, self.b.udiv(pixel, const(mr)), share)))

    def tiles(self, chunk: _ChunkTiles, at: Pointers) -> None:
        """Emit the register tiles of one row of pixels."""
        b, spec = self.b, self.spec
        steps = (
            spec.x.strides[2] * spec.stride[1] * self.item,
            spec.out.strides[2] * self.item,
            spec.residual.strides[2] * self.item if spec.residual else 0,
        )
        prefetches = prefetches_inputs(spec, self.machine, chunk.tiling.vectors * self.lanes)
        windows = prefetches_windows(spec, self.machine, chunk.tiling.vectors * self.lanes)

        def tile(pixel: Value, mr: int) -> None:
            x, out, residual = (tuple(step * p for p in range(mr)) for step in steps)
            ahead = prefetches and mr > 1
            pointers = replace(
                self.advance_prefetch(at, pixel, mr, chunk.share),
                inputs=address(b, at.inputs, scale_index(b, pixel, steps[0])),
                out=address(b, at.out, scale_index(b, pixel, steps[1])),
                residual=address(b, at.residual, scale_index(b, pixel, steps[2])) if at.residual is not None else None,
            )
            rows = tile_rows(spec.run_pixels) if in_blocks(spec.product_type) else 0
            shape = RegisterTile(x, out, residual, chunk.vectors, chunk.used, ahead, chunk.share_bytes, rows)
            if windows:
                self.prefetch_windows(pointers.inputs, mr)
            chunk.emit(shape, pointers)

        widths, short = chunk.tiling.widths, short_tile(self.machine, chunk.vectors)
        row_pixel_tiles(b, self.columns, widths.tiles, widths.mr, tile, short)

    def prefetch_windows(self, inputs: Value, mr: int) -> None:
        """Emit prefetches of what the windows of the next `mr` pixels read and those of this tile do not.

        inputs: the first input of the tile's first window.
        """
        b, spec, pixel = self.b, self.spec, self.spec.x.strides[2] * self.item
        step, window = spec.stride[1] * pixel, (spec.kernel[1] - 1) * spec.dilation[1] * pixel
        read = (mr - 1) * step + window + spec.x.shape[3] * self.item
        for tap in range(spec.kernel[0]):
            row = address(b, inputs, times(b, const(tap), self.strides("x")[1], spec.dilation[0] * self.item))
            for offset in (*range(0, mr * step - 1, LINE_BYTES), mr * step - 1):
                prefetch(b, row, read + offset)
