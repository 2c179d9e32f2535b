"""Means of regions of images, of as many positions as a region has pixels, as RoiAlign with a sampling_ratio of 0.

The mean of bilinear samples on a grid is a product of three matrices, weights of rows, image, weights of columns,
because the weights of a position are those of its row times those of its column.
"""

from dataclasses import dataclass

import numpy as np

from mavcg.graph import DTYPES
from mavcg.importers import indices
from mavcg.importers.call import NodeCall
from mavcg.importers.value import Value, constant

LARGEST = 4  # times the image's side: the largest region of a run


@dataclass(frozen=True)
class Side:
    """Regions along rows or columns. start, size: [regions], in pixels. bins: of each region. length: of the image."""

    start: Value
    size: Value
    bins: int
    length: int


def region_means(call: NodeCall, x: Value, numbers: Value, rows: Side, columns: Side) -> Value:
    """Return the mean of each bin, [regions, channels, bins, bins].

    x: images [N, C, H, W]. numbers: the image of each region; one that does not exist, and a region of more than
    LARGEST times the image, end the run with MAVCG_ERROR_INDEX.
    """
    images, channels, height, width = x.shape
    regions = rows.start.shape[0]
    own = indices.gather_along(call, constant(np.eye(images, dtype=DTYPES[x.dtype])), numbers, 0, from_end=False)
    by_row = call.reshape(_weights(call, rows), (regions, rows.bins, 1, height))
    by_row = call.add("mul", by_row, call.reshape(own, (regions, 1, images, 1)))
    by_row = call.reshape(by_row, (regions * rows.bins, images * height))
    pixels = call.reshape(call.transpose(x, (0, 2, 3, 1)), (images * height, width * channels))
    made = call.reshape(call.add("matmul", by_row, pixels), (regions, rows.bins, width, channels))
    by_column = call.reshape(_weights(call, columns), (regions, 1, columns.bins, width))
    return call.transpose(call.add("matmul", by_column, made), (0, 3, 1, 2))


def _weights(call: NodeCall, side: Side) -> Value:
    """Return the weight of each row of an image in the mean of each bin, [regions, bins, length].

    A bin of the size s has ceil(s) positions, evenly spaced. Those before -1 or behind the length count as 0, others
    outside of the image as its first or last row.
    """
    dtype, regions = side.start.dtype, side.start.shape[0]
    most = -(-LARGEST * side.length // side.bins)

    def number(values: object) -> Value:
        return constant(np.asarray(values), dtype)

    bin_size = call.add("div", side.size, number(side.bins))
    count = call.add("max", call.add("ceil", bin_size), number(0))
    shares = number([0.0, *(1 / n for n in range(1, most + 1))])
    share = indices.gather_along(call, shares, call.cast(count, "i64"), 0, from_end=False)
    column = [call.reshape(value, (regions, 1, 1)) for value in (side.start, bin_size, count)]
    steps = number(np.arange(most) + 0.5)
    place = call.add("div", call.add("mul", column[1], steps), call.add("max", column[2], number(1)))
    bins = number(np.arange(side.bins).reshape(-1, 1))
    place = call.add("add", call.add("add", column[0], call.add("mul", column[1], bins)), place)
    inside = call.add("less", number(np.arange(most)), column[2])
    for op, limit in (("greater_equal", -1), ("less_equal", side.length)):
        inside = call.add("and", inside, call.add(op, place, number(limit)))
    clamped = call.reshape(call.add("clip", place, lo=0.0, hi=side.length - 1.0), (regions, side.bins, most, 1))
    distance = call.add("abs", call.add("sub", clamped, number(np.arange(side.length))))
    weight = call.add("max", call.add("sub", number(1), distance), number(0))
    weight = call.add("where", call.reshape(inside, (regions, side.bins, most, 1)), weight, number(0))
    total = call.add("reduce_sum", weight, axes=(2,), keepdims=False)
    return call.add("mul", total, call.reshape(share, (regions, 1, 1)))
