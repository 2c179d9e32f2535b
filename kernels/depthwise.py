"""Depthwise convolution: every channel by itself, vectors along the channels, several pixels of a row at once."""

from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernel import KernelSpec, Machine, View
from mavcg.kernels.activation import activate
from mavcg.kernels.emit import (
    F32,
    address,
    const,
    f32_splat,
    fma,
    kernel_function,
    load_vector,
    note_tile,
    operand,
    repeat,
    scaled,
    store_vector,
)
from mavcg.kernels.gemm import F32_BYTES
from mavcg.kernels.tiling import cut, lanes_f32

Value: TypeAlias = ir.Value
Pointers: TypeAlias = tuple[Value | None, ...]  # x, weights, out, bias, residual; None where there is none
# The weights and inputs of a tile, all channels of a block: they stay in the level-1 cache from tile to tile.
BLOCK_BYTES = 32768
MOST_TAPS = 49  # all of them are written out; a larger filter is left to conv2d's loops


@dataclass(frozen=True)
class Depthwise(KernelSpec):
    """act(bias + depthwise convolution + residual) of f32 images with as many channels out as in.

    x, out, residual: N, H, W, C. Weights are packed KH, KW, C. Operands: x, weights, out, then bias and residual as far
    as there are any. A row of work is a row of output pixels.
    """

    x: View
    out: View
    residual: View | None
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    bias: bool
    act: str
    act_args: tuple[float, ...]

    @property
    def family(self) -> str:
        return "depthwise_f32"

    @property
    def rows(self) -> int:
        return self.out.shape[0] * self.out.shape[1] if self.out.elements else 0

    @property
    def work(self) -> int:
        return 2 * self.out.elements * self.kernel[0] * self.kernel[1]


def most_pixels(machine: Machine, kernel_width: int) -> int:
    """Accumulators beside which a row of weights and two inputs have room; more than eight hide no more latency."""
    return max(1, min(8, machine.vector_registers - kernel_width - 2))


def emit_depthwise(module: ir.Module, spec: Depthwise, machine: Machine) -> ir.Function:
    """The function of a spec for a machine."""
    function, b = kernel_function(module, spec, machine)
    _Emitter(b, spec, machine).emit(function.args[1], function.args[2])
    b.ret_void()
    return function


def _moved(b: ir.IRBuilder, at: Pointers, index: Value, steps: tuple[int, ...] = (1,) * 5) -> Pointers:
    """The pointers `index` times their steps further on, in elements."""
    pairs = zip(at, steps, strict=True)
    return tuple(address(b, p, scaled(b, index, step * F32_BYTES)) if p is not None else None for p, step in pairs)


