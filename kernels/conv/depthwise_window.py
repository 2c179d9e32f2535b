"""The filter window of a depthwise tile: the inputs that it reads, the sums over its taps, and prefetches."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import F32, I32, PTR, Values, address, const, fma, for_range, load_vector, scale_index
from mavcg.kernels.gemm.tile import F32_BYTES, LINE_BYTES

Value: TypeAlias = ir.Value
# With more taps, only one row of taps is unrolled, inside a loop over rows: as fast, with a third of the code.
UNROLLED_TAPS = 9


@dataclass(frozen=True)
class DepthwiseWindow:
    """The taps of a filter on an image. x_strides: distance of rows and of columns of the image, in elements."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    x_strides: tuple[int, ...]

    def columns(self, pixels: int) -> list[int]:
        """Return the input columns that the windows of `pixels` neighbouring pixels read, relative to the first."""
        taps = range(0, self.kernel[1] * self.dilation[1], self.dilation[1])
        return sorted({p * self.stride[1] + tap for p in range(pixels) for tap in taps})

    def inputs(self, rows: range, pixels: int) -> list[int]:
        """Return the offsets, in bytes, of the inputs that the windows of `pixels` neighbours read in these rows.

        Rows without a tap (dilation) have no inputs.
        """
        seen = [y for y in rows if y % self.dilation[0] == 0]
        down, across = self.x_strides
        return [(y * down + x * across) * F32_BYTES for y in seen for x in self.columns(pixels)]

    def sums(
        self, b: ir.IRBuilder, at: tuple[Value, Value], tile: tuple[int, int], used: tuple[int, ...], start: Values
    ) -> Values:
        """Emit the sums over all taps, added to `start`; return them by vector of channels, then pixel.

        at: pointers to the first input and to the weights, a cache line of channels per tap. tile: (pixels, lanes of a
        vector). used: lanes of each vector that are channels.
        """
        pixels, lanes = tile
        across, spacing = range(self.kernel[1]), self.dilation[1]
        down, typ = self.dilation[0] * self.x_strides[0] * F32_BYTES, ir.VectorType(F32, lanes)

        def row(x: Value, weights: Value, acc: Values) -> Values:
            """Emit the products of a row of taps: each weight is loaded once for all pixels, each input once for all
            windows."""
            updated = list(acc)
            for v, count in enumerate(used):
                side = v * lanes * F32_BYTES
                places = [address(b, weights, kx * LINE_BYTES + side) for kx in across]
                w = [load_vector(b, pointer, typ, name="w", align=lanes * F32_BYTES) for pointer in places]
                for column in self.columns(pixels):
                    value = load_vector(
                        b, address(b, x, column * self.x_strides[1] * F32_BYTES + side), typ, count, "x"
                    )
                    for p in range(pixels):
                        kx, rest = divmod(column - p * self.stride[1], spacing)
                        if kx in across and not rest:
                            i = v * pixels + p
                            updated[i] = fma(b, value, w[kx], updated[i], f"acc_{p}")
            return tuple(updated)

        def row_at(ky: Value, acc: Values) -> Values:
            weights = address(b, at[1], scale_index(b, ky, len(across) * LINE_BYTES))
            return row(address(b, at[0], scale_index(b, ky, down)), weights, acc)

        if self.kernel[0] * self.kernel[1] > UNROLLED_TAPS:
            return for_range(b, const(0), const(self.kernel[0]), 1, start, row_at, "ky")
        acc = start
        for ky in range(self.kernel[0]):
            acc = row(address(b, at[0], ky * down), address(b, at[1], ky * len(across) * LINE_BYTES), acc)
        return acc


def prefetch(b: ir.IRBuilder, pointer: Value, offsets: Iterable[int]) -> None:
    """Emit prefetches of pointer + each offset, in bytes, into level 1."""
    typ = ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32])
    function = b.module.globals.get("llvm.prefetch.p0") or ir.Function(b.module, typ, "llvm.prefetch.p0")
    for offset in offsets:
        b.call(function, [address(b, pointer, offset), const(0, I32), const(3, I32), const(1, I32)])
