"""Specs of convolutions: everything that decides their code except the core."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import prod

from mavcg.graph import DTYPES
from mavcg.kernels.gemm.register_tile import plain_rows
from mavcg.kernels.gemm.tile import F32_BYTES, Sum, merge_levels
from mavcg.specs.kernel import Machine, View
from mavcg.specs.row_kernel import RowKernel
from mavcg.specs.serialize import spec_format
from mavcg.specs.sums_of_products import SumSizes, SumsOfProducts, TilingRules
from mavcg.specs.window import Window
from mavcg.specs.work_counts import OperandBytes, TileProduct, WeightReads, WorkCounts

# With fewer rows of pixels than this, threads share the output channels instead.
FEW_ROWS = 4
MANY_WEIGHTS = 1 << 18  # bytes of weights from which on a level-2 cache does not keep them from row to row


class Convolution(RowKernel):
    """Base of the specs of convolutions of all types: how their work is cut into rows.

    groups: number of channel groups. lanes: output channels of a panel of packed weights.
    """

    groups: int
    lanes: int

    @property
    def window(self) -> Window:
        return replace(super().window, groups=self.groups)

    @property
    def in_channels(self) -> int:
        """Number of input channels of a group."""
        return self.x.shape[3] // self.groups

    @property
    def summed_channels(self) -> int:
        return self.in_channels

    @property
    def out_channels(self) -> int:
        """Number of output channels of a group."""
        return self.out.shape[3] // self.groups

    @property
    def panels(self) -> int:
        """Number of panels of a group."""
        return -(-self.out_channels // self.lanes)

    @property
    @abstractmethod
    def weight_bytes(self) -> int:
        """Size of the packed weights, in bytes."""

    @property
    def by_channels(self) -> bool:
        """True if work is cut along the output channels, because weights have more bytes than images.

        Only pixels of x that a window reads count: with a stride longer than the filter that is a part of x.
        """
        enough = self.groups * self.panels >= FEW_ROWS
        seen = min(self.x.elements, self.pixel_rows * self.out.shape[2] * prod(self.kernel) * self.x.shape[3])
        images = seen * DTYPES[self.x.dtype].itemsize + self.out.elements * DTYPES[self.out.dtype].itemsize
        heavy = self.weight_bytes > max(MANY_WEIGHTS, images)
        return enough and (heavy or self.pixel_rows < FEW_ROWS)

    @property
    def products(self) -> SumsOfProducts:
        n, height, width, _ = self.x.shape
        read, stride = (n * height, width), self.stride
        if self.kernel == (1, 1):  # only the pixels at multiples of the stride are read
            read, stride = (self.pixel_rows, self.out.shape[2]), (1, 1)
        sizes = SumSizes(
            self.out_channels, self.in_channels, self.pixel_rows, self.out.shape[2], *read, self.x.item_bytes
        )
        return SumsOfProducts(sizes, replace(self.window, stride=stride), self.tiling_rules)

    @property
    def tiling_rules(self) -> TilingRules:
        """The ways in which macro-tiles may cut the convolution."""
        return TilingRules(self.lanes, row_blocks=True)

    @property
    def macs(self) -> int:
        return self.read_elements

    @property
    def rows(self) -> int:
        if 0 in self.out.shape:
            return 0
        return self.groups * self.panels if self.by_channels else self.pixel_rows


@spec_format("conv2d")
@dataclass(frozen=True)
class Conv2d(Convolution):
    """act(bias + convolution + residual) of f32 images, computed as implicit GEMM.

    x, out, residual: N, H, W, C. kernel, stride, dilation: (height, width). packed: weights are packed in panels of
    `lanes` channels, [groups, panels, KH, KW, C/groups, lanes], else [O, KH, KW, C/groups] as in the graph. Operands:
    x, weights, out, bias?, residual?. A row of work is a row of output pixels, or, where by_channels, a panel of
    `lanes` output channels of a group.
    """

    x: View
    out: View
    residual: View | None
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    lanes: int
    bias: bool
    packed: bool
    act: str
    act_args: tuple[float, ...]

    @property
    def family(self) -> str:
        return "conv2d_f32" if self.packed else "conv2d_f32_unpacked"

    @property
    def tiling_rules(self) -> TilingRules:
        row_bytes = self.out.shape[2] * self.stride[1] * self.stride[0] * self.x.shape[3] * F32_BYTES
        rows = None if self.by_channels else plain_rows(row_bytes)
        return replace(
            super().tiling_rules,
            packed=self.packed,
            residual=self.residual is not None,
            plain_rows=rows,
            shared_prefetch=self.packed,
        )

    @property
    def panel_channels(self) -> int:
        return self.lanes if self.packed else 0

    @property
    def weight_bytes(self) -> int:
        return self.groups * self.panels * self.lanes * self.kernel[0] * self.kernel[1] * self.in_channels * F32_BYTES

    @property
    def work(self) -> int:
        return 2 * self.read_elements

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        pixels, terms = self.out.shape[2], self.in_channels * self.window.taps
        times = self.pixel_rows * self.groups
        return WorkCounts(
            products=(TileProduct("product_implicit", pixels, self.out_channels, terms, times),),
            read=OperandBytes(self.x.elements * F32_BYTES),
            written=OperandBytes(self.out.elements * F32_BYTES),
            weights=WeightReads(self.out.shape[3] * terms * F32_BYTES),
        )


def conv_sum(spec: Conv2d) -> Sum:
    """Return the loops of a sum: rows of taps, taps, input channels; contiguous ones are merged into one level."""
    _, row, col, _ = spec.x.strides
    return merge_levels(
        [
            (spec.kernel[0], spec.dilation[0] * row * F32_BYTES),
            (spec.kernel[1], spec.dilation[1] * col * F32_BYTES),
            (spec.in_channels, F32_BYTES),
        ]
    )
