"""Tables of a resized axis by the rule that its importer names, from the lengths of the axis before and after.

The attribute `rule` of a resample or gather node is "[tflite ]MODE COORDINATES", in the words of ONNX's Resize; mode
cubic is followed by its coefficient, as in cubic-0.75. Its tables are computed operation by operation as the importers
do, on tensors of a graph or at once on arrays, so that they have the bits of the tables that a file of these lengths
gets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from mavcg.graph import Array, Graph, Node
from mavcg.graph.ops import make_node
from mavcg.graph.ops.layouts import HALFWAY
from mavcg.graph.reference import evaluate

_RESAMPLED = ("resample", "gather")
_F32 = np.float32
T = TypeVar("T")


@dataclass(frozen=True)
class Operators(Generic[T]):
    """Functions that add constants and operators: of tensors by name in a graph, or of arrays, computed at once."""

    constant: Callable[[Array], T]
    add: Callable[..., T]

    def number(self, value: float) -> T:
        """Return a scalar of f32."""
        return self.constant(np.array(value, _F32))


def has_rule(node: Node) -> bool:
    """Return True for a node with tables that follow from the lengths before and after."""
    return node.op in _RESAMPLED and bool(node.attr("rule"))


def follows_rule(node: Node, graph: Graph) -> bool:
    """Return True if a node's tables in a graph of fixed lengths are those of its rule."""
    x, index, *weight = node.inputs
    axis = node.attr("axis")
    before, after = graph.types[x].shape[axis], graph.types[node.output].shape[axis]

    def add(op: str, *inputs: Array, **attributes: Any) -> Array:
        names = tuple(map(str, range(len(inputs))))
        return evaluate(make_node(op, names, ("y",), **attributes), inputs)[0]

    operators = Operators[Array](lambda array: array, add)
    made = tables_by_rule(node, after, np.array(before, np.int32), np.array(after, np.int32), operators)
    read = graph.constants.get(index), graph.constants.get(weight[0]) if weight else None
    same = read[0] is not None and np.array_equal(np.minimum(made[0], before - 1), read[0])
    if made[1] is None:
        return same and (read[1] is None or bool(np.all(read[1] == 1)))
    return same and read[1] is not None and made[1].tobytes() == read[1].tobytes()


def tables_by_rule(node: Node, count: int, before: T, after: T, operators: Operators[T]) -> tuple[T, T | None]:
    """Return (index, weight) of a node with a rule; None for weights of 1. An index behind the end is the last one's.

    count: rows of the tables. before, after: lengths of the axis, i32.
    """
    add, number = operators.add, operators.number
    tflite = node.attr("rule").startswith("tflite ")
    mode, coordinates = node.attr("rule").removeprefix("tflite ").split()
    shape = (count, 1) if node.op == "resample" else (count,)
    half = "half_pixel" in coordinates
    places = operators.constant((np.arange(count, dtype=_F32) + _F32(0.5 * half)).reshape(shape))
    n, made = (add("cast", length, to="f32") for length in (before, after))
    if coordinates == "align_corners":
        last, steps = add("sub", n, number(1)), add("max", add("sub", made, number(1)), number(1))
        at = add("mul", places, add("div", last, steps)) if tflite else add("div", add("mul", places, last), steps)
    elif tflite:
        at = add("mul", places, add("div", n, made))
    else:
        at = add("div", places, add("div", made, n))
    if half and coordinates != "tf_half_pixel_for_nn" and not (tflite and mode == "nearest"):
        at = add("sub", at, number(0.5))
    if mode.startswith("cubic"):
        return _cubic(float(mode.removeprefix("cubic")), at, operators)
    if mode != "linear":
        index = _nearest(mode, coordinates, at, operators)
        return add("cast", add("max", index, number(0)), to="i32"), None
    left = add("floor", at)
    pair, other = (operators.constant(np.array([numbers], _F32)) for numbers in ((0, 1), (1, 0)))
    if not tflite:
        index = add("max", add("add", left, pair), number(0))
        return add("cast", index, to="i32"), add("abs", add("sub", at, add("add", left, other)))
    low, high = add("max", left, number(0)), add("min", add("ceil", at), add("sub", n, number(1)))
    part = add("where", add("equal", low, high), number(0), add("sub", at, low))
    index = add("add", low, add("mul", add("sub", high, low), pair))
    return add("cast", index, to="i32"), add("abs", add("sub", part, other))


def _cubic(a: float, at: T, operators: Operators[T]) -> tuple[T, T]:
    """Return the tables of four neighbours of each position by Keys' kernel with parameter a, computed in f64."""
    add = operators.add
    left = add("floor", at)
    offsets = np.array([[-1, 0, 1, 2]])

    def number(value: float) -> T:
        return operators.constant(np.array(value))

    index = add("max", add("add", left, operators.constant(offsets.astype(_F32))), operators.number(0))
    part = add("sub", *(add("cast", each, to="f64") for each in (at, left)))
    x = add("abs", add("sub", operators.constant(offsets.astype(np.float64)), part))
    near = add("sub", add("mul", number(a + 2), x), number(a + 3))
    near = add("add", add("mul", add("mul", near, x), x), number(1.0))
    far = add("add", add("mul", add("sub", add("mul", number(a), x), number(5 * a)), x), number(8 * a))
    far = add("sub", add("mul", far, x), number(4 * a))
    outer = add("where", add("less", x, number(2.0)), far, number(0.0))
    weight = add("where", add("less_equal", x, number(1.0)), near, outer)
    return add("cast", index, to="i32"), add("cast", weight, to="f32")


def _nearest(mode: str, coordinates: str, at: T, operators: Operators[T]) -> T:
    """Return the nearest element of each position, as f32. mode: ONNX's nearest_mode, or nearest for TFLite."""
    add, number = operators.add, operators.number
    if mode == "ceil":
        return add("ceil", at)
    if mode == "nearest" and coordinates == "align_corners":
        return add("floor", add("add", at, number(0.5)))
    left = add("floor", at)
    if mode in ("floor", "nearest"):
        return left
    part = add("sub", at, left)
    if mode == "round_prefer_floor":
        right = add("greater", part, number(_rounded_down(0.5 + HALFWAY)))
    else:
        right = add("greater_equal", part, number(-_rounded_down(HALFWAY - 0.5)))
    return add("add", left, add("cast", right, to="f32"))


def _rounded_down(number: float) -> float:
    """Return the largest number of f32 that is not above this one: parts of f32 compare with both alike."""
    near = _F32(number)
    return float(near if near <= number else np.nextafter(near, _F32(-1)))
