"""Modelled costs of 8-bit primitives: the engine's prediction of their steps, each as a program of one node.

The constants of f32 primitives are fitted to measurements. Costs of 8-bit kernels are predicted from their emitted
blocks with their planned tiles, as all steps of a library are (predict/).
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.predict.kernel_cycles import kernel_models
from mavcg.choose.predict.latency import StepModel
from mavcg.choose.predict.memory import reuse_distances
from mavcg.choose.predict.program_work import step_works
from mavcg.choose.predict.work import rows_per_reading
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.primitives.eight_bit import EightBit, node_graph
from mavcg.runtime.machines import packing_for
from mavcg.specs.kernel import Packing
from mavcg.specs.primitive import Scenario
from mavcg.toolchain.target import default_target

SEED = 0


@dataclass(frozen=True)
class EightBitStep:
    """Time of a step on one core in ns, and its rows of work."""

    rows: int
    ns: float


def typical_weights(scenario: Scenario) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    """Return random weights from -127 to 127: [m, c / groups, k, k]."""
    return np.random.default_rng(SEED).integers(-127, 128, scenario.weights_shape, dtype=np.int8)


@cache
def eight_bit_steps(scenario: Scenario, primitive: EightBit, core: CoreModel, block: int) -> tuple[EightBitStep, ...]:
    """Return the steps of an applicable primitive, on one core alone, in a program that runs repeatedly.

    core: with its share of caches and bandwidth. block: channels of a panel of weights.
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
    times = []
    for work, distances in zip(works, reuse_distances(works), strict=True):
        call_rows = rows_per_reading(specs[work.kernel], work.call_rows)
        model = StepModel(replace(work, call_rows=call_rows), distances, {core.number: models[work.kernel]})
        times.append(EightBitStep(work.rows, model.alone(core).ms * 1e6))
    return tuple(times)
