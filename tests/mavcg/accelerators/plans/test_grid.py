"""The exhaustive search against every tile one by one, in blocks of any size, and at the edges."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers, sampled_from

from mavcg.accelerators.plans import grid, space
from mavcg.accelerators.plans.roofline import METRICS, Metric, Reached, latency, least_traffic, roofline_performance
from mavcg.accelerators.plans.space import NoTiling, Planned
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import no_reload, traffic
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from tests.conftest import examples

MakeAccelerator = Callable[..., Accelerator]

SMALL = ConvLayer("small", 7, 5, 6, 4, 3, 3, 8, 6)


def search_every_tile(layer: ConvLayer, accelerator: Accelerator, metric: Metric) -> Planned:
    """The best of all tiles of any size, one by one. Raises: NoTiling where none fits."""
    found: tuple[float, Tiling, Reached] | None = None
    for factors in product(*(range(1, length + 1) for length in layer.loops.values())):
        tile = Tile(*factors)
        if not space.fits(layer, tile, accelerator, halo=True):
            continue
        for dataflow in Dataflow:
            tiling = Tiling(tile, dataflow)
            reaches = roofline_performance(layer, traffic(layer, tiling), accelerator)
            value = metric(reaches)
            if found is None or value > found[0]:
                found = (value, tiling, reaches)
    if found is None:
        raise NoTiling(f"{layer.name}: none fits")
    return Planned(layer, found[1], found[2], candidates=len(Dataflow) * prod(layer.loops.values()))


@settings(max_examples=examples(30, 6))
@given(
    *(integers(1, 5) for _ in range(2)),
    *(integers(1, 4) for _ in range(2)),
    integers(1, 2),
    integers(40, 400),
    sampled_from(list(METRICS.values())),
)
def test_every_tile_is_at_least_as_good(
    oc: int, ic: int, oh: int, ow: int, k: int, room: int, metric: Callable[..., float]
) -> None:
    layer = ConvLayer("any", oc, ic, oh, ow, k, k, oh + k - 1, ow + k - 1)
    level = MemoryLevel("sram", 2.0, room, room, room)
    # With an array of one element all sizes of OC, IC, OH and OW are in the grid, once OW is mapped.
    machine = Accelerator("any", 1.0, (level,), (1, 1), (("IC",), ("OW",)))
    try:
        every = search_every_tile(layer, machine, metric)
    except NoTiling:
        with pytest.raises(NoTiling):
            grid.search_exhaustively(layer, machine, metric)
        return
    assert every.candidates == space.unpruned_size(layer)
    assert space.fits(layer, every.tiling.tile, machine, halo=True)
    try:
        planned = grid.search_exhaustively(layer, machine, metric)
    except NoTiling:  # a kernel that has to be cut
        assert every.tiling.tile.kh < k or every.tiling.tile.kw < k
        return
    assert metric(planned.reached) <= metric(every.reached)
    if k == 1:
        assert planned.tiling == every.tiling
        assert planned.candidates == every.candidates


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize("piece", [1, 7, 40])
def test_pieces_of_any_size_give_the_same(
    monkeypatch: pytest.MonkeyPatch, piece: int, metric: Callable[..., float]
) -> None:
    layer = ConvLayer("some", 4, 3, 4, 3, 3, 1, 6, 3)
    machine = Accelerator("any", 1.0, (MemoryLevel("sram", 2.0, 120, 80, 60),), (1, 2), (("OW",), ("KH",)))
    at_once = grid.search_exhaustively(layer, machine, metric)
    assert at_once.candidates == 3 * (4 * 3 * 4 * 3 * 2)
    monkeypatch.setattr(grid, "_BLOCK", piece)
    assert grid.search_exhaustively(layer, machine, metric) == at_once


def test_the_first_of_equals_wins(small_array: MakeAccelerator) -> None:
    # Everything fits: then whole loops of one operand do as well as whole tiles.
    planned = grid.search_exhaustively(SMALL, small_array(10**6, 10**6, 10**6), least_traffic)
    assert planned.reached.traffic == no_reload(SMALL)
    # One loop of rows keeps the weights; whole channels keep input and sums.
    assert (planned.tiling.tile, planned.tiling.dataflow) == (Tile(3, 5, 6, 4, 3, 3), Dataflow.INPUT)
    assert planned.candidates == 3 * (3 * 3 * 6)


def test_a_layer_without_loops(small_array: MakeAccelerator) -> None:
    one = ConvLayer("one", 1, 1, 1, 1, 1, 1, 1, 1)
    planned = grid.search_exhaustively(one, small_array(4, 4, 4))
    assert planned.tiling.tile == Tile(*one.loops.values())
    assert planned.reached.traffic.total_bytes == 12
    assert planned.candidates == 3


def test_groups_share_nothing(small_array: MakeAccelerator) -> None:
    depthwise = ConvLayer("depthwise", 1, 1, 8, 8, 3, 3, 8, 8, pads=(1, 1, 1, 1), groups=32)
    planned = grid.search_exhaustively(depthwise, small_array(4 * 6 * 8, 36, 4 * 8 * 8), least_traffic)
    assert planned.reached.traffic == no_reload(depthwise)  # a channel at a time
    assert planned.tiling.tile.oh <= 4


def test_no_tile_fits(small_array: MakeAccelerator) -> None:
    # The least is three channels out, two in, one row of output: three rows of six columns of input.
    for search in (grid.search_exhaustively, grid.search_pruned):
        with pytest.raises(NoTiling, match=r"layer small: no tile fits memory 'sram' of small") as caught:
            search(SMALL, small_array(143, 10**6, 47))
        assert "144 bytes for the input, which has 143; 48 bytes for the output, which has 47" in str(caught.value)
        assert "weight" not in str(caught.value)
        assert search(SMALL, small_array(144, 216, 48)).tiling.tile == Tile(3, 2, 1, 4, 3, 3)
        with pytest.raises(NoTiling, match="needs 408 bytes, and the shared memory has 407"):
            search(SMALL, small_array(shared=407))
        assert search(SMALL, small_array(shared=408)).tiling.tile == Tile(3, 2, 1, 4, 3, 3)


def test_a_slow_memory_makes_latency_the_traffic(small_array: MakeAccelerator) -> None:
    machine = small_array(300, 400, 200)
    slow = replace(machine, levels=(replace(machine.memory, bandwidth_gb_per_s=1e-3),))
    by_latency, by_traffic = (grid.search_exhaustively(SMALL, slow, metric) for metric in (latency, least_traffic))
    assert by_latency == by_traffic
    assert by_latency.reached.bound == "memory"


@pytest.mark.long
def test_never_worse_than_pruned(
    paper_layers: dict[str, tuple[ConvLayer, ...]], setups: dict[str, Accelerator]
) -> None:
    for layers in paper_layers.values():
        for layer in {layer.key: layer for layer in layers}.values():
            for machine in setups.values():
                some, all_ = grid.search_pruned(layer, machine), grid.search_exhaustively(layer, machine)
                assert all_.reached.traffic.total_bytes <= some.reached.traffic.total_bytes
                assert all_.candidates >= some.candidates
                assert space.fits(layer, some.tiling.tile, machine, halo=True)
