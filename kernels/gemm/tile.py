"""The register tile that a micro-kernel computes: its sum, its weights, its addresses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.specs.kernel import F32_BYTES as F32_BYTES

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Sum:
    """Loops over the inputs of a sum, outermost first, (count, step in bytes); the last one's step is 4."""

    levels: tuple[tuple[int, int], ...]

    @property
    def length(self) -> int:
        """Terms of the sum."""
        total = 1
        for count, _ in self.levels:
            total *= count
        return total


def merge_levels(levels: Sequence[tuple[int, int]]) -> Sum:
    """Return the same loops with as few levels as can be: a level that goes on where the one inside ends is one with
    it."""
    found: list[tuple[int, int]] = []
    for count, step in levels:
        if count == 1 and step != F32_BYTES:
            continue
        found.append((count, step))
    while len(found) > 1 and found[-2][1] == found[-1][0] * found[-1][1]:
        (outer, _), (inner, step) = found[-2:]
        found[-2:] = [(outer * inner, step)]
    return Sum(tuple(found))


@dataclass(frozen=True)
class Part:
    """A block of a sum's terms. first, last: whether it is (i1); the sum so far lies in the output between blocks."""

    first: Value
    last: Value


@dataclass(frozen=True)
class WeightLayout:
    """Offset of weight (k, n) of a chunk, in bytes from the chunk's pointer: k * k_step + that of the n-th channel,
    panel_step * (n // lanes) + n_step * (n % lanes).

    n_step: 4 where a vector can be loaded at once. padded: channels that are not there may be read. ahead: prefetch
    distance of weights in bytes; 0: no prefetch.
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
    """Outputs of one micro-kernel: pixels x vectors of channels.

    in_offsets, out_offsets, residual_offsets: of each pixel in bytes, known now or at run time. used: channels of the
    last vector. prefetch_next_inputs: the next tile's inputs are prefetched; its pixels follow at the same
    distance.
    share_bytes: bytes of other weights that are prefetched for each term of the sum (Pointers.ahead).
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
    """Addresses of the tile's first pixel and channel; bias and residual are None where there is none.

    ahead: the weights that are prefetched meanwhile, for tiles of the next channels; None: WeightLayout.ahead
    applies.
    """

    inputs: Value
    weights: Value
    out: Value
    bias: Value | None = None
    residual: Value | None = None
    ahead: Value | None = None
