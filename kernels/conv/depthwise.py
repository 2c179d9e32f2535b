"""Spec and tiling of f32 depthwise convolutions: vectors along the channels, several pixels of a row at a time.

A block of output rows, one tile of pixels wide, is computed for one cache line of channels before the next line: its
inputs stay in the level-1 cache meanwhile, and its weights are read once. Where the inputs would not stay there, or
channels are few, all channels of one row are computed before the next row.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from llvmlite import ir

from mavcg.graph import DTYPES
from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.builder.arithmetic import widen_bf16
from mavcg.kernels.builder.emit import TYPES, Values, address, const, fma, for_range, prefetch_line, scale_index
from mavcg.kernels.builder.lanes import load_vector
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile
from mavcg.kernels.builder.run_numbers import Number, fixed_number, multiple, times
from mavcg.kernels.gemm.loop_shape import vector_lanes
from mavcg.specs.kernel import Machine, View, Words
from mavcg.specs.row_kernel import RowProducts
from mavcg.specs.scenario import AxisWindow
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import OperandBytes, WeightReads, WorkCounts, vector_work

Value: TypeAlias = ir.Value
# With more taps, only one row of taps is unrolled, inside a loop over rows: as fast, with a third of the code.
UNROLLED_TAPS = 9


def read_columns(window: AxisWindow, pixels: int) -> list[int]:
    """Return the input columns that the windows of `pixels` neighbouring pixels read, relative to the first."""
    return sorted({p * window.stride + kx * window.dilation for p in range(pixels) for kx in range(window.k)})


def add_tap_row(
    b: ir.IRBuilder, window: AxisWindow, weights: Sequence[Value], load: Callable[[int], Value], sums: Values
) -> Values:
    """Return the sums of neighbouring pixels plus the products of a row of taps, a vector of channels each.

    weights: of each tap. load(column): emits the load of an input, which is loaded once for all windows.
    """

    def taps(column: int) -> Iterator[Value | None]:
        """Yield the weight that each pixel multiplies the column by; None where its window does not read it."""
        for p in range(len(sums)):
            kx, between = divmod(column - p * window.stride, window.dilation)
            yield weights[kx] if 0 <= kx < window.k and not between else None

    def multiply_add(total: Value, weight: Value | None, value: Value, p: int, _: int) -> Value:
        return total if weight is None else fma(b, value, weight, total, f"acc_{p}")

    products = ProductLoop(b, SumTile(len(sums), 1), taps, lambda column: (load(column),), multiply_add)
    return products.terms(read_columns(window, len(sums)), sums)


@dataclass(frozen=True)
class DepthwiseWindow:
    """The taps of a filter on an image.

    x_strides: distance of rows and of columns of the image, in elements. dtype: of the image and the weights.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    x_strides: tuple[Number, int]
    dtype: str = "f32"

    @property
    def item_bytes(self) -> int:
        """Size of an element, in bytes."""
        return DTYPES[self.dtype].itemsize

    @property
    def along(self) -> AxisWindow:
        """The window along a row of the image."""
        return AxisWindow(self.kernel[1], self.stride[1], dilation=self.dilation[1])

    def prefetch(self, b: ir.IRBuilder, x: Value, rows: range, pixels: int) -> None:
        """Emit prefetches of the inputs that the windows of `pixels` neighbours read in these rows. x: of the first.

        Rows without a tap (dilation) have no inputs.
        """
        down, across = self.x_strides
        columns = [column * across * self.item_bytes for column in read_columns(self.along, pixels)]
        for y in rows:
            if y % self.dilation[0] == 0:
                row = multiple(b, down, y * self.item_bytes)
                known = fixed_number(row)
                first = address(b, x, row) if known is None else x
                prefetch_offsets(b, first, [(known or 0) + column for column in columns])

    def sums(
        self, b: ir.IRBuilder, at: tuple[Value, Value], tile: tuple[int, int], used: tuple[int, ...], start: Values
    ) -> Values:
        """Emit the sums over all taps, added to `start`; return them by vector of channels, then pixel.

        at: pointers to the first input and to the weights, a cache line of channels per tap. tile: (pixels, lanes of a
        vector). used: lanes of each vector that are channels.
        """
        pixels, lanes = tile
        across, item = range(self.kernel[1]), self.item_bytes
        down = multiple(b, self.x_strides[0], self.dilation[0] * item)
        typ = ir.VectorType(TYPES[self.dtype], lanes)

        def row(x: Value, weights: Value, acc: Values) -> Values:
            """Emit the products of a row of taps."""
            updated = list[Value]()
            for v, count in enumerate(used):
                side = v * lanes * item
                places = [address(b, weights, kx * LINE_BYTES + side) for kx in across]
                loaded = (load_vector(b, pointer, typ, name="w", align=lanes * item) for pointer in places)
                w = [widen_bf16(b, weight) for weight in loaded]

                def value(column: int, count: int = count, side: int = side) -> Value:
                    place = address(b, x, column * self.x_strides[1] * item + side)
                    return widen_bf16(b, load_vector(b, place, typ, count, "x"))

                updated += add_tap_row(b, self.along, w, value, acc[v * pixels : (v + 1) * pixels])
            return tuple(updated)

        def row_at(ky: Value, acc: Values) -> Values:
            weights = address(b, at[1], scale_index(b, ky, len(across) * LINE_BYTES))
            return row(address(b, at[0], times(b, ky, down)), weights, acc)

        if self.kernel[0] * self.kernel[1] > UNROLLED_TAPS:
            return for_range(b, const(0), const(self.kernel[0]), 1, start, row_at, "ky")
        acc = start
        for ky in range(self.kernel[0]):
            acc = row(address(b, at[0], multiple(b, down, ky)), address(b, at[1], ky * len(across) * LINE_BYTES), acc)
        return acc


