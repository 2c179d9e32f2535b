"""Parameters of a micro-kernel: loops of its sum, register tile, pointers; and the packing of its weights.

Weights are packed in the order in which the micro-kernels read them; all versions of a library share them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.graph import DTYPES
from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.builder.run_numbers import Number
from mavcg.kernels.gemm.product_types import product_bytes
from mavcg.specs.channel_scales import channel_scales, in_eight_bits
from mavcg.specs.kernel import F32_BYTES as F32_BYTES
from mavcg.specs.kernel import Array
from mavcg.specs.packed_constant import PackedConstant

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Sum:
    """The loops over the inputs of a sum.

    levels: (count, step in bytes), outermost first; the innermost step is an element. A run may set a step.
    """

    levels: tuple[tuple[int, Number], ...]

    @property
    def length(self) -> int:
        """Number of terms of the sum."""
        total = 1
        for count, _ in self.levels:
            total *= count
        return total


def merge_levels(levels: Sequence[tuple[int, int]], item_bytes: int = F32_BYTES) -> Sum:
    """Return equivalent loops with as few levels as possible: a level that continues its inner level is merged with
    it.

    item_bytes: size of an input element.
    """
    merged: list[tuple[int, int]] = []
    for count, step in levels:
        if count == 1 and step != item_bytes:
            continue
        merged.append((count, step))
    while len(merged) > 1 and merged[-2][1] == merged[-1][0] * merged[-1][1]:
        (outer, _), (inner, step) = merged[-2:]
        merged[-2:] = [(outer * inner, step)]
    return Sum(tuple(merged))


@dataclass(frozen=True)
class Part:
    """Position of a block of terms in its sum. first, last: i1, true for the first and the last block.

    Between blocks the partial sums are stored in the output.
    """

    first: Value
    last: Value


@dataclass(frozen=True)
class WeightLayout:
    """The layout of a chunk's weights: weight (term k, channel n) lies k * k_step + offset(n) bytes from the pointer.

    offset(n) = n // lanes * panel_step + n % lanes * n_step; n_step is weight_bytes where vectors of channels are
    contiguous. padded: whole vectors may be read past the last channel. ahead: prefetch distance in bytes; 0: no
    prefetch. dtype: of the weights, the inputs and the outputs; of products of pairs, matrices or blocks that
    of the products, whose elements and terms are several bf16 each. stored: type of the weights in memory, if another:
    f16, bf16 or i8 for weights of f32, which are converted to f32 when they are loaded.
    """

    k_step: int
    n_step: int
    panel_step: int
    lanes: int
    padded: bool
    ahead: int = 0
    dtype: str = "f32"
    stored: str = ""

    @property
    def item_bytes(self) -> int:
        """Size of an input, in bytes."""
        return product_bytes(self.dtype)

    @property
    def weight_bytes(self) -> int:
        """Size of a weight in memory, in bytes."""
        return product_bytes(self.stored or self.dtype)

    def offset(self, channel: int) -> int:
        """Return the offset of a channel of the chunk, in bytes."""
        return channel // self.lanes * self.panel_step + channel % self.lanes * self.n_step


@dataclass(frozen=True)
class RegisterTile:
    """The outputs of one micro-kernel: pixels x vectors of channels.

    in_offsets, out_offsets, residual_offsets: offset of each pixel in bytes, a constant or computed at run time. used:
    channels of the last vector. prefetch_next_inputs: prefetch the next tile's inputs, whose pixels follow at the same
    distance. share_bytes: bytes of the next chunk's weights that are prefetched per term (Pointers.ahead). rows: pixels
    of a tile register of inputs, where blocks of terms are multiplied by AMX; else 0. share_of_run: the share_bytes of
    a run of any length, no more than those; None: all.
    """

    in_offsets: tuple[int | Value, ...]
    out_offsets: tuple[int | Value, ...]
    residual_offsets: tuple[int | Value, ...]
    vectors: int
    used: int
    prefetch_next_inputs: bool = False
    share_bytes: int = 0
    rows: int = 0
    share_of_run: Value | None = None


@dataclass(frozen=True)
class Pointers:
    """Addresses of the tile's first pixel and channel in each operand; None for an absent bias or residual.

    scales: f32 of each channel, of weights in 8 bits, by which sums are multiplied; there is a bias then.
    ahead: the next chunk's weights, of which the tile prefetches a share; None: it prefetches its own weights by
    WeightLayout.ahead.
    """

    inputs: Value
    weights: Value
    out: Value
    bias: Value | None = None
    residual: Value | None = None
    scales: Value | None = None
    ahead: Value | None = None


LINE_CHANNELS = 16  # f32 elements of a cache line of 64 bytes


def pack(weights: Array, groups: int, lanes: int, terms: int = 1) -> Array:
    """Pack a filter into panels of `lanes` output channels: [O, KH, KW, I] -> [groups, panels, KH * KW * I, lanes].

    terms: neighbouring terms that a channel keeps together, of which I is a multiple: -> [groups, panels, KH * KW * I /
    terms, lanes, terms]. The last panel of a group is padded with zeros, whose products are never stored.
    """
    out_ch = weights.shape[0] // groups
    k = int(np.prod(weights.shape[1:]))
    panels = -(-out_ch // lanes)
    filled = np.zeros((groups, panels * lanes, k), weights.dtype)
    filled[:, :out_ch] = weights.reshape(groups, out_ch, k)
    if terms > 1:
        by_group = filled.reshape(groups, panels, lanes, k // terms, terms)
        return np.ascontiguousarray(by_group.transpose(0, 1, 3, 2, 4))
    return np.ascontiguousarray(filled.reshape(groups, panels, lanes, k).transpose(0, 1, 3, 2))


def packed_filters(
    tensor: str,
    shape: tuple[int, ...],
    groups: int,
    lanes: int,
    dtype: str = "f32",
    stored: str = "",
    terms: int = 1,
) -> PackedConstant:
    """Return the recipe to pack a constant filter of shape [O, KH, KW, I].

    tensor: the constant's name. stored: as of WeightLayout. terms: as of `pack`, of weights that are not stored.
    """
    packed = _packed_shape(groups, -(-(shape[0] // groups) // lanes), prod(shape[1:]), lanes, terms)
    if stored:
        return PackedConstant(_pack_stored, (tensor,), (groups, lanes, stored), packed, DTYPES[stored].name)
    return PackedConstant(pack, (tensor,), (groups, lanes, *([terms] if terms > 1 else [])), packed, DTYPES[dtype].name)


def _packed_shape(groups: int, panels: int, count: int, lanes: int, terms: int) -> tuple[int, ...]:
    """Return the shape that `pack` gives sums of `count` terms."""
    return (groups, panels, count // terms, lanes, *([terms] if terms > 1 else []))


def _pack_stored(weights: Array, groups: int, lanes: int, stored: str) -> Array:
    """Pack a filter as `pack` does, in a type to which its numbers are rounded (passes/graph/stored_weights.py).

    weights: [O, KH, KW, I], f32.
    """
    return pack(_in_type(weights, stored, 0), groups, lanes)


def _in_type(weights: Array, stored: str, axis: int) -> Array:
    """Return f32 weights in the type in which they are stored. axis: of the output channels."""
    return in_eight_bits(weights, axis)[0] if stored == "i8" else weights.astype(DTYPES[stored])


def packed_matrix(
    tensor: str,
    shape: tuple[int, int],
    columns_first: bool,
    lanes: int,
    dtype: str = "f32",
    stored: str = "",
    terms: int = 1,
) -> PackedConstant:
    """Return the recipe to pack a constant matrix of shape [columns, terms] if columns_first, else [terms, columns].

    stored, terms: as of packed_filters.
    """
    columns, length = shape if columns_first else shape[::-1]
    packed = _packed_shape(1, -(-columns // lanes), length, lanes, terms)
    if stored:
        return PackedConstant(
            _pack_stored_matrix, (tensor,), (columns_first, lanes, stored), packed, DTYPES[stored].name
        )
    parameters = (columns_first, lanes, *([terms] if terms > 1 else []))
    return PackedConstant(_pack_matrix, (tensor,), parameters, packed, DTYPES[dtype].name)


def _pack_matrix(matrix: Array, columns_first: bool, lanes: int, terms: int = 1) -> Array:
    return pack(np.ascontiguousarray(matrix if columns_first else matrix.T)[:, None, None, :], 1, lanes, terms)


def _pack_stored_matrix(matrix: Array, columns_first: bool, lanes: int, stored: str) -> Array:
    return _pack_matrix(_in_type(matrix, stored, 0 if columns_first else 1), columns_first, lanes)


def scaled_biases(tensor: str, channels: int, axis: int, bias: str) -> PackedConstant:
    """Return the recipe of the biases and the scales of weights in i8: f32 [2, channels].

    tensor: the constant weights. axis: that of their output channels. bias: a constant's name; "": biases of 0.
    """
    return PackedConstant(_biases_and_scales, (tensor, bias) if bias else (tensor,), (axis,), (2, channels))


def _biases_and_scales(weights: Array, *others: Any) -> Array:
    *bias, axis = others
    scales = channel_scales(weights, axis)
    return np.stack([bias[0].astype(np.float32).reshape(-1) if bias else np.zeros_like(scales), scales])


def packed_depthwise(tensor: str, shape: tuple[int, ...], dtype: str = "f32") -> PackedConstant:
    """Return the recipe to pack a constant depthwise filter of shape [C, KH, KW, 1]."""
    line = LINE_BYTES // DTYPES[dtype].itemsize
    packed = (-(-shape[0] // line), shape[1] * shape[2], line)
    return PackedConstant(pack_depthwise, (tensor,), (), packed, DTYPES[dtype].name)


def packed_phases(
    tensor: str,
    shape: tuple[int, ...],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
    lanes: int,
    dtype: str = "f32",
) -> PackedConstant:
    """Return the recipe to pack a constant transposed filter of shape [O, KH, KW, I] by phases, each as by `pack`."""
    taps = prod(reach(shape[1 + i], stride[i], dilation[i]) for i in (0, 1))
    panels = -(-(shape[0] // groups) // lanes)
    packed = (prod(stride), groups, panels, taps * shape[3], lanes)
    return PackedConstant(_pack_phases, (tensor,), (stride, dilation, groups, lanes), packed, DTYPES[dtype].name)


def _pack_phases(weights: Array, stride: tuple[int, int], dilation: tuple[int, int], groups: int, lanes: int) -> Array:
    return np.stack([pack(w, groups, lanes) for row in phases(weights, stride, dilation) for w in row])


def pack_depthwise(weights: Array) -> Array:
    """Pack a depthwise filter by cache lines of channels: [C, KH, KW, 1] -> [lines, KH * KW, channels of a line].

    The last line is padded with zeros, whose products are never stored.
    """
    channels, taps = weights.shape[0], weights.shape[1] * weights.shape[2]
    line = LINE_BYTES // weights.itemsize
    lines = -(-channels // line)
    filled = np.zeros((lines * line, taps), weights.dtype)
    filled[:channels] = weights.reshape(channels, taps)
    return np.ascontiguousarray(filled.reshape(lines, line, taps).transpose(0, 2, 1))


def reach(kernel: int, stride: int, dilation: int) -> int:
    """Return the number of image pixels that the window of one output pixel of a transposed convolution spans."""
    return (kernel - 1) * dilation // stride + 1


def phases(weights: Array, stride: tuple[int, int], dilation: tuple[int, int]) -> Array:
    """Split a transposed filter by phases: [O, KH, KW, I] -> [stride[0], stride[1], O, rows of taps, taps, I].

    Output pixel q * stride + phase reads image pixel q - j with tap k where k * dilation = j * stride + phase. Taps are
    in the order of the image's pixels, that is of falling j; a tap is 0 where no such k exists.
    """
    out_ch, *kernel, in_ch = weights.shape
    taps = [reach(kernel[i], stride[i], dilation[i]) for i in (0, 1)]
    by_phase = np.zeros((*stride, out_ch, *taps, in_ch), weights.dtype)
    for ky in range(kernel[0]):
        j_y, phase_y = divmod(ky * dilation[0], stride[0])
        for kx in range(kernel[1]):
            j_x, phase_x = divmod(kx * dilation[1], stride[1])
            by_phase[phase_y, phase_x, :, taps[0] - 1 - j_y, taps[1] - 1 - j_x] = weights[:, ky, kx]
    return by_phase
