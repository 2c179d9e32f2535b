"""Handlers of operators in computations of shapes and weights, which are evaluated at import only.

All inputs must be known at import. Sizes are checked before anything is allocated.
"""

import math
from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES, Array
from mavcg.importers import indices
from mavcg.importers.call import known_at_build
from mavcg.importers.emitter import constant
from mavcg.importers.limits import LARGEST_TOP
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_ops.shape import count_size
from mavcg.importers.onnx_proto import dtype_of

LARGEST_KNOWN = 1 << 24  # maximum elements of an input or result
_PASS_STEPS = 10  # elementary steps per element of what takes a few passes


def _array(call: OnnxCall, i: int, label: str) -> Array:
    """Return a known input.

    Raises: MavcgError if it is not known or too large, or if all operators together take too many steps.
    """
    array = call.array(i, label)
    if array.size > LARGEST_KNOWN:
        raise call.unsupported(f"{label} with {array.size} elements", f"at most {LARGEST_KNOWN}")
    call.emitter.count_work(_PASS_STEPS * array.size, call.location)
    return array


@known_at_build("X", result=True)
def non_zero(call: OnnxCall) -> Results:
    """Import NonZero."""
    return constant(np.array(np.nonzero(np.atleast_1d(_array(call, 0, "X"))), np.int64))


@known_at_build(result=True)
def optional_has_element(call: OnnxCall) -> Results:
    """Import OptionalHasElement of a tensor, or of nothing."""
    return constant(np.array(call.maybe(0) is not None))


@known_at_build("depth")
def one_hot(call: OnnxCall) -> Results:
    """Import OneHot; a negative index counts from the end, and an index outside is nowhere."""
    numbers, depths, values = call.input(0), call.array(1, "depth"), call.input(2, rank=1)
    if depths.size != 1 or values.shape != (2,) or depths.dtype.kind not in "iuf":
        raise call.fail("depth and values; a number and a pair are needed")
    depth = int(depths.reshape(())) if np.isfinite(depths).all() else -1
    if depth < 1:
        raise call.fail(f"depth {depth}; at least 1 is needed")
    count_size(call, numbers.type.elements * depth, DTYPES[values.dtype].itemsize)
    axis = call.axis(call.attr_int("axis", -1), numbers.rank + 1)
    numbers = call.cast(numbers, "i64")
    negative = call.add("less", numbers, call.scalar(0, numbers))
    numbers = call.add("where", negative, call.add("add", numbers, call.scalar(depth, numbers)), numbers)
    column = call.reshape(numbers, (*numbers.shape[:axis], 1, *numbers.shape[axis:]))
    places = np.arange(depth).reshape([-1 if i == axis else 1 for i in range(numbers.rank + 1)])
    off, on = (call.add("slice", values, starts=(i,), stops=(i + 1,), steps=(1,)) for i in (0, 1))
    hot = call.add("equal", column, constant(places, "i64"))
    return call.add("where", hot, call.reshape(on, ()), call.reshape(off, ()))


@known_at_build("K")
def top_k(call: OnnxCall) -> Results:
    """Import TopK; equal elements are in order of their indices."""
    x = call.input(0, rank_min=1)
    count = call.ints(1, "K") if call.version >= 10 else (call.attr_int("k"),)
    axis = call.axis(call.attr_int("axis", -1), x.rank)
    if len(count) != 1 or not 0 <= count[0] <= x.shape[axis]:
        raise call.fail(f"K {list(count)} of {x.shape[axis]} elements")
    if not x.is_constant and count[0] > LARGEST_TOP:
        raise call.unsupported(f"K {count[0]} of computed data", f"at most {LARGEST_TOP}")
    best = call.add("arg_top", x, axis=axis, count=count[0], smallest=not call.attr_bool("largest", True))
    return indices.gather_elements(call, x, best, axis), best


@known_at_build(result=True)
def eye_like(call: OnnxCall) -> Results:
    """Import EyeLike, which uses only the shape of its input."""
    x = call.input(0, rank=2)
    number = call.attr_int("dtype", 0)
    dtype = dtype_of(number, call.location) if number else x.dtype
    count_size(call, x.type.elements, 8)
    k = call.attr_int("k", 0)
    rows, columns = x.shape
    return constant(np.eye(rows, columns, min(max(k, -rows), columns)), dtype)


@known_at_build("k")
def trilu(call: OnnxCall) -> Results:
    """Import Trilu, by a mask, so that its data may be computed."""
    x = call.input(0, rank_min=2)
    diagonals = call.maybe_ints(1, "k") or (0,)
    rows, columns = x.shape[-2:]
    k = min(max(diagonals[0], -rows - 1), columns + 1)
    count_size(call, rows * columns, 1)
    ones = np.ones((rows, columns), np.bool_)
    kept = np.triu(ones, k) if call.attr_bool("upper", True) else np.tril(ones, k)
    return call.add("where", constant(kept), x, constant(np.zeros((), DTYPES[x.dtype])))


def hardmax(call: OnnxCall) -> Results:
    """Import Hardmax: 1 at the first largest element along an axis (since opset 13), or along all axes from an axis
    on."""
    x = call.input(0, rank_min=1)
    axis = call.attr_int("axis", -1 if call.version >= 13 else 1)
    if call.version >= 13:
        axis = call.axis(axis, x.rank)
        rows = x
    else:
        at = axis if axis == x.rank else call.axis(axis, x.rank)
        rows, axis = call.reshape(x, (math.prod(x.shape[:at]), math.prod(x.shape[at:]))), 1
    best = call.add("arg_max", rows, axis=axis, keepdims=True)
    count = np.arange(rows.shape[axis]).reshape([-1 if i == axis else 1 for i in range(rows.rank)])
    return call.reshape(call.cast(call.add("equal", best, constant(count, "i64")), x.dtype), x.shape)


HANDLERS: Mapping[str, Handler] = {
    "NonZero": non_zero,
    "OneHot": one_hot,
    "OptionalHasElement": optional_has_element,
    "TopK": top_k,
    "EyeLike": eye_like,
    "Trilu": trilu,
    "Hardmax": hardmax,
}
