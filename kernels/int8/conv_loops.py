"""Emitter of 8-bit convolutions: loops over blocks of rows and channels around the micro-kernels."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import I8, address, const, index_value, kernel_function, operand, repeat, scale_index
from mavcg.kernels.builder.run_numbers import fixed_number, load_numbers, times
from mavcg.kernels.builder.tiles import in_part, row_blocks, row_pixel_tiles, row_tiles
from mavcg.kernels.builder.x86_tiles import TILE_BYTES, aligned_memory, release_tiles
from mavcg.kernels.conv.part_loops import ChannelRun, RowsOfWork, check_parts, part_runs
from mavcg.kernels.gemm.register_tile import BlockRegisters
from mavcg.kernels.int8.excess import HEADER_WORDS, WORD_BYTES
from mavcg.kernels.int8.micro_kernel import F32_BYTES, emit_qtile
from mavcg.kernels.int8.register_tile import GROUP, SUM_TILES, Int8Tiling, ProductForm, SumRun, choose_tiling, widths_of
from mavcg.kernels.int8.second_parts import ExcessPointers
from mavcg.kernels.int8.specs import EXCESS_OPERAND, EightBitConvolution, QConv2d
from mavcg.kernels.int8.tile import QPointers, QTile, RequantizedEnding, TileEnding
from mavcg.kernels.int8.tile_sums import TileRows, configure_sums, pixel_tiles
from mavcg.specs.kernel import Machine, View
from mavcg.specs.tile_plan import MacroTile, Order

Value: TypeAlias = ir.Value

# Suits any cache: each chunk of channels is computed for all rows of a call, and its weights stay in cache.
PLAIN = MacroTile(order=Order.CHANNELS)


def emit_qconv2d(module: ir.Module, spec: QConv2d, machine: Machine, macro: MacroTile = PLAIN) -> ir.Function:
    """Emit the function of a spec for a machine. The macro-tile's kc has no effect: 8-bit outputs cannot hold sums."""
    return emit_convolution(module, spec, machine, macro, _requantized_endings)


# endings(b, spec, machine): the epilogue of a kernel's tiles, with the operands that it reads.
MakeEndings = Callable[[ir.IRBuilder, Any, Machine], "Endings"]


class Endings(Protocol):
    """The epilogues of a kernel's tiles. flip: as in QPointers. residual: pointer to its first element, or None."""

    flip: Value | None
    residual: Value | None

    def at(self, packed: Value, channel: Value) -> TileEnding:
        """Return the epilogue of tiles that begin at an output channel.

        channel: its number through all groups. packed: its position in packed constants, where groups are padded.
        """


def emit_convolution(
    module: ir.Module, spec: EightBitConvolution, machine: Machine, macro: MacroTile, endings: MakeEndings
) -> ir.Function:
    """Emit the function of a spec, with these epilogues."""
    check_parts(spec, macro)
    function, b = kernel_function(module, spec, machine)
    emitter = _ConvolutionEmitter(b, spec, machine, macro, endings(b, spec, machine))
    emitter.emit(function.args[1], function.args[2])
    if emitter.form.in_tiles:
        release_tiles(b)
    b.ret_void()
    return function


def flip_register(b: ir.IRBuilder, form: ProductForm, pointer: Value) -> Value | None:
    """Emit the load of a register of bytes 128 if the product form flips the signedness of inputs, else None."""
    return b.load(pointer, name="flip", align=4, typ=ir.VectorType(I8, 4 * form.lanes)) if form.flip else None


