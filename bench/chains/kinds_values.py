"""Operators of a chain on values: joins by broadcasting, reductions, indices that a run computes, scatters, casts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.chains.growing import TAME, Growing, Kind, UnsuitableError


def join(p: Growing) -> None:
    """Combine two results; the second is reduced along axes where the lengths differ, so that it broadcasts."""
    x = p.real()
    y = p.tensor(lambda v: v.dtype == p.dtype and 1 <= v.ndim <= len(p.shape_of(x))) or x
    shape, other = p.shape_of(x), p.shape_of(y)
    offset = len(shape) - len(other)
    unlike = [at for at, n in enumerate(other) if n not in (1, shape[offset + at])]
    if unlike:
        op = p.pick("ReduceMean", "ReduceMax", "ReduceSum")
        y = reduced(p, op, y, unlike, 1)
    op = p.pick("Add", "Sub", "Mul", "Max", "Min", "Div", "Sum", "PRelu", "Mean")
    if op == "Div":
        y = p.add("Add", p.add("Abs", y), p.constant(0.5, p.dtype))
    given: tuple[str, ...] = (x, y) if op in ("Div", "PRelu") or p.pick(0, 1) else (y, x)
    if op in ("Max", "Min", "Sum", "Mean") and p.pick(0, 1):
        given = (*given, p.real())
        if not _broadcasts(p, given):
            given = given[:2]
    p.add(op, *given)


def _broadcasts(p: Growing, names: tuple[str, ...]) -> bool:
    try:
        np.broadcast_shapes(*(p.shape_of(name) for name in names if name in p.values))
    except ValueError:
        return False
    return all(name in p.values for name in names)


def reduced(p: Growing, op: str, x: str, axes: list[int], keepdims: int) -> str:
    """Add a reduction in the form that the opset has."""
    if p.opset >= 18 or (op == "ReduceSum" and p.opset >= 13):
        return str(p.add(op, x, p.constant(axes, np.int64), keepdims=keepdims))
    return str(p.add(op, x, axes=axes, keepdims=keepdims))


def reduction(p: Growing) -> None:
    ops = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare")
    op = p.pick(*ops, "ReduceLogSumExp", "ReduceProd")
    x = p.real()
    rank = len(p.shape_of(x))
    if p.rng.random() < 0.15:
        p.add(op, x, keepdims=p.pick(0, 1))
        return
    axes = [int(a) for a in p.rng.permutation(rank)[: p.size(rank)]]
    if p.opset >= 11:
        axes = [a - rank if p.rng.random() < 0.3 else a for a in axes]
    reduced(p, op, x, axes, p.pick(0, 1))


def arg_reduction(p: Growing) -> None:
    x = p.real()
    axis = int(p.rng.integers(len(p.shape_of(x))))
    more = {"select_last_index": p.pick(0, 1)} if p.opset >= 12 else {}
    p.add(p.pick("ArgMax", "ArgMin"), x, axis=axis, keepdims=p.pick(0, 1), **more)


def gather_by_result(p: Growing) -> None:
    """Gather by indices that a run computes: those of ArgMax, or of TopK."""
    x = p.real()
    axis = int(p.rng.integers(len(p.shape_of(x))))
    length = p.shape_of(x)[axis]
    indices = p.tensor(lambda v: v.dtype == np.int64 and v.size > 0 and v.min() >= -length and v.max() < length)
    if indices is None:
        raise UnsuitableError("no indices")
    same_rank = p.values[indices].ndim == len(p.shape_of(x))
    fits = same_rank and all(
        at == axis or n <= m for at, (n, m) in enumerate(zip(p.shape_of(indices), p.shape_of(x), strict=True))
    )
    p.add("GatherElements" if fits and p.pick(0, 1) else "Gather", x, indices, axis=axis)


def gather_rows(p: Growing) -> None:
    x = p.real()
    axis = int(p.rng.integers(len(p.shape_of(x))))
    length = p.shape_of(x)[axis]
    indices = p.rng.integers(-length if p.opset >= 11 else 0, length, p.pick((), (2,), (3,), (2, 2)))
    p.add("Gather", x, p.constant(indices, p.pick(np.int64, np.int32)), axis=axis)


def top_k(p: Growing) -> None:
    x = p.real()
    rank = len(p.shape_of(x))
    axis = int(p.rng.integers(rank))
    k = p.constant([p.size(p.shape_of(x)[axis])], np.int64)
    more: dict[str, Any] = {"largest": p.pick(0, 1)} if p.opset >= 11 else {}
    p.add("TopK", x, k, outputs=2, axis=axis - (p.pick(0, rank) if p.opset >= 11 else 0), **more)


def scatter_elements(p: Growing) -> None:
    x = p.real()
    shape = p.shape_of(x)
    axis = int(p.rng.integers(len(shape)))
    small = [p.size(n) for n in shape]
    indices = p.rng.integers(0, shape[axis], small)
    more: dict[str, Any] = {}
    if p.opset >= 16 and p.pick(0, 1):
        more["reduction"] = p.pick("add", "mul", *(("max", "min") if p.opset >= 18 else ()))
    else:  # without a reduction no element may be written twice
        order = np.argsort(p.rng.random([shape[axis] if at == axis else n for at, n in enumerate(small)]), axis)
        indices = np.take(order, np.arange(small[axis]), axis)
    updates = p.tensor(lambda v: v.dtype == p.dtype and v.shape == tuple(small)) or p.fresh(*small)
    p.add("ScatterElements", x, p.constant(indices, np.int64), updates, axis=axis, **more)


def scatter_nd(p: Growing) -> None:
    x = p.real()
    shape = p.shape_of(x)
    depth = p.size(len(shape))
    count = p.size(4)
    cells = int(np.prod(shape[:depth]))
    chosen = p.rng.permutation(cells)[:count]
    indices = np.stack(np.unravel_index(chosen, shape[:depth]), -1)
    more: dict[str, Any] = {}
    if p.opset >= 16 and p.pick(0, 1):
        more["reduction"] = p.pick("add", "mul", *(("max", "min") if p.opset >= 18 else ()))
    rest = (len(chosen), *shape[depth:])
    updates = p.tensor(lambda v: v.dtype == p.dtype and v.shape == rest) or p.fresh(*rest)
    p.add("ScatterND", x, p.constant(indices, np.int64), updates, **more)


def choose(p: Growing) -> None:
    """Add a Where by a comparison of two results."""
    x = p.real()
    y = p.tensor(lambda v: v.dtype == p.dtype and v.shape == p.shape_of(x)) or x
    op = p.pick("Less", "Greater", *(("LessOrEqual", "GreaterOrEqual") if p.opset >= 12 else ()))
    condition = p.add(op, x, p.constant(p.rng.uniform(-1, 1), p.dtype) if p.pick(0, 1) else y)
    if p.rng.random() < 0.3:
        condition = p.add("Not", condition)
    p.add("Where", condition, x, p.constant(p.pick(0.0, -1.0), p.dtype) if p.pick(0, 1) else y)


def cast(p: Growing) -> None:
    """Cast to a type that holds the values."""
    from onnx import helper

    x = p.tensor(lambda v: bool(np.isfinite(v).all()) if v.dtype.kind == "f" else True)
    if x is None:
        raise UnsuitableError("no finite tensor")
    value = p.values[x].astype(np.float64)
    fitting = [
        t
        for t in (np.int8, np.uint8, np.int32, np.int64)
        if value.min(initial=0) >= np.iinfo(t).min and value.max(initial=0) <= np.iinfo(t).max
    ]
    small = float(np.max(np.abs(value), initial=0)) < TAME["float16"]
    floats = [t for t in (np.float16, np.float32, np.float64) if small or t != np.float16]
    target = p.pick(p.dtype, p.dtype, np.bool_, *fitting, *floats)
    back = p.add("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))
    if target != p.dtype and p.pick(0, 1):
        p.add("Cast", back, to=helper.np_dtype_to_tensor_dtype(np.dtype(p.dtype)))


def matmul(p: Growing) -> None:
    x = p.real(p.pick(2, 2, 3, 4))
    shape = p.shape_of(x)
    y = p.tensor(lambda v: v.dtype == p.dtype and v.ndim == 2 and v.shape[0] == shape[-1])
    if y is None or p.pick(0, 1):
        scale = 1 / np.sqrt(shape[-1])
        y = p.constant(p.rng.uniform(-scale, scale, (shape[-1], p.pick(1, 3, 8, 17))), p.dtype)
    p.add("MatMul", x, y)


def matmul_of_two(p: Growing) -> None:
    """Multiply a result by its own transpose, and take a softmax: the middle of an attention."""
    x = p.real(p.pick(3, 4))
    rank = len(p.shape_of(x))
    turned = p.add("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = p.add("Mul", p.add("MatMul", x, turned), p.constant(0.3, p.dtype))
    p.add("MatMul", p.add("Softmax", scores, axis=rank - 1), x)


def einsum(p: Growing) -> None:
    x = p.real(p.pick(2, 3))
    letters = "abcd"[: len(p.shape_of(x))]
    y = p.tensor(lambda v: v.dtype == p.dtype and v.ndim >= 1 and v.shape[0] == p.shape_of(x)[-1])
    if y is None:
        p.add("Einsum", x, equation=f"{letters}->{letters[::-1][: p.size(len(letters))]}")
        return
    right = letters[-1] + "xyzw"[: len(p.shape_of(y)) - 1]
    p.add("Einsum", x, y, equation=f"{letters},{right}->{letters[:-1]}{right[1:]}")


def clip(p: Growing) -> None:
    x = p.real()
    low, high = (p.constant(v, p.dtype) for v in (p.pick(-0.5, -2.0), p.pick(0.5, 3.0)))
    p.add("Clip", x, *p.pick((low, high), (low,), ("", high)))


def overflow(p: Growing) -> None:
    """Multiply by a number that takes some results of f16 beyond its range."""
    if p.dtype != np.float16 or p.rng.random() < 0.7:
        raise UnsuitableError("only f16")
    p.add("Mul", p.real(), p.constant(p.pick(3e4, 3e2), p.dtype))


def cumulative(p: Growing) -> None:
    x = p.real()
    rank = len(p.shape_of(x))
    axis = int(p.rng.integers(-rank, rank))
    p.add("CumSum", x, p.constant(axis, np.int64), exclusive=p.pick(0, 1), reverse=p.pick(0, 1))


def one_hot(p: Growing) -> None:
    indices = p.tensor(lambda v: v.dtype == np.int64 and 1 <= v.ndim <= 3)
    if indices is None:
        raise UnsuitableError("no indices")
    p.add("OneHot", indices, p.constant(6, np.int64), p.constant([0, 1], p.dtype), axis=p.pick(-1, 0))


KINDS: Mapping[str, tuple[int, Kind]] = {
    "Join": (8, join),
    "Join again": (8, join),
    "Reduction": (11, reduction),
    "Reduction to indices": (11, arg_reduction),
    "Gather by results": (11, gather_by_result),
    "Gather rows": (1, gather_rows),
    "TopK of both": (10, top_k),
    "ScatterElements": (11, scatter_elements),
    "ScatterND": (11, scatter_nd),
    "Where of results": (9, choose),
    "Cast within range": (9, cast),
    "MatMul of results": (9, matmul),
    "Attention by parts": (13, matmul_of_two),
    "Einsum": (12, einsum),
    "Clip with one bound": (11, clip),
    "Overflow": (7, overflow),
    "CumSum": (11, cumulative),
    "OneHot of results": (11, one_hot),
}
