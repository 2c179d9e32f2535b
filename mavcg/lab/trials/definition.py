"""A convolution by its definition, in float64, and images in the layouts of primitives."""

import numpy as np

from mavcg.graph.reference.elementwise import activate
from mavcg.specs.kernel import Array
from mavcg.specs.primitive import AxisWindow, Epilogue, Layout, Scenario


def reference(
    s: Scenario, x: Array, weights: Array, bias: Array | None, residual: Array | None, epilogue: Epilogue
) -> tuple[Array, Array]:
    """Return the outputs by the definition, [batch, m, out_h, out_w] in float64, and the sums before the activation.

    x: [batch, c, h, w]. weights, bias, residual: as the scenario has them; None for none.
    """
    (pad_h, pad_w), down, along = s.pads, *s.windows
    image = np.zeros((s.batch, s.c, s.h + 2 * pad_h, s.w + 2 * pad_w))
    image[..., pad_h : pad_h + s.h, pad_w : pad_w + s.w] = x
    per_in, per_out = s.c // s.groups, s.m // s.groups
    total = np.zeros((s.batch, s.m, s.out_h, s.out_w))
    for group in range(s.groups):
        out = slice(group * per_out, (group + 1) * per_out)
        channels = image[:, group * per_in : (group + 1) * per_in]
        for ky in range(down.k):
            for kx in range(along.k):
                rows, columns = _tap_inputs(down, ky, s.out_h), _tap_inputs(along, kx, s.out_w)
                taps = weights[out, :, ky, kx].astype(np.float64)
                total[:, out] += np.einsum("mc,nchw->nmhw", taps, channels[..., rows, columns], optimize=True)
    if bias is not None:
        total += bias[:, None, None]
    if residual is not None:
        total += residual
    act = "" if epilogue.act == "none" else epilogue.act
    return activate(total, act, epilogue.act_args), total


def _tap_inputs(window: AxisWindow, tap: int, outputs: int) -> slice:
    """Return the input positions that a tap reads, one for each output."""
    first = tap * window.dilation
    return slice(first, first + (outputs - 1) * window.stride + 1, window.stride)


def batch_to_layout(images: Array, layout: Layout, block: int) -> Array:
    """Return images [batch, c, h, w] in a layout, as f32 in the order of memory."""
    return np.stack([to_layout(image, layout, block) for image in images])


def to_layout(image: Array, layout: Layout, block: int) -> Array:
    """Return an image [c, h, w] in a layout, as f32 in the order of memory."""
    image = np.asarray(image, np.float32)
    if layout is Layout.CHWC:
        c, h, w = image.shape
        blocks = -(-c // block)
        filled = np.zeros((blocks * block, h, w), np.float32)
        filled[:c] = image
        return np.ascontiguousarray(filled.reshape(blocks, block, h, w).transpose(0, 2, 3, 1))
    order = {Layout.CHW: (0, 1, 2), Layout.HCW: (1, 0, 2), Layout.HWC: (1, 2, 0)}[layout]
    return np.ascontiguousarray(image.transpose(order))


def from_layout(raw: Array, layout: Layout, shape: tuple[int, int, int], block: int) -> Array:
    """Return an image from `to_layout` as [c, h, w]."""
    c, h, w = shape
    if layout is Layout.CHWC:
        whole = raw.reshape(-(-c // block), h, w, block).transpose(0, 3, 1, 2).reshape(-1, h, w)
        return np.ascontiguousarray(whole[:c])
    lengths, back = {
        Layout.CHW: ((c, h, w), (0, 1, 2)),
        Layout.HCW: ((h, c, w), (1, 0, 2)),
        Layout.HWC: ((h, w, c), (2, 0, 1)),
    }[layout]
    return np.ascontiguousarray(raw.reshape(lengths).transpose(back))
