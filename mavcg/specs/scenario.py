"""Scenarios: the sizes of convolutions, which primitives compute and which are keys of costs."""

from dataclasses import dataclass, replace
from functools import cached_property

from mavcg.specs.kernel_symbol import pair_text, window_text
from mavcg.specs.serialize import spec_format


@spec_format("axis_window")
@dataclass(frozen=True)
class AxisWindow:
    """A convolution's window along one axis. k: taps. pad: zeros on either side of the image."""

    k: int
    stride: int = 1
    pad: int = 0
    dilation: int = 1

    def outputs(self, length: int) -> int:
        """Return the number of windows along `length` elements."""
        return (length + 2 * self.pad - self.dilation * (self.k - 1) - 1) // self.stride + 1


@spec_format("scenario")
@dataclass(frozen=True)
class Scenario:
    """The sizes of a convolution: the paper's 6-tuple with padding, groups, dilation, rectangular kernels and batches.

    c, h, w: size of the input without padding. k: height of the kernel. m: output channels. stride, k, pad and dilation
    apply to both axes unless `across` is the window along a row. sparsity: percentage of zero weights; block_sparsity:
    percentage of all-zero blocks of neighbouring output channels' weights (kernels/primitives/sparse); 0 if few. batch:
    number of images, contiguous in memory. dtype: f32, or i8 or u8 for a quantised convolution, whose image has its
    border already.
    """

    c: int
    h: int
    w: int
    stride: int
    k: int
    m: int
    pad: int = 0
    groups: int = 1
    dilation: int = 1
    sparsity: int = 0
    block_sparsity: int = 0
    across: AxisWindow | None = None
    batch: int = 1
    dtype: str = "f32"

    def __post_init__(self) -> None:
        if self.across == self.down:  # so that equal convolutions are equal keys of costs
            object.__setattr__(self, "across", None)

    @cached_property
    def down(self) -> AxisWindow:
        """The window along a column of the image."""
        return AxisWindow(self.k, self.stride, self.pad, self.dilation)

    @cached_property
    def along(self) -> AxisWindow:
        """The window along a row of the image."""
        return self.across or self.down

    @property
    def windows(self) -> tuple[AxisWindow, AxisWindow]:
        """The windows along a column and along a row."""
        return self.down, self.along

    @property
    def across_bordered(self) -> AxisWindow | None:
        """`across` for an image that has its border already; None if it then equals the window along a column."""
        down, along = (replace(window, pad=0) for window in self.windows)
        return None if along == down else along

    @property
    def eight_bit(self) -> bool:
        """True for a quantised convolution of 8-bit images."""
        return self.dtype != "f32"

    @property
    def square(self) -> bool:
        """True if both axes have the same window."""
        return self.across is None

    @cached_property
    def taps(self) -> int:
        """Number of taps of the kernel."""
        return self.k * self.along.k

    @property
    def kernel(self) -> tuple[int, int]:
        """(height, width) of the kernel."""
        return self.k, self.along.k

    @property
    def pads(self) -> tuple[int, int]:
        """(rows of zeros above and below, columns left and right) of the image."""
        return self.pad, self.along.pad

    @property
    def strides(self) -> tuple[int, int]:
        """(stride along a column, stride along a row)."""
        return self.stride, self.along.stride

    @property
    def dilations(self) -> tuple[int, int]:
        """(dilation along a column, dilation along a row)."""
        return self.dilation, self.along.dilation

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """Shape of the weights: [m, c / groups, height, width of the kernel]."""
        return self.m, self.c // self.groups, *self.kernel

    @property
    def padded_pixels(self) -> int:
        """Number of pixels of an image with its border of zeros."""
        return (self.h + 2 * self.pad) * (self.w + 2 * self.along.pad)

    @property
    def image(self) -> "Scenario":
        """The scenario of one image of the batch."""
        return self if self.batch == 1 else replace(self, batch=1)

    @property
    def dense(self) -> "Scenario":
        """The scenario without its weights' sparsity."""
        return replace(self, sparsity=0, block_sparsity=0) if self.sparsity or self.block_sparsity else self

    @cached_property
    def out_h(self) -> int:
        """Number of rows of the output."""
        return self.down.outputs(self.h)

    @cached_property
    def out_w(self) -> int:
        """Number of columns of the output."""
        return self.along.outputs(self.w)

    @property
    def window_text(self) -> str:
        """Filter, stride, dilation and groups in the format of kernels' symbols, such as 3x3x16s1."""
        channels = self.c // self.groups
        return window_text((*self.kernel, channels), self.strides, self.dilations, self.groups)

    @property
    def numbers_text(self) -> str:
        """C,H,W,stride,K,M,pad,groups for `mavcg primitives check --scenario`; entries like 1x7 where axes differ."""
        stride, kernel, pads = (pair_text(pair) for pair in (self.strides, self.kernel, self.pads))
        return ",".join(map(str, (self.c, self.h, self.w, stride, kernel, self.m, pads, self.groups)))

    @property
    def text(self) -> str:
        """The scenario for people: its numbers, then dilation, batch and sparsity if they are not the default."""
        words = [self.numbers_text]
        words += [f"dilation {pair_text(self.dilations)}"] if self.dilations != (1, 1) else []
        words += [f"batch {self.batch}"] if self.batch > 1 else []
        if self.sparsity:
            blocks = f", {self.block_sparsity} % in blocks" if self.block_sparsity else ""
            words.append(f"{self.sparsity} % zeros{blocks}")
        words += [self.dtype] if self.eight_bit else []
        return " ".join(words)

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates of the definition; a primitive may need fewer."""
        return self.batch * self.out_h * self.out_w * self.m * (self.c // self.groups) * self.taps
