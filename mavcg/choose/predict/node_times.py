"""Predicted time of every node of a graph, by the fastest of the algorithms that can compute it."""

from collections.abc import Callable
from dataclasses import replace

from mavcg.choose.lowering.lower import lower_candidates
from mavcg.choose.predict.algorithms import fastest_of, predict_algorithms
from mavcg.graph import Graph
from mavcg.hardware.core_model import BoardModel
from mavcg.runtime.machines import packing_for

Progress = Callable[[str], None]


def node_times(
    graph: Graph,
    board: BoardModel,
    max_error: float,
    progress: Progress = lambda message: None,
    workers: int = 1,
) -> dict[str, float]:
    """Return the time of each node of an optimised graph in ms, by its output; nodes without a kernel are left out.

    max_error: of algorithms (lower_candidates). The time is AlgorithmTime.mean_ms, of the fastest cluster.
    """
    candidates = lower_candidates(graph, packing_for(board.target, board.machines.values()), max_error)
    every = {node.output: candidates.algorithms.get(node.output, ()) for node in candidates.storage.graph.nodes}
    predicted = predict_algorithms(replace(candidates, algorithms=every), board, progress, workers)
    return {node: fastest_of(times).mean_ms for node, times in predicted.considered.items()}
