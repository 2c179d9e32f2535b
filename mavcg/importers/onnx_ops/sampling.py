"""Handlers of GridSample, RoiAlign and DeformConv, which read images at positions that a run computes."""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES
from mavcg.graph.ops.op import FLOATS
from mavcg.importers.movement import element
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results, round_once
from mavcg.importers.onnx_ops.convolution import check_filter, kernel_shape
from mavcg.importers.onnx_ops.images import window
from mavcg.importers.onnx_ops.positions import (
    Corner,
    Corners,
    calculate,
    column,
    cubic,
    first_rows,
    images_of,
    linear,
    nearest,
    reflect,
    sample,
)
from mavcg.importers.onnx_ops.region_means import Side, region_means
from mavcg.importers.value import Value, constant

_MODES: Mapping[str, Corners] = {
    "nearest": nearest,
    "linear": linear,
    "bilinear": linear,
    "cubic": cubic,
    "bicubic": cubic,
}


@round_once
def grid_sample(call: OnnxCall) -> Results:
    """Import GridSample: images at positions from -1 to 1, in one to three dimensions (cubic: in one or two)."""
    x = call.input(0, rank_min=3)
    grid = call.cast(call.input(1, rank=x.rank), x.dtype)
    spatial, lengths = x.rank - 2, x.shape[2:]
    name, padding = call.attr_str("mode", "linear"), call.attr_str("padding_mode", "zeros")
    mode, aligned = _MODES.get(name), call.attr_bool("align_corners")
    if mode is None or padding not in ("zeros", "border", "reflection"):
        raise call.fail(
            f"mode {name!r} and padding_mode {padding!r}; there are {', '.join(_MODES)}; zeros, border, reflection"
        )
    if spatial > 3 or (spatial > 2 and mode is cubic):
        raise call.unsupported(f"mode {name} in {spatial} dimensions", "up to 3; cubic up to 2")
    if grid.shape[0] != x.shape[0] or grid.shape[-1] != spatial:
        raise call.fail(f"a grid {grid.type} for images {x.type}; [{x.shape[0]}, .., {spatial}] is needed")
    _check_floats(call, x, grid)

    def ends(length: int) -> tuple[float, float]:
        return (0.0, length - 1.0) if aligned else (-0.5, length - 0.5)

    def position(dimension: int, length: int) -> Value:
        made = calculate(call, "add", element(call, grid, grid.rank - 1, spatial - 1 - dimension), 1)  # x before y
        if aligned:
            made = calculate(call, "mul", calculate(call, "div", made, 2), length - 1)
        else:
            made = calculate(call, "div", calculate(call, "sub", calculate(call, "mul", made, length), 1), 2)
        if mode is cubic or padding == "zeros":
            return made  # of cubic interpolation the elements are moved inside, not the position
        if mode is nearest:
            made = call.add("round", made)
        if padding == "reflection":
            return reflect(call, made, *ends(length))
        return call.add("clip", made, lo=0.0, hi=length - 1.0)

    def corners_of(call: OnnxCall, positions: Value, length: int) -> list[Corner]:
        corners = mode(call, positions, length)
        if padding != "reflection" or mode is not cubic:
            return corners
        return [Corner(reflect(call, c.number, *ends(length)), c.weight) for c in corners]

    first = first_rows(x.shape[0], lengths, grid.rank - 1)
    positions = [position(dimension, length) for dimension, length in enumerate(lengths)]
    made = sample(call, images_of(call, x), first, positions, corners_of, padding == "zeros")
    return call.transpose(made, (0, made.rank - 1, *range(1, made.rank - 1)))


def _check_floats(call: OnnxCall, *values: Value) -> None:
    types = ", ".join(str(value.type) for value in values)
    if any(value.dtype not in FLOATS for value in values):
        raise call.fail(f"{types}; floats are needed")
    if any(value.type.elements == 0 for value in values):
        raise call.unsupported(f"{types}, without elements", "at least one of each")


