"""Choice of the algorithms, primitives and layouts of a graph's nodes; no other stage decides them.

There are two kinds of strategies. "engine" takes for each node the algorithm that is predicted to be fastest. All
others select primitives and layouts for the whole network, by costs that start from the same predictions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mavcg.choose.algorithms.costs.provider import MODELLED
from mavcg.choose.algorithms.select_model import SelectedModel, select_for_library, within_weights
from mavcg.choose.algorithms.strategies import ENGINE
from mavcg.choose.limits.weight_limit import Option, TooSmall, options_within
from mavcg.choose.lowering.lower import LoweringCandidates, lower_candidates, lower_graph, weight_sizes
from mavcg.choose.lowering.memory_plan import plan_memory
from mavcg.choose.plan import Plan
from mavcg.choose.predict.algorithms import PredictedAlgorithms, predict_algorithms
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.kernels.int8.im2row import eight_bit_primitive
from mavcg.memory.node_order import order_nodes
from mavcg.model.model_request import PlanContext
from mavcg.runtime.machines import packing_for
from mavcg.specs.kernel import Packing

Dump = Callable[[str, object], None]
# Attempts to fit a limit: alignment and shared equal constants change the size only when memory is planned.
TRIES = 4


class AlgorithmStrategy(Protocol):
    """A strategy of choice. Its results are plans whose graph, lowered graph and selection are filled in."""

    @property
    def light_message(self) -> str:
        """Progress message while smaller weights than those of `choose` are searched for."""

    def choose(self) -> Plan:
        """Return the fastest choice."""

    def choose_within(self, weight_bytes: int) -> Plan:
        """Return the fastest choice whose convolutions' weights take so many bytes at most. Raises: TooSmall."""


def choose_algorithms(plan: Plan, context: PlanContext, dump: Dump = lambda stage, value: None) -> Plan:
    """Choose by the requested strategy, and lower the graph, with its nodes in the order that needs the least memory.

    Raises: MavcgError as select_for_library, and with the smallest possible size if no choice meets max_size_bytes.
    """
    board, question, progress = context.board, context.question, context.progress
    packing = packing_for(board.target, board.machines.values())
    plan = replace(plan, graph=order_nodes(plan.graph).graph)
    graph = plan.graph
    if question.strategy != ENGINE and not board.named:
        raise MavcgError(f"--strategy {question.strategy}: costs belong to a board; name a --board")
    progress("choosing algorithms")
    candidates = lower_candidates(graph, packing, question.max_error)
    predicted = predict_algorithms(candidates, board, progress, context.workers)
    dump("algorithms", predicted)
    selected = None
    if question.strategy != ENGINE:
        selected = select_for_library(graph, packing, board, question, predicted, progress)
    strategy: AlgorithmStrategy
    if selected is None:
        strategy = FastestPredicted(plan, candidates, predicted)
    else:
        strategy = NetworkSelection(plan, packing, candidates, selected)
    choice = strategy.choose()
    limit = context.max_size_bytes
    if limit is not None and (size := _constants_bytes(choice)) > limit:
        progress(strategy.light_message)
        choice = _within_size(strategy, choice, size, limit)
    if selected is not None:
        dump("legalised", choice.graph)
    eight_bit = eight_bit_json(candidates.storage.graph, predicted, choice.lowered.algorithms)
    return replace(choice, selection={**choice.selection, "eight_bit": eight_bit}) if eight_bit else choice


