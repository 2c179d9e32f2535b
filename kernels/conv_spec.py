"""A convolution's spec: all that decides its code but the core."""

from abc import abstractmethod
from dataclasses import dataclass
from math import prod

from mavcg.graph import DTYPES
from mavcg.kernel import KernelSpec, View
from mavcg.kernels.gemm_tile import F32_BYTES, Sum, merged

# Where there are fewer rows than this, threads share the output channels instead.
FEW_ROWS = 4
MANY_WEIGHTS = 1 << 18  # bytes: no longer kept in a level-2 cache between two rows


class Convolution(KernelSpec):
    """What convolutions of images have in common, whatever their types: how their work is cut.

    x, out: N, H, W, C. groups: of channels. lanes: output channels of a panel of packed weights.
    """

    x: View
    out: View
    kernel: tuple[int, int]
    groups: int
    lanes: int

    @property
    def in_channels(self) -> int:
        """Of a group."""
        return self.x.shape[3] // self.groups

    @property
    def out_channels(self) -> int:
        """Of a group."""
        return self.out.shape[3] // self.groups

    @property
    def panels(self) -> int:
        """Panels of output channels of a group."""
        return -(-self.out_channels // self.lanes)

    @property
    def pixel_rows(self) -> int:
        """Rows of output pixels of all images."""
        return self.out.shape[0] * self.out.shape[1]

    @property
    @abstractmethod
    def weight_bytes(self) -> int:
        """Of the packed weights."""

    @property
    def by_channels(self) -> bool:
        """Whether work is cut along the output channels: where there is more of weights than of images.

        Of an image what is seen counts: with steps longer than the filter that is a part.
        """
        enough = self.groups * self.panels >= FEW_ROWS
        seen = min(self.x.elements, self.pixel_rows * self.out.shape[2] * prod(self.kernel) * self.x.shape[3])
        images = seen * DTYPES[self.x.dtype].itemsize + self.out.elements * DTYPES[self.out.dtype].itemsize
        heavy = self.weight_bytes > max(MANY_WEIGHTS, images)
        return enough and (heavy or self.pixel_rows < FEW_ROWS)

    @property
    def rows(self) -> int:
        if 0 in self.out.shape:
            return 0
        return self.groups * self.panels if self.by_channels else self.pixel_rows


@dataclass(frozen=True)
class Conv2d(Convolution):
    """act(bias + convolution + residual) of f32 images.

    x, out, residual: N, H, W, C. kernel, stride, dilation: height, width. packed: weights are packed in panels of
    `lanes` channels, [groups, panels, KH, KW, C/groups, lanes], else O, KH, KW, C/groups as in the graph. Operands: x,
    weights, out, then bias and residual as far as there are any. A row of work is a row of output pixels, or, where
    by_channels, `lanes` output channels of a group.
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
    def weight_bytes(self) -> int:
        return self.groups * self.panels * self.lanes * self.kernel[0] * self.kernel[1] * self.in_channels * F32_BYTES

    @property
    def work(self) -> int:
        return 2 * self.out.elements * self.kernel[0] * self.kernel[1] * self.in_channels


def conv_sum(spec: Conv2d) -> Sum:
    """How k runs: rows of taps, taps, channels; neighbours in memory are one level."""
    _, row, col, _ = spec.x.strides
    return merged([
        (spec.kernel[0], spec.dilation[0] * row * F32_BYTES),
        (spec.kernel[1], spec.dilation[1] * col * F32_BYTES),
        (spec.in_channels, F32_BYTES),
    ])  # fmt: skip
