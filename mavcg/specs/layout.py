"""Layouts of images in memory: orders of dimensions, and the tensors that hold an image in each of them."""

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.specs.serialize import spec_format

Array = NDArray[Any]


@spec_format("layout")
class Layout(StrEnum):
    """Order of the dimensions of an image of channels C, rows H, columns W, the outermost first.

    CHWc: blocks of as many channels as the machine has lanes, [ceil(C / block), H, W, block]; zeros fill the last one.
    """

    CHW = "CHW"
    HCW = "HCW"
    HWC = "HWC"
    CHWC = "CHWc"

    @property
    def planar(self) -> bool:
        """True if the columns of a row are neighbours, so that vectors are of pixels; else they are of channels."""
        return self in (Layout.CHW, Layout.HCW)


# Where N, H, W, C of an image are among the dimensions of its tensor.
AXES: dict[Layout, tuple[int, int, int, int]] = {
    Layout.CHW: (0, 2, 3, 1),
    Layout.HCW: (0, 1, 3, 2),
    Layout.HWC: (0, 1, 2, 3),
}


def image_shape(layout: Layout, c: int, h: int, w: int, block: int, n: int = 1) -> tuple[int, int, int, int]:
    """Return the tensor of n images: [N, C, H, W], [N, H, C, W], [N, H, W, C], [N * ceil(C / block), H, W, block]."""
    if layout is Layout.CHWC:
        return (n * -(-c // block), h, w, block)
    lengths = dict(zip(AXES[layout], (n, h, w, c), strict=True))
    return (lengths[0], lengths[1], lengths[2], lengths[3])


def lay_out(image: Array, layout: Layout, block: int) -> Array:
    """Bring images, [N, H, W, C], into a layout, contiguous; zeros fill the last block of CHWc."""
    if layout is not Layout.CHWC:
        order = sorted(range(4), key=lambda axis: AXES[layout][axis])
        return np.ascontiguousarray(image.transpose(order))
    n, h, w, c = image.shape
    blocks = -(-c // block)
    filled = np.zeros((n, h, w, blocks * block), image.dtype)
    filled[..., :c] = image
    split = filled.reshape(n, h, w, blocks, block).transpose(0, 3, 1, 2, 4)
    return np.ascontiguousarray(split).reshape(n * blocks, h, w, block)


def image_in(tensor: Array, layout: Layout, c: int) -> Array:
    """Return the images of a tensor that laid_out returned, as [N, H, W, C]."""
    if layout is not Layout.CHWC:
        return np.ascontiguousarray(tensor.transpose(AXES[layout]))
    _, h, w, block = tensor.shape
    blocks = -(-c // block)
    image = tensor.reshape(-1, blocks, h, w, block).transpose(0, 2, 3, 1, 4).reshape(-1, h, w, blocks * block)
    return np.ascontiguousarray(image[..., :c])


def same_order(a: Layout, b: Layout, c: int, h: int, w: int) -> bool:
    """True if both layouts put every element of such an image at the same offset, as CHW and HWC of 1 x 1 do.

    With CHWc that depends on the block: it counts as another one.
    """
    if a is b:
        return True
    if Layout.CHWC in (a, b):
        return False
    long = {letter for letter, length in (("C", c), ("H", h), ("W", w)) if length > 1}
    return [letter for letter in a if letter in long] == [letter for letter in b if letter in long]
