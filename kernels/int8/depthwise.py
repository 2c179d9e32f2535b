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
    index_value,
    kernel_function,
    note_tile,
    operand,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import load_lanes, shuffle, store_lanes
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile
from mavcg.kernels.builder.quantize import Int8Epilogue
from mavcg.kernels.builder.run_numbers import fixed_number, load_numbers, multiple, offset_pointer, times
from mavcg.kernels.builder.tiles import row_pixel_tiles, row_tiles
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
Tap: TypeAlias = tuple[int, int]  # its row and column

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
        self.numbers = numbers = load_numbers(b, spec.words, spec.operand_count)
        self.x, self.w, self.out = (numbers.operand(i, name) for i, name in enumerate(("x", "weights", "out")))
        # NEON multiplies i8; x86 widens i8 and u8 alike before it multiplies.
        self.endings = endings(b, spec, machine, self.arm or spec.x.dtype == "i8")
        self.residual_view: View = getattr(spec, "residual", None) or spec.out
        self.residual = self.endings.residual and numbers.at_place(spec.operand_count - 1, self.endings.residual)
        self.columns = numbers.at("out.shape.2", spec.out.shape[2])
        self.flip = self.arm and spec.x.dtype == "u8"
        # Machines with registers of 64 bytes have 32 of them (AVX-512).
        longest = 64 if machine.vector_registers >= 32 else 32
        self.lanes = LEAST_CHANNELS if self.arm else min(machine.vector_bytes, longest) // 2
        self.widths = cut(spec.out.shape[2], min(spec.out.shape[2], machine.vector_registers // 4))
        self.row_step = self.numbers.at("x.strides.1", spec.x.strides[1])
        self.pairs: list[list[Tap]] = tap_pairs(*spec.kernel)

    def emit(self, begin: Value, end: Value, between: tuple[Value, Value] | None = None) -> None:
        """Emit the rows begin to end. between: range of channels, as in channel_steps; None: all channels."""
        b, spec = self.b, self.spec
        height = self.numbers.at("out.shape.1", spec.out.shape[1])

        def row(index: Value, pixels: int | None = None) -> None:
            """Emit a row, or `pixels` pixels of the only one from the pixel `index`."""
            image, y = index, const(0)
            if fixed_number(height) not in (0, 1):
                image, y = b.sdiv(index, index_value(height)), b.srem(index, index_value(height))

            def start(pointer: Value, name: str, view: View, strides: tuple[int, int]) -> Value:
                outer, row_step = self.numbers.along(f"{name}.strides", view.strides)[:2]
                if pixels is not None:
                    offset = scale_index(b, index, view.strides[2] * strides[1])
                else:
                    down = times(b, y, row_step, strides[0])
                    offset = b.add(times(b, image, outer), down)
                return address(b, pointer, scale_index(b, offset, view.item_bytes))

            x, out, residual = start(self.x, "x", spec.x, spec.stride), start(self.out, "out", spec.out, (1, 1)), None
            if self.residual is not None:
                residual = start(self.residual, "residual", self.residual_view, (1, 1))

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

        row_pixel_tiles(b, self.columns, self.widths.tiles, self.widths.mr, tile)

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
        cols = spec.dilation[1] * spec.x.strides[2]

        def inputs(pair: Sequence[Tap]) -> Iterator[list[Value]]:
            for p in range(pixels):
                yield [self.input(self.tap(x, ky, kx * cols + p * step), lanes, used) for ky, kx in pair]

        def tap_weights(pair: Sequence[Tap]) -> tuple[list[Value]]:
            tap_bytes = spec.padded_channels * spec.weight_bytes
            ws = [self.weight(address(b, weights, (ky * spec.kernel[1] + kx) * tap_bytes), lanes) for ky, kx in pair]
            return (ws if self.arm else self.interleave(ws),)

        products: ProductLoop[Sequence[Tap]] = ProductLoop(
            b, SumTile(pixels, 1), inputs, tap_weights, lambda total, xs, ws, *_: self.add_products(total, xs, ws)
        )
        acc = products.terms(self.pairs, [ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)] * pixels)
        for p, total in enumerate(acc):
            added = residual and address(b, residual, p * residual_step)
            ending.store(self.in_order(total), lanes, used, address(b, out, p * out_step), added)

    def tap(self, x: Value, row: int, offset: int) -> Value:
        """Return the address of an input: x + rows of taps + offset, in bytes."""
        down = multiple(self.b, self.row_step, row * self.spec.dilation[0])
        return offset_pointer(self.b, x, down, offset)

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
