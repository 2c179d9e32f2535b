"""Operators of a chain that change shapes: reshapes with 0 and -1, slices with negative steps, pads, joins.

Some shapes are computed by the graph itself, from Shape, as exporters write them.
"""

import math
from collections.abc import Mapping

import numpy as np

from bench.chains.growing import Growing, Kind, UnsuitableError


def _any(p: Growing, least: int = 1) -> str:
    """Return a tensor of any type with at least this rank, mostly of floats."""
    if p.rng.random() < 0.2:
        name = p.tensor(lambda x: x.ndim >= least)
        if name is not None:
            return name
    return p.tensor(lambda x: x.dtype == p.dtype and x.ndim >= least) or p.fresh(*p.shape(least + p.pick(0, 1)))


def reshape(p: Growing) -> None:
    x = _any(p)
    shape = p.shape_of(x)
    target = p.factors(math.prod(shape), p.pick(1, 2, 3, 4, 5))
    for at, length in enumerate(shape[: len(target)]):  # 0 keeps the length
        if target[at] == length and p.rng.random() < 0.5:
            target[at] = 0
    if p.rng.random() < 0.6:
        target[int(p.rng.integers(len(target)))] = -1
    p.add("Reshape", x, p.constant(target, np.int64))


def reshape_as_computed(p: Growing) -> None:
    """Reshape by lengths that the graph reads from a tensor's Shape."""
    x = _any(p)
    shape = p.shape_of(x)
    y = p.add("Shape", x)
    kept = p.size(len(shape)) - 1
    if p.opset >= 10 and kept:
        lengths = p.add("Slice", y, p.constant([0], np.int64), p.constant([kept], np.int64))
        y = p.add("Concat", lengths, p.constant([-1], np.int64), axis=0)
    elif p.opset >= 11:
        one = p.add("Gather", y, p.constant(p.pick(0, -1), np.int64), axis=0)
        one = p.add("Unsqueeze", one, p.constant([0], np.int64)) if p.opset >= 13 else p.add("Unsqueeze", one, axes=[0])
        y = p.add("Concat", p.constant([-1], np.int64), one, axis=0)
    p.add("Reshape", x, y)


def expand_as_computed(p: Growing) -> None:
    """Expand a tensor of one row to another's Shape."""
    x = p.real()
    small = tuple(p.pick(1, n) for n in p.shape_of(x))[p.pick(0, 0, 1) :]
    y = p.tensor(lambda v: v.dtype == p.dtype and v.shape == small) or p.fresh(*small)
    p.add("Expand", y, p.add("Shape", x))


def slice_with_steps(p: Growing) -> None:
    x = _any(p)
    shape = p.shape_of(x)
    axes = [int(a) for a in p.rng.permutation(len(shape))[: p.size(len(shape))]]
    starts, ends, steps = [], [], []
    for axis in axes:
        n, step = shape[axis], p.pick(1, 1, 2, 3, -1, -1, -2)
        start, end = sorted((int(p.rng.integers(n)), int(p.rng.integers(n))))
        if step > 0:
            begin, stop = p.pick(start, start - n), p.pick(end + 1, n, 1000, end + 1 - n or 1000)
        else:
            begin, stop = p.pick(end, end - n, 1000), p.pick(start - n - 1, -1000, -n - 1)
        starts.append(begin)
        ends.append(stop)
        steps.append(step)
    named = [a - len(shape) if p.rng.random() < 0.3 else a for a in axes]
    p.add("Slice", x, *(p.constant(v, np.int64) for v in (starts, ends, named, steps)))


def pad_unevenly(p: Growing) -> None:
    x = p.real()
    shape = p.shape_of(x)
    mode = p.pick("constant", "constant", "edge", "reflect", *(["wrap"] if p.opset >= 19 else []))
    least = -1 if mode == "constant" else 0
    most = [n - 1 if mode == "reflect" else n if mode == "wrap" else 3 for n in shape]
    pads = [int(p.rng.integers(least if n > 3 else 0, min(3, m) + 1)) for n, m in (*zip(shape, most, strict=True),) * 2]
    given = [p.constant(pads, np.int64)]
    if mode == "constant" and p.rng.random() < 0.5:
        given.append(p.constant(1.5, p.dtype))
    p.add("Pad", x, *given, mode=mode)


