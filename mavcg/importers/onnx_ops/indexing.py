"""Handlers of Slice, Split and Pad, and of operators that read and write by indices, known at import or computed."""

from collections.abc import Mapping, Sequence

import numpy as np

from mavcg.importers import indices
from mavcg.importers.call import known_at_build
from mavcg.importers.counted import cut_counted, is_counted
from mavcg.importers.limits import NeedsConstant, UnsupportedOp
from mavcg.importers.movement import cut, join
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.run_lengths import pads_in_run
from mavcg.importers.run_numbers import WHOLE
from mavcg.importers.run_slices import cut_in_run
from mavcg.importers.value import Value

_MODES = ("constant", "edge", "reflect", "wrap")
_REDUCTIONS = ("none", "add", "mul", "max", "min")


def gather(call: OnnxCall) -> Results:
    """Import Gather."""
    x = call.input(0, rank_min=1)
    return indices.gather_found(call, x, call.input(1), call.axis(call.attr_int("axis", 0), x.rank))


def gather_elements(call: OnnxCall) -> Results:
    """Import GatherElements."""
    x = call.input(0, rank_min=1)
    return indices.gather_elements(call, x, call.input(1), call.axis(call.attr_int("axis", 0), x.rank))


def gather_nd(call: OnnxCall) -> Results:
    """Import GatherND."""
    return indices.gather_nd(call, call.input(0, rank_min=1), call.input(1), call.attr_int("batch_dims", 0))


def scatter_elements(call: OnnxCall) -> Results:
    """Import ScatterElements, and Scatter, its name before opset 11. The last update of equal indices wins."""
    x = call.input(0, rank_min=1)
    axis = call.axis(call.attr_int("axis", 0), x.rank)
    return indices.scatter_elements(call, x, call.input(1), call.input(2), axis, _reduction(call))


def scatter_nd(call: OnnxCall) -> Results:
    """Import ScatterND. The last update of equal indices wins."""
    return indices.scatter_nd(call, call.input(0, rank_min=1), call.input(1), call.input(2), _reduction(call))


def _reduction(call: OnnxCall) -> str:
    reduction = call.attr_str("reduction", "none")
    if reduction not in _REDUCTIONS:
        raise call.fail(f"reduction {reduction!r}; there are {', '.join(_REDUCTIONS)}")
    return reduction


_GATHERING: Mapping[str, Handler] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}


# Ends of Slice that mean the whole rest in either direction: the standard recommends them for a positive step,
# and onnxruntime reads them so for a negative one too.
_TO_THE_END = ((1 << 31) - 1, (1 << 63) - 1)


@known_at_build("axes", "steps")
def slice_(call: OnnxCall) -> Results:
    """Import Slice, with attributes up to opset 9, inputs since opset 10."""
    x = call.input(0)
    if call.version < 10:
        starts, ends, axes, steps = call.attr_ints("starts"), call.attr_ints("ends"), call.maybe_ints_attr("axes"), None
    else:
        axes, steps = call.maybe_ints(3, "axes"), call.maybe_ints(4, "steps")
        if call.input(1).array is None or call.input(2).array is None:
            return _slice_of_run(call, x, axes, steps)
        starts, ends = call.ints(1, "starts"), call.ints(2, "ends")
    axes = call.axes(axes if axes is not None else range(len(starts)), x.rank)
    steps = steps if steps is not None else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise call.fail(
            f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes, {len(steps)} steps; as many of each are needed"
        )
    if 0 in steps:
        raise call.fail("a step of 0")
    for i, axis in enumerate(axes):
        if is_counted(x, axis) and steps[i] == 1:
            x = cut_counted(call, x, axis, starts[i], ends[i])
            rest = [k for k in range(len(axes)) if k != i]
            starts, ends, axes, steps = (tuple(v[k] for k in rest) for v in (starts, ends, axes, steps))
            break
    return cut(
        call,
        x,
        {
            axis: _inside(x.shape[axis], start, end, step)
            for axis, start, end, step in zip(axes, starts, ends, steps, strict=True)
        },
    )


def _slice_of_run(call: OnnxCall, x: Value, axes: Sequence[int] | None, steps: Sequence[int] | None) -> Value:
    """Return a Slice of positions that a run brings. Raises: NeedsConstant where they have to be known."""
    starts, ends = call.input(1), call.input(2)
    axes = call.axes(axes if axes is not None else range(starts.type.elements), x.rank)
    try:
        if starts.count is not None or ends.count is not None or set(steps or (1,)) != {1}:
            raise call.unsupported(f"starts and ends of the run with steps {list(steps or ())}", "steps of 1")
        return cut_in_run(call, x, axes, starts, ends)
    except UnsupportedOp as error:
        raise NeedsConstant(str(error), call.names[1 if starts.array is None else 2]) from error


def _inside(length: int, start: int, end: int, step: int) -> tuple[int, int, int]:
    """Return Slice's (start, stop, step) in elements of an axis; a stop of -1 is before the first element.

    A start outside of the axis becomes its first or last element, also for a negative step, unlike in Python's slices.
    """
    first = start + length if start < 0 else start
    last = end + length if end < 0 else end
    if step > 0:
        return min(max(first, 0), length), min(max(last, 0), length), step
    if end in _TO_THE_END:
        last = -1
    return min(max(first, 0), length - 1), min(max(last, -1), length), step


