"""Bounds are below all that they bound; what is left out is dominated by something that is not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.accelerators.plans import bounds
from mavcg.accelerators.plans import entries as entries_of
from mavcg.accelerators.plans.bounds import Before
from mavcg.accelerators.plans.loop_order import traffic_with_halo
from mavcg.accelerators.plans.roofline import loop_utilisation
from mavcg.accelerators.plans.windows import axes, rows_read
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import Integers, tile_bytes, traffic
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from tests.conftest import examples

ONE = Accelerator("one", 1.0, (), (1, 1), ((), ()))
ARRAY = Accelerator("array", 1.0, (), (4, 3), (("OC",), ("OH",)))


@st.composite
def layers(draw: st.DrawFn) -> ConvLayer:
    oc, ic, oh, ow = (draw(st.integers(1, 8)) for _ in range(4))
    kh, kw = (draw(st.integers(1, 3)) for _ in range(2))
    pads = draw(st.tuples(*(st.integers(0, 2),) * 4))
    stride = draw(st.tuples(st.integers(1, 4), st.integers(1, 2)))
    spare = draw(st.integers(0, 2))
    ih = max(1, (oh - 1) * stride[0] + kh - pads[0] - pads[2] + spare)
    iw = max(1, (ow - 1) * stride[1] + kw - pads[1] - pads[3] + spare)
    return ConvLayer("small", oc, ic, oh, ow, kh, kw, ih, iw, stride, pads)


def every_factor(layer: ConvLayer) -> dict[str, Integers]:
    return {name: np.arange(1, length + 1) for name, length in layer.loops.items()}


def layer_of(out_ch: int) -> ConvLayer:
    return ConvLayer("channels", out_ch, 1, 1, 1, 1, 1, 1, 1)


@given(st.integers(1, 3000))
def test_few_factors_of_a_loop_count(length: int) -> None:
    kept = entries_of.channels(layer_of(length), ONE, "OC", np.arange(1, length + 1), tile_roof=False)
    assert len(kept) <= 2 * length**0.5
    assert sorted({-(-length // factor) for factor in range(1, length + 1)}, reverse=True) == kept.trips.tolist()
    smaller = kept.factor[kept.factor > 1] - 1
    assert (-(-length // smaller) > kept.trips[kept.factor > 1]).all()


@given(st.integers(1, 200))
def test_a_better_used_factor_stays(length: int) -> None:
    every = np.arange(1, length + 1)
    kept = entries_of.channels(layer_of(length), ARRAY, "OC", every, tile_roof=True)
    use = loop_utilisation(layer_of(length), ARRAY, "OC", every)
    for factor, of in zip(every.tolist(), use.tolist(), strict=True):
        same = kept.trips == -(-length // factor)
        assert ((kept.factor[same] <= factor) & (kept.use[same] >= of)).any()


def test_use_of_the_array() -> None:
    """4 columns: of 9 channels, tiles of 1 take 9 steps, of 4 or 8 three; tiles of 5 two for the first, one for 4."""
    share = loop_utilisation(layer_of(9), ARRAY, "OC", np.array([1, 4, 5, 8, 9]))
    assert share.tolist() == [0.25, 0.75, 0.75, 0.75, 0.75]
    assert loop_utilisation(layer_of(9), ARRAY, "KH", np.array([1])).tolist() == [1.0]


@settings(max_examples=examples(60, 8))
@given(layers(), st.booleans(), st.data())
def test_entries_count_what_the_models_count(layer: ConvLayer, halo: bool, data: st.DataObject) -> None:
    grid = every_factor(layer)
    entries = entries_of.spatial(layer, ONE, grid, halo_traffic=halo, halo_fits=True, tile_roof=False)
    place = data.draw(st.integers(0, len(entries) - 1))
    oc, ic = data.draw(st.integers(1, layer.oc)), data.draw(st.integers(1, layer.ic))
    oh, ow, kh, kw = entries.tiles[place].tolist()
    tile = Tile(oc, ic, oh, ow, kh, kw)
    of_input, of_weight, of_output = tile_bytes(layer, tile, halo=True)
    entry = entries.select(np.array([place]))
    held = (entry.input_bytes * ic, entry.weight_bytes * oc * ic, entry.output_bytes * oc)
    assert [int(size[0]) for size in held] == [of_input, of_weight, of_output]
    counted = bounds.totals(layer, entry, np.array([-(-layer.oc // oc)]), np.array([-(-layer.ic // ic)]))
    model = [(traffic_with_halo if halo else traffic)(layer, Tiling(tile, flow)).total_bytes for flow in Dataflow]
    if halo:  # where a loop vanishes another order does as well, and `totals` has it as another dataflow
        assert min(int(total[0]) for total in counted) == min(model)
    else:
        assert [int(total[0]) for total in counted] == model


@settings(max_examples=examples(60, 8))
@given(layers(), st.data())
def test_what_is_left_out_is_dominated(layer: ConvLayer, data: st.DataObject) -> None:
    entries = entries_of.spatial(layer, ONE, every_factor(layer), halo_traffic=True, halo_fits=True, tile_roof=False)
    lengths = (layer.oh, layer.ow, layer.kh, layer.kw)
    tile = [data.draw(st.integers(1, length)) for length in lengths]
    down, across = axes(layer)
    read = rows_read(down, tile[0], tile[2]) * rows_read(across, tile[1], tile[3])
    same = (-(-np.array(lengths) // entries.tiles) == [-(-n // t) for n, t in zip(lengths, tile, strict=True)]).all(
        axis=1
    )
    better = (entries.tiles <= tile).all(axis=1) & (entries.each <= layer.ic * 4 * read)
    assert (same & better).any()


@settings(max_examples=examples(60, 8))
@given(layers(), st.integers(4, 400), st.booleans(), st.data())
def test_no_tile_that_fits_is_below_its_bound(layer: ConvLayer, size: int, shared: bool, data: st.DataObject) -> None:
    memory = MemoryLevel("m", 1.0, shared_bytes=3 * size) if shared else MemoryLevel("m", 1.0, size, size, size)
    grid = every_factor(layer)
    entries = entries_of.spatial(layer, ONE, grid, halo_traffic=True, halo_fits=True, tile_roof=False)
    oc, ic = (entries_of.channels(layer, ONE, name, grid[name], False) for name in ("OC", "IC"))
    bound, steps, fits = bounds.least(layer, memory, entries, oc, ic)
    place = data.draw(st.integers(0, len(entries) - 1))
    oh, ow, kh, kw = entries.tiles[place].tolist()
    for i, a in enumerate(oc.factor.tolist()):
        most = int(bounds.most_input_channels(memory, entries.select(np.array([place])), np.array([a]))[0, 0])
        for j, b in enumerate(ic.factor.tolist()):
            tile = Tile(a, b, oh, ow, kh, kw)
            holds = memory.holds(*tile_bytes(layer, tile, halo=True))
            assert holds == (b <= most)
            if holds:
                assert fits[place]
                n = int(entries.pixels[place] * entries.taps[place] * oc.trips[i] * ic.trips[j])
                assert n >= steps[place]
                for flow in Dataflow:
                    assert traffic_with_halo(layer, Tiling(tile, flow)).total_bytes >= bound[place]


@pytest.mark.parametrize("pad", [0, 1])
def test_rows_without_padding_have_a_closed_form(pad: int) -> None:
    layer = ConvLayer("conv", 1, 1, 11, 1, 3, 1, 11 * 2 + 3 - 2 * pad, 1, (2, 1), (pad, 0, pad, 0), (2, 1))
    entries = entries_of.spatial(layer, ONE, every_factor(layer), halo_traffic=True, halo_fits=True, tile_roof=False)
    down, _ = axes(layer)
    for (oh, _, kh, _), each in zip(entries.tiles.tolist(), entries.each.tolist(), strict=True):
        assert each == 4 * rows_read(down, oh, kh)


def test_what_is_behind_counts_for_the_stationary_operand() -> None:
    layer = ConvLayer("conv", 4, 4, 4, 4, 1, 1, 4, 4)
    grid = {name: np.array([length]) for name, length in layer.loops.items()}
    entry = entries_of.spatial(layer, ONE, grid, halo_traffic=True, halo_fits=True, tile_roof=False)
    one = np.array([1])
    alone = [int(total[0]) for total in bounds.totals(layer, entry, one, one)]
    inside = [int(total[0]) for total in bounds.totals(layer, entry, one, one, Before(oc=2, pixels=3, reductions=4))]
    assert [b - a for a, b in zip(alone, inside, strict=True)] == [256 * 1, 64 * 2, 256 * 2 * 3]
