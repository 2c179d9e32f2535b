"""Boxes of tiles in their tensors, with tests of overlap and cover; the verifier and the interpreter share them."""

from collections.abc import Iterable
from math import prod

import numpy as np

from mavcg.accelerators.plans.text.plan import Dims, PlanTile

Box = tuple[tuple[int, int], ...]  # (first, count) along each dimension


def box_of(tile: PlanTile, tensor: Dims) -> Box:
    """Return a tile's box, computed from its offset. It may extend beyond the tensor; `inside` checks that."""
    rest = tile.offset
    firsts = []
    for length in reversed(tensor[1:]):
        firsts.append(rest % length)
        rest //= length
    return tuple(zip((rest, *reversed(firsts)), tile.dims, strict=True))


def inside(box: Box, tensor: Dims) -> bool:
    """True if a box, which may be empty, lies inside its tensor."""
    return all(first + count <= length for (first, count), length in zip(box, tensor, strict=True))


def slices(box: Box) -> tuple[slice, ...]:
    """Return the slices that index the box in an array."""
    return tuple(slice(first, first + count) for first, count in box)


def overlap(boxes: Iterable[Box], shape: tuple[int, ...]) -> Box | None:
    """Return the first box that shares an element with an earlier box; None if all are disjoint."""
    covered = np.zeros(shape, dtype=bool)
    for box in boxes:
        part = covered[slices(box)]
        if part.any():
            return box
        part[...] = True
    return None


def volume(box: Box) -> int:
    """Return the number of elements of a box."""
    return prod(count for _, count in box)