class _RequantizedEndings:
    """Epilogues that requantize to 8 bits. The bias depends on whether inputs are multiplied as i8 or u8."""

    def __init__(self, b: ir.IRBuilder, spec: QConv2d, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        form, bias, self.multiplier = spec.form(machine), operand(b, 3, "bias"), operand(b, 4, "multiplier")
        outputs = spec.groups * spec.panels * spec.lanes
        self.bias = address(b, bias, 0 if form.signed else outputs * F32_BYTES)
        self.residual = operand(b, spec.residual_operand, "residual") if spec.residual is not None else None
        self.shift = address(b, self.multiplier, outputs * F32_BYTES) if spec.shift else None
        self.flip = flip_register(b, form, address(b, bias, 2 * outputs * F32_BYTES))

    def at(self, packed: Value, channel: Value) -> TileEnding:
        """Return the epilogue of tiles that begin at a channel."""
        b, move = self.b, self.b.mul(packed, const(F32_BYTES))
        bias, multiplier = (address(b, p, move) for p in (self.bias, self.multiplier))
        shift = self.shift and address(b, self.shift, move)
        spec, residual_type = self.spec, "" if self.spec.residual is None else self.spec.residual.dtype
        return RequantizedEnding(
            b, self.machine, spec.epilogue, bias, multiplier, shift, spec.bounded, spec.sum, residual_type
        )


def _requantized_endings(b: ir.IRBuilder, spec: QConv2d, machine: Machine) -> Endings:
    return _RequantizedEndings(b, spec, machine)


def register_tiling(spec: EightBitConvolution, machine: Machine, macro: MacroTile, channels: int) -> Int8Tiling:
    """Return the register tiles of a run of `channels` output channels."""
    form, width = spec.form(machine), spec.run_pixels
    registers = form.available(machine)
    vectors, panel = -(-channels // form.lanes), max(1, spec.lanes // form.lanes)
    if macro.nr is not None:
        # Whole panels only: a tile finds its weights by the panel, so a chunk must begin with one.
        chunk_vectors = min(vectors, max(1, macro.nr // (panel * form.lanes)) * panel)
        chunk_vectors = min(chunk_vectors, form.most_vectors) if form.in_tiles else chunk_vectors
        if (widths := widths_of(form, registers, width, chunk_vectors)) is not None:
            return Int8Tiling(chunk_vectors, widths)
    return choose_tiling(form, registers, width, vectors, panel, spec.run.steps, spec.pixel_rows)


def qconv2d_registers(spec: EightBitConvolution, machine: Machine, macro: MacroTile, channels: int) -> BlockRegisters:
    """Return the register tiles of a block of `channels` output channels."""
    chosen = register_tiling(spec, machine, macro, channels)
    form = spec.form(machine)
    per_chunk = sum(n * form.step_cycles(mr, chosen.vectors * form.parts) for mr, n in chosen.widths.tiles)
    cycles = channels / (chosen.vectors * form.lanes) * per_chunk
    return BlockRegisters(
        chosen.widths, chosen.vectors * form.lanes, chosen.vectors * form.parts, cycles, False, cycles
    )


class _ConvolutionEmitter(RowsOfWork[EightBitConvolution]):
    """Emitter of the loops around the micro-kernels of one function."""

    def __init__(
        self, b: ir.IRBuilder, spec: EightBitConvolution, machine: Machine, macro: MacroTile, endings: Endings
    ) -> None:
        self.b, self.spec, self.machine, self.macro, self.endings = b, spec, machine, macro, endings
        self.form = spec.form(machine)
        self.numbers = numbers = load_numbers(b, spec.words, spec.operand_count)
        self.run = self.run_of_run()
        self.x, self.w, self.out = (numbers.operand(i, name) for i, name in enumerate(("x", "weights", "out")))
        self.residual_view: View = getattr(spec, "residual", None) or spec.out
        self.residual = endings.residual and numbers.at_place(spec.operand_count - 1, endings.residual)
        self.excess = numbers.operand(EXCESS_OPERAND, "excess") if spec.excess else None
        self.columns = numbers.at("out.shape.2", spec.out.shape[2])
        self.room: Value | None = None
        if self.form.in_tiles:
            configure_sums(b, self.form, pixel_tiles(spec.run_pixels))
            self.room = aligned_memory(b, SUM_TILES * TILE_BYTES, "sums")

    def run_of_run(self) -> SumRun:
        """Return the loops of a sum, whose rows of taps may be as far apart as the run says."""
        run, down = self.spec.run, self.numbers.values.get("x.strides.1")
        if down is None or self.spec.kernel[0] == 1:
            return run
        assert self.spec.free_tap_rows
        (count, _), *inner = run.levels
        return replace(run, levels=((count, scale_index(self.b, down, self.spec.dilation[0])), *inner))

    def row_parts(self, first: Value, last: Value, low: Value, high: Value) -> None:
        b, spec, macro = self.b, self.spec, self.macro
        chunk = register_tiling(spec, self.machine, macro, spec.out_channels).vectors * self.form.lanes

        def rows(begin: Value, end: Value) -> None:
            def part(channel: Value, count: int) -> None:
                self.channels(ChannelRun(const(0), channel, count, begin, end))

            part_runs(b, macro, spec.out_channels, spec.lanes, chunk, low, high, part)

        row_blocks(b, first, last, macro.mc, rows)

    def panels(self, begin: Value, end: Value, rows: tuple[Value, Value]) -> None:
        """Emit the panels one by one, in the macro-tile's loop order."""
        b = self.b
        if self.macro.order is Order.ROWS:

            def block(first: Value, last: Value) -> None:
                repeat(b, begin, end, lambda index: self.panel(index, first, last), "panel")

            row_blocks(b, *rows, self.block_rows, block)
            return

        def panel(index: Value) -> None:
            row_blocks(b, *rows, self.block_rows, lambda first, last: self.panel(index, first, last))

        repeat(b, begin, end, panel, "panel")

    def panel(self, index: Value, begin: Value, end: Value) -> None:
        """Emit one panel for a range of rows; index: number of the panel through all groups."""
        b, spec = self.b, self.spec
        group, number = b.sdiv(index, const(spec.panels)), b.srem(index, const(spec.panels))
        first = b.mul(number, const(spec.lanes))
        in_part(
            b, number, spec.out_channels, spec.lanes, lambda n: self.channels(ChannelRun(group, first, n, begin, end))
        )

    def channels(self, run: ChannelRun) -> None:
        """Emit the outputs of a block, whose channels begin with a panel."""
        b, form, width, registers = self.b, self.form, self.spec.run_pixels, self.form.available(self.machine)
        tiling = register_tiling(self.spec, self.machine, self.macro, run.count)
        step = tiling.vectors * form.lanes
        chunks, rest = divmod(run.count, step)
        if chunks:

            def chunk(index: Value) -> None:
                self.rows(replace(run, first=b.add(run.first, index), count=step), tiling)

            repeat(b, 0, chunks * step, chunk, "channel", step)
        if rest:
            fewer = -(-rest // form.lanes)
            tiling = Int8Tiling(fewer, widths_of(form, registers, width, fewer) or tiling.widths)
            self.rows(replace(run, first=b.add(run.first, const(chunks * step)), count=rest), tiling)

    def rows(self, run: ChannelRun, tiling: Int8Tiling) -> None:
        """Emit outputs of at most a chunk of channels."""
        b, spec, lanes, group, channel = self.b, self.spec, self.spec.lanes, run.group, run.first
        used = run.count - (tiling.vectors - 1) * self.form.lanes
        in_first = b.mul(group, const(spec.in_channels))
        out_first = b.add(b.mul(group, const(spec.out_channels)), channel)
        packed_first = b.add(b.mul(group, const(spec.panels * lanes)), channel)
        panel = b.add(b.mul(group, const(spec.panels)), b.udiv(channel, const(lanes)))
        w_first = b.add(
            b.mul(panel, const(spec.panel_bytes)),
            b.mul(b.urem(channel, const(lanes)), const(spec.terms)),
            name="w_first",
        )
        weights = address(b, self.w, w_first)
        excess = self.second_parts(panel, channel)
        ending = self.endings.at(packed_first, out_first)

        def pointers(index: Value) -> QPointers:
            """Return the addresses of a row's first pixel."""
            height = self.numbers.at("out.shape.1", spec.out.shape[1])
            image, y = index, const(0)
            if fixed_number(height) not in (0, 1):
                image, y = b.sdiv(index, index_value(height)), b.srem(index, index_value(height))

            def start(pointer: Value, name: str, view: View, down: int, first: Value) -> Value:
                strides = self.numbers.along(f"{name}.strides", view.strides)
                offset = b.add(times(b, image, strides[0]), times(b, y, strides[1], down))
                return address(b, pointer, scale_index(b, b.add(offset, first), view.item_bytes))

            x = start(self.x, "x", spec.x, spec.stride[0], in_first)
            out = start(self.out, "out", spec.out, 1, out_first)
            residual = self.residual and start(self.residual, "residual", self.residual_view, 1, out_first)
            return QPointers(x, weights, out, residual, self.endings.flip, excess)

        if self.room is not None:
            steps = spec.x.strides[2] * spec.stride[1], *self.written_steps(2)
            one = self.tile(1, steps, tiling.vectors, used)
            pixels = pixel_tiles(spec.run_pixels)
            TileRows(b, self.form, self.run, pixels, one, steps, pointers, ending, self.room).emit(run.begin, run.end)
        elif spec.single_pixels:
            steps = spec.x.strides[1] * spec.stride[0], *self.written_steps(1)

            def tile(pixel: Value, mr: int) -> None:
                shape = self.tile(mr, steps, tiling.vectors, used)
                emit_qtile(b, self.machine, self.form, self.run, shape, pointers(pixel), ending)

            row_tiles(b, run.begin, run.end, tiling.widths.mr, tile)
        else:
            repeat(b, run.begin, run.end, lambda index: self.tiles(tiling, used, pointers(index), ending), "row")

    def second_parts(self, panel: Value, channel: Value) -> ExcessPointers | None:
        """Return the pointers into the table of weights' second parts for tiles from a channel on, or None without."""
        b, spec = self.b, self.spec
        if not spec.excess:
            return None
        assert spec.excess == len(self.run.levels) + 1  # the table's places are of the run that the lowering saw
        header = address(b, self.excess, b.mul(panel, const(HEADER_WORDS * WORD_BYTES)))
        lane = b.urem(channel, const(spec.lanes))
        return ExcessPointers(self.excess, header, b.mul(lane, const(GROUP)), spec.lanes * GROUP)

    def written_steps(self, axis: int) -> tuple[int, int]:
        """Return the distances of neighbours along an axis in out and residual, in bytes."""
        out, residual = (view.strides[axis] * view.item_bytes for view in (self.spec.out, self.residual_view))
        return out, residual

    def tile(self, mr: int, steps: tuple[int, ...], vectors: int, used: int) -> QTile:
        """Return a tile of `mr` pixels. steps: from one to the next in x, out and residual, in bytes. used: channels of
        the last vector."""
        spec, ahead = self.spec, self.macro.prefetch_distance_bytes or 0
        x, out, residual = (tuple(step * p for p in range(mr)) for step in steps)
        return QTile(x, out, vectors, used, spec.lanes, spec.panel_bytes, spec.narrow, ahead, residual)

    def tiles(self, tiling: Int8Tiling, used: int, at: QPointers, ending: TileEnding) -> None:
        """Emit the register tiles of one row of pixels. used: channels of the last vector."""
        b, spec = self.b, self.spec
        steps = spec.x.strides[2] * spec.stride[1], *self.written_steps(2)

        def tile(pixel: Value, mr: int) -> None:
            inputs, out, residual = (
                pointer and address(b, pointer, scale_index(b, pixel, step))
                for pointer, step in zip((at.inputs, at.out, at.residual), steps, strict=True)
            )
            here = replace(at, inputs=inputs, out=out, residual=residual)
            shape = self.tile(mr, steps, tiling.vectors, used)
            emit_qtile(b, self.machine, self.form, self.run, shape, here, ending)

        row_pixel_tiles(b, self.columns, tiling.widths.tiles, tiling.widths.mr, tile)
