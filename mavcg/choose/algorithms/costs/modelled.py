"""Costs of primitives and conversions by a model of a core: at once, for any board, without running anything."""

from dataclasses import dataclass

from mavcg.choose.algorithms.costs.eight_bit import EightBitStep, eight_bit_steps
from mavcg.choose.algorithms.costs.part_counts import parts_of
from mavcg.choose.algorithms.costs.primitive_model import Parts, PrimitiveModel
from mavcg.choose.algorithms.costs.provider import MODELLED, Cost
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.primitives.eight_bit import EightBit
from mavcg.specs.primitive import F32_BYTES, Layout, Primitive, Scenario


@dataclass(frozen=True)
class ModelledCosts(PrimitiveModel):
    """A CostProvider that knows every primitive that applies, and every conversion."""

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        """Implement `CostProvider.primitive`."""
        if isinstance(primitive, EightBit):
            steps = self.eight_bit_steps(scenario, primitive)
            return Cost(sum(step.ns for step in steps) / 1e6, MODELLED) if steps else None
        parts = parts_of(self, primitive.cost_scenario(scenario), primitive) if primitive.applies(scenario) else None
        return None if parts is None else Cost(self.ns(parts) / 1e6, MODELLED)

    def eight_bit_steps(self, scenario: Scenario, primitive: EightBit) -> tuple[EightBitStep, ...]:
        """Return the steps of an 8-bit primitive on this core alone; none if it does not apply."""
        return eight_bit_steps(scenario, primitive, self.core, self.block) if primitive.applies(scenario) else ()

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        """Implement `CostProvider.conversion`."""
        if layout_from is layout_to:
            return Cost(0.0, MODELLED)
        return Cost(self.ns(self.conversion_parts(layout_from, layout_to, c, h, w)) / 1e6, MODELLED)

    def conversion_parts(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Parts:
        """Return the parts that are copied or transposed, with the padding of blocks, and their bytes."""
        ends = [self.stored_channels(layout, c) * h * w for layout in (layout_from, layout_to)]
        return {"convert": float(max(ends)), "bytes": self.bytes_ns(sum(ends) * F32_BYTES)}


def modelled_costs(core: CoreModel, readers: int = 1, between_bytes: float = 0.0) -> ModelledCosts:
    """Return the modelled costs on one thread of a core, while as many cores work as the model states.

    readers, between_bytes: as PrimitiveModel.
    """
    return ModelledCosts(core, 16 if core.machine.arch == "x86_64" else 8, readers, between_bytes)
