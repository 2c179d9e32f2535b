"""Parameters of a micro-kernel: the loops of its sum, the layout of weights, the register tile, pointers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.specs.kernel import F32_BYTES as F32_BYTES

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Sum:
    """The loops over the inputs of a sum. levels: (count, step in bytes), outermost first; the innermost step is 4."""

    levels: tuple[tuple[int, int], ...]

    @property
    def length(self) -> int:
        """Number of terms of the sum."""
        total = 1
        for count, _ in self.levels:
            total *= count
        return total


def merge_levels(levels: Sequence[tuple[int, int]]) -> Sum:
    """Return equivalent loops with as few levels as possible: a level that continues its inner level is merged with
    it."""
    merged: list[tuple[int, int]] = []
    for count, step in levels:
        if count == 1 and step != F32_BYTES:
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

    offset(n) = n // lanes * panel_step + n % lanes * n_step; n_step is 4 where vectors of channels are contiguous.
    padded: whole vectors may be read past the last channel. ahead: prefetch distance in bytes; 0: no prefetch.
    """

    k_step: int
    n_step: int
    panel_step: int
    lanes: int
    padded: bool
    ahead: int = 0

    def offset(self, channel: int) -> int:
        """Return the offset of a channel of the chunk, in bytes."""
        return channel // self.lanes * self.panel_step + channel % self.lanes * self.n_step


@dataclass(frozen=True)
class RegisterTile:
    """The outputs of one micro-kernel: pixels x vectors of channels.

    in_offsets, out_offsets, residual_offsets: offset of each pixel in bytes, a constant or computed at run time. used:
    channels of the last vector. prefetch_next_inputs: prefetch the next tile's inputs, whose pixels follow at the same
    distance. share_bytes: bytes of the next chunk's weights that are prefetched per term (Pointers.ahead).
    """

    in_offsets: tuple[int | Value, ...]
    out_offsets: tuple[int | Value, ...]
    residual_offsets: tuple[int | Value, ...]
    vectors: int
    used: int
    prefetch_next_inputs: bool = False
    share_bytes: int = 0


@dataclass(frozen=True)
class Pointers:
    """Addresses of the tile's first pixel and channel in each operand; None for an absent bias or residual.

    ahead: the next chunk's weights, of which the tile prefetches a share; None: it prefetches its own weights by
    WeightLayout.ahead.
    """

    inputs: Value
    weights: Value
    out: Value
    bias: Value | None = None
    residual: Value | None = None
    ahead: Value | None = None