def prefetch_offsets(b: ir.IRBuilder, pointer: Value, offsets: Iterable[int]) -> None:
    """Emit prefetches of pointer + each offset, in bytes, into level 1."""
    for offset in offsets:
        prefetch_line(b, address(b, pointer, offset))


MOST_TAPS = 49  # larger filters are computed by conv2d's loops
# Output rows of a block per input row that two neighbouring blocks share: half of the input is read twice. More rows
# are not faster on a Zen 3.
ROWS_PER_SHARED = 2
# Up to this number of channels a tile's input is one contiguous run, which x86 cores prefetch; computing row by row
# without software prefetches is then 10 percent faster there.
FEW_CHANNELS = 64
# (bytes of a way, number of ways) of the level-1 data cache. x86 cores index it by the offset within a page, so that
# the lookup overlaps with address translation: a way has the size of a page, and there are at least eight ways. Arm's
# in-order cores have 32 KB in four ways as a rule (Cortex-A53 and A55 TRM), the others 64 KB (A57 to X4; those with
# more ways have smaller ones, and hold as many pixels whose distance is a fraction of a way).
X86_L1 = (4096, 8)
IN_ORDER_ARM_L1 = (8192, 4)
OUT_OF_ORDER_ARM_L1 = (16384, 4)
MOST_PIXELS = 8  # accumulators that hide the latency of a multiply-add


