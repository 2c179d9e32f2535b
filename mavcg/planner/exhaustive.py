"""The pruned search's grid without its lower bound: every tile that the array's lengths allow; or any tile at all."""

from itertools import product
from math import prod

from mavcg.accelerator import Accelerator
from mavcg.planner import grid, space
from mavcg.planner.layer import ConvLayer
from mavcg.planner.planned import NoTiling, Planned
from mavcg.planner.roofline import Metric, Reached, performance_per_access, reached
from mavcg.planner.tiling import Dataflow, Tile, Tiling
from mavcg.planner.traffic import traffic


def space_size(layer: ConvLayer, accelerator: Accelerator) -> int:
    """Tilings that `search` looks at, whether they fit or not."""
    return space.size(space.axes(layer, accelerator, space.initial_tile(layer, accelerator)))


def search(
    layer: ConvLayer, accelerator: Accelerator, metric: Metric = performance_per_access, *, halo: bool = True
) -> Planned:
    """Algorithms 1 and 4 without 2: the best tiling of the grid by the same model as pruned.search.

    halo: whether a tile has to fit with it. Seconds for each hundred million tilings, by how many fit.
    Raises: NoTiling, with the smallest memory that would do.
    """
    axes = space.axes(layer, accelerator, space.initial_tile(layer, accelerator))
    found = grid.best(layer, accelerator, axes, metric, halo)
    if found is None:
        raise space.no_tiling(layer, accelerator, halo)
    return Planned(layer, *found, candidates=space.size(axes))


def search_every_tile(
    layer: ConvLayer, accelerator: Accelerator, metric: Metric = performance_per_access, *, halo: bool = True
) -> Planned:
    """The best of all tiles of any size, one by one: for small layers, as a reference.

    Raises: NoTiling where no tile of any size fits.
    """
    found: tuple[float, Tiling, Reached] | None = None
    for factors in product(*(range(1, length + 1) for length in layer.loops.values())):
        tile = Tile(*factors)
        if not space.fits(layer, tile, accelerator, halo):
            continue
        for dataflow in Dataflow:
            tiling = Tiling(tile, dataflow)
            reaches = reached(layer, traffic(layer, tiling), accelerator)
            value = metric(reaches)
            if found is None or value > found[0]:
                found = (value, tiling, reaches)
    if found is None:
        smallest = space.tile_bytes(layer, Tile(1, 1, 1, 1, 1, 1), halo)
        raise NoTiling(f"layer {layer.name}: no tile fits: the smallest has {smallest} bytes; enlarge the memories")
    return Planned(layer, found[1], found[2], candidates=len(Dataflow) * prod(layer.loops.values()))
