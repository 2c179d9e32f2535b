"""The choice of the layers that are computed in f16, so that the measured error stays within a limit."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Array, Graph, Node
from mavcg.graph.reference.half import IN_BLOCKS, evaluate_half, rounds_terms
from mavcg.kernels.registry import single_inputs
from mavcg.model.precision import F16, half_graph
from mavcg.model.precision_error import ExactRun, MeasuredError, exact_runs, measure_error, relative_error
from mavcg.passes.graph.precision import to_half

Progress = Callable[[str], None]


@dataclass(frozen=True)
class HalfChoice:
    """A graph with nodes in f16 or bf16.

    own: errors of nodes that its kernels can compute, by output (OwnErrors). runs: exact_runs of the f32 graph.
    """

    graph: Graph
    error: MeasuredError
    own: Mapping[str, float]
    runs: tuple[ExactRun, ...]


Select = Callable[[Set[str]], Set[str]]  # outputs of nodes that must stay f32 -> of those that do


def choose_half_layers(
    graph: Graph,
    limit: float | None,
    sets: Sequence[Sequence[Array]],
    progress: Progress,
    dtype: str = F16,
    select: Select = lambda single: single,
) -> HalfChoice:
    """Choose the nodes with the smallest errors for f16, as many as keep the limit.

    graph: in f32. limit: of the network's measured error; None: all nodes are f16, or of `dtype`. sets: of inputs, on
    which errors are measured. The nodes with the largest own errors stay f32: fewest of them, found by bisection. Where
    the error cannot be measured, all nodes stay f32. select: names the nodes that stay f32 beside them, for time.
    """
    progress("measuring the error of half precision")
    own = OwnErrors(graph, dtype)
    runs = exact_runs(graph, sets, own.compare)
    half = half_graph(graph, select(frozenset()), dtype)
    error = measure_error(half, runs)
    if limit is None or (error.relative is not None and error.relative <= limit):
        return HalfChoice(half, error, own.largest, runs)
    if error.relative is None:
        return HalfChoice(graph, error, own.largest, runs)
    worst_first = sorted(own.largest, key=lambda name: -own.largest[name])
    return HalfChoice(*_fewest_single(graph, worst_first, limit, runs, progress, select), own.largest, runs)


def _fewest_single(
    graph: Graph,
    worst_first: Sequence[str],
    limit: float,
    runs: Sequence[ExactRun],
    progress: Progress,
    select: Select,
) -> tuple[Graph, MeasuredError]:
    """Return the graph whose first nodes of these stay f32, as few as keep the limit, and its error."""
    best, fewest, most = (graph, MeasuredError(0.0)), 0, len(worst_first)
    while most - fewest > 1:  # with `fewest` nodes in f32 the error is too large, with `most` it is not
        middle = (fewest + most) // 2
        progress(f"measuring the error with {middle} of {len(worst_first)} operators in f32")
        half = half_graph(graph, select(frozenset(worst_first[:middle])))
        error = measure_error(half, runs)
        if error.relative is not None and error.relative <= limit:
            best, most = (half, error), middle
        else:
            fewest = middle
    return best


@dataclass(frozen=True)
class OwnErrors:
    """The errors of a graph's nodes in f16, or in bf16, where their inputs are exact.

    largest: of all runs, by a node's output; infinite where a number that the node reads or makes is beyond the type's
    range. Nodes without kernels are left out.
    """

    graph: Graph
    dtype: str = F16
    largest: dict[str, float] = field(default_factory=dict)

    def compare(self, node: Node, inputs: Sequence[Array | None], exact: Array) -> None:
        """Measure a node's error in a run. inputs, exact: its inputs and output in f64."""
        kept = single_inputs(node, self.graph)
        if kept is None or exact.dtype.kind != "f" or not exact.size:
            return
        try:
            halves = [self._half_input(*numbered, node, kept) for numbered in enumerate(inputs)]
            computed = evaluate_half(node, halves, IN_BLOCKS if rounds_terms(self.graph) else None)
        except MavcgError:  # a rounded number is an index
            computed = np.full(exact.shape, np.nan, np.float16)
        error = relative_error(exact, computed)
        self.largest[node.output] = max(error, self.largest.get(node.output, 0.0))

    def _half_input(self, number: int, array: Array | None, node: Node, kept: Sequence[int]) -> Array | None:
        if array is None or array.dtype.kind != "f":
            return array
        if number in kept:
            return array.astype(np.float32)
        if node.inputs[number] in self.graph.constants:
            return to_half(array, self.dtype)
        with np.errstate(over="ignore"):  # a tensor beyond the range is infinite, as its conversion makes it
            return array.astype(DTYPES[self.dtype])
