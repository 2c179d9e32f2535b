"""Networks planned: one search a kind of layer, none with a warm cache."""

from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.accelerators.plans import grid
from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.accelerators.plans.roofline import Metric, least_traffic, performance_per_access
from mavcg.accelerators.plans.schedule_cache import ScheduleCache, open_cache, plan_layers, schedules
from mavcg.accelerators.plans.space import NoTiling, Planned
from mavcg.cost.layer import ConvLayer
from mavcg.graph.networks import NAMES, network
from mavcg.hardware.accelerator import Accelerator, MemoryLevel

KIB = 1024
SETUP_A = Accelerator(
    "A", 1.02, (MemoryLevel("on-chip", 60.0, 256 * KIB, 128 * KIB, 256 * KIB),), (16, 16), (("OC",), ("IC",))
)


class Counting:
    """The pruned search, counted."""

    def __init__(self) -> None:
        self.layers: list[str] = []

    def __call__(self, layer: ConvLayer, accelerator: Accelerator, metric: Metric) -> Planned:
        self.layers.append(layer.name)
        return grid.search_pruned(layer, accelerator, metric)


def _cache(folder: Path) -> ScheduleCache | None:
    return open_cache(SETUP_A, "pruned", "performance-per-access", environment={"MAVCG_CACHE": str(folder)})


def test_each_kind_of_layer_is_searched_for_once() -> None:
    layers = layers_of(network("resnet50", paper_variant=True))
    search = Counting()
    plans = plan_layers(layers, SETUP_A, search)
    assert schedules(layers) == (50, 21)
    assert len(search.layers) == len(set(search.layers)) == 21
    assert [plan.layer for plan in plans] == list(layers)
    # A layer that was not searched for has what a search for it alone finds.
    alone = next(i for i, layer in enumerate(layers) if layer.name not in search.layers)
    assert plans[alone] == grid.search_pruned(layers[alone], SETUP_A, performance_per_access)


def test_the_metric_reaches_the_search() -> None:
    layers = layers_of(network("squeezenet", paper_variant=True))[:4]
    assert plan_layers(layers, SETUP_A, grid.search_pruned, least_traffic) == tuple(
        grid.search_pruned(layer, SETUP_A, least_traffic) for layer in layers
    )


def test_networks_share_the_layers_that_they_have_in_common(tmp_path: Path) -> None:
    layers = layers_of(network("squeezenet", paper_variant=True))
    plan_layers(layers[:10], SETUP_A, grid.search_pruned, cache=_cache(tmp_path))
    search = Counting()
    plan_layers(layers, SETUP_A, search, cache=_cache(tmp_path))
    assert len(search.layers) == schedules(layers)[1] - schedules(layers[:10])[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_warm_cache_plans_a_network_without_a_search(name: str, tmp_path: Path) -> None:
    layers = layers_of(network(name, paper_variant=True))
    first = plan_layers(layers, SETUP_A, grid.search_pruned, cache=_cache(tmp_path))
    search = Counting()

    assert plan_layers(layers_of(network(name, paper_variant=True)), SETUP_A, search, cache=_cache(tmp_path)) == first
    assert search.layers == []


def test_a_layer_that_fits_nowhere_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    small = ConvLayer("small", oc=16, ic=16, oh=4, ow=4, kh=1, kw=1, ih=4, iw=4)
    wide = replace(small, name="wide", ow=1 << 20, iw=1 << 20)
    with pytest.raises(NoTiling, match="layer wide"):
        plan_layers((small, wide), SETUP_A, grid.search_pruned, cache=_cache(tmp_path))
    cache = _cache(tmp_path)
    assert cache is not None
    assert cache.get(small)
    assert len(cache) == 1


def test_no_layers_are_a_plan_too() -> None:
    assert plan_layers((), SETUP_A, grid.search_pruned) == ()
