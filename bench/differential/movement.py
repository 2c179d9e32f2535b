"""Random graphs of operators that move elements, or work along an axis."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.differential.part import WHOLE_TYPES, Part


def along_axis(op: str) -> Callable[[Part], Any]:
    def add_to(p: Part) -> Any:
        shape = p.shape()
        axis = int(p.rng.integers(len(shape)))
        if op == "CumSum":
            more = {"exclusive": p.pick(0, 1), "reverse": p.pick(0, 1)}
            return p.add(op, p.input(*shape), p.constant(axis, np.int64), **more)
        if op == "TopK":
            k = p.constant([p.size(shape[axis])], np.int64)
            more = {"largest": p.pick(0, 1)} if p.opset >= 11 else {}
            if p.hard:  # the order of NaN is not defined
                x = p.constant(p.rng.uniform(-3, 3, shape), p.dtype)
                return _add_input(p, p.add(op, x, k, outputs=2, axis=axis, **more)[0])
            return p.add(op, p.input(*shape), k, outputs=2, axis=axis, **more)[0]
        if op == "Concat":
            others = [p.input(*(p.size(5) if i == axis else n for i, n in enumerate(shape))) for _ in range(p.size(3))]
            return p.add(op, *others, axis=axis)
        return p.add(op, p.input(*shape), axis=axis)

    return add_to


def _add_input(p: Part, name: str) -> str:
    """Add an input to a constant tensor that the model computes."""
    return str(p.add("Add", name, p.input(1)))


def _index_constant(p: Part, op: str, shape: tuple[int, ...]) -> str:
    x = p.constant(p.rng.uniform(-3, 3, shape), p.dtype)
    if op == "GatherElements":
        return str(p.add(op, x, p.constant(p.rng.integers(0, shape[1], shape), np.int64), axis=1))
    if op == "GatherND":
        indices = np.stack([p.rng.integers(0, n, (3, 4)) for n in shape[: p.pick(1, 2)]], -1)
        return str(p.add(op, x, p.constant(indices, np.int64)))
    rows = p.rng.permutation(shape[0])[: p.size(shape[0])]
    updates = p.constant(p.rng.uniform(-3, 3, (len(rows), *shape[1:])), p.dtype)
    return str(p.add(op, x, p.constant(rows[:, None], np.int64), updates))


def movement(op: str) -> Callable[[Part], Any]:
    def add_to(p: Part) -> Any:
        dtype = p.pick(p.dtype, p.dtype, p.dtype, *WHOLE_TYPES, np.bool_)
        shape = p.shape(p.pick(2, 3, 4))
        rank = len(shape)
        if op in ("GatherElements", "GatherND", "ScatterND"):
            return _add_input(p, _index_constant(p, op, shape))
        x = p.input(*shape, dtype=dtype)
        if op == "Transpose":
            return p.add(op, x, perm=[int(v) for v in p.rng.permutation(rank)])
        if op == "Slice":
            starts, steps = [p.pick(0, 1, -3) for _ in shape], [p.pick(1, 1, 2) for _ in shape]
            ends = [p.pick(2, 100, -1) for _ in shape]
            return p.add(op, x, *(p.constant(v, np.int64) for v in (starts, ends, list(range(rank)), steps)))
        if op == "Pad":
            pads = [p.pick(0, 0, 1) for _ in range(2 * rank)]
            mode = p.pick("constant", "edge", "reflect") if min(shape) > 1 and dtype == p.dtype else "constant"
            return p.add(op, x, p.constant(pads, np.int64), mode=mode)
        if op == "Gather":
            indices = p.rng.integers(-shape[0] if p.opset >= 11 else 0, shape[0], p.shape(p.pick(1, 2)))
            return p.add(op, x, p.constant(indices, np.int64), axis=0)
        if op == "Tile":
            return p.add(op, x, p.constant([p.size(3) for _ in shape], np.int64))
        if op == "Expand":
            y = p.input(*(p.pick(1, n) for n in shape), dtype=dtype)
            return p.add(op, y, p.constant(shape, np.int64))
        if op == "Split" and p.opset < 18:
            return p.add(op, x, outputs=shape[1], axis=1) if shape[1] > 1 else p.add("Identity", x)
        if op == "Trilu":
            return p.add(op, x, upper=p.pick(0, 1))
        if op in ("Squeeze", "Unsqueeze"):
            axes = [0] if op == "Unsqueeze" else [0, 2]
            y = x if op == "Unsqueeze" else p.input(1, shape[0], 1, shape[1], dtype=dtype)
            return p.add(op, y, p.constant(axes, np.int64)) if p.opset >= 13 else p.add(op, y, axes=axes)
        if op == "Reshape":
            return p.add(op, x, p.constant([-1, shape[0]], np.int64))
        return p.add("Flatten", x, axis=p.pick(0, 1, 2))

    return add_to


def add_one_hot(p: Part) -> str:
    depth, values = p.constant(7, np.int64), p.constant([0, 1], np.float32)
    indices = p.constant(p.rng.integers(-7, 7, p.shape(2)), np.int64)
    return str(p.add("Mul", p.add("OneHot", indices, depth, values, axis=-1), p.input(7, dtype=np.float32)))


def constant_of_shape(op: str) -> Callable[[Part], str]:
    """Add an input to a constant tensor that the model computes."""

    def add_to(p: Part) -> str:
        from onnx import numpy_helper

        x = p.input(3, 5)
        if op == "EyeLike":
            return str(p.add("Add", p.add(op, x, k=p.pick(-1, 0, 2)), x))
        value = numpy_helper.from_array(np.array([2], p.dtype))
        return str(p.add("Add", p.add(op, p.constant([3, 5], np.int64), value=value), x))

    return add_to
