"""The im2 family: workspaces, groups, and pieces of images."""

import pytest

from mavcg.kernels.primitives.im2.family import PRIMITIVES
from mavcg.kernels.primitives.matrix_product import pieces_of
from mavcg.specs.primitive import Layout, Scenario


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
