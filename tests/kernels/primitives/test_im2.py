"""The im2 family against the definition, and what is said of it."""

import pytest

from mavcg.kernels.primitives.im2 import PRIMITIVES
from mavcg.kernels.primitives.im2_stages import pieces_of
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


def taps_first(name: str) -> bool:
    return name.startswith("im2row") and name.split("_")[-2] in ("hwc", "chwc")


@pytest.mark.parametrize("order", [False, True], ids=["channels first", "taps first"])
def test_only_the_order_of_the_terms_decides_the_bits(order: bool) -> None:
    """Layouts, transposed operands and strips move data; each of the two orders has its bits."""
    names = [name for name in BY_NAME if taps_first(name) == order]
    assert len(names) > 5 and len({computed(name).bits for name in names}) == 1


# A row of two pieces, the second shorter; blocks of terms; few pixels and so parts of channels; strided and dilated
# groups; a border wider than the kernel; a kernel larger than the image.
EDGES = {
    "pieces of a row": Scenario(2, 2, 70, 1, 1, 3),
    "blocks of terms": Scenario(60, 3, 3, 1, 3, 5, pad=1),
    "parts of channels": Scenario(3, 4, 5, 1, 2, 70),
    "strided groups": Scenario(6, 9, 11, 2, 3, 4, pad=2, groups=2, dilation=2),
    "wide border": Scenario(1, 2, 3, 3, 2, 2, pad=4),
    "tall kernel": Scenario(2, 1, 2, 1, 5, 3, pad=2),
}
WAYS = ("im2col_t_strips_hcw_chw", "im2row_strips_hwc_hwc", "im2row_chw_chwc")


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
    same_bits(BY_NAME["im2row_hwc_hwc"], SMALL)


def test_workspace_is_the_matrix_or_nothing() -> None:
    scenario = Scenario(8, 28, 28, 1, 3, 16, pad=1)
    matrix = 8 * 9 * 28 * 28 * 4
    for primitive in PRIMITIVES:
        said = primitive.workspace_bytes(scenario)
        assert said == 0 if "strips" in primitive.name else matrix <= said <= matrix + 128


def test_groups_and_blocks() -> None:
    """A block of channels must be one group's."""
    straddling, apart = Scenario(24, 8, 8, 1, 3, 24, groups=3), Scenario(48, 8, 8, 1, 3, 96, groups=3)
    for primitive in PRIMITIVES:
        blocked = Layout.CHWC in (primitive.layout_in, primitive.layout_out)
        assert primitive.applies(straddling) != blocked and primitive.applies(apart)


@pytest.mark.parametrize("one_row", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (7, 7), (56, 56), (13, 64), (3, 65), (2, 130), (112, 112), (200, 3)])
def test_pieces_cover_an_image_once(shape: tuple[int, int], one_row: bool) -> None:
    height, width = shape
    pieces = pieces_of(height, width, one_row)
    rows, columns = pieces.rest
    assert rows >= 1 and columns >= 1
    if pieces.across > 1:
        assert pieces.rows == 1 and (pieces.across - 1) * pieces.columns + columns == width
        assert pieces.count == height * pieces.across
    else:
        assert columns == width and (pieces.count - 1) * pieces.rows + rows == height
        assert pieces.rows == 1 or not one_row


@pytest.mark.long
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_many_scenarios(check_primitive, primitive: Primitive) -> None:  # type: ignore[no-untyped-def]
    check_primitive(primitive, 200)


@pytest.mark.long
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_the_same_bits_on_emulated_cores(same_bits, primitive: Primitive) -> None:  # type: ignore[no-untyped-def]
    same_bits(primitive, Scenario(32, 9, 13, 1, 3, 40, pad=1), emulated=True)
