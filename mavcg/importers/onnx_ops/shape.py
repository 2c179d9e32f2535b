"""Handlers of operators that move all elements (Reshape, Transpose, Concat, Tile), and of shapes and constants."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from mavcg.graph import DTYPES
from mavcg.importers import indices, movement
from mavcg.importers.call import known_at_build
from mavcg.importers.counted import is_counted, join_counted, run_shape
from mavcg.importers.onnx_narrow import tensor_constant
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_ops.images import from_nhwc, to_nhwc
from mavcg.importers.onnx_proto import dtype_of
from mavcg.importers.run_lengths import range_in_run
from mavcg.importers.run_shapes import expand_in_run, shape_of_reshape, tile_in_run
from mavcg.importers.value import Value, constant


@known_at_build("shape")
def reshape(call: OnnxCall) -> Results:
    """Import Reshape."""
    x = call.input(0)
    if call.input(1).array is None:
        given = call.in_run(1, "shape", shape_of_reshape, x, call.input(1))
    else:
        given = call.ints(1, "shape")
    required = given
    copied = () if call.attr_bool("allowzero") else tuple(i for i, n in enumerate(required) if n == 0)
    if x.count is not None and x.count.axis not in copied and -1 not in required:
        raise call.unsupported(
            f"shape {list(required)} of a tensor of which only a run decides the length of axis {x.count.axis}",
            "one with -1, or 0 for that axis",
        )
    if any(n < -1 for n in required) or required.count(-1) > 1:
        raise call.fail(f"shape {list(required)}; one entry may be -1, the others are lengths")
    if not call.attr_bool("allowzero"):
        if any(n == 0 and i >= x.rank for i, n in enumerate(required)):
            raise call.fail(f"shape {list(required)} copies a dimension that {x.type} does not have")
        required = tuple(x.shape[i] if n == 0 else n for i, n in enumerate(required))
    if -1 in required:
        others = math.prod(n for n in required if n != -1)
        if others == 0 or x.type.elements % others:
            raise call.fail(f"{x.type} cannot be reshaped to {list(required)}")
        free = required.index(-1)
        required = tuple(x.type.elements // others if n == -1 else n for n in required)
        made = call.reshape(x, required)
        if made.count is not None and made.count.axis not in (free, *copied):
            raise call.unsupported(
                f"shape {list(given)} of a tensor of which only a run decides the length of axis "
                f"{x.count.axis if x.count is not None else 0}",
                "one with -1, or 0 for that axis",
            )
        return made
    return call.reshape(x, required)


def flatten(call: OnnxCall) -> Results:
    """Import Flatten."""
    x, axis = call.input(0), call.attr_int("axis", 1)
    axis = axis if axis == x.rank else call.axis(axis, x.rank)
    return call.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@known_at_build("axes")
def squeeze(call: OnnxCall) -> Results:
    """Import Squeeze; without axes all dimensions of length 1 are removed."""
    x = call.input(0)
    given = call.maybe_ints(1, "axes") if call.version >= 13 else call.maybe_ints_attr("axes")
    if given is None:
        return call.reshape(x, [n for n in x.shape if n != 1])
    axes = call.axes(given, x.rank)
    if any(x.shape[a] != 1 for a in axes):
        raise call.fail(f"axes {list(axes)} of {x.type}; only dimensions of length 1 can be removed")
    return call.reshape(x, [n for i, n in enumerate(x.shape) if i not in axes])


@known_at_build("axes")
def unsqueeze(call: OnnxCall) -> Results:
    """Import Unsqueeze, whose axes are dimensions of the result."""
    x = call.input(0)
    given = call.ints(1, "axes") if call.version >= 13 else call.attr_ints("axes")
    rank = x.rank + len(given)
    axes = call.axes(given, rank)
    rest = iter(x.shape)
    return call.reshape(x, [1 if i in axes else next(rest) for i in range(rank)])


def transpose(call: OnnxCall) -> Results:
    """Import Transpose; without perm the dimensions are reversed."""
    x = call.input(0)
    perm = call.attr_ints("perm", tuple(reversed(range(x.rank))))
    if sorted(perm) != list(range(x.rank)):
        raise call.fail(f"perm {list(perm)} is not a permutation of the dimensions of {x.type}")
    return call.transpose(x, perm)


def concat(call: OnnxCall) -> Results:
    """Import Concat."""
    parts = call.all_inputs()
    axis = call.axis(call.attr_int("axis"), parts[0].rank)
    if len(parts) > 1 and any(is_counted(part, axis) for part in parts):
        return join_counted(call, parts, axis)
    return movement.join(call, parts, axis)


@known_at_build("shape")
def expand(call: OnnxCall) -> Results:
    """Import Expand, a broadcast in which either side may have dimensions of length 1."""
    x = call.input(0)
    if call.input(1).array is None:
        return call.in_run(1, "shape", expand_in_run, x, call.input(1))
    required = call.ints(1, "shape")
    try:
        shape = np.broadcast_shapes(x.shape, required)
    except ValueError as error:
        raise call.fail(f"{x.type} does not broadcast with {list(required)}") from error
    return x if shape == x.shape else call.add("broadcast_to", x, shape=shape)


@known_at_build("repeats")
def tile(call: OnnxCall) -> Results:
    """Import Tile."""
    x = call.input(0)
    if call.input(1).array is None:
        return call.in_run(1, "repeats", tile_in_run, x, call.input(1))
    repeats = call.ints(1, "repeats")
    if len(repeats) != x.rank or any(r < 0 for r in repeats):
        raise call.fail(f"repeats {list(repeats)} for {x.type}; a number of at least 0 for each dimension is needed")
    return movement.tile(call, x, repeats)


def depth_to_space(call: OnnxCall) -> Results:
    """Import DepthToSpace."""
    return _move_blocks(call, movement.depth_to_space)


def space_to_depth(call: OnnxCall) -> Results:
    """Import SpaceToDepth, the inverse of DepthToSpace in mode DCR or CRD."""
    return _move_blocks(call, movement.space_to_depth)


def _move_blocks(call: OnnxCall, move: Callable[[OnnxCall, Value, int, bool], Value]) -> Value:
    x, block, mode = call.input(0, rank=4), call.attr_int("blocksize"), call.attr_str("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise call.fail(f"mode {mode!r}; there are DCR and CRD")
    return from_nhwc(call, move(call, to_nhwc(call, x), block, mode == "CRD"), 2)


@known_at_build(result=True)
def shape_of(call: OnnxCall) -> Results:
    """Import Shape, whose result is known at import, unless only a run decides a length of its input."""
    x = call.input(0)
    start, end = (_clamp(call.attr_int(name, i), x.rank) for name, i in (("start", 0), ("end", x.rank)))
    if any(is_counted(x, axis) for axis in range(start, end)):
        return call.add("slice", run_shape(call, x), starts=(start,), stops=(end,), steps=(1,))
    return constant(np.array(x.shape[start:end], np.int64))


def _clamp(position: int, rank: int) -> int:
    return min(max(position + rank if position < 0 else position, 0), rank)


@known_at_build(result=True)
def size_of(call: OnnxCall) -> Results:
    """Import Size."""
    x = call.input(0)
    if x.count is None:
        return constant(np.array(x.type.elements, np.int64))
    others = x.type.elements // x.shape[x.count.axis]
    return call.add("mul", call.emitter.count_value(x.count), constant(np.int64(others)))


_CONSTANT_KINDS: Mapping[str, tuple[Callable[[OnnxCall, str], object], type[np.generic]]] = {
    "value_float": (OnnxCall.attr_float, np.float32),
    "value_int": (OnnxCall.attr_int, np.int64),
    "value_floats": (OnnxCall.attr_floats, np.float32),
    "value_ints": (OnnxCall.attr_ints, np.int64),
}


@known_at_build(result=True)
def constant_node(call: OnnxCall) -> Results:
    """Import Constant."""
    if "value" in call.attrs:
        return tensor_constant(call.attr_tensor("value"))
    for name, (read, dtype) in _CONSTANT_KINDS.items():
        if name in call.attrs:
            return constant(np.array(read(call, name), dtype))
    raise call.unsupported(f"attributes {', '.join(call.attrs) or 'none'}", "value, value_float(s), value_int(s)")


@known_at_build("shape", result=True)
def constant_of_shape(call: OnnxCall) -> Results:
    """Import ConstantOfShape."""
    value = call.attr_tensor("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise call.fail("attribute value is not a tensor with one element")
    if call.input(0).array is None:
        return call.in_run(0, "shape", expand_in_run, tensor_constant(value.reshape(())), call.input(0))
    shape = call.ints(0, "shape")
    if any(n < 0 for n in shape):
        raise call.fail(f"shape {list(shape)}; each entry must be at least 0")
    call.check_size(math.prod(shape), value.dtype.itemsize)
    # A broadcast view of one element: memory is allocated only when an operator reads it.
    return tensor_constant(np.broadcast_to(value.reshape(()), shape))


@known_at_build(result=True)
def eye_like(call: OnnxCall) -> Results:
    """Import EyeLike, which uses only the shape of its input."""
    x = call.input(0, rank=2)
    if x.count is not None:
        raise call.unsupported("a shape that only a run decides", "a fixed one")
    number = call.attr_int("dtype", 0)
    dtype = dtype_of(number, call.location) if number else x.dtype
    call.count_size(x.type.elements, 8)
    k = call.attr_int("k", 0)
    rows, columns = x.shape
    return constant(np.eye(rows, columns, min(max(k, -rows), columns)), dtype)


@known_at_build("start", "limit", "delta", result=True)
def arange(call: OnnxCall) -> Results:
    """Import Range. A run may bring start and limit if both have bounds."""
    names, values = ("start", "limit", "delta"), [call.input(i) for i in range(3)]
    of_run = [i for i in (0, 1) if values[i].array is None]
    if not of_run:
        return indices.known_range(call, *(call.array(i, name) for i, name in enumerate(names)))
    delta = call.array(2, "delta")
    if delta.size != 1 or delta.dtype != DTYPES[values[0].dtype]:
        raise call.fail(f"delta {delta.dtype}{list(delta.shape)} for {values[0].type}; scalars of one type are needed")
    step = delta.reshape(()).item()
    return call.in_run(of_run[-1], names[of_run[-1]], range_in_run, values[0], values[1], step)


HANDLERS: Mapping[str, Handler] = {
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Concat": concat,
    "Expand": expand,
    "Tile": tile,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "Shape": shape_of,
    "Size": size_of,
    "Constant": constant_node,
    "ConstantOfShape": constant_of_shape,
    "EyeLike": eye_like,
    "Range": arange,
}
