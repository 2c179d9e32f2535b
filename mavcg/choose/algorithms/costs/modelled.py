"""Costs of primitives and conversions by a model of a core: at once, for any board, without running anything.

An f32 primitive is lowered to its stages without weights; each stage's spec counts its work, which cost/kernel_cost.py
converts to cycles. An 8-bit primitive is lowered as the engine lowers it, and its steps are predicted as those of the
engine's own algorithms are (choose/predict), so that costs of 8-bit and f32 convolutions are comparable.
"""

from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np

from mavcg.choose.algorithms.costs.provider import MODELLED, Cost
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.predict.kernel_cycles import kernel_models
from mavcg.choose.predict.latency import StepModel
from mavcg.choose.predict.memory import reuse_distances
from mavcg.choose.predict.program_work import step_works
from mavcg.choose.predict.work import rows_per_reading
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.cost.counted_work import Run, counted_cycles
from mavcg.cost.cycles import Cycles
from mavcg.cost.kernel_cost import cost
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.cost_fit import PrimitiveFit
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.primitives.eight_bit import EightBit, node_graph
from mavcg.runtime.machines import packing_for
from mavcg.specs.kernel import Packing
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
from mavcg.toolchain.target import default_target

SEED = 0  # of typical weights
STARTS = "starts of kernels"
_KEPT = 1 << 16  # primitives on scenarios; a selection asks again for each number of threads


@dataclass(frozen=True)
class ModelledStage:
    """A stage of a primitive on one core: its rows of work, and its cycles.

    weighted: True if it reads weights and its cycles do not count the start of its kernel.
    """

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
        return self._ms(cycles, self.fit.least_us * 1e3)

    def least_ns(self, primitive: Primitive) -> float:
        """Return the fixed time of a primitive, in ns; 0 if its stages count their own."""
        return 0.0 if isinstance(primitive, EightBit) else self.fit.least_us * 1e3

    def _ms(self, cycles: Cycles, least_ns: float) -> float:
        return (least_ns + cycles.total * self.core.cycle_ns) / 1e6

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        """Implement `CostProvider.primitive`."""
        cycles = self.primitive_cycles(scenario, primitive)
        return None if cycles is None else Cost(self._ms(cycles, self.least_ns(primitive)), MODELLED)

    def primitive_cycles(self, scenario: Scenario, primitive: Primitive) -> Cycles | None:
        """Return the cycles of all stages and of their starts; None as for `stages`."""
        stages = self.stages(scenario, primitive)
        return None if stages is None else sum((stage.cycles for stage in stages), self.starts(stages))

    def stages(self, scenario: Scenario, primitive: Primitive) -> tuple[ModelledStage, ...] | None:
        """Return the stages of a primitive; None if it does not apply, or no constants are fitted for a kernel.

        The first image of a batch counts as if alone. For each further image the weights are read from the level that
        holds them by their size, or not at all if the primitive reads them once for the whole batch.
        """
        if not primitive.applies(scenario):
            return None
        if isinstance(primitive, EightBit):
            return _eight_bit_stages(scenario, primitive, self.core, self.block)
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


@cache
def _eight_bit_stages(
    scenario: Scenario, primitive: EightBit, core: CoreModel, block: int
) -> tuple[ModelledStage, ...]:
    """Return the steps of an 8-bit primitive on one core alone, in a program that runs repeatedly.

    block: channels of a panel of weights.
    """
    graph = node_graph(scenario, typical_weights(scenario))
    target = default_target(core.machine.arch)
    packing = Packing(block, packing_for(target, (core.machine,)).terms)
    lowered = lower_graph(graph, packing, dict.fromkeys(graph.outputs, primitive.algorithm))
    specs = {kernel_name(spec): spec for spec in lowered.specs}
    counted = core.without_timing()  # cycles go by counted blocks, without compiling, as for all algorithms
    plan = plan_tiles(lowered.specs, {core.label: core})
    models = kernel_models(lowered.specs, counted, target, plan=plan)
    works = step_works(plan_lowered(lowered))
    stages = []
    for work, distances in zip(works, reuse_distances(works), strict=True):
        call_rows = rows_per_reading(specs[work.kernel], work.call_rows)
        model = StepModel(replace(work, call_rows=call_rows), distances, {core.number: models[work.kernel]})
        stages.append(ModelledStage(work.rows, model.alone(core).cycles, weighted=False))
    return tuple(stages)


def typical_weights(scenario: Scenario) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    """Return random weights from -127 to 127: [m, c / groups, k, k]."""
    return np.random.default_rng(SEED).integers(-127, 128, scenario.weights_shape, dtype=np.int8)


def modelled_costs(core: CoreModel, readers: int = 1, between_bytes: float = 0.0) -> ModelledCosts:
    """Return the modelled costs on one thread of a core, while as many cores work as the model states.

    readers, between_bytes: as ModelledCosts.
    """
    return ModelledCosts(core, 16 if core.machine.arch == "x86_64" else 8, readers, between_bytes)
