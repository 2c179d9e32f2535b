"""Costs of primitives and layout conversions, by their source: measured, simulated, modelled or imported."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mavcg.specs.primitive import Layout, Primitive, Scenario

MEASURED, MODELLED, IMPORTED, SIMULATED = "measured", "modelled", "imported", "simulated"
KINDS = (MEASURED, MODELLED, IMPORTED, SIMULATED)


@dataclass(frozen=True)
class Cost:
    """The time of one run, with its source.

    kind: one of KINDS. Imported: read from a file of costs measured elsewhere or earlier. Simulated: timed on a
    simulated core, with the sampling error as spread. ms: milliseconds. spread_ms: upward uncertainty: the
    interquartile range of a job measured by itself, or the upper part of the interval of an interleaved one's ratio
    (interleaved.py). runs: number of timed runs. turns: interleaved rounds with the default primitive; 0 if measured by
    itself. All are 0 if nothing was measured.
    """

    ms: float
    kind: str
    spread_ms: float = 0.0
    runs: int = 0
    turns: int = 0

    @property
    def cautious_ms(self) -> float:
        """Upper end of the likely cost, in ms."""
        return self.ms + self.spread_ms


class CostProvider(Protocol):
    """A source of costs."""

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        """Return the cost of a scenario by a primitive; None if it is not known, or the primitive does not apply."""

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        """Return the cost of converting a c x h x w image to another layout in one step; None if it is not known."""


@dataclass(frozen=True)
class _FirstOf:
    providers: tuple[CostProvider, ...]

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        costs = (provider.primitive(scenario, primitive) for provider in self.providers)
        return next((cost for cost in costs if cost is not None), None)

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        costs = (provider.conversion(layout_from, layout_to, c, h, w) for provider in self.providers)
        return next((cost for cost in costs if cost is not None), None)


@dataclass(frozen=True)
class _Scaled:
    known: CostProvider
    base: CostProvider
    target: CostProvider

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        return self._scale(*(p.primitive(scenario, primitive) for p in (self.known, self.base, self.target)))

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        costs = (p.conversion(layout_from, layout_to, c, h, w) for p in (self.known, self.base, self.target))
        return self._scale(*costs)

    @staticmethod
    def _scale(known: Cost | None, base: Cost | None, target: Cost | None) -> Cost | None:
        if known is None or base is None or target is None or base.ms <= 0:
            return None
        return Cost(known.ms * target.ms / base.ms, MODELLED)


def scale_costs(known: CostProvider, base: CostProvider, target: CostProvider) -> CostProvider:
    """Return the known costs times the ratio of `target` to `base`; they count as modelled."""
    return _Scaled(known, base, target)


@dataclass(frozen=True)
class _Shifted:
    known: CostProvider
    base: CostProvider
    target: CostProvider

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        return self._shift(*(p.primitive(scenario, primitive) for p in (self.known, self.base, self.target)))

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        costs = (p.conversion(layout_from, layout_to, c, h, w) for p in (self.known, self.base, self.target))
        return self._shift(*costs)

    @staticmethod
    def _shift(known: Cost | None, base: Cost | None, target: Cost | None) -> Cost | None:
        if known is None or base is None or target is None:
            return known
        return replace(known, ms=max(0.0, known.ms + target.ms - base.ms))


def shift_costs(known: CostProvider, base: CostProvider, target: CostProvider) -> CostProvider:
    """Return the known costs plus the difference of `target` and `base`; they keep their kind if both are known."""
    return _Shifted(known, base, target)


@dataclass(frozen=True)
class _MeanOf:
    first: CostProvider
    second: CostProvider

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        return self._mean(*(provider.primitive(scenario, primitive) for provider in (self.first, self.second)))

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        return self._mean(
            *(provider.conversion(layout_from, layout_to, c, h, w) for provider in (self.first, self.second))
        )

    @staticmethod
    def _mean(first: Cost | None, second: Cost | None) -> Cost | None:
        if first is None or second is None:
            return None
        ms = math.sqrt(first.ms * second.ms)
        return replace(first, ms=ms, spread_ms=first.spread_ms * ms / first.ms if first.ms else 0.0)


def mean_of(first: CostProvider, second: CostProvider) -> CostProvider:
    """Return the geometric mean of two providers' costs, with the kind and relative spread of the first."""
    return _MeanOf(first, second)


@dataclass(frozen=True)
class _Weighted:
    providers: tuple[CostProvider, ...]
    weights: tuple[float, ...]

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        return self._sum([provider.primitive(scenario, primitive) for provider in self.providers])

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        return self._sum([provider.conversion(layout_from, layout_to, c, h, w) for provider in self.providers])

    def _sum(self, costs: Sequence[Cost | None]) -> Cost | None:
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        kinds = {cost.kind for cost in known}
        ms = sum(weight * cost.ms for weight, cost in zip(self.weights, known, strict=True))
        return Cost(ms, kinds.pop() if len(kinds) == 1 else MODELLED)


def weighted_sum(providers: Sequence[CostProvider], weights: Sequence[float]) -> CostProvider:
    """Return the weighted sums of providers' costs; their kind is the common one, else modelled."""
    return _Weighted(tuple(providers), tuple(weights))


def first_of(*providers: CostProvider) -> CostProvider:
    """Return a provider that has each cost from the first provider that knows it."""
    return _FirstOf(providers)
