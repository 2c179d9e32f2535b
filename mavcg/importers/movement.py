"""Pieces of tensors, cut out and joined, and blocks of pixels that become channels, for the handlers of all formats."""

import math
from collections.abc import Mapping, Sequence

from mavcg.importers.call import NodeCall
from mavcg.importers.value import Value


def cut(call: NodeCall, x: Value, ranges: Mapping[int, tuple[int, int, int]]) -> Value:
    """Return a slice of x; no node is added for the whole of it.

    ranges: (start, stop, step) by axis, in elements of the axis; -1 is before the first one.
    """
    whole = [(0, n, 1) for n in x.shape]
    bounds = list(whole)
    for axis, chosen in ranges.items():
        bounds[axis] = chosen if len(range(*chosen)) else (0, 0, 1)
    if bounds == whole:
        return x
    starts, stops, steps = zip(*bounds, strict=True)
    return call.add("slice", x, starts=starts, stops=stops, steps=steps)


def element(call: NodeCall, x: Value, axis: int, index: int) -> Value:
    """Return the element of a number along an axis, without the axis. axis: counted from 0."""
    return call.reshape(cut(call, x, {axis: (index, index + 1, 1)}), (*x.shape[:axis], *x.shape[axis + 1 :]))


def split_axis(call: NodeCall, x: Value, axis: int, lengths: Sequence[int]) -> tuple[Value, ...]:
    """Return the parts of these lengths into which an axis is cut, one after the other."""
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    return tuple(cut(call, x, {axis: (end - n, end, 1)}) for n, end in zip(lengths, ends, strict=True))


def join(call: NodeCall, parts: Sequence[Value], axis: int) -> Value:
    """Return parts concatenated along an axis; one part as it is."""
    return parts[0] if len(parts) == 1 else call.add("concat", *parts, axis=axis)


def stack(call: NodeCall, parts: Sequence[Value], axis: int) -> Value:
    """Return tensors of one shape along a new axis."""
    return join(call, [call.reshape(part, (*part.shape[:axis], 1, *part.shape[axis:])) for part in parts], axis)


def tile(call: NodeCall, x: Value, times: Sequence[int]) -> Value:
    """Return x repeated along each dimension, by a broadcast along a new dimension before each."""
    if all(t == 1 for t in times):
        return x
    pairs = list(zip(times, x.shape, strict=True))
    narrow = call.reshape(x, [n for _, length in pairs for n in (1, length)])
    wide = call.add("broadcast_to", narrow, shape=tuple(n for pair in pairs for n in pair))
    return call.reshape(wide, [math.prod(pair) for pair in pairs])


def depth_to_space(call: NodeCall, image: Value, block: int, channel_first: bool = False) -> Value:
    """Return an image N, H, W, C whose channels become blocks of pixels.

    A channel is (row in the block, column in the block, channel of the result), or with channel_first the channel of
    the result, row, column. Raises: MavcgError for channels that make no blocks.
    """
    n, h, w, c = image.shape
    if block < 1 or c % (block * block):
        raise call.fail(f"{c} channels do not make blocks of {block} x {block}")
    deep = c // (block * block)
    parts = (deep, block, block) if channel_first else (block, block, deep)
    order = (0, 1, 4, 2, 5, 3) if channel_first else (0, 1, 3, 2, 4, 5)
    pixels = call.transpose(call.reshape(image, (n, h, w, *parts)), order)
    return call.reshape(pixels, (n, h * block, w * block, deep))


def space_to_depth(call: NodeCall, image: Value, block: int, channel_first: bool = False) -> Value:
    """Return the inverse of depth_to_space. Raises: MavcgError for an image that does not divide into blocks."""
    n, h, w, c = image.shape
    if block < 1 or h % block or w % block:
        raise call.fail(f"an image of {h} x {w} cannot be cut into blocks of {block} x {block}")
    parts = call.reshape(image, (n, h // block, block, w // block, block, c))
    parts = call.transpose(parts, (0, 1, 3, 5, 2, 4) if channel_first else (0, 1, 3, 2, 4, 5))
    return call.reshape(parts, (n, h // block, w // block, block * block * c))
