"""Strides of dense tensors; layouts of images in memory, and the shapes of tensors in each layout."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from mavcg.graph.parts import Array


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the row-major strides of a dense array, in elements."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


class Layout(StrEnum):
    """An order of the dimensions of an image (channels C, rows H, columns W), outermost first.

    CHWc: blocks of channels, [ceil(C / block), H, W, block]; zeros pad the last block.
    """

    CHW = "CHW"
    HCW = "HCW"
    HWC = "HWC"
    CHWC = "CHWc"

    @property
    def planar(self) -> bool:
        """True if the columns of a row are contiguous, so that vectors run along pixels; else vectors run along
        channels."""
        return self in (Layout.CHW, Layout.HCW)


# Positions of N, H, W, C among the dimensions of a tensor, by layout.
AXES: dict[Layout, tuple[int, int, int, int]] = {
    Layout.CHW: (0, 2, 3, 1),
    Layout.HCW: (0, 1, 3, 2),
    Layout.HWC: (0, 1, 2, 3),
}


def image_shape(layout: Layout, c: int, h: int, w: int, block: int, n: int = 1) -> tuple[int, int, int, int]:
    """Return the tensor shape of n images: NCHW, NHCW, NHWC, or [N * ceil(C / block), H, W, block] for CHWc."""
    if layout is Layout.CHWC:
        return (n * -(-c // block), h, w, block)
    lengths = dict(zip(AXES[layout], (n, h, w, c), strict=True))
    return (lengths[0], lengths[1], lengths[2], lengths[3])


def lay_out(image: Array, layout: Layout, block: int) -> Array:
    """Convert images [N, H, W, C] into a layout, contiguous; zeros pad the last block of CHWc."""
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
    """Convert a tensor that lay_out returned back to images [N, H, W, C]. c: number of channels."""
    if layout is not Layout.CHWC:
        return np.ascontiguousarray(tensor.transpose(AXES[layout]))
    _, h, w, block = tensor.shape
    blocks = -(-c // block)
    image = tensor.reshape(-1, blocks, h, w, block).transpose(0, 2, 3, 1, 4).reshape(-1, h, w, blocks * block)
    return np.ascontiguousarray(image[..., :c])


def same_order(a: Layout, b: Layout, c: int, h: int, w: int) -> bool:
    """Return True if both layouts place every element of a c x h x w image at the same offset, as CHW and HWC of 1 x 1.

    CHWc counts as different, since its order depends on the block.
    """
    if a is b:
        return True
    if Layout.CHWC in (a, b):
        return False
    long = {letter for letter, length in (("C", c), ("H", h), ("W", w)) if length > 1}
    return [letter for letter in a if letter in long] == [letter for letter in b if letter in long]
