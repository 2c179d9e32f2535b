"""Depthwise convolution: every channel by itself, vectors along the channels, several pixels of a row at once.

Some rows of outputs, a few pixels wide, are computed for one cache line of channels before the next line: all that
they see of the input stays in the level-1 cache meanwhile, and their weights are read once. Where it would not stay
there, or there are few channels, it is all channels of one row at a time.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

from mavcg.kernels.builder.prefetch import LINE_BYTES
from mavcg.kernels.conv.depthwise_window import UNROLLED_TAPS
from mavcg.kernels.gemm.packing import LINE_CHANNELS
from mavcg.kernels.gemm.register_tile import lanes_f32
from mavcg.kernels.gemm.tile import F32_BYTES
from mavcg.specs.kernel import KernelSpec, Machine, View
from mavcg.specs.kernel_symbol import shape_text, sizes_text, window_text
from mavcg.specs.serialize import spec_format

MOST_TAPS = 49  # a larger filter is left to conv2d's loops
# Rows of a block, for each row of input that two blocks of outputs share: half as much is read twice as there is. More
# rows are not faster on a Zen 3.
ROWS_PER_SHARED = 2
# With so few channels a tile's input is a run of memory, which the core prefetches by itself: row by row no prefetch is
# needed, and that is 10 percent faster there.
FEW_CHANNELS = 64
# Bytes of a way, and number of ways, of the level-1 cache. x86 cores index it by the offset within a page, so that a
# way has the size of a page: the lookup runs beside the address translation. They have eight ways at least. Arm's
# in-order cores have 32 KB in four ways as a rule (Cortex-A53 and A55 TRM), the others 64 KB (A57 to X4; with more ways
# each is smaller, and as many pixels whose distance is a fraction of a way fit).
X86_L1 = (4096, 8)
IN_ORDER_ARM_L1 = (8192, 4)
OUT_OF_ORDER_ARM_L1 = (16384, 4)
MOST_PIXELS = 8  # as many sums hide a multiply-add's latency


@spec_format("depthwise")
@dataclass(frozen=True)
class Depthwise(KernelSpec):
    """act(bias + depthwise convolution + residual) of f32 images with as many channels out as in.

    x, out, residual: N, H, W, C. Weights are packed by lines of channels (packing.pack_depthwise). Operands: x,
    weights, out, then bias and residual as far as there are any. A row of work is a row of output pixels.
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
    def symbol_shape(self) -> str:
        return shape_text("nhwc", sizes_text(*self.out.shape), window_text(self.kernel, self.stride, self.dilation))

    @property
    def out_view(self) -> View:
        return self.out

    @property
    def macs(self) -> int:
        return self.out.elements * self.kernel[0] * self.kernel[1]

    @property
    def rows(self) -> int:
        return self.out.shape[0] * self.out.shape[1] if self.out.elements else 0

    @property
    def work(self) -> int:
        return 2 * self.out.elements * self.kernel[0] * self.kernel[1]

    @property
    def few(self) -> bool:
        """True if there are so few channels that rows are computed one by one."""
        return self.out.shape[3] <= FEW_CHANNELS

    @property
    def shared_rows(self) -> int:
        """Calls of fewer rows read more of the input twice than once."""
        return 1 if self.few else max(1, (self.kernel[0] - 1) * self.dilation[0])


def is_crowded(spec: Depthwise, machine: Machine) -> bool:
    """True if the inputs of a block of rows for one line of channels exceed the level 1 sets that they map to.

    With 256, 512 or 1024 channels a pixel is a quarter of a way, half of one or a whole. Then rows are better taken one
    by one, with all channels of a tile before the next: runs of memory that a core finds by itself. On a Zen 3 that
    takes 0.6 of the time for 3x3 filters; with 5x5, where rows share more, it takes 1.3 of it.
    """
    if machine.arch != "x86_64" or spec.kernel[0] * spec.kernel[1] > UNROLLED_TAPS:
        return False
    pixels, _ = tile_of(spec, machine)
    lines = (block_rows(spec) - 1) * spec.stride[0] + (spec.kernel[0] - 1) * spec.dilation[0] + 1
    return _lines_held(spec, X86_L1) < lines * _window_columns(spec, pixels)


