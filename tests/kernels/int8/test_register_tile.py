"""Register tiles of 8-bit products of matrices: pairs of pixels, and the layers whose weights are packed for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.graph.layout import dense_strides
from mavcg.kernels.builder.quantize import Int8Epilogue
from mavcg.kernels.int8.register_tile import choose_tiling, cut_pairs, form_of
from mavcg.kernels.int8.specs import QConv2d, packed_terms
from mavcg.specs.kernel import Machine, View

CORE = Machine("core", "aarch64", "cortex-a715", dot_product=True, matrix_product=True)


def convolution(pixels: int, in_ch: int, out_ch: int, kernel: int = 1) -> QConv2d:
    x, out = (1, kernel, pixels + kernel - 1, in_ch), (1, 1, pixels, out_ch)
    views = (View("i8", x, dense_strides(x)), View("i8", out, dense_strides(out)))
    return QConv2d(*views, (kernel, kernel), (1, 1), (1, 1), 1, 8, Int8Epilogue(0, -128, 127, "i8"), True)


@given(width=st.integers(1, 200), most=st.integers(1, 16))
def test_only_the_last_tile_of_a_row_has_half_a_pair(width: int, most: int) -> None:
    tiles = [mr for mr, count in cut_pairs(width, most).tiles for _ in range(count)]
    assert sum(tiles) == width
    assert all(mr % 2 == 0 for mr in tiles[:-1])
    assert max(tiles) <= most + most % 2


@given(width=st.integers(1, 100), vectors=st.integers(1, 40), dtype=st.sampled_from(["i8", "u8"]), sums=st.booleans())
def test_tiles_fit_the_registers(width: int, vectors: int, dtype: str, sums: bool) -> None:
    form = form_of(CORE, 8, dtype, window_sums=sums, packed=8)
    assert (form.kind, form.flip, form.terms) == ("smmla" if dtype == "i8" else "usmmla", False, 8)
    tiling = choose_tiling(form, 32, width, vectors, 2, 64, 9)
    for mr, _ in tiling.widths.tiles:
        accumulators = -(-mr // 2) * (2 * tiling.vectors + sums)
        assert accumulators + -(-mr // 2) < 32


@pytest.mark.parametrize(
    "pixels, in_ch, out_ch, kernel, terms",
    [
        (56, 64, 64, 1, 8),
        (49, 576, 96, 1, 8),
        (28, 32, 64, 3, 8),
        (1, 1024, 1000, 1, 4),  # one pixel: half of each product would be wasted
        (56, 8, 64, 1, 4),  # few terms: sorting the sums costs more than the products save
        (56, 7, 64, 1, 4),
        (56, 4, 64, 1, 4),
    ],
)
def test_layers_that_gain_are_packed_by_eight_terms(
    pixels: int, in_ch: int, out_ch: int, kernel: int, terms: int
) -> None:
    spec = convolution(pixels, in_ch, out_ch, kernel)
    assert packed_terms(spec, 8) == terms
    assert packed_terms(spec, 4) == 4
