"""Lengths that only a run decides: which axis of a tensor has one, and how operators pass it on.

Such a tensor has the shape of its bound. The run computes all of it; the indices below the count are the result, the
others hold anything. An operator passes the count on where an index of its result depends on no other index of the
axis. Other operators are refused by name, but for those whose handlers know what to do (importers/counted.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mavcg.errors import MavcgError
from mavcg.graph.ops import elementwise

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Count:
    """The length of a tensor along an axis in a run: `factor` times the value of an i64 scalar of the graph."""

    axis: int
    tensor: str
    factor: int = 1

    @property
    def length(self) -> tuple[str, int]:
        """Return what two axes of equal length have in common."""
        return self.tensor, self.factor


@dataclass(frozen=True)
class Counted:
    """An operator's input: its shape, and the count along one of its axes, if it has one."""

    shape: Shape
    count: Count | None = None


class NotCounted(MavcgError):
    """Raised for an operator that cannot pass a count on. The message is the reason, without the node."""


Inputs = Sequence[Counted | None]
_ELEMENTWISE = frozenset(op.name for op in elementwise.OPS)
_REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "arg_max", "arg_min")
# An index of another axis is computed on its own.
_ALONG_AXIS = ("softmax", "log_softmax", "arg_top", "cumulative_sum", "cumulative_prod", "resample")
_IMAGES = ("conv2d", "conv_transpose2d", "max_pool2d", "avg_pool2d", "qconv2d", "qavg_pool2d", "lookup")


def carry(op: str, inputs: Inputs, attrs: Mapping[str, Any]) -> Count | None:
    """Return the count of an operator's result; None if no input has one.

    attrs: all of the operator's attributes, axes counted from 0. Raises: NotCounted.
    """
    if not any(given is not None and given.count is not None for given in inputs):
        return None
    if op in _ELEMENTWISE:
        return _broadcast(op, inputs)
    if op in ("concat", "matmul"):
        return _concat(inputs, attrs) if op == "concat" else _matmul(inputs)
    if op == "gather":
        return _gather(inputs, attrs)
    first = inputs[0]
    if first is None or first.count is None or any(i is not None and i.count is not None for i in inputs[1:]):
        raise _refusal(op, _count_of(inputs).axis)
    axis = _carried_axis(op, first.shape, first.count.axis, attrs)
    if op == "reshape":
        return _reshape(first.shape, first.count, attrs["shape"])
    if axis is None:
        raise _refusal(op, first.count.axis)
    return replace(first.count, axis=axis)


def _count_of(inputs: Inputs) -> Count:
    return next(given.count for given in inputs if given is not None and given.count is not None)


def _refusal(op: str, axis: int) -> NotCounted:
    return NotCounted(f"{op} where only a run decides the length of axis {axis}")


def _carried_axis(op: str, shape: Shape, axis: int, attrs: Mapping[str, Any]) -> int | None:
    """Return the axis of the result that is `axis` of the only counted input, the first; None if there is none."""
    if op == "transpose":
        return list(attrs["perm"]).index(axis)
    if op == "slice":
        whole = (attrs["starts"][axis], attrs["stops"][axis], attrs["steps"][axis]) == (0, shape[axis], 1)
        return axis if whole else None
    if op in ("pad", "pad_with"):
        return axis if attrs["before"][axis] == attrs["after"][axis] == 0 else None
    if op == "broadcast_to":
        moved = axis + len(attrs["shape"]) - len(shape)
        return moved if attrs["shape"][moved] == shape[axis] else None
    if op in _REDUCTIONS:
        axes = attrs["axes"] if "axes" in attrs else (attrs["axis"],)
        return None if axis in axes else axis if attrs["keepdims"] else axis - sum(a < axis for a in axes)
    if op.startswith("cumulative_") and not attrs["reverse"]:
        return axis  # of the elements before it, which are in the count
    if op in _ALONG_AXIS:
        return None if axis == attrs["axis"] else axis
    if op in ("quantize", "dequantize"):
        return axis if axis != attrs["axis"] else None
    if op == "layer_norm":
        return axis if axis < attrs["axis"] else None
    if op == "flat_index":
        return axis if axis < len(shape) - 1 and not attrs["offsets"][axis] else None
    return axis if op in (*_IMAGES, "tree_leaves") and axis == 0 else None


