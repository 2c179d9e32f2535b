"""Order of the terms of a direct convolution's sums: the loops over inputs, and the matching packing of weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import TypeAlias

import numpy as np

from mavcg.kernels.primitives.common import Image
from mavcg.specs.kernel import Array
from mavcg.specs.primitive import F32_BYTES, AxisWindow
from mavcg.specs.serialize import spec_format


@spec_format("term_order")
class TermOrder(StrEnum):
    """The loops over kernel rows, kernel columns and input channels, outermost first.

    BLOCKS: blocks of channels, kernel rows, kernel columns, channels of the block; for inputs in CHWc.
    """

    TAPS = "taps"  # ky, kx, c
    CHANNELS = "channels"  # c, ky, kx
    BLOCKS = "blocks"


@dataclass(frozen=True)
class TermRun:
    """Unrolled terms. offsets: offset of each term's input, in bytes."""

    offsets: tuple[int, ...]

    @property
    def terms(self) -> int:
        """Number of terms."""
        return len(self.offsets)


@dataclass(frozen=True)
class TermLoop:
    """A loop of `count` iterations over terms.

    In bytes: at, offset of the first iteration's inputs from those of the loop; step, from an iteration's inputs to the
    next iteration's.
    """

    at: int
    count: int
    step: int
    body: "tuple[Terms, ...]"

    @property
    def iteration_terms(self) -> int:
        """Terms of one iteration."""
        return sum(part.terms for part in self.body)

    @property
    def terms(self) -> int:
        """Terms of all iterations."""
        return self.count * self.iteration_terms


Terms: TypeAlias = TermRun | TermLoop
# Offsets in elements: (count, step) for evenly spaced offsets, or a tuple of any offsets.
_Level: TypeAlias = tuple[int, int] | tuple[tuple[int, ...]]


def terms_of(
    x: Image, kernel: int, dilation: int, across: AxisWindow, in_channels: int, order: TermOrder, unroll: int
) -> tuple[Terms, ...]:
    """Return the terms of one output, with offsets from the window's first input.

    kernel, dilation: window along a column; across: window along a row. in_channels: input channels of a group. unroll:
    maximum number of unrolled terms; longer runs are cut.
    """
    rows: _Level = (kernel, dilation * x.row_step)
    offsets = tuple(x.column(kx * across.dilation) for kx in range(across.k))
    columns: _Level = (across.k, across.dilation * x.column_step) if x.phases == 1 else (offsets,)
    if order is TermOrder.BLOCKS:
        whole, rest = divmod(in_channels, x.block)
        parts: list[Terms] = []
        if whole:
            parts += _nest([(whole, x.block_step), rows, columns, (x.block, 1)], 0, unroll)
        if rest:
            parts += _nest([rows, columns, (rest, 1)], whole * x.block_step, unroll)
        return tuple(parts)
    channels: _Level = (in_channels, x.channel_step)
    levels = [rows, columns, channels] if order is TermOrder.TAPS else [channels, rows, columns]
    return tuple(_nest(levels, 0, unroll))


def ordered_weights(weights: Array, order: TermOrder, block: int) -> Array:
    """Return weights [M, C / groups, K, K] in the order of terms_of, [M, terms].

    block: channels of a block of the input's layout, for BLOCKS.
    """
    m, channels = weights.shape[:2]
    if order is TermOrder.CHANNELS:
        return weights.reshape(m, -1)
    if order is TermOrder.TAPS:
        return weights.transpose(0, 2, 3, 1).reshape(m, -1)
    whole = channels // block * block
    blocks = weights[:, :whole].reshape(m, -1, block, *weights.shape[2:]).transpose(0, 1, 3, 4, 2)
    rest = weights[:, whole:].transpose(0, 2, 3, 1)
    return np.concatenate([blocks.reshape(m, -1), rest.reshape(m, -1)], axis=1)


def _offsets(level: _Level) -> tuple[int, ...]:
    if len(level) == 1:
        return level[0]
    count, step = level
    return tuple(i * step for i in range(count))


def _count(level: _Level) -> int:
    return len(level[0]) if len(level) == 1 else level[0]


def _merge_levels(levels: Sequence[_Level]) -> list[_Level]:
    """Return equivalent levels, as few as possible: a level that continues its inner level is merged with it."""
    merged: list[_Level] = []
    for level in levels:
        if _count(level) > 1 or len(level) == 1:
            merged.append(level)
    at = len(merged) - 1
    while at > 0:
        outer, inner = merged[at - 1], merged[at]
        if len(outer) == 2 and len(inner) == 2 and outer[1] == inner[0] * inner[1]:
            merged[at - 1 : at + 1] = [(outer[0] * inner[0], inner[1])]
        at -= 1
    return merged or [(1, 0)]


def _nest(levels: Sequence[_Level], at: int, unroll: int) -> list[Terms]:
    """Return the loops of these levels, which begin at an offset of `at` elements."""
    levels = _merge_levels(levels)
    if prod(map(_count, levels)) <= unroll:
        offsets = [at]
        for level in levels:
            offsets = [base + more for base in offsets for more in _offsets(level)]
        return [TermRun(tuple(offset * F32_BYTES for offset in offsets))]
    first, rest = levels[0], levels[1:]
    if len(first) == 1:
        if not rest:
            return [TermRun(tuple((at + offset) * F32_BYTES for offset in first[0]))]
        return [part for offset in first[0] for part in _nest(rest, at + offset, unroll)]
    count, step = first
    if rest:
        return [TermLoop(at * F32_BYTES, count, step * F32_BYTES, tuple(_nest(rest, 0, unroll)))]
    iterations, left = divmod(count, unroll)
    run = TermRun(tuple(i * step * F32_BYTES for i in range(unroll)))
    parts: list[Terms] = [TermLoop(at * F32_BYTES, iterations, unroll * step * F32_BYTES, (run,))]
    if iterations == 1:
        parts = [TermRun(tuple(at * F32_BYTES + offset for offset in run.offsets))]
    if left:
        begin = at + iterations * unroll * step
        parts.append(TermRun(tuple((begin + i * step) * F32_BYTES for i in range(left))))
    return parts
