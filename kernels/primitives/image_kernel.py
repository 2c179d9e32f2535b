"""Base of the specs of primitives whose outputs each read a window of a bordered image."""

from mavcg.kernels.primitives.common import Image
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.kernel_symbol import shape_text
from mavcg.specs.primitive import AxisWindow
from mavcg.specs.sums_of_products import Window


class ImageKernel(KernelSpec):
    """A kernel from an image with its border to an image.

    kernel, stride, dilation: window along a column. across: the window along a row; None: the same.
    """

    x: Image
    out: Image
    kernel: int
    stride: int
    dilation: int
    across: AxisWindow | None

    @property
    def window_across(self) -> AxisWindow:
        """The window along a row of the bordered image."""
        return self.across or AxisWindow(self.kernel, self.stride, 0, self.dilation)

    @property
    def window(self) -> Window:
        """The window of an output."""
        row = self.window_across
        return Window((self.kernel, row.k), (self.stride, row.stride), (self.dilation, row.dilation))

    @property
    def in_channels(self) -> int | None:
        """Number of input channels that an output sums; None if it reads its own channel only."""
        return None

    @property
    def terms(self) -> int:
        """Number of terms of each sum."""
        return self.window.taps * (1 if self.in_channels is None else self.in_channels)

    @property
    def symbol_shape(self) -> str:
        window = self.window.text(self.in_channels)
        return shape_text(self.x.layout_text, self.out.layout_text, self.out.sizes_text, window)

    @property
    def work(self) -> int:
        return 2 * self.out.channels * self.out.height * self.out.width * self.terms


class GroupedImageKernel(ImageKernel):
    """An image kernel whose outputs sum all input channels of their group."""

    groups: int

    @property
    def window(self) -> Window:
        down = super().window
        return Window(down.kernel, down.stride, down.dilation, self.groups)

    @property
    def in_channels(self) -> int:
        """Number of input channels of a group."""
        return self.x.channels // self.groups

    @property
    def out_channels(self) -> int:
        """Number of output channels of a group."""
        return self.out.channels // self.groups
