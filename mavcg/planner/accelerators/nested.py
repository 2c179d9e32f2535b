"""Tiles inside tiles: one for each level of memory, that of a level cutting up that of the level behind it.

What moves into a level is counted as planner/layer_model/halo.py counts off-chip traffic, with the tile behind as
the layer and
summed over all tiles behind, those at the edges as small as they are. Nothing stays in a level from one tile behind it
to the next. A loop runs over so many tiles of a level in all; of these counts, of the rows that all windows of a level
read, and of the same counts one level behind for the operand that is stationary, traffic is a product:

    input     bytes in all windows x tiles of OC           (behind, where the input is stationary)
    weights   bytes of weights x tiles of OH and OW        (behind, where the weights are)
    output    bytes of output, and 2 x those of partial sums x (tiles of IC, KH and KW - 1)   (behind, where it is)

With one level and the best dataflow this is planner/layer_model/halo.py to the byte. A loop that vanishes in the
tiles at the edge
alone still counts there as one that reloads.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mavcg.errors import MavcgError
from mavcg.hardware.accelerator import DIMENSIONS, Accelerator
from mavcg.planner.accelerators.bounds import Before
from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.roofline import compute_gmac_per_s
from mavcg.planner.layer_model.tile_memory import Integers
from mavcg.planner.layer_model.tiling import Dataflow, Tile, Tiling
from mavcg.planner.layer_model.traffic import Traffic
from mavcg.planner.layer_model.windows import WindowAxis, axes

# Of each loop the tiles of a level, in order: [tile, (first iteration, how many)].
Pieces = Mapping[str, Integers]


@dataclass(frozen=True)
class LevelsPlan:
    """A layer's tilings, of the level nearest to the processing elements first, as accelerator.levels.

    traffic: what moves into each level from what is behind it, and back; the last one's is off-chip.
    compute_gmac_per_s: the roof of all elements. level_gmac_per_s: the roof that each level's bandwidth puts up.
    best_gmac_per_s: no tiling of the search's space reaches more. candidates: tilings of single levels looked at.
    proved: whether no other tilings of that space reach more than these (planner/accelerators/levels.py names the
    space).
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
        """The lowest roof (equation 6.12, over all levels)."""
        return min(self.compute_gmac_per_s, *self.level_gmac_per_s)

    @property
    def bound(self) -> int | None:
        """The nearest level whose bandwidth is the lowest roof; None where computation is."""
        if self.compute_gmac_per_s <= min(self.level_gmac_per_s):
            return None
        return self.level_gmac_per_s.index(min(self.level_gmac_per_s))


def whole(layer: ConvLayer) -> Pieces:
    """Return the layer as its own only tile."""
    return {name: np.array([[0, length]], np.int64) for name, length in layer.loops.items()}


def cut(pieces: Integers, factor: int) -> Integers:
    """Return each tile of a loop in tiles of `factor`; the last of each may be smaller.

    pieces: [tiles, 2], the begin and the length of each, in elements.
    """
    count = -(-pieces[:, 1] // factor)
    of = np.repeat(np.arange(len(pieces)), count)
    inside = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    first = inside * factor
    return np.stack([pieces[of, 0] + first, np.minimum(factor, pieces[of, 1] - first)], axis=1)


def cut_all(behind: Pieces, tile: Tile) -> Pieces:
    """Return the tiles of a level from those of the level behind it."""
    return {name: cut(behind[name], factor) for name, factor in tile.factors.items()}


def rows_of(axis: WindowAxis, out: Integers, taps: Integers) -> int:
    """Return the number of rows of input in the windows of all tiles of the output with all of the kernel, without
    padding.

    out, taps: [tiles, 2], the begin and the length of each, in rows.
    """
    begin = out[:, :1] * axis.stride + taps[:, 0] * axis.dilation - axis.before
    span = (out[:, 1:] - 1) * axis.stride + (taps[:, 1] - 1) * axis.dilation + 1
    length = np.minimum(axis.length, begin + span) - np.maximum(0, begin)
    return int(np.maximum(0, length).sum())


def before(pieces: Pieces) -> Before:
    """Return the number of tiles that make an operand move again."""
    n = {name: len(of) for name, of in pieces.items()}
    return Before(n["OC"], n["OH"] * n["OW"], n["IC"] * n["KH"] * n["KW"])


def traffic_into(layer: ConvLayer, behind: Pieces, here: Pieces, dataflow: Dataflow) -> Traffic:
    """Return the bytes that move into a level and back, its tiles being `here`, those behind it `behind`."""
    items = layer.items
    down, across = axes(layer)
    positions = rows_of(down, here["OH"], here["KH"]) * rows_of(across, here["OW"], here["KW"])
    of_input, of_weight, of_output = (
        before(behind if dataflow is stationary else here)
        for stationary in (Dataflow.INPUT, Dataflow.WEIGHT, Dataflow.OUTPUT)
    )
    return Traffic(
        layer.groups * layer.ic * positions * items.input * of_input.oc,
        layer.weight_elements * items.weight * of_weight.pixels,
        layer.output_elements * (items.output + 2 * (of_output.reductions - 1) * items.psum),
    )


def traffic_of_levels(layer: ConvLayer, tilings: tuple[Tiling, ...]) -> tuple[Traffic, ...]:
    """Return the bytes that move into each level; tilings and result of the nearest level first.

    Raises: MavcgError for a tile that is larger than the one behind it.
    """
    behind, found = whole(layer), list[Traffic]()
    limit = layer.loops
    for number, tiling in reversed(list(enumerate(tilings))):
        factors = tiling.tile.factors
        for name in DIMENSIONS:
            if not 1 <= factors[name] <= limit[name]:
                raise MavcgError(
                    f"layer {layer.name}: levels[{number}] has a tile of {factors[name]} along {name}; what it cuts up "
                    f"has {limit[name]}: make it 1 to {limit[name]}"
                )
        here = cut_all(behind, tiling.tile)
        found.append(traffic_into(layer, behind, here, tiling.dataflow))
        behind, limit = here, factors
    return tuple(reversed(found))


def plan_of(
    layer: ConvLayer,
    accelerator: Accelerator,
    tilings: tuple[Tiling, ...],
    best_gmac_per_s: float,
    candidates: int,
    proved: bool,
) -> LevelsPlan:
    """Return all that the model says of a layer's tilings."""
    moved = traffic_of_levels(layer, tilings)
    roofs = tuple(
        level.bandwidth_gb_per_s * layer.macs / traffic.total_bytes
        for level, traffic in zip(accelerator.levels, moved, strict=True)
    )
    return LevelsPlan(
        layer, tilings, moved, compute_gmac_per_s(accelerator), roofs, best_gmac_per_s, candidates, proved
    )
