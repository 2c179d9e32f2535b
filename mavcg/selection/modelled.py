"""What primitives and conversions cost by a model of a core: at once, for any board, without running anything."""

from dataclasses import dataclass

from mavcg.core import GENERIC
from mavcg.kernels.tiling import FMA_PER_CYCLE
from mavcg.machines import machines_for
from mavcg.planner.board_machine import ClusterMachine
from mavcg.primitive import F32_BYTES, Layout, Primitive, Scenario
from mavcg.selection.core_model import CoreModel, Parts
from mavcg.selection.costs import MODELLED, Cost
from mavcg.selection.part_counts import parts_of
from mavcg.target import default_target


@dataclass(frozen=True)
class ModelledCosts(CoreModel):
    """A CostProvider that knows every primitive that applies, and every conversion."""

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        """As CostProvider."""
        parts = parts_of(self, scenario, primitive) if primitive.applies(scenario) else None
        return None if parts is None else Cost(self.ns(parts) / 1e6, MODELLED)

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        """As CostProvider."""
        if layout_from is layout_to:
            return Cost(0.0, MODELLED)
        return Cost(self.ns(self.converted(layout_from, layout_to, c, h, w)) / 1e6, MODELLED)

    def converted(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Parts:
        """What is copied or turned round, with what fills up blocks, and its bytes."""
        ends = [self.filled(layout, c) * h * w for layout in (layout_from, layout_to)]
        return {"convert": float(max(ends)), "bytes": self.bytes_ns(sum(ends) * F32_BYTES)}


def modelled_costs(machine: ClusterMachine, readers: int = 1, between_bytes: float = 0.0) -> ModelledCosts:
    """Costs of one thread on a core of a cluster, while as many work as the machine says.

    readers, between_bytes: as CoreModel.
    """
    core, accelerator = machine.core, machine.accelerator
    arch = "x86_64" if core is None and accelerator.pe_len[0] >= 8 else "aarch64" if core is None else core.arch
    emitted = machines_for(() if core is None else (core,), default_target(arch))[core.name if core else GENERIC]
    lanes = emitted.vector_bytes // F32_BYTES
    assumed = lanes * (1 if emitted.in_order else FMA_PER_CYCLE)
    return ModelledCosts(
        emitted,
        1 / accelerator.frequency_ghz,
        assumed / accelerator.pes,
        tuple((level.shared_bytes, level.bandwidth_gb_per_s) for level in accelerator.levels),
        16 if arch == "x86_64" else 8,
        readers,
        lanes * FMA_PER_CYCLE / accelerator.pes,
        between_bytes,
    )
