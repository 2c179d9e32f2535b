"""Costs of foreign primitives, by which they are taken only where they were measured to win."""

from dataclasses import dataclass, replace

from mavcg.kernels.primitives.foreign.family import FAMILY
from mavcg.selection.costs.provider import MEASURED, Cost, CostProvider
from mavcg.specs.primitive import Layout, Primitive, Scenario


@dataclass(frozen=True)
class ForeignCosts:
    """A CostProvider that knows a foreign primitive only where it can be compared.

    base: costs of all; default: what the engine computes most convolutions by. Nothing models a foreign library: its
    cost has to be measured, and that of the default primitive too. It counts for the upper end of what it may be.
    """

    base: CostProvider
    default: Primitive

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        """Implement `CostProvider.primitive`."""
        cost = self.base.primitive(scenario, primitive)
        if primitive.family != FAMILY or cost is None:
            return cost
        default = self.base.primitive(scenario, self.default)
        if default is None or (cost.kind, default.kind) != (MEASURED, MEASURED):
            return None
        return replace(cost, ms=cost.cautious_ms, spread_ms=0.0)

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        """Implement `CostProvider.conversion`."""
        return self.base.conversion(layout_from, layout_to, c, h, w)