def eight_bit_json(graph: Graph, predicted: PredictedAlgorithms, chosen: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the 8-bit convolutions with several algorithms, with every primitive's predicted time in ms.

    chosen: algorithm by a node's output, unless it is the default. All their images are in HWC, so that no conversion
    depends on the choice, and the fastest primitive of each node is optimal.
    """
    producers = graph.producers()
    return [
        {
            "name": node.origin or node.output,
            "primitive": eight_bit_primitive(node, graph, chosen.get(node.output, "")),
            "cost_ms": {eight_bit_primitive(node, graph, time.name): time.mean_ms for time in times},
            "cost_is": MODELLED,
        }
        for node, times in ((producers[tensor], times) for tensor, times in predicted.considered.items())
        if node.op == "qconv2d"
    ]


@dataclass(frozen=True)
class FastestPredicted:
    """The strategy "engine": for each node the algorithm that is predicted to be fastest."""

    plan: Plan
    candidates: LoweringCandidates
    predicted: PredictedAlgorithms
    light_message: str = "choosing lighter kernels"

    def choose(self) -> Plan:
        """Return the fastest choice."""
        return self._choice(self.predicted.fastest)

    def choose_within(self, weight_bytes: int) -> Plan:
        """Return the fastest choice whose convolutions' weights take so many bytes at most. Raises: TooSmall."""
        producers = self.candidates.storage.graph.producers()
        dearer = 1 / self.predicted.worth  # all but the default, which is the first
        options = {
            node: tuple(
                Option(time.name, time.mean_ms * (1 if time is times[0] else dearer), time.weight_bytes)
                for time in times
            )
            for node, times in self.predicted.considered.items()
            if producers[node].op == "conv2d"  # weights of 8-bit convolutions have the same size with each algorithm
        }
        lowered = self.candidates.lower(self.predicted.fastest)
        in_options = sum(lowered.packed_bytes.get(node, 0) for node in options)
        others = weight_sizes(lowered).packed_bytes - in_options
        try:
            chosen = options_within(options, weight_bytes - others)
        except TooSmall as error:
            raise TooSmall(error.least_bytes + others) from None
        others_fastest = {node: name for node, name in self.predicted.fastest.items() if node not in options}
        return self._choice({**others_fastest, **{node: option.name for node, option in chosen.items() if option.name}})

    def _choice(self, algorithms: Mapping[str, str]) -> Plan:
        return replace(self.plan, lowered=self.candidates.lower(algorithms), selection={"strategy": ENGINE})


@dataclass(frozen=True)
class NetworkSelection:
    """All other strategies: primitives and layouts selected for the network as a whole."""

    plan: Plan
    packing: Packing
    candidates: LoweringCandidates
    selected: SelectedModel
    light_message: str = "choosing lighter primitives"

    def choose(self) -> Plan:
        """Return the strategy's selection."""
        return self._choice(self.selected)

    def choose_within(self, weight_bytes: int) -> Plan:
        """Return the strategy's selection where convolutions' weights take so many bytes at most. Raises: TooSmall."""
        return self._choice(within_weights(self.selected, self.plan.graph, self.packing, weight_bytes))

    def _choice(self, selected: SelectedModel) -> Plan:
        if selected.graph is self.plan.graph and self._is_lowered(selected.algorithms):
            lowered = self.candidates.lower(selected.algorithms)
        else:
            lowered = lower_graph(selected.graph, self.packing, selected.algorithms)
        return replace(self.plan, graph=selected.graph, lowered=lowered, selection=selected.as_json())

    def _is_lowered(self, algorithms: Mapping[str, str]) -> bool:
        return all((node, name) in self.candidates.steps for node, name in algorithms.items())


def _constants_bytes(choice: Plan) -> int:
    return plan_memory(choice.lowered).constants_bytes


def _within_size(strategy: AlgorithmStrategy, choice: Plan, size_bytes: int, max_size_bytes: int) -> Plan:
    """Choose with a falling limit for the convolutions' weights, until all constants fit.

    size_bytes: of the constants of `choice`, which is too large.
    """
    others = size_bytes - weight_sizes(choice.lowered).packed_bytes
    budget = max_size_bytes - others
    for _ in range(TRIES):
        try:
            lighter = strategy.choose_within(budget)
        except TooSmall as error:
            raise MavcgError(
                f"--max-size {max_size_bytes}: packed weights take at least {error.least_bytes + others} bytes; allow "
                f"that many"
            ) from None
        excess = _constants_bytes(lighter) - max_size_bytes
        if excess <= 0:
            return lighter
        budget -= excess
    raise MavcgError(f"--max-size {max_size_bytes}: packed weights exceed it by {excess} bytes; raise it by that many")
