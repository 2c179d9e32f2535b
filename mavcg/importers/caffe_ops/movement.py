"""Handlers of layers that move elements, and of reductions.

Source of what they compute: the layers' files in BVLC's Caffe (src/caffe/layers).
"""

import math
from collections.abc import Mapping, Sequence

from mavcg.importers.caffe_ops.call import CaffeCall, LayerType, Results
from mavcg.importers.limits import MOST_INTS
from mavcg.importers.movement import cut
from mavcg.importers.value import Value


def _axis(call: CaffeCall, rank: int, old: str) -> int:
    """Return the axis of Concat or Slice; old: the parameter's former name."""
    if call.options.has(old) and call.options.has("axis"):
        raise call.fail(f"axis and {old}; use one of them")
    return call.axis_option(rank, 1, old if call.options.has(old) else "axis")


def concat(call: CaffeCall) -> Results:
    """Import Concat."""
    values = call.values()
    return call.add("concat", *values, axis=_axis(call, values[0].rank, "concat_dim"))


def slice_(call: CaffeCall) -> Results:
    """Import Slice, at slice points or into equal parts."""
    x = call.input(0, rank_min=1)
    axis = _axis(call, x.rank, "slice_dim")
    points, length = call.options.integers("slice_point"), x.shape[axis]
    if not points and length % call.tops:
        raise call.fail(f"{length} elements cannot be cut into {call.tops} equal parts")
    if points and len(points) != call.tops - 1:
        raise call.fail(f"{len(points)} slice points for {call.tops} tops; one less than tops is needed")
    if not points:
        points = tuple(length // call.tops * i for i in range(1, call.tops))
    bounds = (0, *points, length)
    if any(a >= b for a, b in zip(bounds, bounds[1:], strict=False)):
        raise call.fail(f"slice points {list(points)[:MOST_INTS]} in {length} elements; they must increase within it")
    return tuple(cut(call, x, {axis: (a, b, 1)}) for a, b in zip(bounds, bounds[1:], strict=False))


def flatten(call: CaffeCall) -> Results:
    """Import Flatten: the dimensions axis .. end_axis become one."""
    x = call.input(0, rank_min=1)
    start, end = call.axis_option(x.rank, 1 if x.rank > 1 else 0), call.axis_option(x.rank, -1, "end_axis")
    if end < start:
        raise call.fail(f"end_axis {end} before axis {start}")
    return call.reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


def reshape(call: CaffeCall) -> Results:
    """Import Reshape of num_axes dimensions from an axis on: 0 copies a length, one -1 is inferred."""
    x = call.input(0)
    axis = call.options.integer("axis", 0)
    first = axis if axis >= 0 else x.rank + axis + 1
    if not 0 <= first <= x.rank:
        raise call.fail(f"axis {axis} where a tensor has {x.rank} dimensions")
    axes = call.options.integer("num_axes", -1)
    last = x.rank if axes == -1 else first + axes
    if not first <= last <= x.rank:
        raise call.fail(f"num_axes {axes} from axis {first} on where a tensor has {x.rank} dimensions")
    dims = call.options.block("shape").integers("dim")
    if len(dims) > MOST_INTS or any(d < -1 for d in dims) or dims.count(-1) > 1:
        raise call.fail(f"shape {list(dims)[:MOST_INTS]}; 0 copies a length, -1 may be there once")
    made = []
    for i, dim in enumerate(dims):
        if dim == 0 and first + i >= x.rank:
            raise call.fail(f"dim {i} is 0, which copies a length, and {x.type} has no such dimension")
        made.append(x.shape[first + i] if dim == 0 else dim)
    if -1 in made:
        others = -math.prod(made) * math.prod(x.shape[:first]) * math.prod(x.shape[last:])
        if not others or x.type.elements % others:
            raise call.fail(f"{x.type} cannot be reshaped to {list(dims)}: -1 cannot be inferred")
        made[made.index(-1)] = x.type.elements // others
    return call.reshape(x, (*x.shape[:first], *made, *x.shape[last:]))


def crop(call: CaffeCall) -> Results:
    """Import Crop: the first bottom is cut, at offsets, to the second's shape along the axes from `axis` on."""
    x, like = call.input(0), call.input(1)
    axis = call.axis_option(max(x.rank, 1), 2 if x.rank > 2 else 0)
    offsets = call.options.integers("offset") or (0,)
    if like.rank != x.rank or len(offsets) not in (1, x.rank - axis):
        raise call.fail(f"{len(offsets)} offsets for {x.type} cut like {like.type} from axis {axis} on")
    offsets = offsets * (x.rank - axis) if len(offsets) == 1 else offsets
    ranges = {}
    for i, offset in enumerate(offsets, axis):
        if not 0 <= offset <= x.shape[i] - like.shape[i]:
            raise call.fail(f"{like.shape[i]} elements from {offset} on along axis {i} of {x.type}")
        ranges[i] = (offset, offset + like.shape[i], 1)
    return cut(call, x, ranges)


def tile(call: CaffeCall) -> Results:
    """Import Tile: repetition along an axis."""
    x = call.input(0, rank_min=1)
    axis = call.axis_option(x.rank, 1 if x.rank > 1 else 0)
    if not call.options.has("tiles"):
        raise call.fail("tiles is missing")
    tiles = call.at_least(1, "tiles", call.options.integer("tiles", 1))
    before, after = x.shape[:axis], x.shape[axis:]
    shape = call.check_shape((*before, tiles, *after), x)
    wide = call.add("broadcast_to", call.reshape(x, (*before, 1, *after)), shape=shape)
    return call.reshape(wide, (*before, tiles * after[0], *after[1:]))


def reduction(call: CaffeCall) -> Results:
    """Import Reduction of all dimensions from an axis on: coeff times sum, sum of absolute values or squares, or
    mean."""
    x = call.input(0, rank_min=1)
    axis = call.axis_option(x.rank, 0)
    names = ("SUM", "ASUM", "SUMSQ", "MEAN")
    operation = call.options.choice("operation", ("", *names)) or "SUM"  # operations are numbered from 1
    if operation == "ASUM":
        x = call.add("abs", x)
    elif operation == "SUMSQ":
        x = call.add("mul", x, x)
    op = "reduce_mean" if operation == "MEAN" else "reduce_sum"
    made = call.add(op, x, axes=tuple(range(axis, x.rank)), keepdims=False)
    return call.linear(made, call.options.number("coeff", 1.0), 0.0)


def arg_max(call: CaffeCall) -> Results:
    """Import ArgMax: position (f32), value, or both, of the largest element; the last of equal elements counts."""
    x = call.input(0, rank_min=1)
    if call.options.integer("top_k", 1) != 1:
        raise call.unsupported(f"top_k {call.options.integer('top_k', 1)}", "1")
    values = call.options.boolean("out_max_val", False)
    if call.options.has("axis"):
        return _largest(call, x, call.axis_option(x.rank, 0), values)
    rows = call.reshape(x, (x.shape[0], math.prod(x.shape[1:])))
    parts: Sequence[Value] = [_largest(call, rows, 1, False)]
    if values:
        parts = [*parts, _largest(call, rows, 1, True)]
    made = call.add("concat", *parts, axis=1) if values else parts[0]
    return call.reshape(made, (x.shape[0], len(parts), *(1,) * (max(x.rank, 3) - 2)))


def _largest(call: CaffeCall, x: Value, axis: int, values: bool) -> Value:
    if values:
        return call.add("reduce_max", x, axes=(axis,), keepdims=True)
    return call.cast(call.add("arg_max", x, axis=axis, last=True), "f32")


LAYERS: Mapping[str, LayerType] = {
    "ArgMax": LayerType(arg_max, "argmax_param", ("out_max_val", "top_k", "axis")),
    "Concat": LayerType(concat, "concat_param", ("axis", "concat_dim")),
    "Crop": LayerType(crop, "crop_param", ("axis", "offset")),
    "Flatten": LayerType(flatten, "flatten_param", ("axis", "end_axis")),
    "Reduction": LayerType(reduction, "reduction_param", ("operation", "axis", "coeff")),
    "Reshape": LayerType(reshape, "reshape_param", ("shape", "axis", "num_axes")),
    "Slice": LayerType(slice_, "slice_param", ("axis", "slice_point", "slice_dim")),
    "Tile": LayerType(tile, "tile_param", ("axis", "tiles")),
}