def _lines_held(spec: Depthwise, level_1: tuple[int, int]) -> int:
    """Return how many lines of one channel's pixels level 1 can hold: the sets that they map to, times the ways."""
    way_bytes, ways = level_1
    return way_bytes // gcd(way_bytes, spec.x.strides[2] * F32_BYTES) * ways


def _window_columns(spec: Depthwise, pixels: int) -> int:
    """Return the number of columns of the input that a tile of so many pixels sees."""
    return (min(pixels, spec.out.shape[2]) - 1) * spec.stride[1] + spec.kernel[1]


def reads_whole_lines(spec: Depthwise, machine: Machine) -> bool:
    """True if a tile computes a cache line of each pixel's channels, not one vector.

    A line that is read vector by vector has to stay in level 1 meanwhile. On x86, where a line is one vector or two, it
    is read at once. On Arm a line has four: with one vector a weight serves more pixels, but with 256, 512 or 1024
    channels all pixels share a few sets, and each line comes from level 2 four times. Simulated, a Cortex-A55 then
    takes half of the time with whole lines, and a Cortex-A75 two thirds of it at 1024 channels.
    """
    if machine.arch == "x86_64":
        return True
    pixels = most_pixels(machine, spec.kernel[1])
    if machine.in_order:
        return _most_in_a_set(spec, pixels, IN_ORDER_ARM_L1) > IN_ORDER_ARM_L1[1]
    return _lines_held(spec, OUT_OF_ORDER_ARM_L1) < spec.kernel[0] * _window_columns(spec, pixels)


def _most_in_a_set(spec: Depthwise, pixels: int, level_1: tuple[int, int]) -> int:
    """Return the most lines that a set of level 1 has to hold of a tile's inputs and outputs, one for each pixel.

    Which sets outputs and weights take beside inputs is not known: at worst the same. The few weights of a small filter
    hardly ever do.
    """
    sets = level_1[0] // LINE_BYTES

    def most(places: Iterable[int]) -> int:
        return max(Counter(place * F32_BYTES // LINE_BYTES % sets for place in places).values())

    down, across = spec.x.strides[1] * spec.dilation[0], spec.x.strides[2]
    columns = range(_window_columns(spec, pixels))
    outputs = range(min(pixels, spec.out.shape[2]))
    inputs = most(y * down + x * across for y in range(spec.kernel[0]) for x in columns)
    weights = int(spec.kernel[0] * spec.kernel[1] > UNROLLED_TAPS)
    return (
        inputs + most(x * spec.out.strides[2] for x in outputs) + weights
    )  # a store waits for its line as a load does


def block_rows(spec: Depthwise) -> int:
    """Return the number of rows of outputs that are computed for one line of channels before the next."""
    return max(ROWS_PER_SHARED * (spec.kernel[0] - 1) * spec.dilation[0], 1)


def most_pixels(machine: Machine, kernel_width: int) -> int:
    """Return the number of accumulators of a tile of one vector beside which a row of weights and two inputs fit the
    registers."""
    return max(1, min(MOST_PIXELS, machine.vector_registers - kernel_width - 2))


def tile_of(spec: Depthwise, machine: Machine) -> tuple[int, int]:
    """Return (pixels, vectors of channels) of a tile.

    On x86 a tile has a whole cache line of each pixel. Where the channels are a power of two, neighbouring pixels share
    a few sets of the level-1 cache, and of a line read in two goes the second half would be gone: of 512 and 1024
    channels that takes twice as long on a Zen 3. On Arm it has one where that would happen.
    """
    width = spec.kernel[1]
    vectors = LINE_CHANNELS // lanes_f32(machine) if reads_whole_lines(spec, machine) else 1
    if vectors == 1:
        return most_pixels(machine, width), 1
    return max(1, (machine.vector_registers - max(width, 5) - 1) // vectors), vectors
