"""Boxes of tiles in their tensors: tests of overlap and cover, and of the input that a command's output reads."""

from collections.abc import Iterable
from math import prod

import numpy as np

from mavcg.accelerators.plans.text.plan import Dims, Info, PlanTile
from mavcg.accelerators.plans.windows import WindowAxis

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


def axes_of(info: Info) -> tuple[WindowAxis, WindowAxis]:
    """Return the layer's vertical and horizontal axis."""
    kh, kw = info.taps
    left, _, above, _ = info.pads
    down = WindowAxis(info.output[2], kh, info.input[2], info.stride[0], info.dilation[0], above)
    return down, WindowAxis(info.output[3], kw, info.input[3], info.stride[1], info.dilation[1], left)


def _channels(info: Info, output: Box, source: Box, weight: Box) -> str:
    out_first, out_count = output[1]
    if weight[0] != output[1]:
        return f"weights of output channels {_range(weight[0])}, an output of {_range(output[1])}; take the same"
    if info.weight is None:
        expected = (out_first, out_count)
    else:
        per_group = info.output[1] // info.groups
        group = out_first // per_group
        if (out_first + out_count - 1) // per_group != group:
            return f"output channels {_range(output[1])} belong to two groups; {per_group} channels are one group"
        first, count = weight[1]
        expected = (group * info.weight[1] + first, count)
    if source[1] != expected:
        return f"an input of channels {_range(source[1])}, where {_range(expected)} belong to output and weights"
    return ""


def _range(part: tuple[int, int]) -> str:
    first, count = part
    return f"{first} to {first + count - 1}" if count else "none"


def verify_reads(info: Info, output: Box, source: Box, weight: Box, stride: tuple[int, int], pads: Dims) -> str:
    """Return the fault in a command's channels, rows, columns, padding or stride, with its correction; "" if none."""
    if stride != info.stride:
        return f"stride {stride}, the layer's is {info.stride}; write that, or correct STRIDE in [info]"
    if wrong := _channels(info, output, source, weight):
        return wrong
    left, right, above, below = pads
    down, across = axes_of(info)
    for axis, word, at, (before, after) in ((down, "rows", 2, (above, below)), (across, "columns", 3, (left, right))):
        window = axis.window(*output[at], *weight[at])
        empty = not window.length and not source[at][1]
        if not empty and source[at] != (window.first, window.length):
            return (
                f"an input of {word} {_range(source[at])}, where {word} {_range(output[at])} of the output read "
                f"{_range((window.first, window.length))}; take a tile of these"
            )
        if (before, after) != (window.before, window.after):
            return (
                f"{before} and {after} {word} of padding round the input, where {word} {_range(output[at])} of the "
                f"output read {window.before} and {window.after}; write these"
            )
    return ""
