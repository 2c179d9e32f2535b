"""The planners that e-PlaNNer is compared with: each keeps to its rule, and is the best of what that leaves."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.accelerators.plans import grid, space
from mavcg.accelerators.plans.baselines import BASELINES, plan
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.roofline import latency, least_traffic, performance_per_access
from mavcg.accelerators.plans.schedule_cache import plan_layers
from mavcg.accelerators.plans.space import NoTiling
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import no_reload, traffic
from mavcg.errors import MavcgError
from mavcg.graph.networks import network
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from tests.conftest import examples

KIB = 1024


def machine(input_kib: float, weight_kib: float, output_kib: float, side: int = 16) -> Accelerator:
    sizes = (int(kib * KIB) for kib in (input_kib, weight_kib, output_kib))
    return Accelerator("m", 1.02, (MemoryLevel("on-chip", 60.0, *sizes),), (side, side), (("OC",), ("IC",)))


SETUPS = {
    "A": machine(256, 128, 256),
    "B": machine(512, 256, 512),
    "C": machine(256, 256, 256),
    "D": machine(256, 512, 256),
}
VGG9 = ConvLayer("conv9", oc=512, ic=512, oh=28, ow=28, kh=3, kw=3, ih=28, iw=28, pads=(1, 1, 1, 1))
FRONT = ConvLayer("front", oc=64, ic=64, oh=224, ow=224, kh=3, kw=3, ih=224, iw=224, pads=(1, 1, 1, 1))

small_layers = st.builds(
    lambda oc, ic, oh, ow, k, stride: ConvLayer(
        "l", oc, ic, oh, ow, k, k, (oh - 1) * stride + k, (ow - 1) * stride + k, stride=(stride, stride)
    ),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 3),
    st.integers(1, 2),
)
small_machines = st.builds(
    machine, st.floats(0.5, 16), st.floats(0.5, 16), st.floats(0.5, 16), st.sampled_from([1, 4, 8])
)


@pytest.mark.parametrize("name", BASELINES)
@given(layer=small_layers, accelerator=small_machines, halo=st.booleans())
@settings(max_examples=examples(60, 8))
def test_a_plan_fits_has_its_width_whole_and_says_what_it_moves(
    name: str, layer: ConvLayer, accelerator: Accelerator, halo: bool
) -> None:
    try:
        planned = plan(name, layer, accelerator, halo=halo)
    except NoTiling:
        assert not space.fits(layer, space.initial_tile(layer, accelerator), accelerator, halo)
        return
    tile = planned.tiling.tile
    assert space.fits(layer, tile, accelerator, halo)
    assert (tile.ow, tile.kh, tile.kw) == (layer.ow, layer.kh, layer.kw)
    assert all(1 <= tile.factors[name] <= length for name, length in layer.loops.items())
    assert planned.reached.traffic == traffic(layer, planned.tiling)


@given(layer=small_layers, accelerator=small_machines)
@settings(max_examples=examples(60, 8))
def test_no_baseline_beats_the_best_of_the_whole_grid(layer: ConvLayer, accelerator: Accelerator) -> None:
    try:
        best = grid.search_exhaustively(layer, accelerator, least_traffic)
    except NoTiling:
        return
    for name in BASELINES:
        planned = plan(name, layer, accelerator, least_traffic)
        assert planned.reached.traffic.total_bytes >= best.reached.traffic.total_bytes


@pytest.mark.parametrize("layer", [VGG9, FRONT, replace(VGG9, oc=100, ic=40, stride=(2, 2), oh=14, ow=14)])
@pytest.mark.parametrize("setup", ["A", "D"])
def test_zhang_never_moves_a_partial_sum_and_is_the_best_that_way(layer: ConvLayer, setup: str) -> None:
    accelerator = SETUPS[setup]
    planned = plan("zhang", layer, accelerator)
    assert planned.tiling.dataflow is Dataflow.OUTPUT
    assert planned.reached.traffic.output_bytes == no_reload(layer).output_bytes
    axes = space.axes(layer, accelerator, space.lower_bound(layer, accelerator))
    tiles = [
        Tile(oc, ic, oh, layer.ow, layer.kh, layer.kw)
        for oc, ic, oh in product(*(axes[name].tolist() for name in ("OC", "IC", "OH")))
    ]
    moved = [
        traffic(layer, Tiling(tile, Dataflow.OUTPUT)).total_bytes
        for tile in tiles
        if space.fits(layer, tile, accelerator, True)
    ]
    assert planned.reached.traffic.total_bytes == min(moved)
    assert planned.candidates == len(tiles)


@given(layer=small_layers, accelerator=small_machines)
@settings(max_examples=examples(60, 8))
def test_ma_has_as_many_input_channels_as_fit(layer: ConvLayer, accelerator: Accelerator) -> None:
    start = space.initial_tile(layer, accelerator)
    if not space.fits(layer, start, accelerator, True):
        return
    sizes = [*range(start.ic, layer.ic, accelerator.parallel("IC")), layer.ic]
    most = max(ic for ic in sizes if space.fits(layer, replace(start, ic=ic), accelerator, True))
    planned = plan("ma", layer, accelerator)
    assert planned.tiling.tile.ic == most
    if most == layer.ic:
        assert planned.reached.traffic.output_bytes == no_reload(layer).output_bytes


def test_ma_takes_the_best_of_what_is_left() -> None:
    accelerator = SETUPS["A"]
    planned = plan("ma", VGG9, accelerator, least_traffic)
    moved = [
        traffic(VGG9, Tiling(tile, dataflow)).total_bytes
        for oc, oh in product(range(16, 513, 16), range(1, 29))
        # 16 x 224 x 9 weights of 4 bytes are 126 of 128 KiB.
        if space.fits(VGG9, tile := Tile(oc, 224, oh, 28, 3, 3), accelerator, True)
        for dataflow in Dataflow
    ]
    assert planned.tiling.tile.ic == 224
    assert planned.reached.traffic.total_bytes == min(moved)


def test_smart_shuttle_by_hand_where_maps_are_large() -> None:
    """224 x 224 > 64 x 9: output stationary. OC: 256 KiB of output hold 64 rows of 224; a row of it: whole."""
    planned = plan("smart-shuttle", FRONT, SETUPS["A"])
    # Output: 64 x oh x 224 x 4 <= 256 KiB: oh = 4. Input: ic x 6 x 224 x 4 <= 256 KiB: ic = 48. Weights: 64 x 48 x 36
    # = 108 KiB of 128.
    assert planned.tiling == Tiling(Tile(64, 48, 4, 224, 3, 3), Dataflow.OUTPUT)
    assert planned.candidates == 1


def test_smart_shuttle_by_hand_where_channels_are_many() -> None:
    """28 x 28 < 512 x 9: weight stationary, OC before IC before OH."""
    planned = plan("smart-shuttle", VGG9, SETUPS["A"])
    # Weights with IC = 16: oc x 16 x 36 <= 128 KiB: 224; then IC stays 16: 224 x 32 would take twice as much.
    # Output: 224 x oh x 28 x 4 <= 256 KiB: 10; input: 16 x 12 x 28 x 4 = 21 KiB.
    assert planned.tiling == Tiling(Tile(224, 16, 10, 28, 3, 3), Dataflow.WEIGHT)


def test_the_metric_decides_where_there_is_a_choice() -> None:
    def most_input(found: object) -> float:
        return float(found.traffic.input_bytes)  # type: ignore[attr-defined]

    for name in ("zhang", "ma"):
        least = plan(name, VGG9, SETUPS["A"], least_traffic)
        other = plan(name, VGG9, SETUPS["A"], most_input)
        assert other.reached.traffic.input_bytes > least.reached.traffic.input_bytes
    assert plan("smart-shuttle", VGG9, SETUPS["A"], most_input) == plan("smart-shuttle", VGG9, SETUPS["A"], latency)


def test_groups_are_planned_one_by_one() -> None:
    grouped = replace(VGG9, groups=2)
    for name in BASELINES:
        one, two = plan(name, VGG9, SETUPS["A"]), plan(name, grouped, SETUPS["A"])
        assert two.tiling == one.tiling
        assert two.reached.traffic.total_bytes == 2 * one.reached.traffic.total_bytes


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(MavcgError, match="baseline shi: unknown; choose one of zhang, ma, smart-shuttle"):
        plan("shi", VGG9, SETUPS["A"])


@pytest.mark.parametrize("name", BASELINES)
def test_a_layer_that_fits_nowhere_is_named(name: str) -> None:
    with pytest.raises(NoTiling, match="layer conv9"):
        plan(name, VGG9, machine(1, 1, 1))


def test_access_against_the_papers_planner_on_vgg_in_setup_a() -> None:
    """Figure 8.3: the pruned search moves least, Smart-Shuttle most. No figures of the paper: it prints none."""
    layers = layers_of(network("vgg16", paper_variant=True))
    accelerator = SETUPS["A"]

    def mib(search: object) -> float:
        plans = plan_layers(layers, accelerator, search, performance_per_access)  # type: ignore[arg-type]
        return round(sum(found.reached.traffic.total_bytes for found in plans) / 2**20, 1)

    assert mib(grid.search_pruned) == 801.9
    assert [mib(lambda *asked, name=name: plan(name, *asked)) for name in BASELINES] == [866.8, 850.6, 1089.6]