@spec_format("depthwise")
@dataclass(frozen=True)
class Depthwise(RowProducts):
    """act(bias + depthwise convolution + residual) of f32 images with as many channels out as in.

    x, out, residual: N, H, W, C. Weights are packed by lines of channels (packing.pack_depthwise). words: lengths and
    strides of the images' height and width that a run sets. Operands: x, weights, out, bias?, residual?, words. A row
    of work is a row of output pixels.
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
    words: Words = ()

    @property
    def single_pixels(self) -> bool:
        return super().single_pixels and not self.words

    @property
    def family(self) -> str:
        return f"depthwise_{self.x.dtype}"

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        return WorkCounts(
            vectors=vector_work(("depthwise", self.read_elements)),
            read=OperandBytes(self.x.elements * self.item_bytes),
            written=OperandBytes(self.out.elements * self.item_bytes),
            weights=WeightReads(self.out.shape[3] * self.window.taps * self.item_bytes),
        )

    @property
    def line_channels(self) -> int:
        """Number of channels of a cache line."""
        return LINE_BYTES // self.item_bytes

    @property
    def few(self) -> bool:
        """True if channels are so few that x86 cores compute rows one by one."""
        return self.out.shape[3] <= FEW_CHANNELS

    @property
    def shared_rows(self) -> int:
        """Output rows of a call below which more of the input is read twice than once."""
        return 1 if self.few else max(1, (self.kernel[0] - 1) * self.dilation[0])


def by_rows(spec: Depthwise, machine: Machine) -> bool:
    """Return True if all channels of a row are computed before the next row, False for one line of channels at a time.

    Lines of channels are computed with prefetches of the next line's inputs, which Arm cores do not foresee.
    """
    return (spec.few and machine.arch == "x86_64") or is_crowded(spec, machine)


def is_crowded(spec: Depthwise, machine: Machine) -> bool:
    """Return True if the inputs of a block of rows for one line of channels exceed the level-1 sets that they map to.

    With 256, 512 or 1024 channels a pixel takes a quarter, half or all of a way. It is then faster to compute rows one
    by one, all channels of a tile before the next: these are contiguous runs, which the hardware prefetches. On a Zen 3
    this takes 0.6 of the time for 3x3 filters, but 1.3 of it for 5x5, where rows share more input.
    """
    if machine.arch != "x86_64" or spec.kernel[0] * spec.kernel[1] > UNROLLED_TAPS:
        return False
    pixels, _ = tile_of(spec, machine)
    lines = (block_rows(spec) - 1) * spec.stride[0] + (spec.kernel[0] - 1) * spec.dilation[0] + 1
    return _available_lines(spec, X86_L1) < lines * _window_columns(spec, pixels)


def _available_lines(spec: Depthwise, level_1: tuple[int, int]) -> int:
    """Return the number of level-1 lines available to one channel's pixels: the sets that they map to, times the
    ways."""
    way_bytes, ways = level_1
    return way_bytes // gcd(way_bytes, spec.x.strides[2] * spec.item_bytes) * ways


def _window_columns(spec: Depthwise, pixels: int) -> int:
    """Return the number of input columns that the windows of a tile of `pixels` read."""
    return (min(pixels, spec.out.shape[2]) - 1) * spec.stride[1] + spec.kernel[1]


def reads_whole_lines(spec: Depthwise, machine: Machine) -> bool:
    """Return True if a tile computes a whole cache line of each pixel's channels, False for a single vector.

    A line that is read vector by vector must stay in level 1 meanwhile. On x86, where a line is one or two vectors, it
    is read at once. On Arm a line is four vectors: with one vector at a time a weight is used for more pixels, but with
    256, 512 or 1024 channels all pixels map to a few sets, and each line is loaded from level 2 four times. Simulated,
    a Cortex-A55 then takes half of the time with whole lines, a Cortex-A75 two thirds of it at 1024 channels.
    """
    if machine.arch == "x86_64":
        return True
    pixels = most_pixels(machine, spec.kernel[1])
    if machine.in_order:
        return _most_in_a_set(spec, pixels, IN_ORDER_ARM_L1) > IN_ORDER_ARM_L1[1]
    return _available_lines(spec, OUT_OF_ORDER_ARM_L1) < spec.kernel[0] * _window_columns(spec, pixels)


def _most_in_a_set(spec: Depthwise, pixels: int, level_1: tuple[int, int]) -> int:
    """Return the largest number of lines of a tile's inputs and outputs, one per pixel, that map to one level-1 set.

    The sets of outputs and weights relative to the inputs' are not known; the worst case, the same sets, is assumed,
    except for the few weights of a small filter.
    """
    sets = level_1[0] // LINE_BYTES

    def most(elements: Iterable[int]) -> int:
        return max(Counter(element * spec.item_bytes // LINE_BYTES % sets for element in elements).values())

    down, across = spec.x.strides[1] * spec.dilation[0], spec.x.strides[2]
    columns = range(_window_columns(spec, pixels))
    outputs = range(min(pixels, spec.out.shape[2]))
    inputs = most(y * down + x * across for y in range(spec.kernel[0]) for x in columns)
    weights = int(spec.kernel[0] * spec.kernel[1] > UNROLLED_TAPS)
    # Outputs count too: a store waits for its line as a load does.
    return inputs + most(x * spec.out.strides[2] for x in outputs) + weights


def block_rows(spec: Depthwise) -> int:
    """Return the number of output rows that are computed for one line of channels before the next line."""
    return max(ROWS_PER_SHARED * (spec.kernel[0] - 1) * spec.dilation[0], 1)


def most_pixels(machine: Machine, kernel_width: int) -> int:
    """Return the pixels of a tile of one vector: accumulators that fit the registers with a row of weights and two
    inputs."""
    return max(1, min(MOST_PIXELS, machine.vector_registers - kernel_width - 2))


def tile_of(spec: Depthwise, machine: Machine) -> tuple[int, int]:
    """Return (pixels, vectors of channels) of a tile.

    On x86 a tile has a whole cache line of each pixel. Where the number of channels is a power of two, neighbouring
    pixels map to a few level-1 sets, and a line that is read in two steps may be evicted in between: with 512 and 1024
    channels that takes twice as long on a Zen 3. On Arm a tile has a whole line only where that would happen.
    """
    width = spec.kernel[1]
    vectors = spec.line_channels // vector_lanes(machine, spec.x.dtype) if reads_whole_lines(spec, machine) else 1
    if vectors == 1:
        return most_pixels(machine, width), 1
    return max(1, (machine.vector_registers - max(width, 5) - 1) // vectors), vectors