class _Emitter:
    """The loops: rows, blocks of channels, tiles of pixels, vectors of channels, taps."""

    def __init__(self, b: ir.IRBuilder, spec: Depthwise, machine: Machine) -> None:
        self.b, self.spec = b, spec
        self.lanes = lanes_f32(machine)
        self.x, self.w, self.out = (operand(b, i, name) for i, name in enumerate(("x", "weights", "out")))
        self.bias = operand(b, 3, "bias") if spec.bias else None
        self.residual = operand(b, 3 + spec.bias, "residual") if spec.residual else None
        self.widths = cut(spec.out.shape[2], min(spec.out.shape[2], most_pixels(machine, spec.kernel[1])))

    def emit(self, begin: Value, end: Value) -> None:
        b, spec = self.b, self.spec
        channels, height = spec.out.shape[3], spec.out.shape[1]
        whole = channels // self.lanes * self.lanes

        def row(index: Value) -> None:
            image, y = (b.sdiv(index, const(height)), b.srem(index, const(height))) if height > 1 else (index, const(0))

            def start(pointer: Value, view: View, down: int) -> Value:
                offset = b.add(scaled(b, image, view.strides[0]), scaled(b, y, view.strides[1] * down))
                return address(b, pointer, b.mul(offset, const(F32_BYTES)))

            x, out = start(self.x, spec.x, spec.stride[0]), start(self.out, spec.out, 1)
            residual = start(self.residual, spec.residual, 1) if spec.residual is not None else None

            def block(channel: Value, count: int, used: int) -> None:
                self.pixels(_moved(b, (x, self.w, out, self.bias, residual), channel), count, used)

            size = self.block_vectors * self.lanes
            blocked = whole // size * size
            if blocked:
                repeat(b, 0, blocked, lambda channel: block(channel, self.block_vectors, self.lanes), "block", size)
            if whole > blocked:
                block(const(blocked), (whole - blocked) // self.lanes, self.lanes)
            if channels % self.lanes:
                block(const(whole), 1, channels % self.lanes)

        repeat(b, begin, end, row, "row")

    @property
    def block_vectors(self) -> int:
        """Vectors of channels that a row's tiles are computed for before the next ones, all blocks about equal."""
        spec = self.spec
        vectors = max(1, spec.out.shape[3] // self.lanes)
        columns = (self.widths.mr - 1) * spec.stride[1] + (spec.kernel[1] - 1) * spec.dilation[1] + 1
        lines = spec.kernel[0] * (spec.kernel[1] + columns)
        blocks = -(-vectors * lines * self.lanes * F32_BYTES // BLOCK_BYTES)
        return -(-vectors // blocks)

    def pixels(self, at: Pointers, vectors: int, used: int) -> None:
        """All pixels of a row for some vectors of channels; at: x, weights, out, bias, residual."""
        b, spec = self.b, self.spec
        last = spec.residual.strides[2] if spec.residual is not None else 0
        steps = (spec.x.strides[2] * spec.stride[1], 0, spec.out.strides[2], 0, last)
        done = 0
        for mr, count in self.widths.tiles:

            def one(pixel: Value, mr: int = mr) -> None:
                here = _moved(b, at, pixel, steps)
                if vectors == 1:
                    self.tile(here, mr, used)
                    return
                end = vectors * self.lanes
                repeat(b, 0, end, lambda channel: self.tile(_moved(b, here, channel), mr, used), "channel", self.lanes)

            if count == 1:
                one(const(done))
            else:
                repeat(b, done, done + mr * count, one, "pixel", mr)
            done += mr * count

    def tile(self, at: Pointers, pixels: int, used: int) -> None:
        """`pixels` neighbours: a weight is loaded once for all of them, an input once for all that see it."""
        b, spec = self.b, self.spec
        note_tile(b, pixels, 1)
        x, weights, out, bias, residual = at
        typ = ir.VectorType(F32, self.lanes)
        start = load_vector(b, bias, typ, used, "bias") if bias is not None else f32_splat(0.0, self.lanes)
        acc = [start] * pixels
        channels = spec.out.shape[3]
        across, apart = range(spec.kernel[1]), spec.dilation[1]
        columns = sorted({p * spec.stride[1] + kx * apart for p in range(pixels) for kx in across})
        for ky in range(spec.kernel[0]):
            row = ky * spec.dilation[0] * spec.x.strides[1]
            places = [(ky * spec.kernel[1] + kx) * channels * F32_BYTES for kx in across]
            w = [load_vector(b, address(b, weights, place), typ, used, "w") for place in places]
            for column in columns:
                place = address(b, x, (row + column * spec.x.strides[2]) * F32_BYTES)
                value = load_vector(b, place, typ, used, "x")
                for p in range(pixels):
                    kx, rest = divmod(column - p * spec.stride[1], apart)
                    if kx in across and not rest:
                        acc[p] = fma(b, value, w[kx], acc[p], f"acc_{p}")
        for p, value in enumerate(acc):
            if residual is not None and spec.residual is not None:
                place = address(b, residual, p * spec.residual.strides[2] * F32_BYTES)
                value = b.fadd(value, load_vector(b, place, typ, used, "residual"))
            value = activate(b, spec.act, spec.act_args, value)
            store_vector(b, value, address(b, out, p * spec.out.strides[2] * F32_BYTES), used)
