"""Costs of foreign primitives: only measured ones count, so that a foreign primitive is chosen only if it measured
faster."""

from dataclasses import dataclass, replace

from mavcg.choose.algorithms.costs.provider import MEASURED, Cost, CostProvider
from mavcg.kernels.primitives.foreign_gemm import FAMILY
from mavcg.specs.primitive import Layout, Primitive, Scenario


@dataclass(frozen=True)
class ForeignCosts:
    """Costs with foreign primitives, known only where they were measured together with the default.

    base: costs of all primitives. default: the engine's primitive for most convolutions. Nothing models a foreign
    library, so both costs must be measured; a foreign one counts with the upper end of its interval.
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