@round_once
def roi_align(call: OnnxCall) -> Results:
    """Import RoiAlign: each region in bins, each bin the mean or maximum of sampling_ratio^2 positions.

    A ratio of 0 means as many positions as a bin has pixels.
    """
    x, rois, numbers = call.input(0, rank=4), call.input(1, rank=2), call.input(2, rank=1)
    mode, ratio = call.attr_str("mode", "avg"), call.attr_int("sampling_ratio", 0)
    bins = call.attr_int("output_height", 1), call.attr_int("output_width", 1)
    offsets = {"half_pixel": 0.5, "output_half_pixel": 0.0}
    convention = call.attr_str(
        "coordinate_transformation_mode", "half_pixel" if call.version >= 16 else "output_half_pixel"
    )
    if mode not in ("avg", "max") or convention not in offsets:
        raise call.fail(f"mode {mode!r} of {convention!r}; there are avg, max; {', '.join(offsets)}")
    if ratio < 1 and mode == "max":
        raise call.unsupported(f"the maximum with sampling_ratio {ratio}, of the region's size", "1 or more")
    count = rois.shape[0]
    if rois.shape[1] != 4 or numbers.shape != (count,) or min(bins) < 1 or numbers.dtype not in ("i32", "i64"):
        raise call.fail(f"regions {rois.type} with images {numbers.type} and {bins[0]} x {bins[1]} bins")
    _check_floats(call, x, rois)
    rois, lengths = call.cast(rois, x.dtype), x.shape[2:]
    scaled = calculate(call, "mul", rois, call.attr_float("spatial_scale", 1.0))
    scaled = calculate(call, "sub", scaled, offsets[convention])

    def start_and_size(dimension: int) -> tuple[Value, Value]:
        """Return where each region begins along H or W, and its length, [regions]."""
        start, end = (element(call, scaled, 1, 2 * corner + 1 - dimension) for corner in (0, 1))
        size = call.add("sub", end, start)
        return start, size if offsets[convention] else calculate(call, "max", size, 1)

    if ratio < 1:
        sides = [Side(*start_and_size(d), bins[d], lengths[d]) for d in (0, 1)]
        return region_means(call, x, numbers, *sides)

    def positions(dimension: int) -> Value:
        """Return the positions of each region along H or W, [regions, bins * ratio]."""
        start, size = start_and_size(dimension)
        step = calculate(call, "div", column(call, size), bins[dimension])
        inside = (np.arange(bins[dimension] * ratio) % ratio + 0.5) / ratio
        bin_numbers = constant(np.repeat(np.arange(bins[dimension]), ratio).astype(DTYPES[x.dtype]))
        begin = call.add("add", column(call, start), call.add("mul", step, bin_numbers))
        return call.add("add", begin, call.add("mul", step, constant(inside, x.dtype)))

    outside, clamped = [], []
    spread = (count, bins[0] * ratio, bins[1] * ratio)
    for dimension, length in enumerate(lengths):
        at = positions(dimension)
        shape = (count, 1, at.shape[1]) if dimension else (count, at.shape[1], 1)
        at = call.add("broadcast_to", call.reshape(at, shape), shape=spread)
        outside += [calculate(call, "less", at, -1), calculate(call, "greater", at, length)]
        clamped.append(call.add("clip", at, lo=0.0, hi=length - 1.0))
    first = calculate(call, "mul", call.reshape(call.cast(numbers, "i64"), (count, 1, 1)), lengths[0] * lengths[1])
    # For maxima, onnxruntime and ONNX take the largest of the four weighted elements around a position, not their sum.
    made = sample(call, images_of(call, x), first, clamped, linear, False, "add" if mode == "avg" else "max")
    beyond = call.add("or", call.add("or", *outside[:2]), call.add("or", *outside[2:]))
    made = call.add("where", column(call, beyond), call.scalar(0, made), made)
    made = call.reshape(made, (count, bins[0], ratio, bins[1], ratio, x.shape[1]))
    made = call.add("reduce_mean" if mode == "avg" else "reduce_max", made, axes=(2, 4), keepdims=False)
    return call.transpose(made, (0, 3, 1, 2))


@round_once
def deform_conv(call: OnnxCall) -> Results:
    """Import DeformConv: a convolution whose positions have offsets of their own, as products of sampled rows."""
    x, w, offset, bias, mask = (
        call.input(0, rank=4),
        call.input(1, rank=4),
        call.input(2, rank=4),
        call.maybe(3),
        call.maybe(4),
    )
    check_filter(call, x, w)
    kernel, groups, sets = kernel_shape(call, w), call.attr_int("group", 1), call.attr_int("offset_group", 1)
    view = window(call, x.shape[2:], kernel)
    n, channels, *_ = x.shape
    taps, out = kernel[0] * kernel[1], offset.shape[2:]
    counted = tuple(
        (x.shape[2 + d] + view.pads[d] + view.pads[2 + d] - view.dilation[d] * (kernel[d] - 1) - 1) // view.stride[d]
        + 1
        for d in range(2)
    )
    if (
        groups < 1
        or sets < 1
        or channels % groups
        or channels % sets
        or w.shape[0] % groups
        or w.shape[1] * groups != channels
    ):
        raise call.fail(f"a filter {w.type} in {groups} groups, with {sets} sets of offsets, for {x.type}")
    if offset.shape != (n, sets * taps * 2, *counted):
        raise call.fail(f"offsets {offset.type} where [{n}, {sets * taps * 2}, {counted[0]}, {counted[1]}] is needed")
    if mask is not None and mask.shape != (n, sets * taps, *counted):
        raise call.fail(f"a mask {mask.type} where [{n}, {sets * taps}, {counted[0]}, {counted[1]}] is needed")
    _check_floats(call, x, w, offset)
    by_tap = call.reshape(offset, (n * sets, *kernel, 2, *out))
    positions = []
    for d in range(2):
        moved = element(call, by_tap, 3, d)
        taps_along = np.arange(kernel[d]) * view.dilation[d]
        windows = np.arange(out[d]) * view.stride[d] - view.pads[d]
        regular = taps_along.reshape((-1, 1) if d == 0 else (1, -1))[:, :, None, None] + windows.reshape(
            (-1, 1) if d == 0 else (1, -1)
        )
        positions.append(call.add("add", moved, constant(regular, x.dtype)))
    images = images_of(call, call.reshape(x, (n * sets, channels // sets, *x.shape[2:])))
    rows = sample(call, images, first_rows(n * sets, images.lengths, 5), positions, linear, True)
    if mask is not None:
        rows = call.add("mul", rows, column(call, call.reshape(mask, (n * sets, *kernel, *out))))
    # [N, sets, taps, pixels, channels of a set] -> [N, groups, channels of a group * taps, pixels]
    rows = call.transpose(call.reshape(rows, (n, sets, taps, out[0] * out[1], channels // sets)), (0, 1, 4, 2, 3))
    rows = call.reshape(rows, (n, groups, w.shape[1] * taps, out[0] * out[1]))
    made = call.add("matmul", call.reshape(w, (1, groups, w.shape[0] // groups, w.shape[1] * taps)), rows)
    made = call.reshape(made, (n, w.shape[0], *out))
    return made if bias is None else call.add("add", made, call.reshape(bias, (w.shape[0], 1, 1)))


HANDLERS: Mapping[str, Handler] = {"GridSample": grid_sample, "RoiAlign": roi_align, "DeformConv": deform_conv}
