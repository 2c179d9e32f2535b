"""The engine's implicit GEMM as a primitive: blocks of channels are stages of their own."""

import numpy as np

from mavcg.kernels.primitives.implicit_gemm import PRIMITIVES
from mavcg.specs.primitive import Epilogue, Scenario


def test_blocks_are_stages_that_share_a_kernel() -> None:
    primitive, scenario = PRIMITIVES[1], Scenario(5, 6, 7, 1, 3, 32, 1)
    weights = np.ones((32, 5, 3, 3), np.float32)
    border, *stages = primitive.lower(scenario, weights, Epilogue(bias=True), 8).stages

    assert border.operands[0].base == "x" and len(stages) == 4
    assert len({stage.spec for stage in stages}) == 1
    assert [stage.operands[2].offset for stage in stages] == [i * 8 * 6 * 7 * 4 for i in range(4)]
    assert [stage.operands[3].offset for stage in stages] == [i * 8 * 4 for i in range(4)]
    assert not primitive.applies(Scenario(5, 6, 7, 1, 3, 24, 1)), "of a block of 16 that is not full"
