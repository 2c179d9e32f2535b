"""Handlers that resize images, that move blocks of pixels to channels or batches and back; pools, reductions and sums.

Pads are never counted in a pool's mean or maximum.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from mavcg.graph import Array
from mavcg.importers import movement
from mavcg.importers.call import known_at_build
from mavcg.importers.tflite_ops.call import Handler, Results, TfliteCall
from mavcg.importers.tflite_ops.convolution import pads_of
from mavcg.importers.value import Value, constant


def max_pool_2d(call: TfliteCall) -> Results:
    """Import MAX_POOL_2D."""
    x = call.operand(0, rank=4) if call.has_activation or not call.alike(0) else call.input(0, rank=4)
    return call.activate(_pool(call, "max_pool2d", x))


def average_pool_2d(call: TfliteCall) -> Results:
    """Import AVERAGE_POOL_2D."""
    return call.activate(_pool(call, "avg_pool2d", call.operand(0, rank=4)))


def l2_pool_2d(call: TfliteCall) -> Results:
    """Import L2_POOL_2D: the square root of the mean of squares in each window."""
    x = call.operand(0, rank=4)
    return call.activate(call.add("sqrt", _pool(call, "avg_pool2d", call.add("mul", x, x))))


def _pool(call: TfliteCall, op: str, x: Value) -> Value:
    kernel, stride = call.positive("FilterHeight", "FilterWidth"), call.positive("StrideH", "StrideW")
    return call.add(op, x, kernel=kernel, stride=stride, pads=pads_of(call, x.shape[1:3], kernel, stride))


@known_at_build("axes")
def _reduce(op: str, call: TfliteCall) -> Results:
    chooses = op in ("reduce_max", "reduce_min") and call.alike(0)
    x = call.input(0) if chooses else call.operand(0)
    return call.add(op, x, axes=_axes(call, x.rank), keepdims=bool(call.option("KeepDims", False)))


def _axes(call: TfliteCall, rank: int) -> tuple[int, ...]:
    # TFLite allows an axis to be listed twice.
    return tuple(sorted({call.axis(a, rank, "axes") for a in call.ints(1, "axes")}))


@known_at_build("axes")
def _all_or_any(op: str, call: TfliteCall) -> Results:
    x = call.input(0)
    if x.dtype != "bool":
        raise call.fail(f"its input is {x.type}; bool is needed")
    keepdims = bool(call.option("KeepDims", False))
    numbers = call.add(op, call.cast(x, "i32"), axes=_axes(call, x.rank), keepdims=keepdims)
    return call.cast(numbers, "bool")


@known_at_build("axis")
def _arg(op: str, call: TfliteCall) -> Results:
    x = call.input(0, rank_min=1)
    (axis,) = call.ints(1, "axis", 1)
    positions = call.add(op, x, axis=call.axis(axis, x.rank), keepdims=False)
    return call.cast(positions, call.results[0].dtype if call.results[0].dtype in ("i32", "i64") else "i64")


@known_at_build("axis")
def cumsum(call: TfliteCall) -> Results:
    """Import CUMSUM: of an element and those before it, or after it (reverse), with or without itself."""
    x = call.operand(0, rank_min=1)
    (axis,) = call.ints(1, "axis", 1)
    flags = {name.lower(): bool(call.option(name, False)) for name in ("Exclusive", "Reverse")}
    return call.add("cumulative_sum", x, axis=call.axis(axis, x.rank), **flags)


_POOLING: Mapping[str, Handler] = {
    "ARG_MAX": partial(_arg, "arg_max"),
    "ARG_MIN": partial(_arg, "arg_min"),
    "AVERAGE_POOL_2D": average_pool_2d,
    "CUMSUM": cumsum,
    "L2_POOL_2D": l2_pool_2d,
    "MAX_POOL_2D": max_pool_2d,
    "MEAN": partial(_reduce, "reduce_mean"),
    "REDUCE_ALL": partial(_all_or_any, "reduce_min"),
    "REDUCE_ANY": partial(_all_or_any, "reduce_max"),
    "REDUCE_MAX": partial(_reduce, "reduce_max"),
    "REDUCE_MIN": partial(_reduce, "reduce_min"),
    "REDUCE_PROD": partial(_reduce, "reduce_prod"),
    "SUM": partial(_reduce, "reduce_sum"),
}


LARGEST_LENGTH = 1 << 16  # maximum rows or columns of a resized image


@known_at_build("size")
def resize_bilinear(call: TfliteCall) -> Results:
    """Import RESIZE_BILINEAR: linear interpolation between two neighbours, along rows and then columns."""
    x = call.operand(0, rank=4)
    for axis, made in _sizes(call, x):
        at = _sources(call, x.shape[axis], made)
        low = np.maximum(np.floor(at), 0)
        high = np.minimum(np.ceil(at), x.shape[axis] - 1)
        part = np.where(low == high, np.float32(0), at - low)
        index = np.stack([low, high], axis=1).astype(np.int32)
        weight = np.stack([np.float32(1) - part, part], axis=1).astype(np.float32)
        tables = constant(index, stem="index"), constant(weight, stem="weight")
        x = call.add("resample", x, *tables, axis=axis, rule=_rule(call, "linear"))
    return x


@known_at_build("size")
def resize_nearest_neighbor(call: TfliteCall) -> Results:
    """Import RESIZE_NEAREST_NEIGHBOR: select rows and columns; 8-bit integers are moved unchanged."""
    x = call.input(0, rank=4)
    for axis, made in _sizes(call, x):
        at = _nearest(call, x.shape[axis], made)
        index = np.minimum(np.maximum(at, 0), x.shape[axis] - 1).astype(np.int32)
        if x.dtype == "f32":
            tables = constant(index[:, None], stem="index"), constant(np.ones((made, 1), np.float32), stem="weight")
            x = call.add("resample", x, *tables, axis=axis, rule=_rule(call, "nearest"))
        else:
            x = call.add("gather", x, constant(index, stem="index"), axis=axis, rule=_rule(call, "nearest"))
    return x


def _rule(call: TfliteCall, mode: str) -> str:
    """Return the attribute `rule` of a resized axis (choose/lengths/resample_tables.py)."""
    if call.option("AlignCorners", False):
        return f"tflite {mode} align_corners"
    return f"tflite {mode} {'half_pixel' if call.option('HalfPixelCenters', False) else 'asymmetric'}"


def _sizes(call: TfliteCall, x: Value) -> list[tuple[int, int]]:
    """Return (axis, new length) of each axis whose length changes."""
    sizes = call.ints(1, "size", 2)
    if any(not 1 <= n <= LARGEST_LENGTH for n in sizes) or not all(x.shape[1:3]):
        raise call.fail(f"{x.type} cannot be resized to {list(sizes)}; each must be 1 to {LARGEST_LENGTH}")
    if call.option("AlignCorners", False) and call.option("HalfPixelCenters", False):
        raise call.fail("AlignCorners and HalfPixelCenters exclude each other")
    call.check_shape((x.shape[0], *sizes, x.shape[3]), x)
    return [(axis, n) for axis, n in zip((1, 2), sizes, strict=True) if n != x.shape[axis]]


def _scale(call: TfliteCall, length: int, new_length: int) -> np.float32:
    if call.option("AlignCorners", False) and new_length > 1:
        return np.float32(length - 1) / np.float32(new_length - 1)
    return np.float32(length) / np.float32(new_length)


def _sources(call: TfliteCall, length: int, new_length: int) -> Array:
    """Return the source position of each new row or column, in f32 arithmetic as in the TFLite runtime.

    length, new_length: old and new length of the axis.
    """
    numbers, scale = np.arange(new_length, dtype=np.float32), _scale(call, length, new_length)
    if call.option("HalfPixelCenters", False):
        return np.asarray((numbers + np.float32(0.5)) * scale - np.float32(0.5))
    return np.asarray(numbers * scale)


def _nearest(call: TfliteCall, length: int, new_length: int) -> Array:
    """Return the nearest source row or column of each new one, not yet clamped to the image."""
    shift = np.float32(0.5 if call.option("HalfPixelCenters", False) else 0.0)
    at = (np.arange(new_length, dtype=np.float32) + shift) * _scale(call, length, new_length)
    # With AlignCorners positions are rounded, halves away from 0; otherwise rounded down.
    return np.asarray(np.floor(at + np.float32(0.5)) if call.option("AlignCorners", False) else np.floor(at))


def depth_to_space(call: TfliteCall) -> Results:
    """Import DEPTH_TO_SPACE: input channels are ordered by row in the block, column in the block, output channel."""
    x = call.input(0, rank=4)
    (block,) = call.positive("BlockSize")
    return movement.depth_to_space(call, x, block)


def space_to_depth(call: TfliteCall) -> Results:
    """Import SPACE_TO_DEPTH: the inverse of DEPTH_TO_SPACE."""
    x = call.input(0, rank=4)
    (block,) = call.positive("BlockSize")
    return movement.space_to_depth(call, x, block)


@known_at_build("block_shape", "paddings or crops")
def space_to_batch_nd(call: TfliteCall) -> Results:
    """Import SPACE_TO_BATCH_ND: the position in a block becomes the outer part of the batch index, row-major."""
    x = call.input(0, rank_min=1)
    blocks, pairs = _blocks(call, x)
    count = len(blocks)
    rest = x.rank - 1 - count
    around = [(0, 0), *zip(pairs[::2], pairs[1::2], strict=True), *[(0, 0)] * rest]
    x = call.pad(x, [b for b, _ in around], [a for _, a in around], call.zero_of(0))
    lengths = x.shape[1 : 1 + count]
    if any(length % block for length, block in zip(lengths, blocks, strict=True)):
        raise call.fail(f"{x.type}, padded, does not divide into blocks of {list(blocks)}")
    split_up = [n for length, block in zip(lengths, blocks, strict=True) for n in (length // block, block)]
    parts = call.reshape(x, (x.shape[0], *split_up, *x.shape[1 + count :]))
    places, grid = range(2, 2 * count + 1, 2), range(1, 2 * count + 1, 2)
    parts = call.transpose(parts, (*places, 0, *grid, *range(2 * count + 1, parts.rank)))
    return call.reshape(
        parts,
        (x.shape[0] * _product(blocks), *[parts.shape[count + 1 + i] for i in range(count)], *x.shape[1 + count :]),
    )


@known_at_build("block_shape", "paddings or crops")
def batch_to_space_nd(call: TfliteCall) -> Results:
    """Import BATCH_TO_SPACE_ND: the inverse of SPACE_TO_BATCH_ND, followed by a crop at the borders."""
    x = call.input(0, rank_min=1)
    blocks, crops = _blocks(call, x)
    count = len(blocks)
    if x.shape[0] % _product(blocks):
        raise call.fail(f"the batch of {x.type} does not make blocks of {list(blocks)}")
    batch = x.shape[0] // _product(blocks)
    parts = call.reshape(x, (*blocks, batch, *x.shape[1:]))
    pairs = [d for i in range(count) for d in (count + 1 + i, i)]
    parts = call.transpose(parts, (count, *pairs, *range(2 * count + 1, parts.rank)))
    lengths = [length * block for length, block in zip(x.shape[1 : 1 + count], blocks, strict=True)]
    whole = call.reshape(parts, (batch, *lengths, *x.shape[1 + count :]))
    starts = [0, *crops[::2], *[0] * (x.rank - 1 - count)]
    stops = [batch, *[n - c for n, c in zip(lengths, crops[1::2], strict=True)], *x.shape[1 + count :]]
    if any(not 0 <= start <= stop <= n for start, stop, n in zip(starts, stops, whole.shape, strict=True)):
        raise call.fail(f"crops of {list(crops)} do not fit into {whole.type}")
    return movement.cut(call, whole, {axis: (*ends, 1) for axis, ends in enumerate(zip(starts, stops, strict=True))})


def _blocks(call: TfliteCall, x: Value) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the block's length in each dimension after the batch, and (before, after) paddings or crops for each."""
    blocks = call.ints(1, "block_shape")
    pairs = call.ints(2, "paddings or crops", 2 * len(blocks))
    if len(blocks) > x.rank - 1 or any(not 1 <= n <= LARGEST_LENGTH for n in blocks) or any(n < 0 for n in pairs):
        raise call.fail(f"blocks of {list(blocks)} with pads or crops {list(pairs)} do not suit {x.type}")
    return blocks, pairs


def _product(numbers: Sequence[int]) -> int:
    return int(np.prod(numbers, dtype=object)) if numbers else 1


_IMAGES: Mapping[str, Handler] = {
    "BATCH_TO_SPACE_ND": batch_to_space_nd,
    "DEPTH_TO_SPACE": depth_to_space,
    "RESIZE_BILINEAR": resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resize_nearest_neighbor,
    "SPACE_TO_BATCH_ND": space_to_batch_nd,
    "SPACE_TO_DEPTH": space_to_depth,
}

HANDLERS: Mapping[str, Handler] = {**_POOLING, **_IMAGES}
