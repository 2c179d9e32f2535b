"""The choice of the layers that are computed in f16, so that the measured error stays within a limit."""

from collections.abc import Callable, Sequence

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node
from mavcg.kernels.registry import single_inputs
from mavcg.model.precision import half_graph
from mavcg.model.precision_error import MeasuredError, exact_outputs, measure_error, relative_error, samples
from mavcg.passes.graph.precision import half_inputs
from mavcg.reference.evaluate import run
from mavcg.reference.half import evaluate_half, rounds_terms

Progress = Callable[[str], None]


def choose_half_layers(graph: Graph, limit: float | None, progress: Progress) -> tuple[Graph, MeasuredError]:
    """Return a graph in which the nodes with the smallest errors are f16, as many as keep the limit, and its error.

    graph: in f32. limit: of the network's measured error; None: all nodes are f16. The nodes with the largest own
    errors stay f32: fewest of them, found by bisection. Where the error cannot be measured, all nodes stay f32.
    """
    progress("measuring the error of half precision")
    half, exact = half_graph(graph), exact_outputs(graph)
    error = measure_error(graph, half, exact)
    if limit is None or (error.relative is not None and error.relative <= limit):
        return half, error
    if error.relative is None:
        return graph, error
    worst_first = [name for name, _ in sorted(own_errors(graph).items(), key=lambda pair: -pair[1])]
    best, fewest, most = (graph, MeasuredError(0.0)), 0, len(worst_first)
    while most - fewest > 1:  # with `fewest` nodes in f32 the error is too large, with `most` it is not
        middle = (fewest + most) // 2
        progress(f"measuring the error with {middle} of {len(worst_first)} operators in f32")
        half = half_graph(graph, frozenset(worst_first[:middle]))
        error = measure_error(graph, half, exact)
        if error.relative is not None and error.relative <= limit:
            best, most = (half, error), middle
        else:
            fewest = middle
    return best


def own_errors(graph: Graph) -> dict[str, float]:
    """Return the error of each node that f16 kernels can compute, by its output, where its inputs are exact.

    Raises: MavcgError as run.
    """
    errors: dict[str, float] = {}
    in_blocks = rounds_terms(graph)

    def compare(node: Node, inputs: Sequence[Array | None], exact: Array) -> None:
        kept = single_inputs(node, graph)
        if kept is None or exact.dtype.kind != "f" or not exact.size:
            return
        try:
            computed = evaluate_half(node, half_inputs(inputs, kept), in_blocks)
        except MavcgError:  # a rounded number is an index
            computed = np.full(exact.shape, np.nan, np.float16)
        errors[node.output] = relative_error(exact, computed)

    run(graph, *samples(graph), wide=True, visit=compare)
    return errors
