"""Nested tiles: one tiling for each level of memory, which cuts up the tile of the next level out.

Traffic into a level is counted as loop_order.py counts off-chip traffic, with the tile of the next level
out as the layer, summed over all those tiles, those at the edges with their smaller size. Nothing stays in a level
between two tiles of the next level out. Traffic is a product of numbers of tiles of a level (or of the next level out,
for the stationary operand), and of the rows that all windows of the level read:
    input     bytes in all windows x tiles of OC           (next level out if the input is stationary)
    weights   bytes of weights x tiles of OH and OW        (next level out if the weights are)
    output    bytes of output, and 2 x those of partial sums x (tiles of IC, KH and KW - 1)   (likewise)
With one level and the best dataflow this equals loop_order.py to the byte. A loop with one trip only in
the tiles at the edge still counts there as one that reloads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.accelerators.plans.bounds import Before
from mavcg.accelerators.plans.roofline import busy_gmac_per_s
from mavcg.accelerators.plans.windows import WindowAxis, axes
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import Integers, Traffic
from mavcg.errors import MavcgError
from mavcg.hardware.accelerator import DIMENSIONS, Accelerator

# For each loop the tiles of a level, in order: [tile, (first iteration, number of iterations)].
Pieces = Mapping[str, Integers]


@dataclass(frozen=True)
class LevelsPlan:
    """A layer's tilings, one for each memory level, nearest to the processing elements first.

    traffic: bytes between each level and the next level out; the last is off-chip. compute_gmac_per_s: the computation
    roof. level_gmac_per_s: the roof of each level's bandwidth. best_gmac_per_s: upper bound of the rate in the search's
    space. candidates: tilings of single levels that were evaluated. proved: no tilings of that space have a higher rate
    (accelerators/plans/levels.py defines the space).
    """

    layer: ConvLayer
    tilings: tuple[Tiling, ...]
    traffic: tuple[Traffic, ...]
    compute_gmac_per_s: float
    level_gmac_per_s: tuple[float, ...]
    best_gmac_per_s: float
    candidates: int
    proved: bool

    @property
    def gmac_per_s(self) -> float:
        """Attainable rate, the lowest roof (equation 6.12 over all levels)."""
        return min(self.compute_gmac_per_s, *self.level_gmac_per_s)

    @property
    def bound(self) -> int | None:
        """Index of the nearest level whose bandwidth is the lowest roof; None if computation is."""
        if self.compute_gmac_per_s <= min(self.level_gmac_per_s):
            return None
        return self.level_gmac_per_s.index(min(self.level_gmac_per_s))


def whole(layer: ConvLayer) -> Pieces:
    """Return the whole layer as a single tile."""
    return {name: np.array([[0, length]], np.int64) for name, length in layer.loops.items()}


def cut(pieces: Integers, factor: int) -> Integers:
    """Return tiles of a loop cut into tiles of `factor` iterations; the last part of each may be smaller.

    pieces: [tiles, 2], the first iteration and the length of each.
    """
    count = -(-pieces[:, 1] // factor)
    parents = np.repeat(np.arange(len(pieces)), count)
    inside = np.arange(len(parents)) - np.repeat(np.cumsum(count) - count, count)
    first = inside * factor
    return np.stack([pieces[parents, 0] + first, np.minimum(factor, pieces[parents, 1] - first)], axis=1)


def cut_all(behind: Pieces, tile: Tile) -> Pieces:
    """Return the tiles of a level, cut from those of the next level out."""
    return {name: cut(behind[name], factor) for name, factor in tile.factors.items()}


def rows_of(axis: WindowAxis, out: Integers, taps: Integers) -> int:
    """Return the number of input rows, without padding, in the windows of all combinations of output and kernel tiles.

    out, taps: [tiles, 2], the first row and the length of each.
    """
    begin = out[:, :1] * axis.stride + taps[:, 0] * axis.dilation - axis.before
    span = (out[:, 1:] - 1) * axis.stride + (taps[:, 1] - 1) * axis.dilation + 1
    length = np.minimum(axis.length, begin + span) - np.maximum(0, begin)
    return int(np.maximum(0, length).sum())


def before(pieces: Pieces) -> Before:
    """Return the numbers of tiles by which each operand is reloaded."""
    n = {name: len(lengths) for name, lengths in pieces.items()}
    return Before(n["OC"], n["OH"] * n["OW"], n["IC"] * n["KH"] * n["KW"])


def traffic_into(layer: ConvLayer, outer: Pieces, inner: Pieces, dataflow: Dataflow) -> Traffic:
    """Return the traffic between a level with tiles `inner` and the next level out with tiles `outer`, in bytes."""
    items = layer.items
    down, across = axes(layer)
    positions = rows_of(down, inner["OH"], inner["KH"]) * rows_of(across, inner["OW"], inner["KW"])
    input_tiles, weight_tiles, output_tiles = (
        before(outer if dataflow is stationary else inner)
        for stationary in (Dataflow.INPUT, Dataflow.WEIGHT, Dataflow.OUTPUT)
    )
    return Traffic(
        layer.groups * layer.ic * positions * items.input * input_tiles.oc,
        layer.weight_elements * items.weight * weight_tiles.pixels,
        layer.output_elements * (items.output + 2 * (output_tiles.reductions - 1) * items.psum),
    )


def traffic_of_levels(layer: ConvLayer, tilings: tuple[Tiling, ...]) -> tuple[Traffic, ...]:
    """Return the traffic into each level, in bytes; tilings and result are in the order of the levels, nearest first.

    Raises: MavcgError for a tile that is larger than the tile of the next level out.
    """
    outer, level_traffic = whole(layer), list[Traffic]()
    limit = layer.loops
    for number, tiling in reversed(list(enumerate(tilings))):
        factors = tiling.tile.factors
        for name in DIMENSIONS:
            if not 1 <= factors[name] <= limit[name]:
                raise MavcgError(
                    f"layer {layer.name}: levels[{number}] has a tile of {factors[name]} along {name}; "
                    f"the next level out has {limit[name]}: make it 1 to {limit[name]}"
                )
        inner = cut_all(outer, tiling.tile)
        level_traffic.append(traffic_into(layer, outer, inner, tiling.dataflow))
        outer, limit = inner, factors
    return tuple(reversed(level_traffic))


def plan_of(
    layer: ConvLayer,
    accelerator: Accelerator,
    tilings: tuple[Tiling, ...],
    best_gmac_per_s: float,
    candidates: int,
    proved: bool,
    tile_roof: bool = False,
) -> LevelsPlan:
    """Return the plan with the model's figures for a layer's tilings.

    tile_roof: whether the computation roof is that of the elements which the nearest level's tiles keep busy.
    """
    moved = traffic_of_levels(layer, tilings)
    roofs = tuple(
        level.bandwidth_gb_per_s * layer.macs / traffic.total_bytes
        for level, traffic in zip(accelerator.levels, moved, strict=True)
    )
    compute = busy_in_levels(layer, tilings, accelerator) if tile_roof else accelerator.peak_gmac_per_s
    return LevelsPlan(layer, tilings, moved, compute, roofs, best_gmac_per_s, candidates, proved)


def busy_in_levels(layer: ConvLayer, tilings: Sequence[Tiling], accelerator: Accelerator) -> float:
    """Return the computation roof of nested tiles, in GMAC/s: that of the elements which the innermost tiles keep busy.

    Steps of the array are counted tile by tile, those at the edges with their smaller size.
    """
    if accelerator.any_outputs:  # whatever the tiles are
        return busy_gmac_per_s(layer, tilings[0].tile, accelerator)
    pieces = whole(layer)
    for tiling in reversed(tilings):
        pieces = cut_all(pieces, tiling.tile)
    slots = 1.0
    for name, tiles in pieces.items():
        parallel = accelerator.parallel(name)
        slots *= parallel * float((-(-tiles[:, 1] // parallel)).sum())
    return accelerator.peak_gmac_per_s * layer.macs / (layer.groups * slots)
