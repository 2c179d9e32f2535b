"""Handlers of operators that choose elements by a condition, a number or their order, and mark them."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mavcg.graph import DTYPES, Array
from mavcg.importers import indices
from mavcg.importers.call import known_at_build
from mavcg.importers.limits import LARGEST_TOP
from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.run_lengths import top_in_run
from mavcg.importers.value import constant


@known_at_build("sequence_lens")
def reverse_sequence(call: OnnxCall) -> Results:
    """Import ReverseSequence: the first elements along the time axis in reverse order, as many as known for a batch."""
    x, lengths = call.input(0, rank_min=2), call.ints(1, "sequence_lens")
    time, batch = call.attr_int("time_axis", 0), call.attr_int("batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise call.fail(f"time_axis {time} and batch_axis {batch}; they are 0 and 1, or 1 and 0")
    steps = x.shape[time]
    if len(lengths) != x.shape[batch] or not all(0 <= n <= steps for n in lengths):
        raise call.fail(f"sequence_lens {list(lengths)} of {x.shape[batch]} sequences of {steps}")
    order = np.tile(np.arange(steps), (len(lengths), 1))
    for row, length in zip(order, lengths, strict=True):
        row[:length] = row[:length][::-1]
    rows = order * x.shape[1] + np.arange(len(lengths))[:, None] if batch else order + _firsts(lengths, steps)
    flat = call.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
    chosen = rows.T if batch else rows
    return indices.gather_along(call, flat, constant(np.ascontiguousarray(chosen, np.int64)), 0)


def _firsts(lengths: Sequence[int], steps: int) -> Array:
    """Return the row of each sequence's first element, where sequences lie one after the other: [sequences, 1]."""
    return np.arange(len(lengths))[:, None] * steps


@known_at_build("depth")
def one_hot(call: OnnxCall) -> Results:
    """Import OneHot; a negative index counts from the end, and an index outside is nowhere."""
    numbers, depths, values = call.input(0), call.array(1, "depth"), call.input(2, rank=1)
    if depths.size != 1 or values.shape != (2,) or depths.dtype.kind not in "iuf":
        raise call.fail("depth and values; a number and a pair are needed")
    depth = int(depths.reshape(())) if np.isfinite(depths).all() else -1
    if depth < 1:
        raise call.fail(f"depth {depth}; at least 1 is needed")
    call.count_size(depth, 8)
    axis = call.axis(call.attr_int("axis", -1), numbers.rank + 1)
    numbers = call.cast(numbers, "i64")
    negative = call.add("less", numbers, call.scalar(0, numbers))
    numbers = call.add("where", negative, call.add("add", numbers, call.scalar(depth, numbers)), numbers)
    column = call.reshape(numbers, (*numbers.shape[:axis], 1, *numbers.shape[axis:]))
    places = np.arange(depth).reshape([-1 if i == axis else 1 for i in range(numbers.rank + 1)])
    off, on = (cut(call, values, {0: (i, i + 1, 1)}) for i in (0, 1))
    hot = call.add("equal", column, constant(places, "i64"))
    return call.add("where", hot, call.reshape(on, ()), call.reshape(off, ()))


def top_k(call: OnnxCall) -> Results:
    """Import TopK; equal elements are in order of their indices. A run may bring K."""
    x = call.input(0, rank_min=1)
    if call.version >= 10 and call.input(1).array is None:
        axis = call.axis(call.attr_int("axis", -1), x.rank)
        largest = call.attr_bool("largest", True)
        return call.in_run(1, "K", top_in_run, x, axis, call.input(1), largest, LARGEST_TOP)
    count = call.ints(1, "K") if call.version >= 10 else (call.attr_int("k"),)
    axis = call.axis(call.attr_int("axis", -1), x.rank)
    if len(count) != 1 or not 0 <= count[0] <= x.shape[axis]:
        raise call.fail(f"K {list(count)} of {x.shape[axis]} elements")
    if not x.is_constant and count[0] > LARGEST_TOP:
        raise call.unsupported(f"K {count[0]} of computed data", f"at most {LARGEST_TOP}")
    best = call.add("arg_top", x, axis=axis, count=count[0], smallest=not call.attr_bool("largest", True))
    return indices.gather_elements(call, x, best, axis), best


@known_at_build("k")
def trilu(call: OnnxCall) -> Results:
    """Import Trilu, by a mask, so that its data may be computed."""
    x = call.input(0, rank_min=2)
    diagonals = call.maybe_ints(1, "k") or (0,)
    rows, columns = x.shape[-2:]
    k = min(max(diagonals[0], -rows - 1), columns + 1)
    call.count_size(rows * columns, 1)
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
    "Hardmax": hardmax,
    "OneHot": one_hot,
    "ReverseSequence": reverse_sequence,
    "TopK": top_k,
    "Trilu": trilu,
}
