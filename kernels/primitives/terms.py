"""The order in which a direct convolution sums its terms: as loops for emitters, and as an order of packed weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import TypeAlias

import numpy as np

from mavcg.kernel import Array
from mavcg.kernels.primitives.common import Image
from mavcg.primitive import F32_BYTES


class Order(StrEnum):
    """The loops over kernel rows, kernel columns and input channels, outermost first.

    BLOCKS: blocks of channels, kernel rows, kernel columns, channels of the block; for inputs in CHWc.
    """

    TAPS = "taps"  # ky, kx, c
    CHANNELS = "channels"  # c, ky, kx
    BLOCKS = "blocks"


@dataclass(frozen=True)
class Steps:
    """Terms one after the other, without a loop; offsets: of their inputs, in bytes."""

    offsets: tuple[int, ...]

    @property
    def terms(self) -> int:
        """How many."""
        return len(self.offsets)


@dataclass(frozen=True)
class Loop:
    """`count` turns, the inputs of the first `at` bytes from the loop's own, those of each next `step` further on."""

    at: int
    count: int
    step: int
    body: "tuple[Terms, ...]"

    @property
    def turn_terms(self) -> int:
        """Terms of one turn."""
        return sum(part.terms for part in self.body)

    @property
    def terms(self) -> int:
        """Of all turns."""
        return self.count * self.turn_terms


Terms: TypeAlias = Steps | Loop
# Offsets in elements: of so many steps of one length, or any.
_Level: TypeAlias = tuple[int, int] | tuple[tuple[int, ...]]


def terms_of(x: Image, kernel: int, dilation: int, in_channels: int, order: Order, unroll: int) -> tuple[Terms, ...]:
    """The terms of one output, from its window's first input on.

    in_channels: of a group. unroll: the most terms that stand without a loop; a run of more is cut into such.
    """
    rows: _Level = (kernel, dilation * x.row_step)
    across = tuple(x.column(kx * dilation) for kx in range(kernel))
    columns: _Level = (kernel, dilation * x.column_step) if x.phases == 1 else (across,)
    if order is Order.BLOCKS:
        whole, rest = divmod(in_channels, x.block)
        found: list[Terms] = []
        if whole:
            found += _nest([(whole, x.block_step), rows, columns, (x.block, 1)], 0, unroll)
        if rest:
            found += _nest([rows, columns, (rest, 1)], whole * x.block_step, unroll)
        return tuple(found)
    channels: _Level = (in_channels, x.channel_step)
    levels = [rows, columns, channels] if order is Order.TAPS else [channels, rows, columns]
    return tuple(_nest(levels, 0, unroll))


def ordered_weights(weights: Array, order: Order, block: int) -> Array:
    """[M, C / groups, K, K] -> [M, terms], in the order of terms_of; block: of the input's layout, for BLOCKS."""
    m, channels = weights.shape[:2]
    if order is Order.CHANNELS:
        return weights.reshape(m, -1)
    if order is Order.TAPS:
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


def _merged(levels: Sequence[_Level]) -> list[_Level]:
    """The same with as few levels as can be: one that goes on where the one inside ends is one with it."""
    found: list[_Level] = []
    for level in levels:
        if _count(level) > 1 or len(level) == 1:
            found.append(level)
    at = len(found) - 1
    while at > 0:
        outer, inner = found[at - 1], found[at]
        if len(outer) == 2 and len(inner) == 2 and outer[1] == inner[0] * inner[1]:
            found[at - 1 : at + 1] = [(outer[0] * inner[0], inner[1])]
        at -= 1
    return found or [(1, 0)]


def _nest(levels: Sequence[_Level], at: int, unroll: int) -> list[Terms]:
    """The loops of these levels, from `at` elements on."""
    levels = _merged(levels)
    if prod(map(_count, levels)) <= unroll:
        offsets = [at]
        for level in levels:
            offsets = [base + more for base in offsets for more in _offsets(level)]
        return [Steps(tuple(offset * F32_BYTES for offset in offsets))]
    first, rest = levels[0], levels[1:]
    if len(first) == 1:
        if not rest:
            return [Steps(tuple((at + offset) * F32_BYTES for offset in first[0]))]
        return [part for offset in first[0] for part in _nest(rest, at + offset, unroll)]
    count, step = first
    if rest:
        return [Loop(at * F32_BYTES, count, step * F32_BYTES, tuple(_nest(rest, 0, unroll)))]
    turns, left = divmod(count, unroll)
    run = Steps(tuple(i * step * F32_BYTES for i in range(unroll)))
    found: list[Terms] = [run] if turns == 1 else [Loop(at * F32_BYTES, turns, unroll * step * F32_BYTES, (run,))]
    if turns == 1:
        found = [Steps(tuple(at * F32_BYTES + offset for offset in run.offsets))]
    if left:
        begin = at + turns * unroll * step
        found.append(Steps(tuple((begin + i * step) * F32_BYTES for i in range(left))))
    return found
