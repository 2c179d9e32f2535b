"""Tables of a Resize whose factor follows from the lengths, as operators on the lengths of its axis before and after.

A file's tables are those of one length. Where an operator resizes to a size, or aligns corners, its importer says by
which rule they are made (the attribute `rule`), and a run computes them: operation by operation as the importers do, so
that they have the bits of a library of that length. Where the factor is the same whole number at all lengths, the
table of the longest length begins with those of the others.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from mavcg.choose.lengths.length_numbers import length_input
from mavcg.choose.lengths.samples import AxisCounts, Lengths, Refusal
from mavcg.graph import Array, Graph, Node, TensorType
from mavcg.graph.counts import Count, is_symbolic, product_of, text_of, value_at
from mavcg.importers.onnx_ops.resize import HALFWAY
from mavcg.ops import make_node
from mavcg.passes.graph.rewrite import Rewrite
from mavcg.reference.evaluate import evaluate

RESAMPLED = ("resample", "gather")
_F32 = np.float32
T = TypeVar("T")


@dataclass(frozen=True)
class ResizedAxis:
    """The lengths of a resized axis before and after. computed: True if a run computes its tables."""

    before: Count
    after: Count
    computed: bool


Resized = Mapping[tuple[str, int], ResizedAxis]  # by the node of the file, and the number of its axis


@dataclass(frozen=True)
class _Operators(Generic[T]):
    """Functions that add constants and operators: of tensors by name in a graph, or of arrays, computed at once."""

    constant: Callable[[Array], T]
    add: Callable[..., T]

    def number(self, value: float) -> T:
        """Return a scalar of f32."""
        return self.constant(np.array(value, _F32))


def resized_axes(graph: Graph, axes: Mapping[str, AxisCounts]) -> Resized:
    """Return the lengths of the axes that are resized by a rule. axes: counts of the axes of all tensors."""
    found = dict[tuple[str, int], ResizedAxis]()
    for node, key in _numbered_nodes(graph):
        axis = node.attr("axis")
        before, after = axes[node.inputs[0]][axis], axes[node.output][axis]
        factor = graph.types[node.output].shape[axis] // max(1, graph.types[node.inputs[0]].shape[axis])
        whole = after == product_of(factor, before) and "align_corners" not in node.attr("rule")
        found[key] = ResizedAxis(before, after, (is_symbolic(before) or is_symbolic(after)) and not whole)
    return found


def _numbered_nodes(graph: Graph) -> list[tuple[Node, tuple[str, int]]]:
    """Return the nodes with a rule, each with its key: passes rename them, and keep their order."""
    numbers = Counter[str]()
    found = list[tuple[Node, tuple[str, int]]]()
    for node in graph.nodes:
        if has_rule(node):
            found.append((node, (node.origin, numbers[node.origin])))
            numbers[node.origin] += 1
    return found


def resized_lengths(graph: Graph, resized: Resized) -> Mapping[str, Sequence[Count]]:
    """Return the length of each resized axis of an optimised graph, by the node's output."""
    return {node.output: [resized[key].after] for node, key in _numbered_nodes(graph) if key in resized}


def has_rule(node: Node) -> bool:
    """Return True for a node with tables that follow from the lengths before and after."""
    return node.op in RESAMPLED and bool(node.attr("rule"))


def follows_rule(node: Node, graph: Graph) -> bool:
    """Return True if a node's tables in a graph of fixed lengths are those of its rule."""
    x, index, *weight = node.inputs
    axis = node.attr("axis")
    before, after = graph.types[x].shape[axis], graph.types[node.output].shape[axis]

    def add(op: str, *inputs: Array, **attributes: Any) -> Array:
        names = tuple(map(str, range(len(inputs))))
        return evaluate(make_node(op, names, ("y",), **attributes), inputs)[0]

    operators = _Operators[Array](lambda array: array, add)
    made = _tables(node, after, np.array(before, np.int32), np.array(after, np.int32), operators)
    read = graph.constants.get(index), graph.constants.get(weight[0]) if weight else None
    same = read[0] is not None and np.array_equal(np.minimum(made[0], before - 1), read[0])
    if made[1] is None:
        return same and (read[1] is None or bool(np.all(read[1] == 1)))
    return same and read[1] is not None and made[1].tobytes() == read[1].tobytes()


def with_computed_tables(
    graphs: Sequence[Graph], samples: Sequence[Lengths], resized: Resized, refusal: Refusal
) -> tuple[list[Graph], Mapping[str, AxisCounts]]:
    """Return the optimised graphs with operators that compute tables, on inputs that are lengths of axes.

    The second result has the counts of the axes of new tensors. Tables of equal rules and lengths are computed once.
    Raises: MavcgError, made by `refusal`, for a node whose axes are not those of the file.
    """
    counts = dict[str, AxisCounts]()
    made = [_with_tables(graph, at, resized, counts, refusal) for graph, at in zip(graphs, samples, strict=True)]
    return made, counts


def _with_tables(
    graph: Graph, sample: Lengths, resized: Resized, counts: dict[str, AxisCounts], refusal: Refusal
) -> Graph:
    at = dict[str, ResizedAxis]()
    for node, key in _numbered_nodes(graph):
        axis = resized.get(key)
        number = node.attr("axis")
        lengths = [graph.types[name].shape[number] for name in (node.inputs[0], node.output)]
        if axis is None or lengths != [value_at(axis.before, sample), value_at(axis.after, sample)]:
            raise refusal(
                node, f"resizes axis {number} from {lengths[0]} to {lengths[1]}, which no axis of the file has"
            )
        at |= {node.output: axis} if axis.computed else {}
    words = dict.fromkeys(length_input(text_of(n)) for each in at.values() for n in (each.before, each.after))
    types = dict(graph.types) | dict.fromkeys(words, TensorType("i32", ()))
    inputs = tuple(dict.fromkeys((*graph.inputs, *words)))
    new = Rewrite(replace(graph, inputs=inputs, types=types))
    shared = dict[tuple[str, str, ResizedAxis], tuple[str, str | None]]()
    for node in graph.nodes:
        axis = at.get(node.output)
        if axis is None:
            new.keep(node)
            continue
        tables_of = node.op, str(node.attr("rule")), axis
        if tables_of not in shared:
            shared[tables_of] = _added_tables(new, node, axis, counts)
        index, weight = shared[tables_of]
        tables = (index, *((weight or name) for name in node.inputs[2:]))
        new.put(replace(node, inputs=(new.of(node.inputs[0]), *tables)))
    return new.finish()


def _added_tables(new: Rewrite, node: Node, axis: ResizedAxis, counts: dict[str, AxisCounts]) -> tuple[str, str | None]:
    """Add the operators of a node's tables. counts: to which those of new tensors are added."""
    after = new.types[node.output].shape[node.attr("axis")]

    def add_counts(name: str) -> str:
        shape = new.types[name].shape
        counts[name] = (axis.after, *shape[1:]) if shape and shape[0] == after > 1 else shape
        return name

    def constant(array: Array) -> str:
        return add_counts(new.constant(array, f"{node.output}, constant"))

    def add(op: str, *inputs: str, **attributes: Any) -> str:
        return add_counts(new.add(op, inputs, f"{node.output}, {op}", node.origin, **attributes))

    before, made = (length_input(text_of(n)) for n in (axis.before, axis.after))
    return _tables(node, after, before, made, _Operators(constant, add))


def _tables(node: Node, count: int, before: T, after: T, operators: _Operators[T]) -> tuple[T, T | None]:
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


def _nearest(mode: str, coordinates: str, at: T, operators: _Operators[T]) -> T:
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
