"""Kernels of 8-bit depthwise convolutions: vectors along the channels, several pixels of a row at a time.

The products of two taps are summed exactly, by each core's own instructions, before they are added to the accumulator.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from llvmlite import ir
from numpy.typing import NDArray

from mavcg.kernels.builder.emit import (
    F32,
    I8,
    I16,
    I32,
    address,
    const,
    kernel_function,
    note_tile,
    operand,
    operands,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import load_lanes, shuffle, store_lanes
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile
from mavcg.kernels.builder.quantize import Int8Epilogue
from mavcg.kernels.builder.tiles import repeat_tiles, row_tiles
from mavcg.kernels.conv.part_loops import channel_groups, channel_steps, check_groups
from mavcg.kernels.gemm.register_tile import cut
from mavcg.kernels.int8.micro_kernel import F32_BYTES
from mavcg.kernels.int8.specs import CHANNELS, EightBitDepthwise, QDepthwise
from mavcg.kernels.int8.tile import to_eight_bits
from mavcg.specs.kernel import Machine, View
from mavcg.specs.row_kernel import transpose_image
from mavcg.specs.tile_plan import MacroTile

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = ir.Value
Tap: TypeAlias = tuple[int, int]  # its number, the offset of its input

PLAIN = MacroTile()
LEAST_CHANNELS = 8  # minimum channels of a vector


def tap_pairs(height: int, width: int) -> list[list[tuple[int, int]]]:
    """Return all taps in pairs, vertical where possible, as neighbouring pixels share the inputs of vertical pairs."""
    even = height - height % 2
    pairs = [[(ky, kx), (ky + 1, kx)] for ky in range(0, even, 2) for kx in range(width)]
    rest = [(height - 1, kx) for kx in range(width)] if height % 2 else []
    return pairs + [rest[i : i + 2] for i in range(0, len(rest), 2)]


def emit_qdepthwise(module: ir.Module, spec: QDepthwise, machine: Machine, macro: MacroTile = PLAIN) -> ir.Function:
    """Emit the function of a spec for a machine; only the macro-tile's parts have an effect."""
    return emit_depthwise_sums(module, spec, machine, macro, _RequantizedPixels)


class PixelEnding(Protocol):
    """The epilogue of a pixel's sums, for a vector of its channels."""

    def store(self, total: Value, lanes: int, used: int, out: Value, residual: Value | None) -> None:
        """Emit the results of the i32 sums of `lanes` channels, and the store of the first `used` of them."""


class PixelEndings(Protocol):
    """The epilogues of a kernel's pixels. residual: pointer to its first element, or None."""

    residual: Value | None

    def at(self, channel: Value) -> PixelEnding:
        """Return the epilogue of vectors that begin at a channel."""


# endings(b, spec, machine, True if inputs are multiplied as i8).
MakePixelEndings = Callable[[ir.IRBuilder, Any, Machine, bool], PixelEndings]


@dataclass(frozen=True)
class _RequantizedPixel:
    b: ir.IRBuilder
    machine: Machine
    epilogue: Int8Epilogue
    bias: Value
    multiplier: Value
    shift: Value | None
    bounded: bool

    def store(self, total: Value, lanes: int, used: int, out: Value, residual: Value | None) -> None:
        b = self.b
        start = b.load(self.bias, name="bias", align=4, typ=total.type)
        factor = b.load(self.multiplier, name="multiplier", align=4, typ=ir.VectorType(F32, lanes))
        shift = self.shift and b.load(self.shift, name="shift", align=4, typ=factor.type)
        result = to_eight_bits(b, self.machine, b.add(total, start), factor, self.epilogue, shift, self.bounded)
        store_lanes(b, result, out, lanes, used)


class _RequantizedPixels:
    """Epilogues that requantize to 8 bits. The bias depends on whether inputs are multiplied as i8 or u8."""

    residual: Value | None = None

    def __init__(self, b: ir.IRBuilder, spec: QDepthwise, machine: Machine, signed: bool) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        bias, self.multiplier = operand(b, 3, "bias"), operand(b, 4, "multiplier")
        self.bias = address(b, bias, 0 if signed else spec.padded_channels * F32_BYTES)

    def at(self, channel: Value) -> PixelEnding:
        """Return the epilogue of vectors that begin at a channel."""
        b, move = self.b, self.b.mul(channel, const(F32_BYTES))
        bias, multiplier = (address(b, p, move) for p in (self.bias, self.multiplier))
        shift = address(b, multiplier, self.spec.padded_channels * F32_BYTES) if self.spec.shift else None
        return _RequantizedPixel(b, self.machine, self.spec.epilogue, bias, multiplier, shift, self.spec.bounded)


