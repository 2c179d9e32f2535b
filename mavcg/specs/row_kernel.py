"""Base of the specs of kernels that slide a window over images, a row of output pixels at a time."""

from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.window import Pair, Window


class RowKernel(KernelSpec):
    """Base of the specs of kernels over images, where a row of work is a row of output pixels of an image.

    x, out: N, H, W, C. kernel, stride, dilation: (height, width). Each output reads a window of x.
    """

    x: View
    out: View
    kernel: Pair
    stride: Pair
    dilation: Pair

    @property
    def window(self) -> Window:
        """The window of an output."""
        return Window(self.kernel, self.stride, self.dilation)

    @property
    def summed_channels(self) -> int | None:
        """Number of input channels that an output sums; None if it reads its own channel only."""
        return None

    @property
    def read_elements(self) -> int:
        """Number of elements that all outputs read, each counted as often as it is read."""
        channels = 1 if self.summed_channels is None else self.summed_channels
        return self.out.elements * self.window.taps * channels

    @property
    def symbol_shape(self) -> str:
        return shape_text("nhwc", sizes_text(*self.out.shape), self.window.text(self.summed_channels))

    @property
    def out_view(self) -> View:
        return self.out

    @property
    def pixel_rows(self) -> int:
        """Number of rows of output pixels of all images."""
        return self.out.shape[0] * self.out.shape[1]

    @property
    def rows(self) -> int:
        return self.pixel_rows if self.out.elements else 0
