"""Table 8.5's pruned figures; algorithm 4 against a plain loop; what the pruning loses."""

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, integers, sampled_from

from mavcg.accelerators.plans import grid, space
from mavcg.accelerators.plans.roofline import (
    METRICS,
    Metric,
    least_traffic,
    performance_per_access,
    roofline_performance,
)
from mavcg.accelerators.plans.space import NoTiling
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import traffic
from mavcg.hardware.accelerator import Accelerator, MemoryLevel

Networks = dict[str, tuple[ConvLayer, ...]]
Setups = dict[str, Accelerator]

# As printed: setups A, B, C, D.
TABLE_8_5 = {
    "vgg16": (27_552, 25_536, 25_536, 23_184),
    "resnet50": (41_040, 21_984, 23_232, 12_864),
    "alexnet": (5_310, 405, 645, 645),
    "squeezenet": (4_596, 1_530, 4_596, 4_530),
    "yolov2": (89_937, 83_409, 89_937, 80_133),
}


@pytest.mark.parametrize("network", list(TABLE_8_5))
def test_table_8_5_pruned(paper_convolutions: Networks, setups: Setups, network: str) -> None:
    sizes = [sum(grid.pruned_size(layer, setup) for layer in paper_convolutions[network]) for setup in setups.values()]
    assert tuple(sizes) == TABLE_8_5[network]


def test_line_4_of_algorithm_2_is_misprinted(paper_convolutions: Networks, setups: Setups) -> None:
    # "T <- bestT" would make each set whole on top of the best so far.
    def as_printed(layer: ConvLayer, setup: Accelerator) -> int:
        best, least = space.initial_tile(layer, setup), float("inf")
        for count in range(4):
            for names in combinations(("OC", "IC", "OH"), count):
                tile = Tile(*(best.factors | {name: layer.loops[name] for name in names}).values())
                if space.fits(layer, tile, setup, halo=False) and space.reload_volume(layer, tile) < least:
                    best, least = tile, space.reload_volume(layer, tile)
        return space.size(space.axes(layer, setup, best))

    agree = [
        sum(as_printed(layer, setup) for layer in paper_convolutions[network]) == printed
        for network, row in TABLE_8_5.items()
        for setup, printed in zip(setups.values(), row, strict=True)
    ]
    assert (sum(agree), len(agree)) == (2, 20)


def plain(layer: ConvLayer, machine: Accelerator, lowest: Tile, metric: Metric, halo: bool) -> tuple[Tiling, float]:
    """Algorithm 4 as a loop over the candidates."""

    def steps(name: str, step: int) -> list[int]:
        length = layer.loops[name]
        return [*range(lowest.factors[name], length, step), length]

    best: tuple[Tiling, float] | None = None
    for oc in steps("OC", 3):
        for ic in steps("IC", 2):
            for oh in steps("OH", 1):
                tile = Tile(oc, ic, oh, layer.ow, layer.kh, layer.kw)
                for dataflow in Dataflow:
                    tiling = Tiling(tile, dataflow)
                    value = metric(roofline_performance(layer, traffic(layer, tiling), machine))
                    if space.fits(layer, tile, machine, halo) and (best is None or value > best[1]):
                        best = tiling, value
    assert best is not None
    return best


