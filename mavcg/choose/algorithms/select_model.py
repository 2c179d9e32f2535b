"""Selection of a model's primitives and layouts for a library (`mavcg build --strategy`)."""

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mavcg.choose.algorithms.choice import Choice, Limits, Problem, make_problem
from mavcg.choose.algorithms.costs.engine_costs import (
    LibraryModel,
    conversions_in_network,
    in_library,
    predicted_costs,
)
from mavcg.choose.algorithms.costs.modelled import modelled_costs
from mavcg.choose.algorithms.costs.node_costs import safety_factors_of
from mavcg.choose.algorithms.costs.on_cores import costs_on, model_on
from mavcg.choose.algorithms.costs.provider import CostProvider, mean_of
from mavcg.choose.algorithms.library import library_choice, without_computed_weights
from mavcg.choose.algorithms.network import network_of
from mavcg.choose.algorithms.questions import ModelQuestion
from mavcg.choose.algorithms.strategies import (
    ENGINE,
    PBQP,
    TIME_LIMIT_S,
    Selected,
    check_strategy,
    select,
    strategy_names,
)
from mavcg.choose.limits.weight_limit import select_within
from mavcg.choose.predict.algorithms import PredictedAlgorithms
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.ops.nodes import verify
from mavcg.hardware.core_model import BoardModel, CoreModel
from mavcg.kernels.primitives.registry import all_primitives, eight_bit_primitives
from mavcg.passes.graph.legalise import legalise
from mavcg.specs.kernel import Packing
from mavcg.specs.primitive import Primitive

Progress = Callable[[str], None]


@dataclass(frozen=True)
class SelectedModel:
    """A model's selection, written into its graph.

    graph: with primitives, layouts and conversions. algorithms: of its conv2d nodes, for lower_graph. problem: with
    costs as in a library. core: of the costs. threads: numbers of threads; the choice minimises the geometric mean of
    their times.
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
        """Return the selection for reports and a library's note: nodes and conversions, with their costs in ms."""
        choice, network = self.choice, self.problem.network
        nodes = []
        for node in network.convolutions:
            alternative = choice.chosen[node.name]
            nodes.append(
                {
                    "name": node.name,
                    "primitive": alternative.name,
                    "layout_in": str(alternative.layout_in),
                    "layout_out": str(alternative.layout_out),
                    "cost_ms": alternative.cost.ms,
                    "cost_is": alternative.cost.kind,
                }
            )
        conversions = [
            {
                "tensor": conversion.tensor,
                "chain": [str(layout) for layout in conversion.chain],
                "source": conversion.source,
                "readers": list(conversion.readers),
                "cost_ms": conversion.ms,
                "cost_is": conversion.kind,
            }
            for conversion in choice.conversions
        ]
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
    board: BoardModel,
    question: ModelQuestion,
    engine: PredictedAlgorithms,
    progress: Progress = lambda message: None,
) -> SelectedModel | None:
    """Select for an optimised graph, and write the choice into it; None if it has no convolution to select for.

    A library runs with one thread or with several, so costs are the geometric mean of those of one core of the board's
    fastest cluster and of all its cores together, as for the engine's algorithms. engine: predicted costs of these
    algorithms, and the algorithms of convolutions without a scenario.
    Raises: MavcgError for an unknown strategy, one that cannot compute the network, or limits that leave no primitive.
    """
    progress("selecting primitives and layouts")
    network = without_computed_weights(network_of(graph, packing.lanes), graph)
    if not network.convolutions:
        return None
    workers, between = _workers(board), _bytes_of(graph)
    modelled = _mean([model_on(team, between) for team in workers])
    model = LibraryModel(modelled, modelled_costs(workers[0][0], 1, between), len(workers[-1]))
    safety = question.safety_factors or safety_factors_of(workers[0][0].fit)
    primitives, max_error = _admit(question.max_error)
    limits = Limits(max_error, question.max_workspace_bytes)
    with contextlib.ExitStack() as stack:
        costs = [costs_on(team, question.db, stack, between)[0] for team in workers]
        network_costs = conversions_in_network(_mean(costs), modelled, safety)
        plain = make_problem(network, network_costs, primitives, limits, shared=True)
    check_strategy(question.strategy, (ENGINE, *strategy_names(plain)))
    problem = in_library(plain, graph, model, predicted_costs(graph, engine), safety)
    selected = select(problem, question.strategy, question.time_limit_s)
    chosen = {node.tensor for node in network.convolutions}
    others = {tensor: name for tensor, name in engine.fastest.items() if tensor not in chosen}
    threads = tuple(len(team) for team in workers)
    return write_choice(graph, packing, workers[0][0].cluster.core, threads, problem, selected, others)


def _admit(max_error: float) -> tuple[tuple[Primitive, ...], float]:
    """Return the primitives to select from, and the limit of their error.

    No limit is too small for a library: below every primitive's error bound, all sums follow the definition, as in the
    engine's own algorithms.
    """
    primitives = all_primitives()
    least = min(primitive.error_bound for primitive in primitives)
    if max_error < least:
        primitives, max_error = tuple(primitive for primitive in primitives if primitive.plain_sums), least
    return (*primitives, *eight_bit_primitives()), max_error


def _workers(board: BoardModel) -> tuple[tuple[CoreModel, ...], ...]:
    """Return one worker on the fastest core, and one worker for each core of its cluster if there are several."""
    fastest = board.fastest_first[0]  # all versions of a kernel compute the same, so one kind of core represents all
    team = tuple(board.team_of(fastest))
    return ((fastest,),) if len(team) == 1 else ((fastest,), team)


def _mean(costs: Sequence[CostProvider]) -> CostProvider:
    return costs[0] if len(costs) == 1 else mean_of(costs[0], costs[1])


def _bytes_of(graph: Graph) -> float:
    """Return the bytes touched between two runs of the same layer: all constants, and the outputs of all nodes."""
    output_bytes = sum(graph.types[name].bytes for node in graph.nodes for name in node.outputs if name)
    return float(sum(np.asarray(array).nbytes for array in graph.constants.values()) + output_bytes)


def within_weights(
    selected_model: SelectedModel, graph: Graph, packing: Packing, limit_bytes: int, time_limit_s: float = TIME_LIMIT_S
) -> SelectedModel:
    """Return the same strategy's selection with at most limit_bytes of packed convolution weights.

    Raises: TooSmall if every choice takes more.
    """
    problem, selected = select_within(
        selected_model.problem, selected_model.selected.strategy, limit_bytes, packing.lanes, time_limit_s
    )
    return write_choice(graph, packing, selected_model.core, selected_model.threads, problem, selected, {})


def write_choice(
    graph: Graph,
    packing: Packing,
    core: str,
    threads: tuple[int, ...],
    problem: Problem,
    selected: Selected,
    others: Mapping[str, str],
) -> SelectedModel:
    """Return a choice written into the graph. others: algorithms of conv2d nodes without a choice.

    Raises: MavcgError if a conversion that the choice needs has no cost.
    """
    if math.isinf(selected.total_ms):
        raise MavcgError(
            f"--strategy {selected.strategy}: a conversion that it needs has no cost; choose another strategy"
        )
    chosen = library_choice(selected.choice, problem.network, graph, packing.lanes)
    algorithms = {**others, **chosen.algorithms}
    if not chosen.layouts.primitives and not chosen.layouts.layouts:
        return SelectedModel(graph, algorithms, problem, selected, core, threads)
    legal = legalise(graph, chosen.layouts)
    verify(legal)
    return SelectedModel(legal, algorithms, problem, selected, core, threads)
