"""The paper's search: only tiles above algorithm 2's lower bound. It is fast, but may miss the optimum of its model."""

from mavcg.accelerators.plans import grid, space
from mavcg.accelerators.plans.planned import Planned
from mavcg.choose.layer_model.layer import ConvLayer
from mavcg.choose.layer_model.roofline import Metric, performance_per_access
from mavcg.hardware.accelerator import Accelerator


def space_size(layer: ConvLayer, accelerator: Accelerator) -> int:
    """Return the number of tilings above the lower bound, whether they fit or not: a layer's part of table 8.5."""
    return space.size(space.axes(layer, accelerator, space.lower_bound(layer, accelerator)))


def search(
    layer: ConvLayer,
    accelerator: Accelerator,
    metric: Metric = performance_per_access,
    *,
    halo: bool = True,
    tile_roof: bool = False,
) -> Planned:
    """Run algorithms 1, 2 and 4, and return the best tiling.

    halo: whether the compared tiles must fit with their halo. The lower bound is computed without halo, as in the
    paper, and with halo only if no tile above it fits. tile_roof: as for grid.best. Raises: NoTiling, with the smallest
    memory that suffices.
    """
    for bound_halo in (False, True) if halo else (False,):
        axes = space.axes(layer, accelerator, space.lower_bound(layer, accelerator, bound_halo))
        tiling_and_cost = grid.best(layer, accelerator, axes, metric, halo, tile_roof)
        if tiling_and_cost:
            return Planned(layer, *tiling_and_cost, candidates=space.size(axes))
    raise space.no_tiling(layer, accelerator, halo)