def transpose(p: Growing) -> None:
    x = _any(p, 2)
    p.add("Transpose", x, perm=[int(v) for v in p.rng.permutation(len(p.shape_of(x)))])


def squeeze(p: Growing) -> None:
    x = p.tensor(lambda v: 1 in v.shape and v.ndim >= 2)
    if x is None:
        raise UnsuitableError("no tensor with a length of 1")
    ones = [axis for axis, n in enumerate(p.shape_of(x)) if n == 1]
    axes = [a - len(p.shape_of(x)) if p.opset >= 11 and p.rng.random() < 0.4 else a for a in ones[: p.size(len(ones))]]
    if p.rng.random() < 0.2:
        p.add("Squeeze", x)
    elif p.opset >= 13:
        p.add("Squeeze", x, p.constant(axes, np.int64))
    else:
        p.add("Squeeze", x, axes=axes)


def unsqueeze(p: Growing) -> None:
    x = _any(p)
    rank = len(p.shape_of(x)) + 1
    if rank > 5:
        raise UnsuitableError("rank")
    axis = int(p.rng.integers(-rank if p.opset >= 11 else 0, rank))
    if p.opset >= 13:
        p.add("Unsqueeze", x, p.constant([axis], np.int64))
    else:
        p.add("Unsqueeze", x, axes=[axis])


def concat_join(p: Growing) -> None:
    """Concatenate two results whose other lengths are made equal by slices, or some parts of one."""
    x = p.real()
    shape = p.shape_of(x)
    other = p.tensor(lambda v: v.dtype == p.dtype and v.ndim == len(shape)) or x
    axis = int(p.rng.integers(len(shape)))
    ends = [min(a, b) for a, b in zip(shape, p.shape_of(other), strict=True)]
    parts = []
    for name in (x, other):
        cut = [at for at, n in enumerate(p.shape_of(name)) if at != axis and n != ends[at]]
        if cut:
            given = ([0] * len(cut), [ends[at] for at in cut], cut)
            name = p.add("Slice", name, *(p.constant(v, np.int64) for v in given))
        parts.append(name)
    p.add("Concat", *parts, *([x] if ends == list(shape) and p.pick(0, 1) else []), axis=axis - p.pick(0, len(shape)))


def split(p: Growing) -> None:
    x = p.real()
    shape = p.shape_of(x)
    axis = int(p.rng.integers(len(shape)))
    if shape[axis] < 2:
        raise UnsuitableError("length 1")
    first = p.size(shape[axis] - 1)
    axis -= p.pick(0, len(shape)) if p.opset >= 11 else 0
    if p.opset >= 18 and p.pick(0, 1):
        p.add("Split", x, outputs=2, axis=axis, num_outputs=2)  # the last is the shorter one
    elif p.opset >= 13:
        p.add("Split", x, p.constant([first, shape[axis] - first], np.int64), outputs=2, axis=axis)
    else:
        p.add("Split", x, outputs=2, axis=axis, split=[first, shape[axis] - first])


def flatten(p: Growing) -> None:
    x = _any(p)
    rank = len(p.shape_of(x))
    p.add("Flatten", x, axis=int(p.rng.integers(-rank if p.opset >= 11 else 0, rank + 1)))


def block(p: Growing) -> None:
    x = p.tensor(lambda v: v.ndim == 4 and v.dtype == p.dtype)
    if x is None:
        raise UnsuitableError("no image")
    _, channels, height, width = p.shape_of(x)
    size = p.pick(2, 3)
    if channels % (size * size) == 0:
        p.add("DepthToSpace", x, blocksize=size, **({"mode": p.pick("DCR", "CRD")} if p.opset >= 11 else {}))
    elif height % size == 0 and width % size == 0:
        p.add("SpaceToDepth", x, blocksize=size)
    else:
        raise UnsuitableError("lengths")


KINDS: Mapping[str, tuple[int, Kind]] = {
    "Reshape": (5, reshape),
    "Reshape by Shape": (5, reshape_as_computed),
    "Expand by Shape": (8, expand_as_computed),
    "Slice with steps": (10, slice_with_steps),
    "Pad unevenly": (11, pad_unevenly),
    "Transpose": (1, transpose),
    "Squeeze": (7, squeeze),
    "Unsqueeze": (7, unsqueeze),
    "Concat of two": (10, concat_join),
    "Split of two": (7, split),
    "Flatten": (9, flatten),
    "Blocks": (7, block),
}
