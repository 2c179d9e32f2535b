"""Costs of one convolution's alternatives in a library, on the scale of the engine's own algorithms.

The model of primitives gives ratios only (engine_costs.py). Each alternative's cost is such a ratio times the best
known cost of the engine's default algorithm, or of the same algorithm in the engine's layouts: measured, else
predicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mavcg.choose.algorithms.choice import Alternative
from mavcg.choose.algorithms.costs.provider import MODELLED, SIMULATED, CostProvider
from mavcg.hardware.cost_fit import CostFit
from mavcg.specs.primitive import Layout, Scenario


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
class LibraryConvolution:
    """A convolution of a library, and the engine's ways to compute it.

    predicted: ms of the engine's own algorithms, by primitive. default_primitive: of its default algorithm. own:
    primitives that the engine computes itself. border_ms: time to copy the input into a border; joined_ms: to copy the
    output into a concatenation; both 0 where that is not needed. step_ms: time to hand over a step.
    """

    scenario: Scenario
    predicted: Mapping[str, float]
    default_primitive: str
    own: frozenset[str]
    border_ms: float
    joined_ms: float
    step_ms: float

    @cached_property
    def engine_choice(self) -> str:
        """The predicted fastest of the engine's own algorithms, which it takes if nothing is selected."""
        default = self.default_primitive
        return min(self.predicted, key=lambda name: (self.predicted[name], name != default), default=default)

    def without_border(self, name: str, ms: float) -> float:
        """Return a primitive's cost without the copy into a border, but at least half of the cost."""
        if not self.border_ms or name.startswith("winograd"):  # which pads as it reads
            return ms
        return max(ms - self.border_ms, 0.5 * ms)

    def own_ms(self, alternative: Alternative) -> float:
        """Return an alternative's cost without the copy into a border."""
        return self.without_border(alternative.name, alternative.cost.ms)


@dataclass(frozen=True)
class CostScales:
    """Factors from the costs of the model of primitives to those in the library.

    predicted: factor of the engine's predictions. default: factor of modelled costs; by_algorithm: those of the
    engine's algorithms other than the default. engine_choice_ms: least cost of alternatives that were not measured.
    """

    predicted: float
    default: float
    by_algorithm: Mapping[str, float]
    engine_choice_ms: float


def cost_scales(node: LibraryConvolution, choices: Sequence[Alternative], costs: CostProvider) -> CostScales:
    """Return the factors for a convolution. costs: the model of primitives, as it is looked up in the library.

    The largest ratio of measured to predicted time counts, so that no alternative is chosen only because all measured
    ones were slower than predicted.
    """
    measured = [a for a in choices if a.cost.kind != MODELLED]
    slower = [node.own_ms(a) / node.predicted[a.name] for a in measured if node.predicted.get(a.name, 0.0) > 0]
    predicted = max(slower, default=1.0)
    least_ms = max((node.own_ms(a) for a in measured if a.name == node.engine_choice), default=0.0)
    default = next((a for a in choices if a.name == node.default_primitive), None)
    modelled = _modelled_ms(default, node, costs)
    if default is None or not modelled:
        return CostScales(predicted, 1.0, {}, least_ms)
    default_ms = node.own_ms(default)
    if default.cost.kind == MODELLED:
        default_ms = node.predicted.get(node.default_primitive, default_ms) * predicted
    if node.scenario.out_h * node.scenario.out_w == 1:
        # A product of one row, for which the model of primitives is not fitted: nothing is chosen by it.
        least_ms = max(least_ms, node.predicted.get(node.engine_choice, default_ms))
    # So the same algorithm in other layouts differs from them only by what the model says of the layouts.
    by_algorithm = {
        _algorithm(choice): node.predicted[choice.name] * predicted / ms
        for choice in choices
        if choice.name != node.default_primitive and choice.name in node.predicted
        if (ms := _modelled_ms(choice, node, costs))
    }
    return CostScales(predicted, default_ms / node.without_border(default.name, modelled), by_algorithm, least_ms)


def _modelled_ms(alternative: Alternative | None, node: LibraryConvolution, costs: CostProvider) -> float:
    """Return the modelled cost of an alternative's primitive in ms; 0 if there is none."""
    if alternative is None or alternative.primitive is None:
        return 0.0
    cost = costs.primitive(node.scenario, alternative.primitive)
    return 0.0 if cost is None else max(0.0, cost.ms)


@dataclass(frozen=True)
class NodeCosts:
    """Costs of one convolution's alternatives in a library."""

    node: LibraryConvolution
    scales: CostScales
    safety_factors: SafetyFactors

    def ms(self, alternative: Alternative) -> float:
        """Return the cost of an alternative in a library, in ms."""
        node, scales, name = self.node, self.scales, alternative.name
        measured = alternative.cost.kind != MODELLED
        if name in node.predicted and not measured:
            return node.predicted[name] * scales.predicted
        scale = 1.0 if measured else scales.by_algorithm.get(_algorithm(alternative), scales.default)
        ms, spread_ms = alternative.cost.ms * scale, alternative.cost.spread_ms
        if name == node.default_primitive:
            bordered = node.without_border(name, ms)
            spread_ms *= bordered / ms if ms else 1.0
            ms = bordered
        if name == node.engine_choice:
            return ms
        dense = alternative.layout_out in (Layout.HWC, Layout.HCW)  # else a part's channels are one run of memory
        more = 0.0 if name in node.own else node.step_ms + (node.joined_ms if dense else 0.0)
        if not measured:
            # An alternative that was not measured may be chosen for its layouts, but not for being faster than a
            # measured one.
            factor = 1.0 if name == node.default_primitive else self.safety_factors.modelled
            return max(ms * factor, scales.engine_choice_ms) + more
        # Simulated costs have no noise, and those of a node share one scale, as interleaved measurements do.
        on_one_scale = alternative.cost.turns or alternative.cost.kind == SIMULATED
        factor = self.safety_factors.interleaved if on_one_scale else self.safety_factors.alone
        return (ms + spread_ms) * factor + more


def _algorithm(alternative: Alternative) -> str:
    """Return the name of an alternative's primitive without its layouts."""
    return alternative.name.removesuffix(f"_{alternative.layout_in.lower()}_{alternative.layout_out.lower()}")
