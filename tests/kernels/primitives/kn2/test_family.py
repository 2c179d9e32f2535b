"""The kn2 family: strides, workspaces, and 1x1 convolutions in even rows."""

import pytest

from mavcg.kernels.primitives.kn2.family import PRIMITIVES, as_one_row
from mavcg.specs.primitive import Scenario


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
    reshaped = as_one_row(Scenario(3, h, w, 1, 1, 4))
    assert (reshaped.h * reshaped.w, reshaped.w) == (h * w, width)
