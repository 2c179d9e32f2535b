"""Handlers of operators that only move elements; 8-bit integers pass unchanged."""

from collections.abc import Mapping, Sequence

import numpy as np

from mavcg.importers import indices, movement
from mavcg.importers.call import known_at_build
from mavcg.importers.movement import cut, join, split_axis, stack
from mavcg.importers.run_slices import element_of, rest, terms_of, window
from mavcg.importers.tflite_ops.call import Handler, Results, TfliteCall
from mavcg.importers.value import Value, constant

_REFLECT, _SYMMETRIC = 0, 1  # schema.fbs, MirrorPadMode


@known_at_build("shape")
def reshape(call: TfliteCall) -> Results:
    """Import RESHAPE to the shape in input 1 or in the option NewShape; one length may be -1, to be inferred."""
    x = call.input(0)
    second = call.maybe(1)
    if second is not None and second.rank == 1:
        required = call.ints(1, "shape")
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


def unpack(call: TfliteCall) -> Results:
    """Import UNPACK: split along a dimension into results without it, one for each index."""
    x = call.input(0, rank_min=1)
    axis = call.axis(int(call.option("Axis", 0)), x.rank)
    if x.shape[axis] != len(call.results):
        raise call.fail(f"dimension {axis} of {x.type} does not make {len(call.results)} results")
    parts = split_axis(call, x, axis, [1] * len(call.results))
    return tuple(call.reshape(p, (*x.shape[:axis], *x.shape[axis + 1 :])) for p in parts)


