"""Best tiling of a grid by enumeration: the paper's search, above algorithm 2's lower bound, and the exhaustive one.

The paper's is fast, but may miss the optimum of its model.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from mavcg.accelerators.plans import space
from mavcg.accelerators.plans.roofline import Metric, Reached, performance_per_access, roofline_performance
from mavcg.accelerators.plans.space import Planned
from mavcg.choose.cheapest import cheapest
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import Axes, Integers, bytes_of, traffic
from mavcg.hardware.accelerator import DIMENSIONS, Accelerator, MemoryLevel

# Tiles in one NumPy batch: a few arrays of this many 8-byte integers are in memory at a time.
_BLOCK = 1 << 19


@dataclass(frozen=True)
class _GridTiling:
    """A tiling of a grid with its roofline result. order: (index of its tile, index of its dataflow)."""

    order: tuple[int, int]
    tiling: Tiling
    reached: Reached


def best(
    layer: ConvLayer, accelerator: Accelerator, axes: Axes, metric: Metric, halo: bool, tile_roof: bool = False
) -> tuple[Tiling, Reached] | None:
    """Return the tiling of largest metric by algorithm 4: all tiles that fit, each with three dataflows.

    None if none fits. Ties go to the first: tiles in the order of tuples, for each tile the order of Dataflow.
    tile_roof: whether the computation roof is that of the elements which tiles keep busy; as in the paper it is that of
    all. axes: of space.axes, so that all factors of a loop keep as many elements busy (roofline.loop_utilisation). So a
    metric depends on the traffic alone, and is computed once for each distinct traffic.
    """
    cheapest_tiling = cheapest(
        _distinct_tilings(layer, accelerator, axes, halo, tile_roof),
        lambda candidate: -metric(candidate.reached),
        order=lambda candidate: candidate.order,
    )
    return (cheapest_tiling.tiling, cheapest_tiling.reached) if cheapest_tiling else None


def _distinct_tilings(
    layer: ConvLayer, accelerator: Accelerator, axes: Axes, halo: bool, tile_roof: bool
) -> Iterator[_GridTiling]:
    """Yield the tilings that fit; among those of a batch that move the same bytes, only the first."""
    seen: set[tuple[int, int, int]] = set()
    first = 0
    for factors in _blocks(axes):
        tiles = _fitting_tiles(layer, accelerator.memory, factors, halo)
        first_here, first = first, first + prod(values.size for values in factors.values())
        if not tiles.size:
            continue
        n = {name: -(-length // factors[name]) for name, length in layer.loops.items()}
        for rank, dataflow in enumerate(Dataflow):
            for tile, kind in _kinds(n, dataflow, tiles):
                if (rank, *kind) in seen:
                    continue
                seen.add((rank, *kind))
                tiling = Tiling(_tile_at(factors, tile), dataflow)
                roof_of = tiling.tile if tile_roof else None
                reached = roofline_performance(layer, traffic(layer, tiling), accelerator, roof_of)
                yield _GridTiling((first_here + tile, rank), tiling, reached)


def _blocks(axes: Axes) -> Iterator[dict[str, Integers]]:
    """Yield the grid in batches of at most _BLOCK tiles, in order.

    Factors that broadcast to a batch's six dimensions.
    """
    lengths = [len(axes[name]) for name in DIMENSIONS]
    cut, inside = len(lengths) - 1, 1
    while cut > 0 and inside * lengths[cut] <= _BLOCK:
        inside *= lengths[cut]
        cut -= 1
    step = max(1, _BLOCK // inside)
    inner = [axes[name] for name in DIMENSIONS[cut + 1 :]]
    for outer in product(*(axes[name].reshape(-1, 1) for name in DIMENSIONS[:cut])):
        for start in range(0, lengths[cut], step):
            piece = axes[DIMENSIONS[cut]][start : start + step]
            yield dict(zip(DIMENSIONS, np.ix_(*outer, piece, *inner), strict=True))


def _fitting_tiles(layer: ConvLayer, memory: MemoryLevel, factors: Axes, halo: bool) -> Integers:
    """Return the flat indices of the tiles of a batch that fit the memory."""
    input_bytes, weight_bytes, output_bytes = bytes_of(layer, factors, halo)
    if memory.shared_bytes:
        fit = input_bytes + weight_bytes + output_bytes <= memory.shared_bytes
    else:
        fit = (
            (input_bytes <= memory.input_bytes)
            & (weight_bytes <= memory.weight_bytes)
            & (output_bytes <= memory.output_bytes)
        )
    return np.flatnonzero(fit)


def _kinds(n: Axes, dataflow: Dataflow, tiles: Integers) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield (first tile, kind) of each kind of tiles, where a kind is the pair of reload counts of the moving operands.

    n: trip counts of each loop. The stationary operand is moved once whatever the tile, so two counts decide the
    traffic.
    """
    kernel = n["KH"] * n["KW"]
    input_bytes, weight_bytes, output_bytes = kernel * n["OC"], n["OH"] * n["OW"], kernel * n["IC"]
    pairs = {
        Dataflow.INPUT: (weight_bytes, output_bytes),
        Dataflow.WEIGHT: (input_bytes, output_bytes),
        Dataflow.OUTPUT: (input_bytes, weight_bytes),
    }
    shape = np.broadcast_shapes(*(values.shape for values in n.values()))
    first_count, second_count = (
        np.broadcast_to(values, shape)[np.unravel_index(tiles, shape)] for values in pairs[dataflow]
    )
    base = int(second_count.max()) + 1
    kinds, where = np.unique(first_count * base + second_count, return_index=True)
    for kind, index in zip(kinds.tolist(), where.tolist(), strict=True):
        yield int(tiles[index]), divmod(kind, base)


