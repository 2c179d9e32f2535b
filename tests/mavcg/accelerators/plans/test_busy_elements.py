"""Layers under the roof of the elements that tiles keep busy: against every step of the array, walked one by one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mavcg.accelerators.explore.design_space import Structure
from mavcg.accelerators.explore.metrics import array_share
from mavcg.accelerators.plans import baselines, exact, grid, space
from mavcg.accelerators.plans.exact import ExactOptions
from mavcg.accelerators.plans.levels import plan_levels
from mavcg.accelerators.plans.machines import core_accelerator
from mavcg.accelerators.plans.request import PlanRequest, plan_network
from mavcg.accelerators.plans.roofline import METRICS, Metric, Reached, array_utilisation
from mavcg.accelerators.plans.schedule_cache import Search
from mavcg.accelerators.plans.space import NoTiling
from mavcg.cost.board_model import core_model
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import tile_bytes, traffic
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.profiles.load import load_board
from tests.conftest import examples

MAPPINGS = [("IC", "OC"), ("OC", "OW"), ("OH", "OW"), ("KH", "IC")]
SEARCHES: dict[str, Search] = {
    "exact": partial(exact.search, options=ExactOptions(tile_roof=True)),
    "exhaustive": partial(grid.search_exhaustively, tile_roof=True),
    "pruned": partial(grid.search_pruned, tile_roof=True),
}
# The depthwise layer of the issue: one channel of 96 at a time on 240 elements.
DEPTHWISE = ConvLayer("depthwise", 1, 1, 56, 56, 3, 3, 112, 112, (2, 2), (1, 1, 1, 1), groups=96)
FIRST = ConvLayer("first", 64, 3, 56, 56, 3, 3, 56, 56, pads=(1, 1, 1, 1))


def array(sides: tuple[int, int], mapping: Sequence[str], *rooms: int, gb_per_s: float = 1.0) -> Accelerator:
    level = MemoryLevel("sram", gb_per_s, *rooms)
    return Accelerator("array", 1.0, (level,), sides, ((mapping[0],), (mapping[1],)))


@st.composite
def layers(draw: st.DrawFn, most: int = 2000) -> ConvLayer:
    oc, ic, oh, ow = (draw(st.integers(1, top)) for top in (9, 7, 5, 5))
    kernel = draw(st.integers(1, 3))
    assume(oc * ic * oh * ow * kernel**2 <= most)
    return ConvLayer(
        "small", oc, ic, oh, ow, kernel, kernel, oh + kernel - 1, ow + kernel - 1, groups=draw(st.integers(1, 3))
    )


@st.composite
def arrays(draw: st.DrawFn) -> Accelerator:
    sides, rooms = draw(st.tuples(*[st.integers(1, 4)] * 2)), [draw(st.integers(40, 700)) for _ in range(3)]
    return array(sides, draw(st.sampled_from(MAPPINGS)), *rooms, gb_per_s=draw(st.sampled_from([0.2, 2.0, 30.0])))


def steps_of(layer: ConvLayer, tile: Tile, accelerator: Accelerator) -> int:
    """Steps of the array for the whole layer: each tile of each loop, cut into pieces of the array's length."""
    steps = layer.groups
    for name, length in layer.loops.items():
        along = 0
        for first in range(0, length, tile.factors[name]):
            end = min(first + tile.factors[name], length)
            along += sum(1 for _ in range(first, end, accelerator.parallel(name)))
        steps *= along
    return steps


def tiles_of(axes: Mapping[str, Sequence[int]], layer: ConvLayer, accelerator: Accelerator) -> Iterator[Tile]:
    for factors in product(*(axes[name] for name in layer.loops)):
        tile = Tile(*factors)
        if accelerator.memory.holds(*tile_bytes(layer, tile, halo=True)):
            yield tile


def best_of(layer: ConvLayer, accelerator: Accelerator, tiles: Sequence[Tile], metric: Metric) -> float:
    """The largest metric of all tilings, with rates from the steps walked and the bytes moved."""
    values = []
    for tile, dataflow in product(tiles, Dataflow):
        moved = traffic(layer, Tiling(tile, dataflow))
        compute = layer.macs / steps_of(layer, tile, accelerator)  # at 1 GHz
        memory = accelerator.memory.bandwidth_gb_per_s * layer.macs / moved.total_bytes
        values.append(metric(Reached(layer.macs, moved, compute, memory)))
    return max(values)


@given(layers(), arrays(), st.data())
def test_utilisation_is_of_the_steps_of_the_array(
    layer: ConvLayer, accelerator: Accelerator, data: st.DataObject
) -> None:
    tile = Tile(*(data.draw(st.integers(1, length)) for length in layer.loops.values()))
    share = array_utilisation(layer, tile, accelerator)

    assert share == pytest.approx(layer.macs / (steps_of(layer, tile, accelerator) * accelerator.pes))
    assert share <= array_utilisation(layer, Tile(*layer.loops.values()), accelerator) * (1 + 1e-12)


