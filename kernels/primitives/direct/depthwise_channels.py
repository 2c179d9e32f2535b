"""Depthwise convolution primitives with vectors along the channels, from and to HWC and CHWc."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.kernels.builder.emit import (
    F32,
    address,
    const,
    finish_rows,
    kernel_function,
    note_tile,
    operands,
    repeat,
    scale_index,
    vector,
)
from mavcg.kernels.builder.lanes import load_vector
from mavcg.kernels.builder.tiles import in_part, repeat_tiles
from mavcg.kernels.conv.depthwise import MOST_TAPS, add_tap_row, most_pixels
from mavcg.kernels.gemm.register_tile import cut
from mavcg.kernels.primitives.border import input_with_border
from mavcg.kernels.primitives.common import (
    MOST_BLOCK,
    Image,
    epilogue_operand_places,
    epilogue_operands,
    image_of,
    lanes_of,
    load_partial,
)
from mavcg.kernels.primitives.direct.spec import ImageKernel
from mavcg.kernels.primitives.direct.tile_outputs import DirectTileOutputs
from mavcg.specs.kernel import Array, Machine
from mavcg.specs.packed_constant import WeightParts
from mavcg.specs.primitive import (
    F32_BYTES,
    AxisWindow,
    Epilogue,
    Layout,
    Lowering,
    Primitive,
    Scenario,
    Stage,
    StageOperand,
)
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import WeightReads, WorkCounts, vector_work

Value: TypeAlias = ir.Value
CHUNK_CHANNELS = 64  # channels of a row of work: whole blocks, and at least a cache line


@spec_format("depthwise_channels")
@dataclass(frozen=True)
class DepthwiseChannels(ImageKernel):
    """act(bias + depthwise convolution + residual); operands: x, weights, out, bias?, residual?.

    x: with its border; x and out in HWC or CHWc. weights: [KH, KW, C padded to whole blocks of MOST_BLOCK]. across: the
    window along a row; None: as given by kernel, stride and dilation. A row of work is CHUNK_CHANNELS channels of a row
    of outputs, or the remaining channels.
    """

    x: Image
    out: Image
    kernel: int
    stride: int
    dilation: int
    epilogue: Epilogue
    across: AxisWindow | None = None

    @property
    def family(self) -> str:
        return "depthwise_channels_f32"

    @property
    def chunks(self) -> int:
        """Number of chunks of channels of a row of outputs."""
        return -(-self.out.channels // CHUNK_CHANNELS)

    @property
    def rows(self) -> int:
        return self.out.height * self.chunks

    @property
    def weight_parts(self) -> WeightParts:
        return WeightParts(self.chunks)

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        taps = self.window.taps
        return WorkCounts(
            vectors=vector_work(("depthwise", self.out.values * taps)),
            read=self.x.operand_bytes,
            written=self.out.operand_bytes,
            weights=WeightReads(self.out.channels * taps * F32_BYTES),
        )


def channels_of_whole_blocks(channels: int) -> int:
    """Round channels up to whole blocks of every size that a library has."""
    return -(-channels // MOST_BLOCK) * MOST_BLOCK


def emit_depthwise(module: ir.Module, spec: DepthwiseChannels, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    return finish_rows(b, _DepthwiseChannelsEmitter(b, spec, machine).row)


class _DepthwiseChannelsEmitter:
    """Emitter of the loops of one function."""

    def __init__(self, b: ir.IRBuilder, spec: DepthwiseChannels, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        self.x, self.w, self.out = operands(b, "x", "weights", "out")
        self.bias, self.residual = epilogue_operands(b, spec.epilogue, 3)
        blocks = [image.block for image in (spec.x, spec.out) if image.layout is Layout.CHWC]
        self.lanes = lanes_of(machine, min(blocks, default=machine.vector_bytes))
        self.widths = cut(spec.out.width, min(spec.out.width, most_pixels(machine, spec.window_across.k)))

    def row(self, index: Value) -> None:
        """Emit a row of work: a chunk of the channels of a row of outputs."""
        b, spec = self.b, self.spec
        chunks = spec.chunks
        y, chunk = (b.udiv(index, const(chunks)), b.urem(index, const(chunks))) if chunks > 1 else (index, const(0))
        x = address(b, self.x, scale_index(b, y, spec.stride * spec.x.row_step * F32_BYTES))
        down = scale_index(b, y, spec.out.row_step * F32_BYTES)
        out = address(b, self.out, down)
        residual = address(b, self.residual, down) if self.residual is not None else None

        def run(count: int) -> None:
            first = scale_index(b, chunk, CHUNK_CHANNELS)
            stored = count
            if spec.out.layout is Layout.CHWC:
                stored = -(-count // spec.out.block) * spec.out.block
            whole = count // self.lanes * self.lanes
            if whole:
                repeat(
                    b, 0, whole, lambda c: self.pixels(x, out, residual, b.add(first, c), self.lanes), "c", self.lanes
                )
            for c in range(whole, stored, self.lanes):
                self.pixels(x, out, residual, b.add(first, const(c)), max(0, count - c))

        in_part(b, chunk, spec.out.channels, CHUNK_CHANNELS, run)

    def pixels(self, x: Value, out: Value, residual: Value | None, channel: Value, used: int) -> None:
        """Emit a vector of channels of a row of outputs."""
        b, spec = self.b, self.spec
        source = address(b, x, spec.x.channel_bytes(b, channel), "channel_x")
        weights = address(b, self.w, scale_index(b, channel, F32_BYTES), "channel_w")
        step = spec.window_across.stride * spec.x.column_step * F32_BYTES

        def pixel_tile(column: Value, count: int) -> None:
            window = address(b, source, scale_index(b, column, step), "window")
            outputs = DirectTileOutputs(
                b,
                self.machine,
                spec.out,
                spec.epilogue,
                True,
                count,
                self.lanes,
                (used,),
                channel,
                column,
                out,
                self.bias,
                residual,
            )
            self.tile(outputs, window, weights, used)

        repeat_tiles(b, self.widths.tiles, pixel_tile, "column")

    def tile(self, outputs: DirectTileOutputs, window: Value, weights: Value, used: int) -> None:
        """Emit a tile of neighbouring pixels: each weight is loaded once for all, each input once for all windows."""
        b, spec, row = self.b, self.spec, self.spec.window_across
        note_tile(b, outputs.scalars, 1)
        sums = outputs.initial_sums()
        taps = channels_of_whole_blocks(spec.out.channels) * F32_BYTES
        # A block of a CHWc input has all its lanes. After the last channel of HWC comes the next pixel, or the image
        # ends.
        readable = self.lanes if spec.x.layout is Layout.CHWC else used
        for ky in range(spec.kernel if used else 0):
            places = [address(b, weights, (ky * row.k + kx) * taps) for kx in range(row.k)]
            w = [load_vector(b, pointer, vector(F32, self.lanes), name="w") for pointer in places]

            def value(column: int, ky: int = ky) -> Value:
                offset = ky * spec.dilation * spec.x.row_step + column * spec.x.column_step
                return load_partial(b, self.machine, address(b, window, offset * F32_BYTES), self.lanes, readable, "x")

            sums = add_tap_row(b, row, w, value, sums)
        outputs.store(sums)


@dataclass(frozen=True)
class DepthwisePrimitive(Primitive):
    """A depthwise convolution primitive with vectors along the channels."""

    @property
    def family(self) -> str:
        return "direct_blocked"

    @property
    def stem(self) -> str:
        return "direct_blocked_depthwise"

    def computes(self, scenario: Scenario) -> bool:
        return scenario.c == scenario.m == scenario.groups and scenario.taps <= MOST_TAPS

    def workspace_bytes(self, scenario: Scenario) -> int:
        return input_with_border(scenario.image, self.layout_in, MOST_BLOCK).workspace_bytes

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        s, x = scenario, input_with_border(scenario, self.layout_in, block)
        out = image_of(self.layout_out, s.m, s.out_h, s.out_w, block)
        spec = DepthwiseChannels(x.image, out, s.k, s.stride, s.dilation, epilogue, s.across_bordered)
        shape = (*s.kernel, channels_of_whole_blocks(s.c))

        def pack_weights() -> Array:
            filled = np.zeros(shape, np.float32)
            filled[:, :, : s.c] = weights[:, 0].transpose(1, 2, 0)
            return filled

        operands = (x.operand, StageOperand("weights"), StageOperand("out"), *epilogue_operand_places(epilogue))
        return Lowering((*x.stages, Stage(spec, operands)), pack_weights, shape, x.workspace_bytes)
