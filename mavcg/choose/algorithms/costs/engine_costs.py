"""Costs of alternatives in a library: the engine's own algorithms and all other primitives on one scale.

The engine computes conv2d nodes by itself: it writes an image into the interior of the border that the next convolution
reads, and directly into its part of a concatenation. Any other primitive copies its input into a border and writes a
dense image, which is then copied.

The engine's predictions of its own algorithms (choose/predict/algorithms.py) use the planned tiles and calls, whereas
the milliseconds of the model of primitives come from a fit on another machine. That model therefore only gives ratios:
the cost of a primitive over that of the node's implicit GEMM (or depthwise loop), or over that of the same algorithm in
the engine's layouts, if the engine has it. Each alternative's cost is this ratio times the best known cost of the
latter: measured, else predicted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mavcg.choose.algorithms.choice import Alternative, Problem
from mavcg.choose.algorithms.costs.modelled import ModelledCosts
from mavcg.choose.algorithms.costs.node_costs import LibraryConvolution, NodeCosts, SafetyFactors, cost_scales
from mavcg.choose.algorithms.costs.provider import MODELLED, Cost, CostProvider
from mavcg.choose.algorithms.library import engine_primitives, primitive_of
from mavcg.choose.algorithms.network import NetworkNode
from mavcg.choose.predict.algorithms import PredictedAlgorithms
from mavcg.graph import Graph
from mavcg.passes.graph.layout_forms import is_entry
from mavcg.specs.primitive import Layout, Primitive, Scenario

Predicted = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class LibraryModel:
    """The model of a library's nodes. costs: of primitives and conversions, as they are looked up in it.

    single_thread: costs on one thread. threads: most threads that algorithms are chosen for; they share every copy.
    """

    costs: CostProvider
    single_thread: ModelledCosts
    threads: int = 1

    def copy_ms(self, elements: int) -> float:
        """Return the time to copy so many elements, in ms: the mean of one thread and of all, as costs are."""
        if not elements:
            return 0.0
        model = self.single_thread
        return model.ms(model.moving("copy", elements, 2 * elements)) / math.sqrt(self.threads)

    def border_ms(self, scenario: Scenario) -> float:
        """Return the time to copy a scenario's images into a border, in ms; 0 if it needs none."""
        return self.copy_ms(scenario.batch * scenario.c * scenario.padded_pixels) if any(scenario.pads) else 0.0

    def output_ms(self, scenario: Scenario) -> float:
        """Return the time to copy a scenario's outputs, in ms."""
        return self.copy_ms(scenario.batch * scenario.m * scenario.out_h * scenario.out_w)

    @property
    def step_ms(self) -> float:
        """Time to hand over a step, in ms. No model of a layer resolves less, so an alternative must gain more than
        this."""
        core = self.single_thread.core
        return core.fit.steps.handover_cycles * core.cycle_ns / 1e6

    def pool_ms(self, windows: int) -> float:
        """Return the time of a pool's columns in CHW and HCW, counted as elements of windows, in ms."""
        cycles = windows * self.single_thread.fit.planar_pool_cycles
        return cycles * self.single_thread.core.cycle_ns / 1e6 / math.sqrt(self.threads)


@dataclass(frozen=True)
class _InNetwork:
    known: CostProvider
    modelled: CostProvider
    safety_factor: float

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        return self.known.primitive(scenario, primitive)

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        known, modelled = (costs.conversion(layout_from, layout_to, c, h, w) for costs in (self.known, self.modelled))
        if known is None or modelled is None:
            return known
        return replace(known, ms=self.safety_factor * max(known.ms, modelled.ms))


def conversions_in_network(known: CostProvider, modelled: CostProvider, safety_factors: SafetyFactors) -> CostProvider:
    """Return the same costs, with conversions as in a network.

    A conversion that is measured repeatedly has its image in the nearest cache; in a network, other threads or those of
    another layer wrote it last. So it costs at least the modelled time, with the same safety factor.
    """
    return _InNetwork(known, modelled, safety_factors.modelled)


def predicted_costs(graph: Graph, predicted: PredictedAlgorithms) -> dict[str, dict[str, float]]:
    """Return the ms by which the engine chooses, by the output of a convolution and the primitive.

    The cost of all but the default includes the factor by which they have to be faster.
    """
    producers = graph.producers()
    return {
        tensor: {
            primitive_of(producers[tensor], graph, time.name): time.mean_ms / (predicted.worth if time.name else 1.0)
            for time in times
        }
        for tensor, times in predicted.considered.items()
        if producers[tensor].op in ("conv2d", "qconv2d")
    }


def in_library(
    problem: Problem,
    graph: Graph,
    model: LibraryModel,
    predicted: Predicted,
    safety_factors: SafetyFactors,
) -> Problem:
    """Return the problem with costs as in a library.

    predicted: from predicted_costs; it alone decides between the engine's own algorithms.
    """
    own, joined = engine_primitives(graph, problem.network), _joined_tensors(graph)
    alternatives = {}
    for name, choices in problem.alternatives.items():
        node = problem.network.nodes[name]
        if node.scenario is None:
            alternatives[name] = tuple(_as_dummy(alternative, node, graph, model) for alternative in choices)
            continue
        convolution = LibraryConvolution(
            node.scenario,
            predicted.get(node.tensor, {}),
            primitive_of(graph.producers()[node.tensor], graph, ""),
            own[name],
            border_ms=0.0 if node.image in graph.inputs else model.border_ms(node.scenario),
            joined_ms=model.output_ms(node.scenario) if node.tensor in joined else 0.0,
            step_ms=model.step_ms,
        )
        costs = NodeCosts(convolution, cost_scales(convolution, choices, model.costs), safety_factors)
        alternatives[name] = tuple(_with_ms(alternative, costs.ms(alternative)) for alternative in choices)
    return replace(problem, alternatives=alternatives)


def _with_ms(alternative: Alternative, ms: float) -> Alternative:
    return replace(alternative, cost=replace(alternative.cost, ms=ms))


def _joined_tensors(graph: Graph) -> frozenset[str]:
    """Return the tensors that are concatenated along the channels."""
    joins = (node for node in graph.nodes if node.op == "concat" and node.attr("axis") == 3 and len(node.inputs) > 1)
    return frozenset(name for node in joins for name in node.inputs)


def _as_dummy(alternative: Alternative, node: NetworkNode, graph: Graph, model: LibraryModel) -> Alternative:
    if node.tensor and alternative.layout_in is Layout.HWC and is_entry(graph.producers()[node.tensor], graph):
        n, h, w, c = graph.shape(node.tensor)
        cost = model.costs.conversion(Layout.CHW, Layout.HWC, c, h, w)
        return alternative if cost is None else replace(alternative, cost=replace(cost, ms=cost.ms * n))
    if not node.op.endswith("pool2d") or not alternative.layout_in.planar:
        return alternative
    taps = graph.producers()[node.tensor].attr("kernel")[1]
    return replace(alternative, cost=Cost(model.pool_ms(graph.types[node.tensor].elements * taps), MODELLED))