def emit_depthwise_sums(
    module: ir.Module, spec: EightBitDepthwise, machine: Machine, macro: MacroTile, endings: MakePixelEndings
) -> ir.Function:
    """Emit the function of a spec, with these epilogues; only the macro-tile's parts have an effect."""
    channels = spec.out.shape[3]
    check_groups(spec, macro, channels, CHANNELS)
    function, b = kernel_function(module, spec, machine)
    emitter, (begin, end) = _Int8DepthwiseEmitter(b, spec, machine, endings), function.args[1:3]
    if macro.parts > 1:

        def group(first: Value, last: Value, low: Value, high: Value) -> None:
            emitter.emit(first, last, (low, high))

        channel_groups(b, macro, channels, begin, end, group)
    else:
        emitter.emit(begin, end)
    b.ret_void()
    return function


class _Int8DepthwiseEmitter:
    """Emitter of the loops over rows, vectors of channels, tiles of pixels and pairs of taps."""

    def __init__(self, b: ir.IRBuilder, spec: EightBitDepthwise, machine: Machine, endings: MakePixelEndings) -> None:
        self.in_column = spec.single_pixels
        spec = transpose_image(spec) if self.in_column else spec
        self.b, self.spec, self.arm = b, spec, machine.arch == "aarch64"
        self.x, self.w, self.out = operands(b, "x", "weights", "out")
        # NEON multiplies i8; x86 widens i8 and u8 alike before it multiplies.
        self.endings = endings(b, spec, machine, self.arm or spec.x.dtype == "i8")
        self.residual_view: View = getattr(spec, "residual", None) or spec.out
        self.flip = self.arm and spec.x.dtype == "u8"
        # Machines with registers of 64 bytes have 32 of them (AVX-512).
        longest = 64 if machine.vector_registers >= 32 else 32
        self.lanes = LEAST_CHANNELS if self.arm else min(machine.vector_bytes, longest) // 2
        self.widths = cut(spec.out.shape[2], min(spec.out.shape[2], machine.vector_registers // 4))
        rows, cols = (spec.dilation[i] * spec.x.strides[1 + i] for i in (0, 1))
        self.pairs: list[list[Tap]] = [
            [(ky * spec.kernel[1] + kx, ky * rows + kx * cols) for ky, kx in pair] for pair in tap_pairs(*spec.kernel)
        ]

    def emit(self, begin: Value, end: Value, between: tuple[Value, Value] | None = None) -> None:
        """Emit the rows begin to end. between: range of channels, as in channel_steps; None: all channels."""
        b, spec = self.b, self.spec
        height = spec.out.shape[1]

        def row(index: Value, pixels: int | None = None) -> None:
            """Emit a row, or `pixels` pixels of the only one from the pixel `index`."""
            image, y = (b.sdiv(index, const(height)), b.srem(index, const(height))) if height > 1 else (index, const(0))

            def start(pointer: Value, view: View, strides: tuple[int, int]) -> Value:
                if pixels is not None:
                    offset = scale_index(b, index, view.strides[2] * strides[1])
                else:
                    down = scale_index(b, y, view.strides[1] * strides[0])
                    offset = b.add(scale_index(b, image, view.strides[0]), down)
                return address(b, pointer, scale_index(b, offset, view.item_bytes))

            x, out, residual = start(self.x, spec.x, spec.stride), start(self.out, spec.out, (1, 1)), None
            if self.endings.residual is not None:
                residual = start(self.endings.residual, self.residual_view, (1, 1))

            def vector(channel: Value, used: int) -> None:
                lanes = self.lanes if used == self.lanes else max(LEAST_CHANNELS, 1 << (used - 1).bit_length())
                sizes = (1, spec.weight_bytes, spec.out.item_bytes, self.residual_view.item_bytes)
                at = [
                    pointer and address(b, pointer, scale_index(b, channel, size))
                    for pointer, size in zip((x, self.w, out, residual), sizes, strict=True)
                ]
                if pixels is None:
                    self.pixels(at, self.endings.at(channel), lanes, used)
                else:
                    self.tile(at, self.endings.at(channel), pixels, lanes, used)

            channel_steps(b, spec.out.shape[3], self.lanes, vector, between)

        if self.in_column:
            row_tiles(b, begin, end, self.widths.mr, row)
        else:
            repeat(b, begin, end, row, "row")

    def pixels(self, at: list[Value | None], ending: PixelEnding, lanes: int, used: int) -> None:
        """Emit all pixels of a row for one vector of channels. at: pointers to x, weights, out, residual."""
        b, steps = self.b, self.steps()

        def tile(pixel: Value, mr: int) -> None:
            here = [
                pointer and address(b, pointer, scale_index(b, pixel, step))
                for pointer, step in zip(at, steps, strict=True)
            ]
            self.tile(here, ending, mr, lanes, used)

        repeat_tiles(b, self.widths.tiles, tile, "pixel")

    def steps(self) -> tuple[int, int, int, int]:
        """Return the distances of neighbouring pixels in x, weights, out and residual, in bytes."""
        x, out, residual = self.spec.x, self.spec.out, self.residual_view
        along = x.strides[2] * self.spec.stride[1]
        return along, 0, out.strides[2] * out.item_bytes, residual.strides[2] * residual.item_bytes

    def tile(self, at: list[Value | None], ending: PixelEnding, pixels: int, lanes: int, used: int) -> None:
        """Emit a tile of neighbouring pixels; weights are loaded and widened once for all of them."""
        b, spec = self.b, self.spec
        note_tile(b, pixels, 1)
        x, weights, out, residual = at
        step, _, out_step, residual_step = self.steps()

        def inputs(pair: Sequence[Tap]) -> Iterator[list[Value]]:
            for p in range(pixels):
                yield [self.input(address(b, x, tap + p * step), lanes, used) for _, tap in pair]

        def tap_weights(pair: Sequence[Tap]) -> tuple[list[Value]]:
            tap_bytes = spec.padded_channels * spec.weight_bytes
            ws = [self.weight(address(b, weights, number * tap_bytes), lanes) for number, _ in pair]
            return (ws if self.arm else self.interleave(ws),)

        products: ProductLoop[Sequence[Tap]] = ProductLoop(
            b, SumTile(pixels, 1), inputs, tap_weights, lambda total, xs, ws, *_: self.add_products(total, xs, ws)
        )
        acc = products.terms(self.pairs, [ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)] * pixels)
        for p, total in enumerate(acc):
            added = residual and address(b, residual, p * residual_step)
            ending.store(self.in_order(total), lanes, used, address(b, out, p * out_step), added)

    def weight(self, pointer: Value, lanes: int) -> Value:
        wide = ir.VectorType(I16, lanes)
        if self.spec.weight_bytes == 2:
            return self.b.load(pointer, name="w", align=16, typ=wide)
        return self.b.sext(self.b.load(pointer, name="w", align=8, typ=ir.VectorType(I8, lanes)), wide)

    def input(self, pointer: Value, lanes: int, used: int) -> Value:
        """Emit the load of a vector of inputs, widened to i16."""
        b, wide = self.b, ir.VectorType(I16, lanes)
        x = load_lanes(b, pointer, I8, lanes, used, "x")
        if self.flip:
            x = b.xor(x, ir.Constant(x.type, [-128] * lanes))
        return b.sext(x, wide) if self.arm or self.spec.x.dtype == "i8" else b.zext(x, wide)

    def add_products(self, acc: Value, xs: list[Value], ws: list[Value]) -> Value:
        """Return acc plus the products of one or two taps; on x86 the lanes are in the order of `interleave`."""
        b = self.b
        if not self.arm:
            parts = [self.call_madd(x, w) for x, w in zip(self.interleave(xs), ws, strict=True)]
            return b.add(acc, shuffle(b, parts[0], parts[1], range(acc.type.count)))
        products = [b.mul(x, w) for x, w in zip(xs, ws, strict=True)]
        if self.spec.narrow and len(products) == 2:
            products = [b.add(*products)]
        for product in products:
            acc = b.add(acc, b.sext(product, acc.type))
        return acc

    def interleave(self, pair: list[Value]) -> list[Value]:
        """Return two vectors of i16 interleaved: of each eight lanes the lower four, then the upper four.

        Each result takes one instruction. The second vector is zeros for a single tap.
        """
        count = pair[0].type.count
        second = pair[1] if len(pair) > 1 else ir.Constant(pair[0].type, [0] * count)
        halves = [
            [first + i + side for first in range(0, count, 8) for i in range(half, half + 4) for side in (0, count)]
            for half in (0, 4)
        ]
        return [shuffle(self.b, pair[0], second, addresses) for addresses in halves]

    def call_madd(self, x: Value, w: Value) -> Value:
        """Emit the machine's instruction that multiplies i16 and adds the products in pairs."""
        lanes = x.type.count // 2
        name = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}[lanes]
        kind = ir.FunctionType(ir.VectorType(I32, lanes), [x.type, x.type])
        function = self.b.module.globals.get(name) or ir.Function(self.b.module, kind, name)
        return self.b.call(function, [x, w])

    def in_order(self, total: Value) -> Value:
        """Return the sums in the order of channels: the inverse of `interleave`."""
        if self.arm:
            return total
        count = total.type.count
        addresses = [c // 8 * 4 + c % 4 + (count // 2 if c % 8 >= 4 else 0) for c in range(count)]
        return shuffle(self.b, total, total, addresses)
