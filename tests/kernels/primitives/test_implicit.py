"""The engine's implicit GEMM as a primitive: the same numbers as the definition, and blocks as stages of their own."""

from collections.abc import Callable

import numpy as np
import pytest

from mavcg.kernels.primitives.implicit import PRIMITIVES
from mavcg.primitive import Epilogue, Primitive, Scenario

EDGES = {
    "implicit_gemm_hwc_hwc": Scenario(6, 7, 9, 2, 3, 20, 1, 2),
    "implicit_gemm_hwc_chwc": Scenario(5, 6, 7, 1, 3, 32, 1),
    "implicit_depthwise_hwc_hwc": Scenario(20, 6, 9, 1, 3, 20, 1, 20),
}


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_agrees_with_the_definition(check_primitive: Callable[..., None], primitive: Primitive) -> None:
    check_primitive(primitive, [EDGES[primitive.name]])


@pytest.mark.long
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_agrees_on_many_scenarios(check_primitive: Callable[..., None], primitive: Primitive) -> None:
    check_primitive(primitive, 200)


@pytest.mark.long
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_bits_are_the_same_emulated(same_bits: Callable[..., None], primitive: Primitive) -> None:
    same_bits(primitive, EDGES[primitive.name], emulated=True)


def test_blocks_are_stages_that_share_a_kernel() -> None:
    primitive, scenario = PRIMITIVES[1], EDGES["implicit_gemm_hwc_chwc"]
    weights = np.ones((32, 5, 3, 3), np.float32)
    border, *stages = primitive.lower(scenario, weights, Epilogue(bias=True), 8).stages

    assert border.operands[0].base == "x" and len(stages) == 4
    assert len({stage.spec for stage in stages}) == 1
    assert [stage.operands[2].offset for stage in stages] == [i * 8 * 6 * 7 * 4 for i in range(4)]
    assert [stage.operands[3].offset for stage in stages] == [i * 8 * 4 for i in range(4)]
    assert not primitive.applies(Scenario(5, 6, 7, 1, 3, 24, 1)), "of a block of 16 that is not full"