@known_at_build("split")
def split(call: OnnxCall) -> Results:
    """Import Split, with lengths as an attribute (up to opset 12) or an input, or a number of nearly equal parts."""
    x = call.input(0, rank_min=1)
    axis = call.axis(call.attr_int("axis", 0), x.rank)
    length, parts = x.shape[axis], len(call.required)
    lengths = call.maybe_ints(1, "split") if call.version >= 13 else call.maybe_ints_attr("split")
    if lengths is None:
        count = call.attr_int("num_outputs", parts)
        if count != parts:
            raise call.fail(f"num_outputs is {count}; it has {parts} outputs")
        part_length = -(-length // parts)
        if call.version < 18 and length % parts:
            raise call.fail(f"{length} elements cannot be cut into {parts} equal parts")
        lengths = tuple(max(min(part_length, length - i * part_length), 0) for i in range(parts))
    if len(lengths) != parts or sum(lengths) != length or any(n < 0 for n in lengths):
        raise call.fail(f"split {list(lengths)} of {length} elements into {parts} outputs")
    ends = np.cumsum(lengths).tolist()
    return tuple(
        cut(call, x, {axis: (end - n, end, 1)}) if required else None
        for n, end, required in zip(lengths, ends, call.required, strict=True)
    )


@known_at_build("pads", "constant_value", "axes")
def pad(call: OnnxCall) -> Results:
    """Import Pad, with attributes up to opset 10, inputs since opset 11. A negative pad removes elements."""
    x = call.input(0)
    mode = call.attr_str("mode", "constant")
    if call.version < 11:
        pads, value, axes = call.attr_ints("pads"), call.attr_float("value", 0.0), tuple(range(x.rank))
    else:
        given = call.maybe_ints(3, "axes")
        axes = call.axes(given, x.rank) if given is not None else tuple(range(x.rank))
        if call.input(1).array is None or x.count is not None:
            return _pad_in_run(call, x, axes, mode)
        pads, value = call.ints(1, "pads"), _pad_value(call)
    if len(pads) != 2 * len(axes):
        raise call.fail(f"{len(pads)} pads where {2 * len(axes)} are needed")
    before, after = [0] * x.rank, [0] * x.rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[len(axes) + i]
    return _pad(call, x, before, after, mode, value)


def _pad_in_run(call: OnnxCall, x: Value, axes: Sequence[int], mode: str) -> Value:
    """Return a Pad of numbers that a run brings, or of an axis of which it decides the length."""
    pads, value = call.input(1), _pad_value(call)
    if mode not in _MODES or pads.type.elements != 2 * len(axes) or pads.dtype not in WHOLE:
        raise call.fail(f"mode {mode!r} and pads {pads.type} for {len(axes)} axes")
    filler = call.scalar(value, x) if mode == "constant" else None
    if pads.array is not None:
        x, before, after = pads_in_run(call, x, axes, pads, mode, filler)
    else:
        x, before, after = call.in_run(1, "pads", pads_in_run, x, axes, pads, mode, filler)
    return _pad(call, x, before, after, mode, value)


def _pad(call: OnnxCall, x: Value, before: Sequence[int], after: Sequence[int], mode: str, value: float) -> Value:
    """Return a tensor with these numbers of elements before and after those of each axis."""
    for axis, n in enumerate(x.shape):
        if min(before[axis], 0) + min(after[axis], 0) + n < 0:
            raise call.fail(f"pads {before[axis]} and {after[axis]} remove more than the {n} elements of axis {axis}")
    x = cut(
        call,
        x,
        {
            a: (-min(before[a], 0), n + min(after[a], 0), 1)
            for a, n in enumerate(x.shape)
            if before[a] < 0 or after[a] < 0
        },
    )
    before, after = [max(p, 0) for p in before], [max(p, 0) for p in after]
    if not any(before) and not any(after):
        return x
    if mode == "wrap":
        return _wrap_indices(call, x, before, after)
    if mode not in _MODES:
        raise call.fail(f"mode {mode!r}; there are {', '.join(_MODES)}")
    if x.dtype == "bool" and mode == "constant":
        return call.cast(
            call.add("pad", call.cast(x, "u8"), before=before, after=after, mode=mode, value=float(value != 0)), "bool"
        )
    return call.add("pad", x, before=before, after=after, mode=mode, value=value if mode == "constant" else 0.0)


def _pad_value(call: OnnxCall) -> float:
    array = call.maybe_array(2, "constant_value")
    if array is None or array.size == 0:
        return 0.0
    if array.size != 1:
        raise call.fail("its input constant_value has more than one element")
    value = array.reshape(()).item()
    if float(value) != value and value == value:
        raise call.unsupported(f"constant_value {value}", "values that a float can hold exactly")
    return float(value)


def _wrap_indices(call: OnnxCall, x: Value, before: Sequence[int], after: Sequence[int]) -> Value:
    for axis in range(x.rank):
        n, first, last = x.shape[axis], before[axis], after[axis]
        if max(first, last) > n:
            raise call.unsupported(
                f"wrap by {max(first, last)} where axis {axis} has {n} elements", "at most once around"
            )
        parts = [cut(call, x, {axis: (n - first, n, 1)})] if first else []
        parts += [x, *([cut(call, x, {axis: (0, last, 1)})] if last else [])]
        x = join(call, parts, axis)
    return x


_INDEXING: Mapping[str, Handler] = {"Slice": slice_, "Split": split, "Pad": pad}

HANDLERS: Mapping[str, Handler] = {**_GATHERING, **_INDEXING}
