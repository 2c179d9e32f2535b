"""Three planners of the literature, under the conditions in which e-PlaNNer compares them (8.1, table 8.3).

All keep the width whole, cut loops into whole lengths of the array like the paper's own search, and are judged by the
same model. Where the paper leaves a choice open, the function's docstring states it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from types import MappingProxyType

import numpy as np

from mavcg.accelerators.plans import grid, space
from mavcg.accelerators.plans.roofline import Metric, Reached, performance_per_access, roofline_performance
from mavcg.accelerators.plans.space import Planned
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import Axes, traffic
from mavcg.errors import MavcgError
from mavcg.hardware.accelerator import DIMENSIONS, Accelerator


def plan(
    name: str,
    layer: ConvLayer,
    accelerator: Accelerator,
    metric: Metric = performance_per_access,
    *,
    halo: bool = True,
    tile_roof: bool = False,
) -> Planned:
    """Return the tiling that a planner chooses for a layer. name: one of BASELINES.

    metric, halo, tile_roof: as in grid.search_pruned. Raises: MavcgError for another name; NoTiling if no tile fits.
    """
    planner = _PLANNERS.get(name)
    if planner is None:
        raise MavcgError(f"baseline {name}: unknown; choose one of {', '.join(BASELINES)}")
    planned = planner(layer, accelerator, metric, halo)
    if not tile_roof:
        return planned
    # Each keeps to the grid in which all tiles keep as many elements busy, so the roof changes no choice.
    moved, tile = planned.reached.traffic, planned.tiling.tile
    return replace(planned, reached=roofline_performance(layer, moved, accelerator, tile))


def _zhang(layer: ConvLayer, accelerator: Accelerator, metric: Metric, halo: bool) -> Planned:
    """Plan by Zhang et al. 2015: IC is the innermost off-chip loop, so partial sums never move.

    Its best factors, "generated from e-PlaNNer", are the best of the paper's pruned space. Inputs and weights are
    reloaded by equations 6.2 and 6.3 unchanged, even if a loop has one trip and another dataflow would fit as well.
    """
    for axes in space.pruned_axes(layer, accelerator, halo):
        tiling_and_cost = _best_output_stationary(layer, accelerator, axes, metric, halo)
        if tiling_and_cost:
            return Planned(layer, *tiling_and_cost, candidates=space.size(axes) // len(Dataflow))
    raise space.no_tiling(layer, accelerator, halo)


def _ma(layer: ConvLayer, accelerator: Accelerator, metric: Metric, halo: bool) -> Planned:
    """Plan by Ma et al. 2017: the kernel whole, then IC as large as fits, so that partial sums move rarely or never.

    This priority comes before the pruning of the other loops: they are tried in every size, with every dataflow.
    """
    lowest = _largest(layer, accelerator, _start(layer, accelerator, halo), "IC", halo)
    axes = {**space.axes(layer, accelerator, lowest), "IC": np.array([lowest.ic])}
    tiling_and_cost = grid.best(layer, accelerator, axes, metric, halo)
    if tiling_and_cost is None:
        raise space.no_tiling(layer, accelerator, halo)
    return Planned(layer, *tiling_and_cost, candidates=space.size(axes))


def _smart_shuttle(layer: ConvLayer, accelerator: Accelerator, metric: Metric, halo: bool) -> Planned:
    """Plan by Li et al. 2018: output-stationary if OW * OH > IC * KW * KH, else weight-stationary; sizes by priorities.

    Output-stationary: OC as large as fits, then OH, then IC. Weight-stationary: OC and IC before OH, "in the same rank"
    in the paper; here OC comes first. Nothing is compared, so the metric is not used.
    """
    output = layer.ow * layer.oh > layer.ic * layer.kw * layer.kh
    tile = _start(layer, accelerator, halo)
    for name in ("OC", "OH", "IC") if output else ("OC", "IC", "OH"):
        tile = _largest(layer, accelerator, tile, name, halo)
    tiling = Tiling(tile, Dataflow.OUTPUT if output else Dataflow.WEIGHT)
    return Planned(layer, tiling, roofline_performance(layer, traffic(layer, tiling), accelerator), candidates=1)


_PLANNERS: Mapping[str, Callable[[ConvLayer, Accelerator, Metric, bool], Planned]] = MappingProxyType(
    {
        "zhang": _zhang,
        "ma": _ma,
        "smart-shuttle": _smart_shuttle,
    }
)
BASELINES: tuple[str, ...] = tuple(_PLANNERS)


def _start(layer: ConvLayer, accelerator: Accelerator, halo: bool) -> Tile:
    """Return the smallest tile. Raises: NoTiling if it does not fit."""
    tile = space.initial_tile(layer, accelerator)
    if not space.fits(layer, tile, accelerator, halo):
        raise space.no_tiling(layer, accelerator, halo)
    return tile


def _largest(layer: ConvLayer, accelerator: Accelerator, tile: Tile, name: str, halo: bool) -> Tile:
    """Return the tile with one loop, `name`, as long as fits and the others unchanged. The tile itself must fit."""
    sizes = space.axes(layer, accelerator, tile)[name].tolist()
    tiles = (replace(tile, **{name.lower(): size}) for size in reversed(sizes))
    return next((larger for larger in tiles if space.fits(layer, larger, accelerator, halo)), tile)


def _best_output_stationary(
    layer: ConvLayer, accelerator: Accelerator, axes: Axes, metric: Metric, halo: bool
) -> tuple[Tiling, Reached] | None:
    """Return the first output-stationary tile of the largest metric; None if no tile fits.

    The number of input channels in a tile does not change the traffic, so only the smallest number is tried.
    """
    best: tuple[float, Tiling, Reached] | None = None
    seen: set[tuple[int, ...]] = set()
    fewest = {**axes, "IC": axes["IC"][:1]}
    for factors in product(*(fewest[name].tolist() for name in DIMENSIONS)):
        tile = Tile(*factors)
        tiling = Tiling(tile, Dataflow.OUTPUT)
        moved = traffic(layer, tiling)
        kind = (moved.input_bytes, moved.weight_bytes)
        if kind in seen or not space.fits(layer, tile, accelerator, halo):
            continue
        seen.add(kind)
        reaches = roofline_performance(layer, moved, accelerator)
        value = metric(reaches)
        if best is None or value > best[0]:
            best = (value, tiling, reaches)
    return best[1:] if best else None
