"""The kn2 family against the definition, and what is said of it."""

import pytest

from mavcg.kernels.primitives.kn2 import PRIMITIVES, as_one_row
from mavcg.primitive import Layout, Primitive, Scenario
from mavcg.trials.check import Checked
from tests.kernels.primitives.conftest import SMALL
from tests.kernels.primitives.conftest import computed as computed_once

BY_NAME = {primitive.name: primitive for primitive in PRIMITIVES}


def computed(name: str, scenario: Scenario = SMALL) -> Checked:
    return computed_once(BY_NAME[name], scenario)


@pytest.mark.parametrize("name", BY_NAME)
def test_agrees_with_the_definition(name: str) -> None:
    found = computed(name)
    assert found.ok, (found.max_error, found.faults)


@pytest.mark.parametrize("way", ["acc", "full"])
def test_only_the_way_of_adding_decides_the_bits(way: str) -> None:
    names = [name for name in BY_NAME if way in name.split("_")]
    assert len(names) >= 4 and len({computed(name).bits for name in names}) == 1


# All columns of taps as wide; one tap; groups; taps that see nothing of the image, or nothing but border; blocks of
# rows and parts of channels.
EDGES = {
    "no border": Scenario(3, 7, 19, 1, 4, 5),
    "one tap": Scenario(9, 10, 10, 1, 1, 18),
    "groups": Scenario(6, 5, 8, 1, 3, 9, pad=2, groups=3, dilation=2),
    "narrow image": Scenario(2, 3, 1, 1, 5, 2, pad=4),
    "parts": Scenario(3, 20, 18, 1, 2, 70, pad=1),
    "columns of taps beyond the image": Scenario(3, 2, 2, 1, 5, 7, pad=5, dilation=2),
}
WAYS = ("kn2row_acc_chw_hcw", "kn2col_acc_hwc_chwc", "kn2col_full_hwc_hwc", "kn2row_full_hcw_hcw")


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("edge", EDGES)
def test_edges(name: str, edge: str) -> None:
    primitive, scenario = BY_NAME[name], EDGES[edge]
    if not primitive.applies(scenario):
        assert scenario.groups > 1 and Layout.CHWC in (primitive.layout_in, primitive.layout_out)
        return
    found = computed(name, scenario)
    assert found.ok, (found.max_error, found.faults)


def test_the_same_bits_on_all_machines(same_bits) -> None:  # type: ignore[no-untyped-def]
    same_bits(BY_NAME["kn2row_acc_chw_chw"], SMALL)


def test_applies_to_stride_1_only() -> None:
    for primitive in PRIMITIVES:
        assert primitive.applies(Scenario(16, 8, 8, 1, 3, 16, pad=1))
        assert not primitive.applies(Scenario(16, 8, 8, 2, 3, 16, pad=1))


def test_workspace_is_all_partial_results_or_nothing() -> None:
    scenario = Scenario(8, 28, 28, 1, 3, 16, pad=1)
    for primitive in PRIMITIVES:
        said = primitive.workspace_bytes(scenario)
        assert said == (0 if "acc" in primitive.name else 9 * 16 * 28 * 28 * 4)


@pytest.mark.parametrize("h, w, width", [(7, 7, 49), (56, 56, 64), (14, 14, 49), (1, 67, 67), (3, 41, 41)])
def test_pixels_in_even_rows(h: int, w: int, width: int) -> None:
    """As many pixels, in rows that leave little of a vector unused; as they were where none divides them."""
    found = as_one_row(Scenario(3, h, w, 1, 1, 4))
    assert (found.h * found.w, found.w) == (h * w, width)


@pytest.mark.long
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_many_scenarios(check_primitive, primitive: Primitive) -> None:  # type: ignore[no-untyped-def]
    check_primitive(primitive, 200)


@pytest.mark.long
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_the_same_bits_on_emulated_cores(same_bits, primitive: Primitive) -> None:  # type: ignore[no-untyped-def]
    same_bits(primitive, Scenario(32, 9, 13, 1, 3, 40, pad=1), emulated=True)
