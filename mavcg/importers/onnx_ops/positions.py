"""Images at positions that a run computes, by interpolation.

A position lies between elements: along each dimension it becomes a few corners, an element's number and its weight. The
result is the sum over all combinations of corners. A row of an image is its channels, so one index reads all of them.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from mavcg.graph.layout import dense_strides
from mavcg.importers import indices
from mavcg.importers.onnx_ops.call import OnnxCall
from mavcg.importers.value import Value, constant

CUBIC = -0.75  # the parameter of cubic interpolation that ONNX fixes for GridSample


@dataclass(frozen=True)
class Corner:
    """An element beside positions along a dimension. number: whole, as floats. weight: None for 1."""

    number: Value
    weight: Value | None = None


Corners = Callable[[OnnxCall, Value, int], list[Corner]]  # positions, length of the dimension -> their corners


def calculate(call: OnnxCall, op: str, a: Value, b: Value | float) -> Value:
    """Return an operator of two values, or of a value and a number of its type."""
    return call.add(op, a, call.as_value(b, a))


def nearest(call: OnnxCall, position: Value, length: int) -> list[Corner]:
    """Return the nearest element; of two that are equally near the even one."""
    del length
    return [Corner(call.add("round", position))]


def linear(call: OnnxCall, position: Value, length: int) -> list[Corner]:
    """Return the elements before and after positions, by their distance."""
    del length
    low = call.add("floor", position)
    far = call.add("sub", position, low)
    near = call.add("sub", call.scalar(1, far), far)
    return [Corner(low, near), Corner(calculate(call, "add", low, 1), far)]


def cubic(call: OnnxCall, position: Value, length: int) -> list[Corner]:
    """Return four elements around positions.

    Source: Keys, "Cubic convolution interpolation for digital image processing", 1981, with the parameter CUBIC.
    """
    del length
    low = call.add("floor", position)
    far = call.add("sub", position, low)
    near = call.add("sub", call.scalar(1, far), far)

    def inner(t: Value) -> Value:
        rest = calculate(call, "sub", calculate(call, "mul", t, CUBIC + 2), CUBIC + 3)
        return calculate(call, "add", call.add("mul", call.add("mul", rest, t), t), 1)

    def outer(t: Value) -> Value:
        made = call.scalar(CUBIC, t)
        for coefficient in (-5 * CUBIC, 8 * CUBIC, -4 * CUBIC):
            made = calculate(call, "add", call.add("mul", made, t), coefficient)
        return made

    weights = (outer(calculate(call, "add", far, 1)), inner(far), inner(near), outer(calculate(call, "add", near, 1)))
    return [Corner(calculate(call, "add", low, i - 1), weight) for i, weight in enumerate(weights)]


def reflect(call: OnnxCall, position: Value, least: float, most: float) -> Value:
    """Return positions outside of least .. most reflected at both ends, as often as it takes."""
    if most <= least:
        return calculate(call, "add", calculate(call, "mul", position, 0), least)
    distance = calculate(call, "sub", position, least)
    times = call.add("floor", calculate(call, "div", distance, most - least))
    rest = call.add("sub", distance, calculate(call, "mul", times, most - least))
    half = calculate(call, "mul", times, 0.5)
    even = call.add("equal", half, call.add("floor", half))
    back = call.add("where", even, calculate(call, "add", rest, least), call.add("sub", call.scalar(most, rest), rest))
    inside = call.add("equal", times, call.scalar(0, times))
    return call.add("where", inside, position, back)


@dataclass(frozen=True)
class Images:
    """Images as rows of channels. rows: [N * prod(lengths), C]. lengths: of the spatial dimensions."""

    rows: Value
    lengths: tuple[int, ...]


def images_of(call: OnnxCall, x: Value) -> Images:
    """Return images [N, C, spatial..] as rows."""
    lengths = x.shape[2:]
    channels_last = call.transpose(x, (0, *range(2, x.rank), 1))
    return Images(call.reshape(channels_last, (x.shape[0] * math.prod(lengths), x.shape[1])), lengths)


@dataclass(frozen=True)
class _Read:
    """A corner as it is read. offset: to the row, i64. inside: bools; None where it need not be known."""

    offset: Value
    inside: Value | None
    weight: Value | None


def sample(
    call: OnnxCall,
    images: Images,
    first: Value,
    positions: Sequence[Value],
    corners_of: Corners,
    zeros: bool,
    combine: str = "add",
) -> Value:
    """Return the images' channels at positions, [.., C].

    first: row at which the image of a position begins, i64, of a shape that broadcasts to the positions'. positions:
    floats [..] for each spatial dimension, in elements. zeros: elements outside are 0; else they are the nearest ones.
    combine: operator that combines the weighted corners.
    """

    def read(corner: Corner, length: int, stride: int) -> _Read:
        # What is not a number reads the first element: an index must exist.
        number = call.add(
            "where", call.add("equal", corner.number, corner.number), corner.number, call.scalar(0, corner.number)
        )
        clamped = call.cast(call.add("clip", number, lo=0.0, hi=float(length - 1)), "i64")
        bounds = (("greater_equal", 0), ("less_equal", length - 1)) if zeros else ()
        inside = [calculate(call, op, corner.number, bound) for op, bound in bounds]
        return _Read(
            calculate(call, "mul", clamped, stride), call.add("and", *inside) if inside else None, corner.weight
        )

    def row(corners: Sequence[_Read]) -> Value:
        at = reduce(partial(call.add, "add"), (corner.offset for corner in corners), first)
        value = indices.gather_along(call, images.rows, at, 0)
        inside = [corner.inside for corner in corners if corner.inside is not None]
        if inside:
            value = call.add(
                "where", column(call, reduce(partial(call.add, "and"), inside)), value, call.scalar(0, value)
            )
        weight = [corner.weight for corner in corners if corner.weight is not None]
        return call.add("mul", value, column(call, reduce(partial(call.add, "mul"), weight))) if weight else value

    strides = dense_strides(images.lengths)
    along = [
        [read(corner, length, stride) for corner in corners_of(call, position, length)]
        for position, length, stride in zip(positions, images.lengths, strides, strict=True)
    ]
    return reduce(partial(call.add, combine), (row(corners) for corners in itertools.product(*along)))


def column(call: OnnxCall, x: Value) -> Value:
    """Return a value with a last dimension of length 1."""
    return call.reshape(x, (*x.shape, 1))


def first_rows(images: int, lengths: Sequence[int], rank: int) -> Value:
    """Return the first row of each image, [images, 1, ..] with this rank."""
    numbers = np.arange(images, dtype=np.int64) * math.prod(lengths)
    return constant(numbers.reshape(images, *[1] * (rank - 1)))