def _tile_at(factors: Axes, flat_index: int) -> Tile:
    index = np.unravel_index(flat_index, [values.size for values in factors.values()])
    return Tile(*(int(factors[name].flat[i]) for name, i in zip(DIMENSIONS, index, strict=True)))


def pruned_size(layer: ConvLayer, accelerator: Accelerator) -> int:
    """Return the number of tilings above the lower bound, whether they fit or not: a layer's part of table 8.5."""
    return space.size(space.axes(layer, accelerator, space.lower_bound(layer, accelerator)))


def search_pruned(
    layer: ConvLayer,
    accelerator: Accelerator,
    metric: Metric = performance_per_access,
    *,
    halo: bool = True,
    tile_roof: bool = False,
) -> Planned:
    """Run algorithms 1, 2 and 4, and return the best of the tilings above the lower bound.

    halo: whether the compared tiles must fit with their halo. The lower bound is computed without halo, as in the
    paper, and with halo only if no tile above it fits. tile_roof: as for best. Raises: NoTiling, with the smallest
    memory that suffices.
    """
    return _best_of(layer, accelerator, space.pruned_axes(layer, accelerator, halo), metric, halo, tile_roof)


def search_exhaustively(
    layer: ConvLayer,
    accelerator: Accelerator,
    metric: Metric = performance_per_access,
    *,
    halo: bool = True,
    tile_roof: bool = False,
) -> Planned:
    """Run algorithms 1 and 4 without 2: return the best tiling of the grid by the model of search_pruned.

    halo: whether a tile must fit with its halo. tile_roof: as for best. It takes seconds for each hundred million
    tilings, depending on how many fit. Raises: NoTiling, with the smallest memory that suffices.
    """
    grid = space.axes(layer, accelerator, space.initial_tile(layer, accelerator))
    return _best_of(layer, accelerator, (grid,), metric, halo, tile_roof)


def _best_of(
    layer: ConvLayer,
    accelerator: Accelerator,
    grids: Iterable[Axes],
    metric: Metric,
    halo: bool,
    tile_roof: bool,
) -> Planned:
    """Return the best tiling of the first grid in which one fits. Raises: NoTiling if none fits in any."""
    for axes in grids:
        tiling_and_cost = best(layer, accelerator, axes, metric, halo, tile_roof)
        if tiling_and_cost:
            return Planned(layer, *tiling_and_cost, candidates=space.size(axes))
    raise space.no_tiling(layer, accelerator, halo)
