"""Exhaustive search: the pruned search's grid without its lower bound."""

from mavcg.accelerators.plans import grid, space
from mavcg.accelerators.plans.planned import Planned
from mavcg.choose.layer_model.layer import ConvLayer
from mavcg.choose.layer_model.roofline import Metric, performance_per_access
from mavcg.hardware.accelerator import Accelerator


def space_size(layer: ConvLayer, accelerator: Accelerator) -> int:
    """Return the number of tilings that `search` evaluates, whether they fit or not."""
    return space.size(space.axes(layer, accelerator, space.initial_tile(layer, accelerator)))


def search(
    layer: ConvLayer,
    accelerator: Accelerator,
    metric: Metric = performance_per_access,
    *,
    halo: bool = True,
    tile_roof: bool = False,
) -> Planned:
    """Run algorithms 1 and 4 without 2: return the best tiling of the grid by the model of pruned.search.

    halo: whether a tile must fit with its halo. tile_roof: as for grid.best. It takes seconds for each hundred million
    tilings, depending on how many fit. Raises: NoTiling, with the smallest memory that suffices.
    """
    axes = space.axes(layer, accelerator, space.initial_tile(layer, accelerator))
    tiling_and_cost = grid.best(layer, accelerator, axes, metric, halo, tile_roof)
    if tiling_and_cost is None:
        raise space.no_tiling(layer, accelerator, halo)
    return Planned(layer, *tiling_and_cost, candidates=space.size(axes))
