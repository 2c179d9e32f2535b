"""Modelled costs of primitives on several threads: each stage's rows are shared, and the next stage waits for its end.

Threads take chunks by the engine's rule (cost/guided_chunks.py), so a stage of few rows keeps few of them busy.
Each has its share of caches and bandwidth (cost/board_model.py), and reads all weights unless rows of work
divide them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mavcg.choose.algorithms.costs.modelled import ModelledCosts, ModelledStage, modelled_costs
from mavcg.choose.algorithms.costs.provider import MODELLED, Cost
from mavcg.cost.guided_chunks import simulated_ns
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.primitives.eight_bit import EightBit
from mavcg.specs.primitive import Layout, Primitive, Scenario


@dataclass(frozen=True)
class ThreadedCosts:
    """Costs of a team of threads, each on its own core; the first is the caller's."""

    workers: tuple[ModelledCosts, ...]

    @property
    def block(self) -> int:
        """Channels per block of the CHWc layouts; the same on every core."""
        return self.workers[0].block

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        """Implement `CostProvider.primitive`."""
        if isinstance(primitive, EightBit):
            return self._eight_bit(scenario, primitive) if primitive.applies(scenario) else None
        of_workers: list[tuple[ModelledStage, ...]] = []
        for model in self.workers:
            same = of_workers and model == self.workers[len(of_workers) - 1]
            stages = of_workers[-1] if same else model.stages(scenario, primitive)
            if stages is None:
                return None
            of_workers.append(stages)
        caller = self.workers[0]
        ns = caller.starts(of_workers[0]).total * caller.core.cycle_ns  # a kernel starts on the caller alone
        for stage in zip(*of_workers, strict=True):
            alone = [one.cycles.total * model.core.cycle_ns for one, model in zip(stage, self.workers, strict=True)]
            ns += self._together(stage[0].rows, alone)
        return Cost((caller.fit.least_us * 1e3 + ns) / 1e6, MODELLED)

    def _eight_bit(self, scenario: Scenario, primitive: EightBit) -> Cost | None:
        """Share each step's rows among the workers, like those of f32 primitives."""
        of_workers = [model.eight_bit_steps(scenario, primitive) for model in self.workers]
        if not all(of_workers):
            return None
        ns = (self._together(steps[0].rows, [step.ns for step in steps]) for steps in zip(*of_workers, strict=True))
        return Cost(sum(ns) / 1e6, MODELLED)

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        """Implement `CostProvider.conversion`; a row of work is a row of the image."""
        if layout_from is layout_to:
            return Cost(0.0, MODELLED)
        alone = [
            model.conversion_cycles(layout_from, layout_to, c, h, w).total * model.core.cycle_ns
            for model in self.workers
        ]
        return Cost((self.workers[0].fit.least_us * 1e3 + self._together(h, alone)) / 1e6, MODELLED)

    @cached_property
    def _handover_ns(self) -> float:
        cycles = self.workers[0].core.fit.steps.handover_cycles
        return cycles * max(model.core.cycle_ns for model in self.workers)

    def _together(self, rows: int, alone_ns: Sequence[float]) -> float:
        """Return the time of a stage in ns; it stays with the first worker if that is faster. alone_ns: by worker."""
        first = alone_ns[0]
        if len(alone_ns) == 1 or rows <= 1 or first <= self._handover_ns:
            return first
        if all(ns == first for ns in alone_ns):
            shared = first * -(-rows // len(alone_ns)) / rows
        else:
            shared = simulated_ns(rows, 1, [ns / rows for ns in alone_ns], [0.0] * len(alone_ns))
        return min(first, shared + self._handover_ns)


def threaded_costs(workers: Sequence[CoreModel], between_bytes: float = 0.0) -> ThreadedCosts:
    """Return the costs on one thread for each of these cores; each machine has its core's share of caches and
    bandwidth.

    between_bytes: as ModelledCosts.
    """
    known: dict[int, ModelledCosts] = {}
    for machine in workers:
        known.setdefault(id(machine), modelled_costs(machine, len(workers), between_bytes))
    return ThreadedCosts(tuple(known[id(machine)] for machine in workers))