@settings(max_examples=examples(60, 8), suppress_health_check=[HealthCheck.filter_too_much])
@given(layers(300), arrays(), st.sampled_from(list(METRICS.values())), st.sampled_from(list(SEARCHES)))
def test_each_search_finds_the_best_of_its_tiles(
    layer: ConvLayer, accelerator: Accelerator, metric: Metric, name: str
) -> None:
    lowest = space.initial_tile(layer, accelerator)
    if name == "pruned":
        lowest = space.lower_bound(layer, accelerator)
    axes = {loop: values.tolist() for loop, values in space.axes(layer, accelerator, lowest).items()}
    tiles = list(tiles_of(axes, layer, accelerator))
    if not tiles:
        return  # pruned: tries another lower bound
    planned = SEARCHES[name](layer, accelerator, metric)

    assert metric(planned.reached) == pytest.approx(best_of(layer, accelerator, tiles, metric), rel=1e-12)
    busy = layer.macs / steps_of(layer, planned.tiling.tile, accelerator)
    assert planned.reached.compute_gmac_per_s == pytest.approx(busy, rel=1e-12)


@settings(max_examples=examples(40, 5), suppress_health_check=[HealthCheck.filter_too_much])
@given(layers(200), arrays(), st.sampled_from(list(METRICS.values())))
def test_tiles_of_any_size_under_their_own_roofs(layer: ConvLayer, accelerator: Accelerator, metric: Metric) -> None:
    axes = {name: list(range(1, length + 1)) for name, length in layer.loops.items()}
    tiles = list(tiles_of(axes, layer, accelerator))
    options = ExactOptions(grid="full", tile_roof=True)
    if not tiles:
        with pytest.raises(NoTiling):
            exact.search(layer, accelerator, metric, options)
        return
    planned = exact.search(layer, accelerator, metric, options)

    assert metric(planned.reached) == pytest.approx(best_of(layer, accelerator, tiles, metric), rel=1e-12)


@settings(max_examples=examples(40, 5))
@given(layers(), st.tuples(st.integers(1, 4), st.integers(1, 4)), st.sampled_from(MAPPINGS))
def test_levels_are_under_the_roof_of_the_innermost_tiles(
    layer: ConvLayer, sides: tuple[int, int], mapping: tuple[str, str]
) -> None:
    levels = tuple(MemoryLevel(f"L{n}", 2.0, shared_bytes=size) for n, size in ((1, 3000), (2, 6000)))
    accelerator = replace(array(sides, mapping, 1), levels=levels)
    planned = plan_levels(layer, accelerator, tile_roof=True)

    steps = layer.groups
    for name in layer.loops:
        pieces = [layer.loops[name]]
        for tiling in reversed(planned.tilings):
            factor = tiling.tile.factors[name]
            pieces = [min(factor, length - at) for length in pieces for at in range(0, length, factor)]
        steps *= sum(-(-length // accelerator.parallel(name)) for length in pieces)
    assert planned.compute_gmac_per_s == pytest.approx(layer.macs / steps)
    assert planned.gmac_per_s <= planned.best_gmac_per_s * (1 + 1e-12)


@pytest.mark.parametrize("search", list(SEARCHES))
@pytest.mark.parametrize(("layer", "share"), [(DEPTHWISE, 1 / 240), (FIRST, 3 / 20 * 64 / 72)])
def test_layers_of_few_channels_are_not_faster_than_the_array(search: str, layer: ConvLayer, share: float) -> None:
    accelerator = array((12, 20), ("OC", "IC"), 1 << 18, 1 << 18, 1 << 18, gb_per_s=12.8)
    request = PlanRequest(search, keep=False, levels=True)
    (busy,) = plan_network([layer], accelerator, request, "").planned
    plan = plan_network([layer], accelerator, replace(request, paper_roof=True), "")

    assert busy.reached.compute_gmac_per_s == pytest.approx(240 * share)
    assert busy.reached.gmac_per_s <= 240 * share and busy.reached.bound == "compute"
    assert plan.planned[0].reached.compute_gmac_per_s == plan.levels[0].compute_gmac_per_s == 240
    assert plan.planned[0].tiling == busy.tiling


@pytest.mark.parametrize("name", baselines.BASELINES)
def test_other_planners_are_under_the_same_roof(name: str) -> None:
    accelerator = array((12, 20), ("OC", "IC"), 1 << 18, 1 << 18, 1 << 18)
    planned = baselines.plan(name, FIRST, accelerator, tile_roof=True)
    assert planned.reached.compute_gmac_per_s == pytest.approx(240 * 3 / 20 * 64 / 72)


def test_the_lanes_of_a_core_take_channels_of_all_groups() -> None:
    core = core_accelerator("exynos9820", core_model(load_board("exynos9820"), 0))
    lanes = core.parallel("OC")
    whole = Tile(*DEPTHWISE.loops.values())
    assert lanes > 1 and array_utilisation(DEPTHWISE, whole, core) == 1
    few = replace(FIRST, oc=lanes + 1)
    assert array_utilisation(few, Tile(*few.loops.values()), core) == pytest.approx((lanes + 1) / (2 * lanes))


@given(layers(), arrays())
def test_explored_machines_have_the_same_share(layer: ConvLayer, accelerator: Accelerator) -> None:
    structure = Structure(0, accelerator.memory, accelerator.pe_len, accelerator.pe_mapping, "")
    whole = Tile(*layer.loops.values())
    assert array_share(layer, structure) == pytest.approx(array_utilisation(layer, whole, accelerator), rel=1e-15)
    assert prod(structure.pe_len) == accelerator.pes and np.isfinite(array_share(layer, structure))
