"""Selects a model's primitives and layouts for a library, as `mavcg build --strategy` requires."""

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.cost_model.board_machine import ClusterMachine
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.hardware.board import Board
from mavcg.kernels.primitives.registry import all_primitives, eight_bit_primitives
from mavcg.ops.verify import verify
from mavcg.passes.graph.legalise import legalise
from mavcg.predict.algorithms import PredictedAlgorithms
from mavcg.selection.choice import Choice, Limits, Problem, make_problem
from mavcg.selection.costs.engine_costs import (
    LibraryModel,
    SafetyFactors,
    conversions_in_network,
    in_library,
    predicted_costs,
    safety_factors_of,
)
from mavcg.selection.costs.modelled import modelled_costs
from mavcg.selection.costs.provider import CostProvider, mean_of
from mavcg.selection.library import library_choice, without_computed_weights
from mavcg.selection.network import network_of
from mavcg.selection.select_network import costs_on, model_on
from mavcg.selection.select_workers import workers_of
from mavcg.selection.strategies import PBQP, TIME_LIMIT_S, Selected, check_strategy, select, strategy_names
from mavcg.selection.weight_limit import select_within
from mavcg.specs.kernel import Packing
from mavcg.specs.primitive import Primitive

ENGINE = "engine"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class ModelQuestion:
    """Options of a selection for a library. strategy: of mavcg.selection.strategies. db: of costs, None: this user's,
    if any.

    max_error, max_workspace_bytes: of each primitive. safety_factors: of alternatives to the engine's default;
    None: those of the fastest core's kind.
    """

    strategy: str = PBQP
    db: Path | None = None
    max_error: float = math.inf
    max_workspace_bytes: int | None = None
    time_limit_s: float = TIME_LIMIT_S
    safety_factors: SafetyFactors | None = None


@dataclass(frozen=True)
class SelectedModel:
    """graph: with primitives, layouts and conversions written into it; algorithms: of its conv2d nodes, for
    lower_graph.

    problem: with costs as in a library; selected: what was chosen; core: that costs are of; threads: numbers of threads
    that it is chosen for, by the geometric mean of their times.
    """

    graph: Graph
    algorithms: Mapping[str, str]
    problem: Problem
    selected: Selected
    core: str
    threads: tuple[int, ...] = (1,)

    @property
    def choice(self) -> Choice:
        """The choice, with its costs."""
        return self.selected.choice

    def as_json(self) -> dict[str, Any]:
        """Return the selection for reports and a library's note:

        nodes, conversions, costs in ms by the tables that were read.
        """
        choice, network = self.choice, self.problem.network
        nodes = []
        for node in network.convolutions:
            one = choice.chosen[node.name]
            nodes.append({
                "name": node.name, "primitive": one.name, "layout_in": str(one.layout_in),
                "layout_out": str(one.layout_out), "cost_ms": one.cost.ms, "cost_is": one.cost.kind,
            })  # fmt: skip
        conversions = [
            {"tensor": one.tensor, "chain": [str(layout) for layout in one.chain], "source": one.source,
             "readers": list(one.readers), "cost_ms": one.ms, "cost_is": one.kind}
            for one in choice.conversions
        ]  # fmt: skip
        return {
            "strategy": self.selected.strategy,
            "core": self.core,
            "threads": list(self.threads),
            "nodes": nodes,
            "conversions": conversions,
            "conversions_ms": choice.conversions_ms,
            "total_ms": choice.total_ms,
            "optimal": self.selected.strategy == PBQP and self.selected.proven,
            "left_out": [{"name": node.name, "why": node.why} for node in network.left_out],
        }


