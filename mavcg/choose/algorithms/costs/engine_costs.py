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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.choose.algorithms.choice import Alternative, Problem
from mavcg.choose.algorithms.costs.modelled import ModelledCosts
from mavcg.choose.algorithms.costs.provider import MODELLED, SIMULATED, Cost, CostProvider
from mavcg.choose.algorithms.library import engine_primitives, primitive_of
from mavcg.choose.algorithms.network import NetworkNode
from mavcg.choose.predict.algorithms import WORTH, AlgorithmTime
from mavcg.graph import Graph
from mavcg.hardware.cost_fit import CostFit
from mavcg.hardware.fits import fit_of
from mavcg.passes.graph.layout_forms import is_entry
from mavcg.specs.primitive import Layout, Primitive, Scenario

Predicted = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class SafetyFactors:
    """Safety factors on the cost of alternatives to the engine's default, by how the cost was obtained.

    modelled: by the model of primitives. alone: measured by itself. interleaved: by interleaved measurement with the
    default; the upper end of the interval counts. A factor is the third quartile of measured over predicted time of
    convolutions in libraries, relative to the engine's own library (bench/results/cost_safety_factors.json,
    which `python -m bench.cost_safety_factors` makes on x86; on Arm factors are assumed).
    """

    modelled: float
    alone: float
    interleaved: float


NO_SAFETY_FACTORS = SafetyFactors(1.0, 1.0, 1.0)


def safety_factors_of(fit: CostFit) -> SafetyFactors:
    """Return the safety factors of a kind of core."""
    return SafetyFactors(fit.safety.modelled, fit.safety.measured_alone, fit.safety.interleaved)


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

    @property
    def step_ms(self) -> float:
        """Time to hand over a step, in ms. No model of a layer resolves less, so an alternative must gain more than
        this."""
        core = self.single_thread.core
        return fit_of(core.machine).steps.handover_cycles * core.cycle_ns / 1e6

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


