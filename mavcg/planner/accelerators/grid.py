"""The best of a grid of tilings by looking at each: the innermost part of the pruned and of the exhaustive search."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from mavcg.hardware.accelerator import DIMENSIONS, Accelerator, MemoryLevel
from mavcg.planner.layer_model.cheapest import cheapest
from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.roofline import Metric, Reached, roofline_performance
from mavcg.planner.layer_model.tile_memory import Axes, Integers, bytes_of
from mavcg.planner.layer_model.tiling import Dataflow, Tile, Tiling
from mavcg.planner.layer_model.traffic import traffic

# Tiles looked at together: some arrays of so many 8-byte integers are in memory at a time.
_BLOCK = 1 << 19


@dataclass(frozen=True)
class _GridTiling:
    """A tiling of a grid with what the model says of it. order: the number of its tile, and that of its dataflow."""

    order: tuple[int, int]
    tiling: Tiling
    reached: Reached


def best(
    layer: ConvLayer, accelerator: Accelerator, axes: Axes, metric: Metric, halo: bool
) -> tuple[Tiling, Reached] | None:
    """Algorithm 4: of all tiles that fit, each with three dataflows, the first of those with the largest metric.

    None where no tile fits. The order is that of tiles as tuples, and of Dataflow for each tile. As in the paper the
    computation roof is that of all elements, so that a metric depends on nothing but the traffic: it is computed once
    for each traffic that there is.
    """
    found = cheapest(
        _unlike_tilings(layer, accelerator, axes, halo),
        lambda candidate: -metric(candidate.reached),
        order=lambda candidate: candidate.order,
    )
    return (found.tiling, found.reached) if found else None


def _unlike_tilings(layer: ConvLayer, accelerator: Accelerator, axes: Axes, halo: bool) -> Iterator[_GridTiling]:
    """Yield the tilings that fit: of those of a piece that move the same bytes, the first."""
    seen: set[tuple[int, int, int]] = set()
    first = 0
    for factors in _blocks(axes):
        place = _fitting_tiles(layer, accelerator.memory, factors, halo)
        first_here, first = first, first + prod(values.size for values in factors.values())
        if not place.size:
            continue
        n = {name: -(-length // factors[name]) for name, length in layer.loops.items()}
        for rank, dataflow in enumerate(Dataflow):
            for at, kind in _kinds(n, dataflow, place):
                if (rank, *kind) in seen:
                    continue
                seen.add((rank, *kind))
                tiling = Tiling(_tile_at(factors, at), dataflow)
                reached = roofline_performance(layer, traffic(layer, tiling), accelerator)
                yield _GridTiling((first_here + at, rank), tiling, reached)


def _blocks(axes: Axes) -> Iterator[dict[str, Integers]]:
    """Yield the grid in pieces of at most _BLOCK tiles, in order: factors that broadcast to a piece's six
    dimensions."""
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
    """Return the flat indices of the tiles of a piece that fit."""
    of_input, of_weight, of_output = bytes_of(layer, factors, halo)
    if memory.shared_bytes:
        fit = of_input + of_weight + of_output <= memory.shared_bytes
    else:
        fit = (of_input <= memory.input_bytes) & (of_weight <= memory.weight_bytes) & (of_output <= memory.output_bytes)
    return np.flatnonzero(fit)


def _kinds(n: Axes, dataflow: Dataflow, tiles: Integers) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the first tile of each kind, and the kind: these tiles sorted by what equations 6.2 to 6.5 read of them.

    n: how often each loop runs. An operand that stays is moved once whatever the tile, so two products are left.
    """
    kernel = n["KH"] * n["KW"]
    of_input, of_weight, of_output = kernel * n["OC"], n["OH"] * n["OW"], kernel * n["IC"]
    pairs = {
        Dataflow.INPUT: (of_weight, of_output),
        Dataflow.WEIGHT: (of_input, of_output),
        Dataflow.OUTPUT: (of_input, of_weight),
    }
    shape = np.broadcast_shapes(*(values.shape for values in n.values()))
    one, other = (np.broadcast_to(values, shape)[np.unravel_index(tiles, shape)] for values in pairs[dataflow])
    base = int(other.max()) + 1
    kinds, where = np.unique(one * base + other, return_index=True)
    for kind, index in zip(kinds.tolist(), where.tolist(), strict=True):
        yield int(tiles[index]), divmod(kind, base)


def _tile_at(factors: Axes, at: int) -> Tile:
    index = np.unravel_index(at, [values.size for values in factors.values()])
    return Tile(*(int(factors[name].flat[i]) for name, i in zip(DIMENSIONS, index, strict=True)))