def select_for_library(
    graph: Graph,
    packing: Packing,
    board: Board,
    question: ModelQuestion,
    engine: PredictedAlgorithms,
    progress: Progress = lambda message: None,
) -> SelectedModel | None:
    """Select for an optimised graph, and write the choice into it; None where it has no convolution to choose for.

    A library is run with one thread or with several, and costs are the geometric mean of those of one core of the
    board's fastest cluster and of all its cores together, as for the engine's algorithms. engine: what is predicted of
    these, and the algorithms of convolutions that no scenario describes.
    Raises: MavcgError for an unknown strategy or one that cannot do the network, for a limit that leaves nothing.
    """
    progress("selecting primitives and layouts")
    network = without_computed_weights(network_of(graph, packing.lanes), graph)
    if not network.convolutions:
        return None
    workers, between = _workers(board), _bytes_of(graph)
    modelled = _mean([model_on(each, between) for each in workers])
    model = LibraryModel(modelled, modelled_costs(workers[0][0], 1, between), len(workers[-1]))
    safety = question.safety_factors or safety_factors_of(workers[0][0].fit)
    primitives, max_error = _admit(question.max_error)
    limits = Limits(max_error, question.max_workspace_bytes)
    with contextlib.ExitStack() as stack:
        costs = [costs_on(each, question.db, stack, between)[0] for each in workers]
        network_costs = conversions_in_network(_mean(costs), modelled, safety)
        plain = make_problem(network, network_costs, primitives, limits, shared=True)
    check_strategy(question.strategy, (ENGINE, *strategy_names(plain)))
    problem = in_library(plain, graph, model, predicted_costs(graph, engine.considered), safety)
    selected = select(problem, question.strategy, question.time_limit_s)
    chosen = {node.tensor for node in network.convolutions}
    others = {tensor: name for tensor, name in engine.fastest.items() if tensor not in chosen}
    threads = tuple(len(each) for each in workers)
    return write_choice(graph, packing, workers[0][0].cluster.core, threads, problem, selected, others)


def _admit(max_error: float) -> tuple[tuple[Primitive, ...], float]:
    """Return the primitives to select from, and what they may be off by.

    In a library no error is too small: below what any is bounded by, all sums are by their definition, as those of the
    engine's own algorithms.
    """
    known = all_primitives()
    least = min(primitive.error_bound for primitive in known)
    if max_error < least:
        known, max_error = tuple(primitive for primitive in known if primitive.plain_sums), least
    return (*known, *eight_bit_primitives()), max_error


def _workers(board: Board) -> tuple[tuple[ClusterMachine, ...], ...]:
    """Return one worker on the fastest core, and one for all of its cluster, where it has more than one."""
    alone = workers_of(board)  # every version of a kernel computes alike, so that one kind of core speaks for all
    count = len(alone[0].cluster.cpus)
    return (alone,) if count == 1 else (alone, workers_of(board, threads=count))


def _mean(costs: Sequence[CostProvider]) -> CostProvider:
    return costs[0] if len(costs) == 1 else mean_of(costs[0], costs[1])


def _bytes_of(graph: Graph) -> float:
    """Return the bytes that are touched until a layer comes again: all constants, and the outputs of nodes."""
    made = sum(graph.types[name].bytes for node in graph.nodes for name in node.outputs if name)
    return float(sum(np.asarray(array).nbytes for array in graph.constants.values()) + made)


def within_weights(
    found: SelectedModel, graph: Graph, packing: Packing, limit_bytes: int, time_limit_s: float = TIME_LIMIT_S
) -> SelectedModel:
    """Return the same strategy's selection for a graph with at most so many bytes of convolutions' packed weights.

    Raises: TooSmall where they take more however they are computed.
    """
    problem, selected = select_within(
        found.problem, found.selected.strategy, limit_bytes, packing.lanes, time_limit_s
    )  # fmt: skip
    return write_choice(graph, packing, found.core, found.threads, problem, selected, {})


def write_choice(
    graph: Graph,
    packing: Packing,
    core: str,
    threads: tuple[int, ...],
    problem: Problem,
    selected: Selected,
    others: Mapping[str, str],
) -> SelectedModel:
    """Return a choice written into the graph. others: algorithms of conv2d nodes that nothing is chosen for.

    Raises: MavcgError where a conversion that it needs has no cost.
    """
    if math.isinf(selected.total_ms):
        raise MavcgError(f"--strategy {selected.strategy}: a conversion that it needs has no cost; take another")
    chosen = library_choice(selected.choice, problem.network, graph, packing.lanes)
    algorithms = {**others, **chosen.algorithms}
    if not chosen.layouts.primitives and not chosen.layouts.layouts:
        return SelectedModel(graph, algorithms, problem, selected, core, threads)
    legal = legalise(graph, chosen.layouts)
    verify(legal)
    return SelectedModel(legal, algorithms, problem, selected, core, threads)
