"""Weights in the order in which the micro-kernels read them; all versions of a library share them."""

from math import prod

import numpy as np

from mavcg.specs.kernel import Array
from mavcg.specs.packed_constant import PackedConstant

LINE_CHANNELS = 16  # f32 of a cache line of 64 bytes


def pack(weights: Array, groups: int, lanes: int) -> Array:
    """Pack a filter, [O, KH, KW, I] -> [groups, panels, KH * KW * I, lanes], in the order in which the micro-kernel
    reads them.

    The last panel of a group is filled up with zeros, which nobody stores.
    """
    out_ch = weights.shape[0] // groups
    k = int(np.prod(weights.shape[1:]))
    panels = -(-out_ch // lanes)
    filled = np.zeros((groups, panels * lanes, k), np.float32)
    filled[:, :out_ch] = weights.reshape(groups, out_ch, k)
    return np.ascontiguousarray(filled.reshape(groups, panels, lanes, k).transpose(0, 1, 3, 2))


def packed_filters(tensor: str, shape: tuple[int, ...], groups: int, lanes: int) -> PackedConstant:
    """Return the recipe of `pack` for a constant of this shape, [O, KH, KW, I]."""
    panels = -(-(shape[0] // groups) // lanes)
    return PackedConstant(pack, (tensor,), (groups, lanes), (groups, panels, prod(shape[1:]), lanes))


def packed_matrix(tensor: str, shape: tuple[int, int], columns_first: bool, lanes: int) -> PackedConstant:
    """Return the recipe of `pack` for a matrix of this shape: [columns, terms] where columns_first, else [terms,
    columns]."""
    columns, terms = shape if columns_first else shape[::-1]
    return PackedConstant(
        _pack_matrix, (tensor,), (columns_first, lanes), (1, -(-columns // lanes), terms, lanes)
    )  # fmt: skip


def _pack_matrix(matrix: Array, columns_first: bool, lanes: int) -> Array:
    return pack(np.ascontiguousarray(matrix if columns_first else matrix.T)[:, None, None, :], 1, lanes)


def packed_depthwise(tensor: str, shape: tuple[int, ...]) -> PackedConstant:
    """Return the recipe of `pack_depthwise` for a constant of this shape, [C, KH, KW, 1]."""
    lines = -(-shape[0] // LINE_CHANNELS)
    return PackedConstant(pack_depthwise, (tensor,), (), (lines, shape[1] * shape[2], LINE_CHANNELS))


def packed_phases(
    tensor: str, shape: tuple[int, ...], stride: tuple[int, int], dilation: tuple[int, int], groups: int, lanes: int
) -> PackedConstant:
    """Return the recipe of `phases`, each packed by `pack`, for a constant of this shape, [O, KH, KW, I]."""
    taps = prod(reach(shape[1 + i], stride[i], dilation[i]) for i in (0, 1))
    panels = -(-(shape[0] // groups) // lanes)
    packed = (prod(stride), groups, panels, taps * shape[3], lanes)
    return PackedConstant(_pack_phases, (tensor,), (stride, dilation, groups, lanes), packed)


def _pack_phases(
    weights: Array, stride: tuple[int, int], dilation: tuple[int, int], groups: int, lanes: int
) -> Array:  # fmt: skip
    return np.stack([pack(w, groups, lanes) for row in phases(weights, stride, dilation) for w in row])


def pack_depthwise(weights: Array) -> Array:
    """Pack a depthwise filter, [C, KH, KW, 1] -> [lines, KH * KW, LINE_CHANNELS]: all taps of a cache line's channels
    together.

    The last line is filled up with zeros, which nobody stores.
    """
    channels, taps = weights.shape[0], weights.shape[1] * weights.shape[2]
    lines = -(-channels // LINE_CHANNELS)
    filled = np.zeros((lines * LINE_CHANNELS, taps), np.float32)
    filled[:channels] = weights.reshape(channels, taps)
    return np.ascontiguousarray(filled.reshape(lines, LINE_CHANNELS, taps).transpose(0, 2, 1))


def reach(kernel: int, stride: int, dilation: int) -> int:
    """Return the number of pixels of the image that an output pixel may see along one axis."""
    return (kernel - 1) * dilation // stride + 1


def phases(weights: Array, stride: tuple[int, int], dilation: tuple[int, int]) -> Array:
    """Return the filter of each phase: [O, KH, KW, I] -> [stride[0], stride[1], O, taps down, taps across, I].

    Output pixel q * stride + phase sees image pixel q - j with tap k where k * dilation = j * stride + phase. Taps are
    in the order of the image's pixels, j falling; where there is no such k the tap is 0.
    """
    out_ch, *kernel, in_ch = weights.shape
    taps = [reach(kernel[i], stride[i], dilation[i]) for i in (0, 1)]
    found = np.zeros((*stride, out_ch, *taps, in_ch), np.float32)
    for ky in range(kernel[0]):
        j_y, phase_y = divmod(ky * dilation[0], stride[0])
        for kx in range(kernel[1]):
            j_x, phase_x = divmod(kx * dilation[1], stride[1])
            found[phase_y, phase_x, :, taps[0] - 1 - j_y, taps[1] - 1 - j_x] = weights[:, ky, kx]
    return found
