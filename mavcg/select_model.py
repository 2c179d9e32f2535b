"""A model's primitives and layouts selected for a library: what `mavcg build --strategy` does."""

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.board import Board
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.kernel import Packing
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.ops.verify import verify
from mavcg.passes.graph.legalise import legalise
from mavcg.select_network import costs_of
from mavcg.select_workers import workers_of
from mavcg.selection.choice import Choice, Limits, Problem, make_problem
from mavcg.selection.library import in_library, library_choice, without_computed_weights
from mavcg.selection.modelled import modelled_costs
from mavcg.selection.network import network_of
from mavcg.selection.strategies import PBQP, TIME_LIMIT_S, Selected, select
from mavcg.selection.weight_limit import select_within

ENGINE = "engine"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class ModelQuestion:
    """How to select for a library. strategy: of mavcg.selection.strategies. db: of costs, None: this user's, if any.

    max_error, max_workspace_bytes: of each primitive.
    """

    strategy: str = PBQP
    db: Path | None = None
    max_error: float = math.inf
    max_workspace_bytes: int | None = None
    time_limit_s: float = TIME_LIMIT_S


@dataclass(frozen=True)
class SelectedModel:
    """graph: with primitives, layouts and conversions written into it; ways: of its conv2d nodes, for lower_graph.

    problem: with costs as in a library; selected: what was chosen; core: that costs are of.
    """

    graph: Graph
    ways: Mapping[str, str]
    problem: Problem
    selected: Selected
    core: str

    @property
    def choice(self) -> Choice:
        """What was chosen, with its costs."""
        return self.selected.choice

    def as_json(self) -> dict[str, Any]:
        """For reports and a library's note: nodes, conversions, costs in ms by the tables that were asked."""
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
    progress: Progress = lambda message: None,
) -> SelectedModel | None:
    """Select for an optimised graph, and write the choice into it; None where it has no convolution to choose for.

    Raises: MavcgError for an unknown strategy or one that cannot do the network, for a limit that leaves nothing.
    """
    progress("selecting primitives and layouts")
    (machine,) = workers_of(board)  # every version of a kernel computes alike, so that one core speaks for all
    network = without_computed_weights(network_of(graph, packing.lanes), graph)
    if not network.convolutions:
        return None
    limits = Limits(question.max_error, question.max_workspace_bytes)
    with contextlib.ExitStack() as stack:
        costs = costs_of(machine, question.db, stack)
        plain = make_problem(network, costs, all_primitives(), limits, shared=True)
    problem = in_library(plain, graph, modelled_costs(machine))
    selected = select(problem, question.strategy, question.time_limit_s)
    return written(graph, packing, machine.cluster.core, problem, selected)


def within_weights(
    found: SelectedModel, graph: Graph, packing: Packing, limit_bytes: int, time_limit_s: float = TIME_LIMIT_S
) -> SelectedModel:
    """The same strategy's selection for a graph with at most so many bytes of convolutions' packed weights.

    Raises: TooSmall where they take more however they are computed.
    """
    problem, selected = select_within(
        found.problem, found.selected.strategy, limit_bytes, packing.lanes, time_limit_s
    )  # fmt: skip
    return written(graph, packing, found.core, problem, selected)


def written(graph: Graph, packing: Packing, core: str, problem: Problem, selected: Selected) -> SelectedModel:
    """A choice written into the graph. Raises: MavcgError where a conversion that it needs has no cost."""
    if math.isinf(selected.total_ms):
        raise MavcgError(f"--strategy {selected.strategy}: a conversion that it needs has no cost; take another")
    chosen = library_choice(selected.choice, problem.network, graph, packing.lanes)
    legal = legalise(graph, chosen.layouts)
    verify(legal)
    return SelectedModel(legal, chosen.ways, problem, selected, core)
