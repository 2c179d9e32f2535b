"""Lower what a plan measures, a primitive or a conversion, to kernels and the sizes of their operands."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from mavcg.choose.algorithms.costs.eight_bit import typical_weights
from mavcg.choose.algorithms.costs.rows import Conversion
from mavcg.kernels.primitives.convert import find_conversion, lower_conversion
from mavcg.kernels.primitives.sparse.family import mask_of
from mavcg.lab.tuning.work_list import Job
from mavcg.specs.primitive import F32_BYTES, Epilogue, Lowering, Primitive, Scenario, StageOperand, image_elements

WITH_BIAS = Epilogue(bias=True)  # as nearly every convolution of a network has after fusion


@dataclass(frozen=True)
class LoweredJob:
    """A job's kernels, and the sizes of the operands that the lowering does not state, in bytes."""

    lowering: Lowering
    sizes: Mapping[str, int]


def lowered_job(job: Job, block: int) -> LoweredJob:
    """Lower a job with a bias and without an activation. block: channels of a block of CHWc.

    Weights are random: f32 between 0.25 and 1 where the scenario's sparsity has one, or 8-bit ones.
    """
    if isinstance(job.what, Conversion):
        return _conversion_job(job.what, block)
    scenario, primitive = job.what[0], job.primitive
    assert primitive is not None
    if scenario.eight_bit:  # an element of an image is a byte, and the bias is in the packed weights
        s = scenario
        sizes = {"x": s.batch * s.c * s.h * s.w, "out": s.batch * s.m * s.out_h * s.out_w}
        return LoweredJob(primitive.lower(s, typical_weights(s), WITH_BIAS, block), sizes)
    return _primitive_job(scenario, primitive, block)


def _conversion_job(to: Conversion, block: int) -> LoweredJob:
    stage = lower_conversion(find_conversion(to.layout_from, to.layout_to), to.c, to.h, to.w, block)
    assert stage.operands == (StageOperand("x"), StageOperand("out"))
    images = {"x": to.layout_from, "out": to.layout_to}
    sizes = {base: image_elements(layout, to.c, to.h, to.w, block) * F32_BYTES for base, layout in images.items()}
    return LoweredJob(Lowering((stage,), partial(np.zeros, 0, np.float32), (0,)), sizes)


def _primitive_job(s: Scenario, primitive: Primitive, block: int) -> LoweredJob:
    values = np.random.default_rng(0).uniform(0.25, 1.0, s.weights_shape).astype(np.float32)
    lowering = primitive.lower(s, values * mask_of(s).astype(np.float32), WITH_BIAS, block)
    sizes = {
        "x": s.batch * image_elements(primitive.layout_in, s.c, s.h, s.w, block) * F32_BYTES,
        "out": s.batch * image_elements(primitive.layout_out, s.m, s.out_h, s.out_w, block) * F32_BYTES,
        "bias": s.m * F32_BYTES,
    }
    return LoweredJob(lowering, sizes)
