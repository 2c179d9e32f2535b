"""Tilings of several levels against all that there are, for small layers."""

from collections.abc import Iterator
from itertools import pairwise, product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mavcg.accelerators.plans import exact, nested
from mavcg.accelerators.plans.exact import ExactOptions
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.levels import plan_levels
from mavcg.accelerators.plans.machines import core_accelerator
from mavcg.accelerators.plans.space import NoTiling
from mavcg.cost.board_model import core_model
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import tile_bytes
from mavcg.graph.networks import network
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.profiles.load import load_board
from tests.conftest import examples


def fits_levels(layer: ConvLayer, tilings: tuple[Tiling, ...], accelerator: Accelerator) -> bool:
    """Whether each tile, with halo, fits the level that it is for."""
    return all(
        level.holds(*tile_bytes(layer, tiling.tile, halo=True))
        for level, tiling in zip(accelerator.levels, tilings, strict=True)
    )


def machine(*levels: tuple[float, int], ghz: float = 2.0) -> Accelerator:
    """Levels: bandwidth behind it and bytes, nearest first."""
    of = tuple(MemoryLevel(f"L{i + 1}", rate, shared_bytes=size) for i, (rate, size) in enumerate(levels))
    return Accelerator("levels", ghz, of, (4, 2), (("OC",), ("OW",)))


@st.composite
def layers(draw: st.DrawFn) -> ConvLayer:
    oc, ic, oh, ow = (draw(st.integers(1, 6)) for _ in range(4))
    assume(oc * ic * oh * ow <= 60)
    kernel = draw(st.integers(1, 2))
    ih, iw = oh + kernel - 1, ow + kernel - 1
    return ConvLayer("small", oc, ic, oh, ow, kernel, kernel, ih, iw)


@st.composite
def machines(draw: st.DrawFn) -> Accelerator:
    near = draw(st.integers(60, 250))
    far = draw(st.integers(near, 4 * near))
    rates = st.sampled_from([0.5, 2.0, 8.0, 64.0])
    levels = (MemoryLevel("L1", draw(rates), shared_bytes=near), MemoryLevel("L2", draw(rates), shared_bytes=far))
    return Accelerator("small", 1.0, levels, (2, 1), (("OC",), ("OW",)))


def tiles(layer: ConvLayer, within: dict[str, int], level: MemoryLevel) -> Iterator[Tile]:
    """All of the grid that fit, with the kernel whole: OC by twos."""
    steps = {name: range(1, within[name] + 1) for name in ("IC", "OH", "OW")}
    even = sorted({*range(2, within["OC"], 2), within["OC"]})
    for oc, ic, oh, ow in product(even, *steps.values()):
        tile = Tile(oc, ic, oh, ow, layer.kh, layer.kw)
        if level.holds(*tile_bytes(layer, tile, halo=True)):
            yield tile


