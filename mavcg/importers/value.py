"""A tensor of a file during its import: its type, its name in the graph, its elements if known; and sequences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mavcg.graph import DTYPES, Array, TensorType, type_of
from mavcg.graph.ops import infer, make_node
from mavcg.graph.reference import evaluate
from mavcg.importers.counts import Count


@dataclass(frozen=True, eq=False)
class Quantised:
    """A known quantised array with the inputs of dequantize. q: 8-bit (or 32-bit) elements. axis: of scale and zero.

    block: 0, or elements along the axis that share a scale and a zero point, which have the shape of q else.
    """

    q: Array
    scale: Array
    zero: Array
    axis: int
    block: int = 0

    @property
    def real(self) -> Array:
        """The dequantised array, f32."""
        if not self.block:
            node = make_node("dequantize", ("q", "scale", "zero"), ("",), axis=self.axis)
            return evaluate(node, (self.q, self.scale, self.zero))[0]
        numbers = np.arange(self.q.shape[self.axis]) // self.block
        scale, zero = (np.take(part, numbers, self.axis) for part in (self.scale, self.zero))
        return np.asarray((self.q.astype(np.float32) - zero) * scale, np.float32)


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the file during its import.

    name: its name in the graph; "" for a known tensor that is not yet a constant of the graph. known: its array, if
    known. quantised: instead of known, the quantised form of dequantised weights, which would be lost otherwise. stem:
    first part of a constant's name. narrow: the file's type, if graphs lack it (onnx_narrow.py), else "". count: that
    of an axis of whose length each run decides; the type has the longest. bits: of floats of 8 bits that lie in memory
    as such, the bytes; None for others.
    """

    type: TensorType
    name: str = ""
    known: Array | None = None
    quantised: Quantised | None = None
    stem: str = "c"
    narrow: str = ""
    count: Count | None = None
    bits: "Value | None" = None

    @property
    def is_tensor(self) -> bool:
        """True but for a sequence, and an optional without an element."""
        return True

    @property
    def elements(self) -> "tuple[Value, ...] | None":
        """The elements of a sequence; None of a tensor, and of an optional without an element."""
        return None

    @property
    def is_constant(self) -> bool:
        """True if all elements are known at import."""
        return self.known is not None or self.quantised is not None

    @cached_property
    def array(self) -> Array | None:
        """The tensor's elements if they are known, else None."""
        if self.quantised is None:
            return self.known
        return self.quantised.real

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return self.type.shape

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.type.shape)

    @property
    def dtype(self) -> str:
        """The tensor's element type, a key of mavcg.graph.DTYPES."""
        return self.type.dtype


@dataclass(frozen=True, eq=False)
class NoTensor(Value):
    """A sequence of tensors, of which the import knows the number, or an optional without an element.

    Only handlers of sequences get one. elements: of the sequence; None for the optional. type: means nothing.
    """

    elements: tuple[Value, ...] | None = None

    @property
    def is_tensor(self) -> bool:
        return False


_NO_TYPE = TensorType("f32", (0,))
NOTHING = NoTensor(_NO_TYPE)  # an optional without an element


def sequence_of(elements: Sequence[Value]) -> NoTensor:
    """Return a sequence of tensors."""
    return NoTensor(_NO_TYPE, elements=tuple(elements))


def all_tensors(values: Iterable[Value | None]) -> bool:
    """Return True if none of the values is a sequence, or an optional without an element.

    Absent values do not count.
    """
    return all(value is None or value.is_tensor for value in values)


def constant(array: Any, dtype: str = "", stem: str = "c") -> Value:
    """Return a known value. dtype: element type to convert to; "": the array's."""
    values = np.asarray(array, dtype=DTYPES[dtype] if dtype else None)
    return Value(type_of(values), known=values, stem=stem)


def moved_quantised(op: str, inputs: Sequence[Value | None], attrs: dict[str, Any]) -> Value | None:
    """Return a transpose, or a reshape around the axis, of dequantised weights in quantised form; else None."""
    x = inputs[0] if inputs else None
    if x is None:
        return None
    if op == "dequantize" and all(v is not None and v.known is not None for v in inputs):
        q, scale, zero = (v.known for v in inputs if v is not None)
        node = make_node(op, ("0", "1", "2"), ("",), **attrs)
        (type,) = infer(node, {str(i): v.type for i, v in enumerate(inputs) if v is not None})
        assert q is not None and scale is not None and zero is not None
        return Value(type, quantised=Quantised(q, scale, zero, node.attr("axis")), stem=x.stem)
    w = x.quantised
    if w is None:
        return None
    if op == "transpose" and sorted(attrs["perm"]) == list(range(x.rank)):
        perm = tuple(attrs["perm"])
        moved = np.ascontiguousarray(w.q.transpose(perm))
        axis = perm.index(w.axis) if w.scale.ndim else w.axis
        scale, zero = (part.transpose(perm) if w.block else part for part in (w.scale, w.zero))
        turned = Quantised(moved, scale, zero, axis, w.block)
        return Value(TensorType("f32", moved.shape), quantised=turned, stem=x.stem)
    if op == "reshape" and not w.block:
        shape = tuple(attrs["shape"])
        new_axis = _same_axis(x.shape, shape, w.axis) if w.scale.ndim else w.axis
        if new_axis is not None and TensorType("f32", shape).elements == w.q.size:
            return Value(
                TensorType("f32", shape),
                quantised=Quantised(w.q.reshape(shape), w.scale, w.zero, new_axis),
                stem=x.stem,
            )
    return None


def _same_axis(old: tuple[int, ...], new: tuple[int, ...], axis: int) -> int | None:
    """Return the dimension of a reshaped array with exactly the elements of `axis`, or None."""
    before = int(np.prod(old[:axis], dtype=object))
    for i, length in enumerate(new):
        if length == old[axis] and int(np.prod(new[:i], dtype=object)) == before:
            return i
    return None
