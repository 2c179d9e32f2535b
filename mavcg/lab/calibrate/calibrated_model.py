"""A core as the timing models take it, with the facts that were found so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mavcg.cost.core_facts import simulated_core
from mavcg.hardware.core import Core
from mavcg.hardware.timing import Timing
from mavcg.lab.calibrate.altered_core import alter_core, values_of
from mavcg.lab.calibrate.loops import LoopTimer
from mavcg.lab.calibrate.simulated import SimulatedTimer


@dataclass(frozen=True)
class CalibratedModel:
    """A core as the timing models take it, with the facts found so far. found: those, by key."""

    core: Core
    timing: Timing
    found: Mapping[str, float] = field(default_factory=dict)

    def with_facts(self, facts: Mapping[str, float]) -> "CalibratedModel":
        """Return the model with further facts, of which those that are not as it has them change it."""
        known = values_of(self.core, self.timing)
        changed = {key: value for key, value in facts.items() if known.get(key) != value}
        core, timing = alter_core(self.core, self.timing, changed)
        return CalibratedModel(core, timing, {**self.found, **facts})

    def timer(self) -> LoopTimer:
        """Return what times loops on this model."""
        return SimulatedTimer(self.timing, simulated_core(self.core))
