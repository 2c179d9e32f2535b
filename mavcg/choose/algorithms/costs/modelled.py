"""Costs of primitives and conversions by a model of a core: at once, for any board, without running anything.

A primitive is lowered to its stages without weights; each stage's spec counts its work, which cost/kernel_cost.py
converts to cycles.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mavcg.choose.algorithms.costs.eight_bit import EightBitStep, eight_bit_steps
from mavcg.choose.algorithms.costs.provider import MODELLED, Cost
from mavcg.cost.counted_work import Run, counted_cycles
from mavcg.cost.cycles import Cycles
from mavcg.cost.kernel_cost import cost
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.cost_fit import PrimitiveFit
from mavcg.kernels.primitives.eight_bit import EightBit
from mavcg.specs.primitive import (
    F32_BYTES,
    Epilogue,
    Layout,
    Primitive,
    Scenario,
    Stage,
    image_elements,
)
from mavcg.specs.work_counts import OperandBytes, WorkCounts, vector_work

STARTS = "starts of kernels"
_KEPT = 1 << 16  # primitives on scenarios; a selection asks again for each number of threads


@dataclass(frozen=True)
class ModelledStage:
    """A stage of a primitive on one core: its rows of work, its cycles, and whether it reads weights."""

    rows: int
    cycles: Cycles
    weighted: bool


@dataclass(frozen=True)
class ModelledCosts:
    """A CostProvider of one thread that knows every primitive that applies, and every conversion.

    core: with its share of caches and bandwidth. block: channels per block of CHWc. readers: threads that compute the
    same primitive; weights that each thread needs whole are read at least so many times. between_bytes: bytes moved
    between two uses of a primitive's weights, such as those of a whole network; 0 if the primitive runs again and again
    by itself, so that the size of the weights decides which memory level holds them. constants: replace those of the
    core's kind.
    """

    core: CoreModel
    block: int
    readers: int = 1
    between_bytes: float = 0.0
    constants: PrimitiveFit | None = None

    @property
    def fit(self) -> PrimitiveFit:
        """Fitted constants of primitives."""
        return self.constants or self.core.fit.primitives

    def ms(self, cycles: Cycles) -> float:
        """Return the time of a start and of these cycles, in ms."""
        return (self.fit.least_us * 1e3 + cycles.total * self.core.cycle_ns) / 1e6

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        """Implement `CostProvider.primitive`."""
        if isinstance(primitive, EightBit):
            steps = self.eight_bit_steps(scenario, primitive)
            return Cost(sum(step.ns for step in steps) / 1e6, MODELLED) if steps else None
        cycles = self.primitive_cycles(scenario, primitive)
        return None if cycles is None else Cost(self.ms(cycles), MODELLED)

    def primitive_cycles(self, scenario: Scenario, primitive: Primitive) -> Cycles | None:
        """Return the cycles of all stages and of their starts; None as for `stages`."""
        stages = self.stages(scenario, primitive)
        return None if stages is None else sum((stage.cycles for stage in stages), self.starts(stages))

    def stages(self, scenario: Scenario, primitive: Primitive) -> tuple[ModelledStage, ...] | None:
        """Return the stages of an f32 primitive; None if it does not apply, or no constants are fitted for a kernel.

        The first image of a batch counts as if alone. For each further image the weights are read from the level that
        holds them by their size, or not at all if the primitive reads them once for the whole batch.
        """
        if not primitive.applies(scenario):
            return None
        s = primitive.cost_scenario(scenario)
        if primitive.batch_at_once:
            return self._stages(s, primitive, self.between_bytes)
        first = self._stages(s.image, primitive, self.between_bytes)
        if first is None or s.batch == 1:
            return first
        return first + (s.batch - 1) * (self._stages(s.image, primitive, 0.0) or ())

    def _stages(self, s: Scenario, primitive: Primitive, between_bytes: float) -> tuple[ModelledStage, ...] | None:
        """Return the stages of a scenario that is lowered as it is. between_bytes: as that of the class."""
        lowered, weight_bytes = _lower(s, primitive, self.block), primitive.expected_weight_bytes(s)
        counted = [counts for stage in lowered if (counts := stage.spec.counts(self.core.machine, weight_bytes))]
        if len(counted) < len(lowered):
            return None
        weights = sum(counts.weights.size for counts in counted if counts.weights is not None)
        images = (s.c * s.h * s.w + s.m * s.out_h * s.out_w) * F32_BYTES
        stages = []
        for stage, counts in zip(lowered, counted, strict=True):
            run = Run(
                images + weights,
                weights,
                between_bytes,
                self.readers,
                read_passed=stage.operands[0].base == "workspace",
                write_passed=all(operand.base != "out" for operand in stage.operands),
            )
            cycles = cost(stage.spec, None, self.core, run=run, constants=self.fit)
            stages.append(ModelledStage(stage.spec.rows, cycles, counts.weights is not None))
        return tuple(stages)

    def starts(self, stages: tuple[ModelledStage, ...]) -> Cycles:
        """Return the cycles to start kernels after the first; the constants of stages without weights have theirs."""
        further = max(0, sum(stage.weighted for stage in stages) - 1)
        return Cycles({STARTS: further * self.fit.kernel_ns / self.core.cycle_ns} if further else {})

    def eight_bit_steps(self, scenario: Scenario, primitive: EightBit) -> tuple[EightBitStep, ...]:
        """Return the steps of an 8-bit primitive on this core alone; none if it does not apply."""
        return eight_bit_steps(scenario, primitive, self.core, self.block) if primitive.applies(scenario) else ()

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        """Implement `CostProvider.conversion`."""
        if layout_from is layout_to:
            return Cost(0.0, MODELLED)
        return Cost(self.ms(self.conversion_cycles(layout_from, layout_to, c, h, w)), MODELLED)

    def conversion_cycles(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cycles:
        """Return the cycles of copying or transposing an image, with the padding of blocks."""
        ends = [image_elements(layout, c, h, w, self.block) for layout in (layout_from, layout_to)]
        return self.moving("convert", max(ends), sum(ends))

    def moving(self, name: str, elements: int, moved: int) -> Cycles:
        """Return the cycles of vector work on elements, and of reading and writing `moved` of them."""
        size = moved * F32_BYTES
        counts = WorkCounts(vectors=vector_work((name, elements)), within=OperandBytes(size, size))
        return counted_cycles(counts, self.core, constants=self.fit)


@lru_cache(_KEPT)
def _lower(scenario: Scenario, primitive: Primitive, block: int) -> tuple[Stage, ...]:
    """Return the stages of a primitive that applies. Nothing packs the weights: they are zeros without memory."""
    weights = np.broadcast_to(np.float32(0), scenario.weights_shape)
    return primitive.lower(scenario, weights, Epilogue(), block).stages


def modelled_costs(core: CoreModel, readers: int = 1, between_bytes: float = 0.0) -> ModelledCosts:
    """Return the modelled costs on one thread of a core, while as many cores work as the model states.

    readers, between_bytes: as ModelledCosts.
    """
    return ModelledCosts(core, 16 if core.machine.arch == "x86_64" else 8, readers, between_bytes)
