"""Base of the specs of kernels that slide a window over images, a row of output pixels at a time."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from mavcg.specs.kernel import KernelSpec, View, arithmetic_of
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.sums_of_products import Pair, Window


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
    def item_bytes(self) -> int:
        """Size of an element of x, in bytes."""
        return self.x.item_bytes

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


class RowProducts(RowKernel):
    """Base of the specs of row kernels that multiply each element that an output reads by a weight."""

    @property
    def macs(self) -> int:
        return self.read_elements

    @property
    def arithmetic(self) -> str:
        return arithmetic_of(self.x.dtype)

    @property
    def work(self) -> int:
        return 2 * self.read_elements

    @property
    def single_pixels(self) -> bool:
        """True if every row of work is one pixel of a column of pixels; register tiles then extend over rows."""
        return self.out.shape[0] == self.out.shape[2] == self.x.shape[2] == self.kernel[1] == 1


Kernel = TypeVar("Kernel", bound=RowKernel)


def transpose_image(spec: Kernel) -> Kernel:
    """Return the same work with height and width exchanged: an image of a single row becomes one of a single column.

    The order of sums stays the same for a filter with one row or one column.
    """
    changed: dict[str, Any] = {}
    for field in fields(spec):
        value = getattr(spec, field.name)
        if isinstance(value, View):
            shape, strides = ((n, w, h, c) for n, h, w, c in (value.shape, value.strides))
            changed[field.name] = View(value.dtype, shape, strides)
        elif field.name in ("kernel", "stride", "dilation"):
            changed[field.name] = value[::-1]
        elif field.name in ("pads", "count_pads"):
            top, left, *others = value  # right and bottom, if the spec has them
            changed[field.name] = left, top, *others[::-1]
    return replace(spec, **changed)


# Minimum pixels of a row: the weights are read once per row, and cost little beside the arithmetic of so many pixels.
LEAST_PIXELS = 16


def in_pieces(views: Sequence[View], most: int) -> tuple[View, ...]:
    """Return the same N, H, W, C images with their pixels in rows of LEAST_PIXELS to `most`, or one row of fewer
    pixels.

    views: images with equally many pixels. They are returned unchanged where the distance between pixels is not
    constant, or where no such row length divides the pixels.
    """
    pixels = views[0].shape[0] * views[0].shape[1] * views[0].shape[2]
    whole = [n for n in range(LEAST_PIXELS, most + 1) if pixels % n == 0]
    width = pixels if pixels <= most else max(whole, default=0)
    if not width or not all(map(_evenly_spaced, views)):
        return tuple(views)

    def in_rows(view: View) -> View:
        pitch = _pitch(view)
        return View(view.dtype, (1, pixels // width, width, view.shape[3]), (0, width * pitch, pitch, view.strides[3]))

    return tuple(map(in_rows, views))


def _pitch(view: View) -> int:
    """Return the distance from a pixel to the next, in elements."""
    for length, stride in zip(view.shape[2::-1], view.strides[2::-1], strict=True):
        if length > 1:
            return stride
    return view.shape[3]


def _evenly_spaced(view: View) -> bool:
    """Return True if the distance between pixels is constant, across rows and images too."""
    pitch, (n, h, w, _) = _pitch(view), view.shape
    return (h == 1 or view.strides[1] == w * pitch) and (n == 1 or view.strides[0] == h * w * pitch)
