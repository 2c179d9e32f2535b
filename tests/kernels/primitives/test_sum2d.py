"""The baseline, sum of single channels: any scenario, in any ranges of channels, the same bits everywhere."""

from collections.abc import Callable

import pytest

from mavcg.kernels.primitives.sum2d import PRIMITIVES
from mavcg.primitive import Layout, Primitive, Scenario

EDGES = (Scenario(3, 6, 17, 1, 3, 5, 1), Scenario(4, 9, 10, 2, 3, 6, 2, 2, 2), Scenario(5, 8, 8, 3, 2, 5, 0, 5))


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_agrees_with_the_definition(check_primitive: Callable[..., None], primitive: Primitive) -> None:
    check_primitive(primitive, EDGES[1:])


@pytest.mark.long
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_agrees_on_many_scenarios(check_primitive: Callable[..., None], primitive: Primitive) -> None:
    check_primitive(primitive, 200)


def test_bits_are_the_same_on_all_cores(same_bits: Callable[..., None]) -> None:
    same_bits(PRIMITIVES[1], EDGES[0])


@pytest.mark.long
@pytest.mark.parametrize("scenario", EDGES, ids=str)
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_bits_are_the_same_emulated(same_bits: Callable[..., None], primitive: Primitive, scenario: Scenario) -> None:
    same_bits(primitive, scenario, emulated=True)


def test_scalar_baseline_needs_memory_for_a_border_only() -> None:
    baseline = next(p for p in PRIMITIVES if p.name == "sum2d_scalar_chw_chw")

    assert (baseline.layout_in, baseline.layout_out) == (Layout.CHW, Layout.CHW)
    assert baseline.workspace_bytes(Scenario(8, 10, 10, 2, 3, 8)) == 0
    assert baseline.workspace_bytes(Scenario(8, 10, 10, 1, 3, 8, 1)) == 8 * 12 * 12 * 4