@known_at_build("axis")
def split(call: TfliteCall) -> Results:
    """Import SPLIT: cut a dimension into equal parts."""
    (axis,) = call.ints(0, "axis", 1)
    x = call.input(1)
    at, count = call.axis(axis, x.rank), len(call.results)
    if x.shape[at] % count:
        raise call.fail(f"dimension {at} of {x.type} does not divide into {count} equal parts")
    return split_axis(call, x, at, [x.shape[at] // count] * count)


@known_at_build("size_splits", "axis")
def split_v(call: TfliteCall) -> Results:
    """Import SPLIT_V: cut a dimension into parts of given lengths; one length may be -1, to be inferred."""
    x = call.input(0)
    lengths = list(call.ints(1, "size_splits", len(call.results)))
    (axis,) = call.ints(2, "axis", 1)
    at = call.axis(axis, x.rank)
    if lengths.count(-1) == 1:
        rest = x.shape[at] - sum(n for n in lengths if n != -1)
        lengths = [rest if n == -1 else n for n in lengths]
    if any(n < 0 for n in lengths) or sum(lengths) != x.shape[at]:
        raise call.fail(f"parts of {lengths} do not make dimension {at} of {x.type}")
    return split_axis(call, x, at, lengths)


@known_at_build("size")
def slice_(call: TfliteCall) -> Results:
    """Import SLICE: `size` elements from `begin` in each dimension; a size of -1 means all up to the end."""
    x = call.input(0)
    if call.input(1).array is None:
        return _windows_of_run(call, x, call.input(1), call.ints(2, "size", x.rank))
    begin, size = call.ints(1, "begin", x.rank), call.ints(2, "size", x.rank)
    stops = [n if s == -1 else b + s for n, b, s in zip(x.shape, begin, size, strict=True)]
    if any(not 0 <= b <= e <= n for n, b, e in zip(x.shape, begin, stops, strict=True)):
        raise call.fail(f"{list(size)} elements from {list(begin)} on are not inside {x.type}")
    return cut(call, x, {axis: (start, stop, 1) for axis, (start, stop) in enumerate(zip(begin, stops, strict=True))})


def _windows_of_run(call: TfliteCall, x: Value, begin: Value, size: Sequence[int]) -> Value:
    """Return boxes whose begin a run brings. One that is not inside of x ends it with MAVCG_ERROR_INDEX."""
    if begin.dtype not in ("i32", "i64") or begin.shape != (x.rank,):
        raise call.fail(f"begin {begin.type} of {x.type}")
    for axis, (term, length) in enumerate(zip(terms_of(call.emitter, begin), size, strict=True)):
        if term.root and length == -1:
            x = rest(call, x, axis, element_of(call, begin, axis))
            continue
        if term.root and not 1 <= length <= x.shape[axis]:
            raise call.unsupported(f"a size of {length} where the run brings the begin", f"1 to {x.shape[axis]}")
        start = element_of(call, begin, axis) if term.root else constant(np.int64(term.offset))
        length = x.shape[axis] - term.offset if length == -1 else length
        if not 0 <= length <= x.shape[axis]:
            raise call.fail(f"{length} elements from {term.offset} on are not inside axis {axis} of {x.type}")
        x = window(call, x, axis, start, length)
    return x


@known_at_build("begin", "end", "strides")
def strided_slice(call: TfliteCall) -> Results:
    """Import STRIDED_SLICE: NumPy's x[begin:end:stride, ...]; bit i of each mask option applies to entry i."""
    x = call.input(0)
    begin = call.ints(1, "begin")
    end, stride = call.ints(2, "end", len(begin)), call.ints(3, "strides", len(begin))
    masks = {name: int(call.option(name + "Mask", 0)) for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")}
    ellipses = [i for i in range(len(begin)) if masks["Ellipsis"] >> i & 1]
    new = [i for i in range(len(begin)) if masks["NewAxis"] >> i & 1 and i not in ellipses]
    covered = len(begin) - len(ellipses) - len(new)
    if len(ellipses) > 1 or covered > x.rank:
        raise call.fail(f"{covered} entries and {len(ellipses)} ellipses are too many for {x.type}")
    ranges: list[tuple[int, int, int]] = []  # start, stop, step of each dimension of x
    made: list[int] = []
    for i, (first, last, step) in enumerate(zip(begin, end, stride, strict=True)):
        if i in ellipses:
            skipped = x.shape[len(ranges) : len(ranges) + x.rank - covered]
            ranges += [(0, length, 1) for length in skipped]
            made += skipped
        elif i in new:
            made.append(1)
        elif masks["ShrinkAxis"] >> i & 1:
            chosen_one = 0 if masks["Begin"] >> i & 1 and step > 0 else first
            at = call.axis(chosen_one, x.shape[len(ranges)], f"dimension {len(ranges)}, element")
            ranges.append((at, at + 1, 1))
        else:
            if call.option("Offset", False):
                last += first
            start = None if masks["Begin"] >> i & 1 else first
            stop = None if masks["End"] >> i & 1 else last
            if step == 0:
                raise call.fail("a stride is 0")
            chosen = range(x.shape[len(ranges)])[start:stop:step]
            ranges.append((chosen.start, chosen.stop, step) if len(chosen) else (0, 0, 1))
            made.append(len(chosen))
    made += x.shape[len(ranges) :]
    ranges += [(0, length, 1) for length in x.shape[len(ranges) :]]
    return call.reshape(cut(call, x, dict(enumerate(ranges))), made)


@known_at_build("axes")
def reverse_v2(call: TfliteCall) -> Results:
    """Import REVERSE_V2."""
    x = call.input(0)
    axes = {call.axis(a, x.rank, "axes") for a in call.ints(1, "axes")}
    return cut(call, x, {axis: (x.shape[axis] - 1, -1, -1) for axis in axes if x.shape[axis]})


@known_at_build("paddings")
def pad(call: TfliteCall) -> Results:
    """Import PAD with zeros: the zero point if the tensor is quantized."""
    x = call.input(0)
    before, after = _paddings(call, x.rank)
    return call.pad(x, before, after, call.zero_of(0))


@known_at_build("paddings", "constant_values")
def pad_v2(call: TfliteCall) -> Results:
    """Import PADV2: pad with the value of input 2."""
    x, value = call.stored_inputs(0, 2)
    if value.array is None:
        raise call.not_known(2, "constant_values")
    if value.array.size != 1:
        raise call.fail("its input constant_values is not one number")
    before, after = _paddings(call, x.rank)
    return call.pad(x, before, after, float(value.array.reshape(())))


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
    times = call.ints(1, "multiples", x.rank)
    call.check_shape([n * t for n, t in zip(x.shape, times, strict=True)], x)
    return movement.tile(call, x, times)


@known_at_build("shape")
def broadcast_to(call: TfliteCall) -> Results:
    """Import BROADCAST_TO."""
    x = call.input(0)
    shape = call.check_shape(call.ints(1, "shape"), x)
    return x if shape == x.shape else call.add("broadcast_to", x, shape=shape)


@known_at_build("dims")
def fill(call: TfliteCall) -> Results:
    """Import FILL: a tensor of the shape in input 0, filled with the scalar in input 1."""
    value = call.input(1)
    if value.type.elements != 1:
        raise call.fail(f"its value is {value.type}; one number is needed")
    return call.add("broadcast_to", call.reshape(value, ()), shape=call.check_shape(call.ints(0, "dims"), value))


@known_at_build(result=True)
def shape(call: TfliteCall) -> Results:
    """Import SHAPE as a constant: shapes are known at import."""
    return constant(np.array(call.input(0).shape), call.results[0].dtype or "i32")


def densify(call: TfliteCall) -> Results:
    """Import DENSIFY as its input: sparse constants were made dense when they were read."""
    return call.input(0)


@known_at_build(result=True)
def rank(call: TfliteCall) -> Results:
    """Import RANK as a constant: ranks are known at import."""
    return constant(np.array(call.input(0).rank), "i32")


@known_at_build("start", "limit", "delta", result=True)
def range_(call: TfliteCall) -> Results:
    """Import RANGE: start, start + delta, .. before limit, which must be known."""
    return indices.known_range(call, *(call.array(i, name) for i, name in enumerate(("start", "limit", "delta"))))


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
    "REVERSE_V2": reverse_v2,
    "SHAPE": shape,
    "SLICE": slice_,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "SQUEEZE": squeeze,
    "STRIDED_SLICE": strided_slice,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "UNPACK": unpack,
}
