"""Runs of lowered primitives: memory for operands, and ranges of rows in the order of computation.

Memory is an array of bytes for each base of a StageOperand; bytes around an operand in its array are not touched.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mavcg.specs.primitive import Lowering

Bytes = NDArray[np.uint8]
BASES = ("x", "weights", "out", "bias", "residual", "workspace")
GUARD_BYTES = 256  # on either side of an operand
ALIGN = 64
_FILLING = 0xF7  # floats of these bytes are large: arithmetic on memory that nobody wrote shows


@dataclass(frozen=True)
class RowRange:
    """A range of rows of one stage."""

    stage: int
    begin: int
    end: int


@dataclass(frozen=True)
class GuardedMemory:
    """An operand's bytes between guards that show writes outside of it."""

    whole: Bytes
    size: int

    @property
    def inner(self) -> Bytes:
        """Return the operand's bytes."""
        return self.whole[GUARD_BYTES : GUARD_BYTES + self.size]

    @property
    def address(self) -> int:
        """Return the operand's address, a multiple of ALIGN."""
        return int(self.whole.ctypes.data) + GUARD_BYTES

    @property
    def guards_hold(self) -> bool:
        """Return True if nothing was written around the operand."""
        before, after = self.whole[:GUARD_BYTES], self.whole[GUARD_BYTES + self.size :]
        return bool((before == _FILLING).all() and (after == _FILLING).all())


def memory(size: int, content: NDArray[np.generic] | None = None) -> GuardedMemory:
    """Allocate memory of `size` bytes, with this content, or else filled with a pattern."""
    raw = np.full(size + 2 * GUARD_BYTES + ALIGN, _FILLING, np.uint8)
    start = -raw.ctypes.data % ALIGN
    guarded = GuardedMemory(raw[start : start + size + 2 * GUARD_BYTES], size)
    if content is not None:
        guarded.inner[:] = np.frombuffer(np.ascontiguousarray(content).tobytes(), np.uint8)
    return guarded


@dataclass(frozen=True)
class TrialJob:
    """A lowering with its memory, base -> bytes, and the calls that compute it, in order."""

    lowering: Lowering
    operands: Mapping[str, GuardedMemory]
    calls: tuple[RowRange, ...]


def all_rows(lowering: Lowering) -> tuple[RowRange, ...]:
    """Return all rows of every stage, as one range for each stage."""
    return tuple(RowRange(i, 0, stage.spec.rows) for i, stage in enumerate(lowering.stages))


def random_ranges(lowering: Lowering, seed: int, parts: int = 4) -> tuple[RowRange, ...]:
    """Return the rows of every stage in up to `parts` ranges, at random and in random order."""
    pick = random.Random(f"ranges {seed}")
    calls: list[RowRange] = []
    for number, stage in enumerate(lowering.stages):
        rows = stage.spec.rows
        cuts = sorted({0, rows, *(pick.randint(0, rows) for _ in range(parts - 1))})
        ranges = [RowRange(number, begin, end) for begin, end in zip(cuts, cuts[1:], strict=False)]
        pick.shuffle(ranges)
        calls += ranges
    return tuple(calls)