def predicted_costs(graph: Graph, considered: Mapping[str, Sequence[AlgorithmTime]]) -> dict[str, dict[str, float]]:
    """Return the ms by which the engine chooses, by the output of a convolution and the primitive.

    considered: from predict.algorithms. The cost of all but the default includes the factor by which they have to be
    faster.
    """
    producers = graph.producers()
    return {
        tensor: {
            primitive_of(producers[tensor], graph, time.name): time.mean_ms / (WORTH if time.name else 1.0)
            for time in times
        }
        for tensor, times in considered.items()
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
        default_primitive = primitive_of(graph.producers()[node.tensor], graph, "")
        costs = _NodeCosts(
            choices,
            node,
            predicted.get(node.tensor, {}),
            model,
            default_primitive,
            own[name],
            node.tensor in joined,
            node.image in graph.inputs,
            safety_factors,
        )
        alternatives[name] = tuple(_with_ms(alternative, costs.ms(alternative)) for alternative in choices)
    return replace(problem, alternatives=alternatives)


class _NodeCosts:
    """Costs of one convolution's alternatives in a library.

    default_primitive: of the engine's default algorithm. own: primitives that the engine computes itself.
    engine_choice: the predicted fastest of the engine's own algorithms, which it takes if nothing is selected.
    """

    def __init__(
        self,
        choices: Sequence[Alternative],
        node: NetworkNode,
        predicted: Mapping[str, float],
        model: LibraryModel,
        default_primitive: str,
        own: frozenset[str],
        joined: bool,
        from_input: bool,
        safety_factors: SafetyFactors,
    ) -> None:
        s = node.scenario
        assert s is not None
        self.predicted, self.own, self.safety_factors = predicted, own, safety_factors
        self.default_primitive = default_primitive
        self.engine_choice = min(
            predicted, key=lambda name: (predicted[name], name != default_primitive), default=default_primitive
        )
        border = s.batch * s.c * s.padded_pixels if any(s.pads) and not from_input else 0
        self.border_ms = model.copy_ms(border)
        self.step_ms = model.step_ms
        self.joined_ms = model.copy_ms(s.batch * s.m * s.out_h * s.out_w) if joined else 0.0
        default = next((a for a in choices if a.name == default_primitive), None)
        modelled = None if default is None or default.primitive is None else model.costs.primitive(s, default.primitive)
        self.scale, self.scale_by_algorithm = 1.0, dict[str, float]()
        # The largest ratio of measured to predicted time counts, so that no alternative is chosen only because all
        # measured ones were slower than predicted.
        slower = [self._without_border(a.name, a.cost.ms) / predicted[a.name] for a in choices if self._is_measured(a)]
        self.predicted_scale = max(slower, default=1.0)
        measured = (a for a in choices if a.name == self.engine_choice and a.cost.kind != MODELLED)
        self.engine_choice_ms = max((self._without_border(a.name, a.cost.ms) for a in measured), default=0.0)
        if default is None or modelled is None or modelled.ms <= 0:
            return
        default_ms = self._without_border(default.name, default.cost.ms)
        if default.cost.kind == MODELLED:
            default_ms = predicted.get(default_primitive, default_ms) * self.predicted_scale
        if s.out_h * s.out_w == 1:
            # A product of one row, for which the model of primitives is not fitted: nothing is chosen by it.
            self.engine_choice_ms = max(self.engine_choice_ms, predicted.get(self.engine_choice, default_ms))
        self.scale = default_ms / self._without_border(default.name, modelled.ms)
        self.scale_by_algorithm = self._scales(choices, s, model.costs)

    def _scales(self, choices: Sequence[Alternative], scenario: Scenario, costs: CostProvider) -> dict[str, float]:
        """Return predicted over modelled time of the engine's algorithms other than the default, by algorithm.

        So the same algorithm in other layouts differs from them only by what the model says of the layouts.
        """
        scales = {}
        for choice in choices:
            if choice.primitive is None or choice.name == self.default_primitive or choice.name not in self.predicted:
                continue
            modelled = costs.primitive(scenario, choice.primitive)
            if modelled is not None and modelled.ms > 0:
                scales[_algorithm(choice)] = self.predicted[choice.name] * self.predicted_scale / modelled.ms
        return scales

    def _is_measured(self, alternative: Alternative) -> bool:
        return alternative.cost.kind != MODELLED and self.predicted.get(alternative.name, 0.0) > 0

    def ms(self, alternative: Alternative) -> float:
        """Return the cost of an alternative in a library, in ms."""
        measured = alternative.cost.kind != MODELLED
        if alternative.name in self.predicted and not measured:
            return self.predicted[alternative.name] * self.predicted_scale
        scale = self.scale_by_algorithm.get(_algorithm(alternative), self.scale)
        ms = alternative.cost.ms if measured else alternative.cost.ms * scale
        spread_ms = alternative.cost.spread_ms
        if alternative.name == self.default_primitive:
            bordered = self._without_border(alternative.name, ms)
            spread_ms *= bordered / ms if ms else 1.0
            ms = bordered
        if alternative.name == self.engine_choice:
            return ms
        dense = alternative.layout_out in (
            Layout.HWC,
            Layout.HCW,
        )  # in CHW and CHWc channels of a part are one run of memory
        more = 0.0 if alternative.name in self.own else self.step_ms + (self.joined_ms if dense else 0.0)
        if not measured:
            # An alternative that was not measured may be chosen for its layouts, but not for being faster than a
            # measured one.
            factor = 1.0 if alternative.name == self.default_primitive else self.safety_factors.modelled
            return max(ms * factor, self.engine_choice_ms) + more
        # Simulated costs have no noise, and those of a node share one scale, as interleaved measurements do.
        on_one_scale = alternative.cost.turns or alternative.cost.kind == SIMULATED
        factor = self.safety_factors.interleaved if on_one_scale else self.safety_factors.alone
        return (ms + spread_ms) * factor + more

    def _without_border(self, name: str, ms: float) -> float:
        """Return a primitive's cost without the copy into a border, but at least half of the cost."""
        if not self.border_ms or name.startswith("winograd"):  # which pads as it reads
            return ms
        return max(ms - self.border_ms, 0.5 * ms)


def _algorithm(alternative: Alternative) -> str:
    """Return the name of an alternative's primitive without its layouts."""
    return alternative.name.removesuffix(f"_{alternative.layout_in.lower()}_{alternative.layout_out.lower()}")


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
