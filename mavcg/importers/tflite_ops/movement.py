"""Handlers of operators that only move elements; 8-bit integers pass unchanged."""

from collections.abc import Mapping, Sequence

import numpy as np

from mavcg.importers import indices, movement
from mavcg.importers.call import known_at_build
from mavcg.importers.counted import run_shape
from mavcg.importers.movement import join, stack
from mavcg.importers.run_lengths import pads_in_run, range_in_run
from mavcg.importers.run_numbers import WHOLE
from mavcg.importers.run_shapes import expand_in_run, shape_of_reshape, tile_in_run
from mavcg.importers.tflite_ops.call import Handler, Results, TfliteCall
from mavcg.importers.value import Value, constant

_REFLECT, _SYMMETRIC = 0, 1  # schema.fbs, MirrorPadMode


@known_at_build("shape")
def reshape(call: TfliteCall) -> Results:
    """Import RESHAPE to the shape in input 1 or in the option NewShape; one length may be -1, to be inferred."""
    x = call.input(0)
    second = call.maybe(1)
    if second is not None and second.rank == 1:
        known = second.array is not None
        required = call.ints(1, "shape") if known else call.in_run(1, "shape", shape_of_reshape, x, second)
    else:
        required = tuple(call.option("NewShape", ()))
        if required == (0,):
            required = ()  # old files write the shape of a scalar as (0,)
    return call.reshape(x, _without_hole(call, required, x))