def _broadcast(op: str, inputs: Inputs) -> Count:
    """Return the count of an elementwise result, along which every other input has length 1 or the same count."""
    rank = max(len(given.shape) for given in inputs if given is not None)
    count = _count_of(inputs)
    own = next(given for given in inputs if given is not None and given.count is not None)
    axis = count.axis + rank - len(own.shape)
    for given in inputs:
        if given is None:
            continue
        at = axis - (rank - len(given.shape))
        other = given.count
        same = other is not None and other.axis == at and other.length == count.length
        if not same and (other is not None or (at >= 0 and given.shape[at] != 1)):
            raise NotCounted(f"{op} of tensors of which only a run decides that their lengths are equal")
    return replace(count, axis=axis)


def _concat(inputs: Inputs, attrs: Mapping[str, Any]) -> Count:
    counts = [given.count if given is not None else None for given in inputs]
    first = counts[0]
    if first is None or first.axis == attrs["axis"] or any(count != first for count in counts):
        raise NotCounted("concat of tensors of which only a run decides that their lengths are equal")
    return first


def _matmul(inputs: Inputs) -> Count:
    """Return the count of a product's rows or columns, or of its batch."""
    a, b, *others = inputs
    if a is None or b is None or any(other is not None and other.count is not None for other in others):
        raise _refusal("matmul", _count_of(inputs).axis)
    rank = max(len(a.shape), len(b.shape))
    if a.count is not None and b.count is not None:
        ends = a.count.axis - len(a.shape), b.count.axis - len(b.shape)
        if ends[0] == ends[1] < -2 and a.count.length == b.count.length:  # of the batch
            return replace(a.count, axis=ends[0] + rank)
        raise NotCounted("matmul of two tensors of which only a run decides lengths")
    own, other, kept = (a, b, len(a.shape) - 2) if a.count is not None else (b, a, len(b.shape) - 1)
    count = _count_of((own,))
    moved = count.axis + rank - len(own.shape)
    if count.axis < len(own.shape) - 2:  # of the batch
        at = moved - (rank - len(other.shape))
        if at >= 0 and other.shape[at] != 1:
            raise _refusal("matmul", count.axis)
    elif count.axis != kept:
        raise _refusal("matmul", count.axis)
    return replace(count, axis=moved)


def _gather(inputs: Inputs, attrs: Mapping[str, Any]) -> Count:
    x, indices = inputs
    assert x is not None and indices is not None
    axis = attrs["axis"]
    if x.count is not None and indices.count is not None:
        raise NotCounted("gather from a tensor and by indices of which only a run decides lengths")
    if indices.count is not None:
        return replace(indices.count, axis=axis + indices.count.axis)
    count = _count_of(inputs)
    if count.axis == axis:
        raise _refusal("gather", axis)
    return replace(count, axis=count.axis + (len(indices.shape) - 1 if count.axis > axis else 0))


def _reshape(old: Shape, count: Count, new: Shape) -> Count:
    """Return the count after a reshape that leaves the axis as it is, or merges it with axes behind it, or undoes
    that."""
    before, length = prod(old[: count.axis]), old[count.axis]
    found = set[Count]()
    for axis, n in enumerate(new):
        if prod(new[:axis]) != before or prod(new[axis + 1 :]) * n != prod(old[count.axis :]):
            continue
        if n % length == 0:
            found.add(replace(count, axis=axis, factor=count.factor * (n // length)))
        elif length % n == 0 and count.factor % (length // n) == 0:
            found.add(replace(count, axis=axis, factor=count.factor // (length // n)))
    if len(found) != 1:  # none, or several: a length of 1 is not distinguished from its neighbours
        raise _refusal("reshape", count.axis)
    return found.pop()