@given(
    *(integers(1, 11) for _ in range(2)),
    *(integers(1, 7) for _ in range(2)),
    integers(1, 3),
    integers(1, 2),
    sampled_from([100, 300, 1000, 4000]),
    integers(60, 2000),
    integers(60, 2000),
    booleans(),
    sampled_from([*METRICS.values(), lambda found: float(found.traffic.input_bytes)]),
)
def test_search_is_algorithm_4(
    oc: int,
    ic: int,
    oh: int,
    ow: int,
    k: int,
    stride: int,
    of_input: int,
    of_weight: int,
    of_output: int,
    halo: bool,
    metric: Metric,
) -> None:
    layer = ConvLayer("any", oc, ic, oh, ow, k, k, (oh - 1) * stride + k, (ow - 1) * stride + k, (stride, stride))
    level = MemoryLevel("sram", 2.0, of_input, of_weight, of_output)
    machine = Accelerator("any", 1.0, (level,), (2, 3), (("IC",), ("OC",)))
    lowest = space.lower_bound(layer, machine)
    try:
        planned = grid.search_pruned(layer, machine, metric, halo=halo)
    except NoTiling:
        assert not space.fits(layer, space.initial_tile(layer, machine), machine, halo)
        return
    if not space.fits(layer, lowest, machine, halo):
        lowest = space.lower_bound(layer, machine, halo=True)
    tiling, value = plain(layer, machine, lowest, metric, halo)
    assert (planned.tiling, metric(planned.reached)) == (tiling, value)
    assert planned.candidates == space.size(space.axes(layer, machine, lowest))
    whole = plain(layer, machine, space.initial_tile(layer, machine), metric, halo)
    everything = grid.search_exhaustively(layer, machine, metric, halo=halo)
    assert (everything.tiling, metric(everything.reached)) == whole
    assert whole[1] >= value


def test_where_the_halo_does_not_fit_the_bound_is_made_with_it(small_array: Callable[..., Accelerator]) -> None:
    # Six channels of one row fit, and algorithm 2 keeps them whole; of the three rows that are read they do not.
    layer = ConvLayer("wide", 3, 6, 8, 4, 3, 3, 10, 6)
    machine = small_array(input_bytes=4 * 6 * 2 * 6, weight_bytes=4 * 3 * 6 * 9, output_bytes=4 * 3 * 8 * 4)
    assert space.lower_bound(layer, machine) == Tile(3, 6, 1, 4, 3, 3)
    assert space.lower_bound(layer, machine, halo=True) == Tile(3, 2, 1, 4, 3, 3)
    planned = grid.search_pruned(layer, machine)
    assert space.fits(layer, planned.tiling.tile, machine, halo=True)
    assert planned.candidates == 3 * (1 * 3 * 8)
    as_printed = grid.search_pruned(layer, machine, halo=False)
    assert (as_printed.tiling.tile.ic, as_printed.candidates) == (6, 3 * 8)


def test_a_metric_of_ones_own(setups: Setups, paper_convolutions: Networks) -> None:
    layer = paper_convolutions["vgg16"][8]
    for operand in ("input_bytes", "weight_bytes", "output_bytes"):
        planned = grid.search_pruned(layer, setups["A"], lambda r, name=operand: -float(getattr(r.traffic, name)))  # type: ignore[misc]
        least = {"input_bytes": layer.input_elements, "weight_bytes": layer.weight_elements}
        assert getattr(planned.reached.traffic, operand) == 4 * least.get(operand, layer.output_elements)


def test_with_one_roof_the_papers_metric_is_the_traffic(setups: Setups, paper_layers: Networks) -> None:
    # Performance falls with traffic, and is divided by it: the fewest bytes win by both.
    for layer in paper_layers["alexnet"]:
        by_metric = grid.search_pruned(layer, setups["A"], performance_per_access)
        by_traffic = grid.search_pruned(layer, setups["A"], least_traffic)
        assert by_metric.reached.traffic.total_bytes == by_traffic.reached.traffic.total_bytes


@pytest.mark.parametrize(
    ("network", "setup", "with_pruning", "without", "worse"),
    [
        ("vgg16", "A", "801.9", "702.2", 5),
        ("resnet50", "A", "226.2", "190.6", 14),
        ("yolov2", "B", "552.7", "461.8", 10),
    ],
)
def test_pruning_loses_the_optimum(
    paper_layers: Networks, setups: Setups, network: str, setup: str, with_pruning: str, without: str, worse: int
) -> None:
    # The paper says that its pruning reaches the global optimum (chapter 2). MiB of all layers, with halos in the fit.
    layers, machine = paper_layers[network], setups[setup]
    some = [grid.search_pruned(layer, machine).reached.traffic.total_bytes for layer in layers]
    all_ = [grid.search_exhaustively(layer, machine).reached.traffic.total_bytes for layer in layers]
    assert (f"{sum(some) / 2**20:.1f}", f"{sum(all_) / 2**20:.1f}") == (with_pruning, without)
    assert sum(a > b for a, b in zip(some, all_, strict=True)) == worse