def _without_hole(call: TfliteCall, required: Sequence[int], x: Value) -> tuple[int, ...]:
    known = int(np.prod([n for n in required if n != -1], dtype=object))
    holes = sum(n == -1 for n in required)
    if holes > 1 or any(n < -1 for n in required) or (holes and (not known or x.type.elements % known)):
        raise call.fail(f"{x.type} does not take the shape {list(required)}")
    return call.check_shape([x.type.elements // known if n == -1 else n for n in required], x)


def squeeze(call: TfliteCall) -> Results:
    """Import SQUEEZE: remove the given dimensions, or all dimensions of length 1."""
    x = call.input(0)
    named = {call.axis(a, x.rank, "SqueezeDims") for a in call.option("SqueezeDims", ())}
    for axis in named:
        if x.shape[axis] != 1:
            raise call.fail(f"dimension {axis} of {x.type} is not 1")
    gone = named or {i for i, n in enumerate(x.shape) if n == 1}
    return call.reshape(x, [n for i, n in enumerate(x.shape) if i not in gone])


@known_at_build("axis")
def expand_dims(call: TfliteCall) -> Results:
    """Import EXPAND_DIMS."""
    x = call.input(0)
    (axis,) = call.ints(1, "axis", 1)
    at = call.axis(axis, x.rank + 1)
    return call.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


@known_at_build("perm")
def transpose(call: TfliteCall) -> Results:
    """Import TRANSPOSE."""
    x = call.input(0)
    perm = tuple(call.axis(a, x.rank, "perm") for a in call.ints(1, "perm", x.rank))
    return call.transpose(x, perm)


def concatenation(call: TfliteCall) -> Results:
    """Import CONCATENATION; 8-bit integers are moved unchanged if all inputs and the result share a quantization."""
    inputs = call.all_inputs()
    parts = [call.operand(i) for i in inputs] if call.has_activation else list(call.stored_inputs(*inputs))
    axis = call.axis(int(call.option("Axis")), parts[0].rank)
    return call.activate(join(call, parts, axis))


def pack(call: TfliteCall) -> Results:
    """Import PACK: stack the inputs along a new dimension."""
    parts = call.stored_inputs(*call.all_inputs())
    return stack(call, parts, call.axis(int(call.option("Axis", 0)), parts[0].rank + 1))


@known_at_build("paddings")
def pad(call: TfliteCall) -> Results:
    """Import PAD with zeros: the zero point if the tensor is quantized."""
    return _pad(call, call.input(0), call.zero_of(0))


@known_at_build("paddings", "constant_values")
def pad_v2(call: TfliteCall) -> Results:
    """Import PADV2: pad with the value of input 2."""
    x, value = call.stored_inputs(0, 2)
    if value.array is None:
        raise call.not_known(2, "constant_values")
    if value.array.size != 1:
        raise call.fail("its input constant_values is not one number")
    return _pad(call, x, float(value.array.reshape(())))


def _pad(call: TfliteCall, x: Value, filler: float) -> Value:
    """Return a tensor padded by a number, also by paddings that a run brings if they have bounds."""
    paddings = call.input(1)
    if paddings.array is not None and x.count is None:
        before, after = _paddings(call, x.rank)
        return call.pad(x, before, after, filler)
    if paddings.dtype not in WHOLE or paddings.shape != (x.rank, 2):
        raise call.fail(f"paddings {paddings.type} of {x.type}")
    given = range(x.rank), call.transpose(paddings, (1, 0)), "constant", call.scalar(filler, x)
    if paddings.array is not None:
        x, starts, ends = pads_in_run(call, x, *given)
    else:
        x, starts, ends = call.in_run(1, "paddings", pads_in_run, x, *given)
    return call.pad(x, starts, ends, filler)


def _paddings(call: TfliteCall, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    pairs = call.ints(1, "paddings", 2 * rank)
    return pairs[::2], pairs[1::2]


@known_at_build("paddings")
def mirror_pad(call: TfliteCall) -> Results:
    """Import MIRROR_PAD: REFLECT omits the border element; SYMMETRIC repeats it (a gather by a table of indices)."""
    x = call.input(0)
    before, after = _paddings(call, x.rank)
    mode = call.option("Mode", _REFLECT)
    if mode == _REFLECT:
        return call.pad(x, before, after, 0.0, "reflect")
    if mode != _SYMMETRIC:
        raise call.fail(f"unknown mode {mode}; known: REFLECT (0), SYMMETRIC (1)")
    for axis, (length, b, a) in enumerate(zip(x.shape, before, after, strict=True)):
        if not 0 <= b <= length or not 0 <= a <= length:
            raise call.fail(f"paddings of {b} and {a} are not 0 to {length}, the length of dimension {axis}")
        if a or b:
            # Before the table of indices is made, which may be larger than both tensors.
            call.check_shape([*x.shape[:axis], b + length + a, *x.shape[axis + 1 :]], x)
            call.emitter.count_bytes(4 * (b + length + a), call.location)
            indices = np.pad(np.arange(length, dtype=np.int32), (b, a), "symmetric")
            x = call.add("gather", x, constant(indices, stem="indices"), axis=axis)
    return x


@known_at_build("multiples")
def tile(call: TfliteCall) -> Results:
    """Import TILE."""
    x = call.input(0)
    if call.input(1).array is None:
        return call.in_run(1, "multiples", tile_in_run, x, call.input(1))
    times = call.ints(1, "multiples", x.rank)
    call.check_shape([n * t for n, t in zip(x.shape, times, strict=True)], x)
    return movement.tile(call, x, times)


@known_at_build("shape")
def broadcast_to(call: TfliteCall) -> Results:
    """Import BROADCAST_TO."""
    x = call.input(0)
    if call.input(1).array is None:
        return call.in_run(1, "shape", expand_in_run, x, call.input(1))
    shape = call.check_shape(call.ints(1, "shape"), x)
    return x if shape == x.shape else call.add("broadcast_to", x, shape=shape)


@known_at_build("dims")
def fill(call: TfliteCall) -> Results:
    """Import FILL: a tensor of the shape in input 0, filled with the scalar in input 1."""
    value = call.input(1)
    if value.type.elements != 1:
        raise call.fail(f"its value is {value.type}; one number is needed")
    if call.input(0).array is None:
        return call.in_run(0, "dims", expand_in_run, call.reshape(value, ()), call.input(0))
    return call.add("broadcast_to", call.reshape(value, ()), shape=call.check_shape(call.ints(0, "dims"), value))


@known_at_build(result=True)
def shape(call: TfliteCall) -> Results:
    """Import SHAPE, whose result is known at import, unless only a run decides a length of its input."""
    x, dtype = call.input(0), call.results[0].dtype or "i32"
    return constant(np.array(x.shape), dtype) if x.count is None else call.cast(run_shape(call, x), dtype)


def densify(call: TfliteCall) -> Results:
    """Import DENSIFY as its input: sparse constants were made dense when they were read."""
    return call.input(0)


@known_at_build(result=True)
def rank(call: TfliteCall) -> Results:
    """Import RANK as a constant: ranks are known at import."""
    return constant(np.array(call.input(0).rank), "i32")


@known_at_build("start", "limit", "delta", result=True)
def range_(call: TfliteCall) -> Results:
    """Import RANGE: start, start + delta, .. before limit. A run may bring start and limit if both have bounds."""
    names = ("start", "limit", "delta")
    of_run = [i for i in (0, 1) if call.input(i).array is None]
    delta = call.array(2, "delta")
    if not of_run:
        return indices.known_range(call, call.array(0, "start"), call.array(1, "limit"), delta)
    step = delta.reshape(-1)[:1].sum().item()
    return call.in_run(of_run[-1], names[of_run[-1]], range_in_run, call.input(0), call.input(1), step)


HANDLERS: Mapping[str, Handler] = {
    "BROADCAST_TO": broadcast_to,
    "CONCATENATION": concatenation,
    "DENSIFY": densify,
    "EXPAND_DIMS": expand_dims,
    "FILL": fill,
    "MIRROR_PAD": mirror_pad,
    "PACK": pack,
    "PAD": pad,
    "PADV2": pad_v2,
    "RANGE": range_,
    "RANK": rank,
    "RESHAPE": reshape,
    "SHAPE": shape,
    "SQUEEZE": squeeze,
    "TILE": tile,
    "TRANSPOSE": transpose,
}