def in_the_space(layer: ConvLayer, tile: Tile, level: MemoryLevel) -> bool:
    """Whether no smaller factor has as few tiles, nor a larger one of IC that counts would fit."""
    for name, factor in tile.factors.items():
        length = layer.loops[name]
        step = 2 if name == "OC" and factor % 2 == 0 else 1
        smaller = factor - step if name != "OC" or factor % 2 == 0 else factor - 1
        if name in ("KH", "KW") or smaller < (min(2, length) if name == "OC" else 1):
            continue
        if -(-length // smaller) == -(-length // factor):
            return False
    fewer = (n for n in range(tile.ic + 1, layer.ic + 1) if -(-layer.ic // n) < -(-layer.ic // tile.ic))
    larger = next(fewer, None)
    if larger is None:
        return True
    more = Tile(tile.oc, larger, tile.oh, tile.ow, tile.kh, tile.kw)
    return not level.holds(*tile_bytes(layer, more, halo=True))


def roof(layer: ConvLayer, level: MemoryLevel, behind: nested.Pieces, here: nested.Pieces) -> float:
    """Of a level's bandwidth, with the best dataflow."""
    moved = min(nested.traffic_into(layer, behind, here, flow).total_bytes for flow in Dataflow)
    return level.bandwidth_gb_per_s * layer.macs / moved


def reached(layer: ConvLayer, accelerator: Accelerator, far: Tile, step: int = 1) -> float:
    """The most with this tile of the further level, over all tiles of the nearer one (or each step-th of them)."""
    within = nested.cut_all(nested.whole(layer), far)
    near_level, far_level = accelerator.levels
    near = list(tiles(layer, far.factors, near_level))[::step]
    highest = max(roof(layer, near_level, within, nested.cut_all(within, tile)) for tile in near)
    of_far = roof(layer, far_level, nested.whole(layer), within)
    return min(accelerator.frequency_ghz * accelerator.pes, of_far, highest)


@settings(max_examples=examples(40, 5))
@given(layers(), machines())
def test_two_levels_against_all_pairs_of_tiles(layer: ConvLayer, accelerator: Accelerator) -> None:
    near, far = accelerator.levels
    smallest = Tile(min(2, layer.oc), 1, 1, 1, layer.kh, layer.kw)
    if not near.holds(*tile_bytes(layer, smallest, halo=True)):
        return  # the kernel is cut: another space
    planned = plan_levels(layer, accelerator, most_tried=1000)
    assert planned.proved
    assert fits_levels(layer, planned.tilings, accelerator)
    outer = [tile for tile in tiles(layer, layer.loops, far) if in_the_space(layer, tile, far)]
    assert planned.tilings[1].tile in outer
    best = max(reached(layer, accelerator, tile) for tile in outer)
    assert planned.gmac_per_s == best <= planned.best_gmac_per_s


@settings(max_examples=examples(12, 5))
@given(layers(), machines())
def test_nothing_at_all_is_above_the_bound(layer: ConvLayer, accelerator: Accelerator) -> None:
    """Nor of the tiles outside of the space."""
    near, far = accelerator.levels
    smallest = Tile(min(2, layer.oc), 1, 1, 1, layer.kh, layer.kw)
    if not near.holds(*tile_bytes(layer, smallest, halo=True)):
        return
    planned = plan_levels(layer, accelerator, most_tried=2)
    assert planned.gmac_per_s <= planned.best_gmac_per_s
    for tile in list(tiles(layer, layer.loops, far))[::2]:
        assert reached(layer, accelerator, tile, step=3) <= planned.best_gmac_per_s


LAYER = ConvLayer("conv", 64, 64, 28, 28, 3, 3, 28, 28, pads=(1, 1, 1, 1))


def test_one_level_is_the_exact_search() -> None:
    """Of every factor: with a kernel that is never worth cutting, and an array that works along nothing."""
    level = MemoryLevel("L1", 2.0, shared_bytes=24 << 10)
    accelerator = Accelerator("one", 1.0, (level,), (1, 1), ((), ()))
    planned = plan_levels(LAYER, accelerator)
    reference = exact.search(LAYER, accelerator, options=ExactOptions(model="halo", grid="full"))
    assert planned.proved
    assert planned.traffic[0].total_bytes == reference.reached.traffic.total_bytes
    assert planned.gmac_per_s == reference.reached.gmac_per_s


def test_tiles_are_nested_and_fit() -> None:
    accelerator = machine((60.0, 32 << 10), (20.0, 256 << 10), (6.0, 2 << 20))
    planned = plan_levels(LAYER, accelerator)
    assert len(planned.tilings) == len(planned.traffic) == 3
    assert fits_levels(LAYER, planned.tilings, accelerator)
    for near, far in pairwise(planned.tilings):
        assert all(a <= b for a, b in zip(near.tile.factors.values(), far.tile.factors.values(), strict=True))
    assert planned.traffic[0].total_bytes >= planned.traffic[1].total_bytes >= planned.traffic[2].total_bytes
    assert planned.traffic == nested.traffic_of_levels(LAYER, planned.tilings)
    assert planned.bound is None
    assert planned.gmac_per_s == planned.compute_gmac_per_s == 16
    assert plan_levels(LAYER, accelerator) == planned


@pytest.mark.parametrize("number", [0, 1])
def test_best_tilings_of_a_network_on_a_board(number: int) -> None:
    """Each cluster of a board with three levels: none of SqueezeNet's layers could reach more."""
    accelerator = core_accelerator("rk3588", core_model(load_board("rk3588"), number))
    assert len(accelerator.levels) == 3
    for layer in {layer.key: layer for layer in layers_of(network("squeezenet", paper_variant=True))}.values():
        planned = plan_levels(layer, accelerator)
        assert planned.proved
        assert planned.gmac_per_s == planned.best_gmac_per_s
        assert fits_levels(layer, planned.tilings, accelerator)


def test_the_level_that_bounds_is_named() -> None:
    slow_far = plan_levels(LAYER, machine((60.0, 32 << 10), (0.01, 256 << 10)))
    assert (slow_far.bound, slow_far.gmac_per_s) == (1, slow_far.level_gmac_per_s[1])
    slow_near = plan_levels(LAYER, machine((0.1, 32 << 10), (60.0, 256 << 10)))
    assert (slow_near.bound, slow_near.gmac_per_s) == (0, slow_near.level_gmac_per_s[0])
    assert slow_near.gmac_per_s <= slow_near.best_gmac_per_s


def test_more_tries_are_no_worse() -> None:
    accelerator = machine((0.5, 8 << 10), (2.0, 64 << 10))
    reached_by = [plan_levels(LAYER, accelerator, most_tried=n).gmac_per_s for n in (1, 4, 24)]
    assert reached_by == sorted(reached_by)


def test_a_kernel_is_cut_where_it_has_to_be() -> None:
    layer = ConvLayer("wide", 4, 1, 8, 8, 11, 11, 18, 18)
    whole = plan_levels(layer, machine((60.0, 32 << 10), (6.0, 256 << 10)))
    assert all((tiling.tile.kh, tiling.tile.kw) == (11, 11) for tiling in whole.tilings)
    cut = plan_levels(layer, machine((60.0, 400), (6.0, 256 << 10)))
    near = cut.tilings[0].tile
    assert near.kh * near.kw < 121
    assert fits_levels(layer, cut.tilings, machine((60.0, 400), (6.0, 256 << 10)))


def test_the_level_that_holds_no_tile_is_named() -> None:
    with pytest.raises(NoTiling, match=r"layer conv: no tile fits levels\[0\] \('L1'\) of levels") as error:
        plan_levels(LAYER, machine((60.0, 16), (6.0, 256 << 10)))
    need = int(str(error.value).partition("needs ")[2].split()[0])
    assert plan_levels(LAYER, machine((60.0, need), (6.0, 256 << 10))).tilings[0].tile.macs == 8
    with pytest.raises(NoTiling):
        plan_levels(LAYER, machine((60.0, need - 1), (6.0, 256 << 10)))
