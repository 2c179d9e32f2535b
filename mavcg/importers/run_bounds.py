"""Bounds of numbers that a run brings, as far as they follow from the operators that make them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import DTYPES, Array, Node
from mavcg.graph.ops.op import FLOATS
from mavcg.importers.emitter import Emitter
from mavcg.importers.limits import MOST_INTS
from mavcg.importers.run_numbers import DEEPEST, MOVES, SUMS, GraphNodes, move_elements
from mavcg.importers.value import Value

Bounds = tuple[Array, Array]  # least and largest values of a tensor's elements, f64 of its shape


def bounds_of(emitter: Emitter, value: Value) -> tuple[float, float]:
    """Return the least and the largest number that the elements of a tensor may be; those of its type if nothing else
    is known.

    They hold for numbers: a NaN that is cast may become any one.
    """
    least, most = _GraphBounds(emitter).of(value, DEEPEST)
    return float(least.min(initial=np.inf)), float(most.max(initial=-np.inf))


class _GraphBounds:
    """Bounds of the elements of tensors; each tensor is looked at once."""

    def __init__(self, emitter: Emitter) -> None:
        self.nodes = GraphNodes(emitter)
        self._made: dict[str, Bounds] = {}

    def of(self, value: Value, depth: int) -> Bounds:
        """Return the bounds of a tensor's elements. depth: operators to look through."""
        if value.type.elements > MOST_INTS or value.quantised is not None:
            return _of_type(value)
        if value.known is not None:
            numbers = value.known.astype(np.float64)
            return _of_type(value) if np.isnan(numbers).any() else (numbers, numbers)
        if value.name not in self._made:
            node = self.nodes.behind(value, _BOUNDED) if depth else None
            self._made[value.name] = _within_type(value, None if node is None else self._of_node(node, depth - 1))
        return self._made[value.name]

    def _of_node(self, node: Node, depth: int) -> Bounds | None:
        """Return the bounds of a node's result; None if nothing is known."""
        read = self.nodes.inputs(node)
        if node.op in ("arg_max", "arg_min"):
            return np.zeros(()), np.asarray(max(read[0].shape[node.attr("axis")] - 1.0, 0.0))
        if node.op == "slice" and (found := self.nodes.behind(read[0], ("true_places",))) is not None:
            if node.attr("stops") == (1,):  # the first element is the number of flags that are true
                return np.zeros(()), np.asarray(float(self.nodes.inputs(found)[0].type.elements))
        if node.op == "gather":
            sides = self.of(read[0], depth)
            if read[1].array is None:
                return np.asarray(sides[0].min(initial=np.inf)), np.asarray(sides[1].max(initial=-np.inf))
            return move_elements(node, [sides[0], read[1].array]), move_elements(node, [sides[1], read[1].array])
        bounds = [self.of(part, depth) for part in read]
        lows, highs = [low for low, _ in bounds], [high for _, high in bounds]
        if node.op in MOVES:
            return move_elements(node, lows), move_elements(node, highs)
        with np.errstate(all="ignore"):
            return _arithmetic(node, read[0].dtype not in FLOATS, lows, highs)


def _within_type(value: Value, made: Bounds | None) -> Bounds:
    """Return bounds of a tensor's shape: those of its type without others, and where numbers may wrap around."""
    least, most = _of_type(value)
    if made is None or np.isnan(made[0]).any() or np.isnan(made[1]).any():
        return least, most
    if value.dtype not in FLOATS and ((made[0] < least).any() or (made[1] > most).any()):
        return least, most
    return np.broadcast_to(made[0], value.shape), np.broadcast_to(made[1], value.shape)


def _of_type(value: Value) -> Bounds:
    """Return the bounds that follow from an element type."""
    if value.dtype in FLOATS:
        least, most = -np.inf, np.inf
    elif value.dtype == "bool":
        least, most = 0.0, 1.0
    else:
        info = np.iinfo(DTYPES[value.dtype])
        least, most = float(info.min), float(info.max)
    return np.broadcast_to(np.float64(least), value.shape), np.broadcast_to(np.float64(most), value.shape)


_MONOTONE: Mapping[str, Callable[[Any], Any]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "relu": lambda x: np.maximum(x, 0.0),
}
_BOUNDED = frozenset(
    (*MOVES, *SUMS, *_MONOTONE, "arg_max", "arg_min", "abs", "min", "max", "clip", "where", "mod", "div")
)


def _arithmetic(node: Node, whole: bool, lows: Sequence[Array], highs: Sequence[Array]) -> Bounds | None:
    """Return the bounds of a sum, product, minimum, .. from those of its inputs; None if nothing is known.

    whole: they are whole numbers.
    """
    low, high = lows[0], highs[0]
    match node.op:
        case "cast":
            if node.attr("to") == "bool":
                return None
            return (low, high) if whole or node.attr("to") in FLOATS else (np.trunc(low), np.trunc(high))
        case "add":
            return low + lows[1], high + highs[1]
        case "sub":
            return low - highs[1], high - lows[1]
        case "neg":
            return -high, -low
        case "abs":
            edges = np.abs(low), np.abs(high)
            return np.where((low <= 0) & (high >= 0), 0.0, np.minimum(*edges)), np.maximum(*edges)
        case "min" | "max":
            combine = np.minimum if node.op == "min" else np.maximum
            return combine(low, lows[1]), combine(high, highs[1])
        case "clip":
            lo, hi = node.attr("lo"), node.attr("hi")
            return np.minimum(np.maximum(low, lo), hi), np.minimum(np.maximum(high, lo), hi)
        case "where":
            return np.minimum(lows[1], lows[2]), np.maximum(highs[1], highs[2])
        case "mod":
            positive = whole and not node.attr("fmod") and bool((lows[1] > 0).all())
            return (np.zeros(()), highs[1] - 1) if positive else None
        case "mul":
            return _at_edges(np.multiply, (low, high), (lows[1], highs[1]))
        case "div":
            if not (lows[1] > 0).all():
                return None
            least, most = _at_edges(np.divide, (low, high), (lows[1], highs[1]))
            return (np.trunc(least), np.trunc(most)) if whole else (least, most)
    return _MONOTONE[node.op](low), _MONOTONE[node.op](high)


def _at_edges(of: Callable[[Any, Any], Array], a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds of a function of two numbers that is monotone in each."""
    edges = [of(first, second) for first in a for second in b]
    return np.minimum.reduce(edges), np.maximum.reduce(edges)
