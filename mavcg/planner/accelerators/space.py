"""Tiles that a search may look at: algorithms 1 to 3 of e-PlaNNer, the candidates above a tile, the fit test."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from math import prod

import numpy as np

from mavcg.hardware.accelerator import DIMENSIONS, Accelerator
from mavcg.planner.accelerators.planned import NoTiling
from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.tile_memory import Axes, Integers, tile_bytes
from mavcg.planner.layer_model.tiling import Dataflow, Tile, Tiling, trips
from mavcg.planner.layer_model.traffic import reload_input, reload_psum, reload_weight

# Never cut, unless the array works along them (algorithm 1, lines 2 and 3).
_WHOLE = frozenset(("OW", "KH", "KW"))
# The loops that algorithm 2 tries to do without.
_ELIMINATED = ("OC", "IC", "OH")
# Innermost first. The paper begins at random; a fixed beginning makes ties the same everywhere.
_FIRST_ORDER = ("KW", "KH", "OW", "OH", "IC", "OC")
# The loops that keep an operand where it is when they are innermost (paper, 5.3), innermost first.
_INNERMOST = {Dataflow.INPUT: ("OC", "KW", "KH"), Dataflow.WEIGHT: ("OW", "OH"), Dataflow.OUTPUT: ("IC", "KW", "KH")}


def unpruned_size(layer: ConvLayer) -> int:
    """Return the number of tilings before any pruning: every size of every loop, three dataflows (table 8.5 has the
    mean over layers)."""
    return len(Dataflow) * prod(layer.loops.values())


def fits(layer: ConvLayer, tile: Tile, accelerator: Accelerator, halo: bool) -> bool:
    """True if the operands of a tile are in the memories together; exactly full is full (the paper's < is a slip)."""
    return accelerator.memory.holds(*tile_bytes(layer, tile, halo))


def initial_tile(layer: ConvLayer, accelerator: Accelerator) -> Tile:
    """Return the tile of algorithm 1: kernel and width whole, mapped loops as long as the array, at most the loop
    itself; the rest 1."""
    loops = layer.loops
    factors = {name: loops[name] if name in _WHOLE else 1 for name in DIMENSIONS}
    for mapped in accelerator.pe_mapping:
        for name in mapped[:1]:
            factors[name] = min(accelerator.parallel(name), loops[name])
    return _tile(factors)


def lower_bound(layer: ConvLayer, accelerator: Accelerator, halo: bool = False) -> Tile:
    """Return the tile of algorithm 2: of the eight choices to make OC, IC and OH whole, the one that fits and reloads
    fewest bytes.

    The least tile is algorithm 1's, also where that does not fit. Line 4 of the paper makes each set whole on top of
    the best one so far; all of table 8.5 agrees with sets on top of the initial tile, as its text says, and only
    two of 20 figures with line 4 as it is printed.
    """
    initial = best = initial_tile(layer, accelerator)
    loops = layer.loops
    least: int | None = None
    for count in range(len(_ELIMINATED) + 1):
        for names in combinations(_ELIMINATED, count):
            tile = _tile(initial.factors | {name: loops[name] for name in names})
            if fits(layer, tile, accelerator, halo):
                volume = reload_volume(layer, tile)
                if least is None or volume < least:
                    least, best = volume, tile
    return best


def reload_volume(layer: ConvLayer, tile: Tile) -> int:
    """Return algorithm 2's ReloadCount: bytes by equation 6.1 where no operand is stationary, 6.2 to 6.5 as they
    stand."""
    items = layer.items
    return (
        layer.input_elements * items.input * reload_input(layer, Tiling(tile, Dataflow.WEIGHT))
        + layer.weight_elements * items.weight * reload_weight(layer, Tiling(tile, Dataflow.INPUT))
        + layer.output_elements * (items.output + items.psum * reload_psum(layer, tile))
    )


def loop_order(layer: ConvLayer, tile: Tile, dataflow: Dataflow | None = None) -> tuple[str, ...]:
    """Return the order of algorithm 3: off-chip loops by how often they run, the most frequent innermost, which comes
    first here.

    With a dataflow: the loops that make it come before all others. Algorithm 4 tries the three dataflows anyway.
    """
    n = trips(layer, tile)
    first = _INNERMOST[dataflow] if dataflow else ()
    others = (name for name in _FIRST_ORDER if name not in first)
    return (*first, *sorted(others, key=lambda name: -n[name]))


def axes(layer: ConvLayer, accelerator: Accelerator, lowest: Tile) -> dict[str, Integers]:
    """Return the values of each factor of a tile from `lowest` on: whole lengths of the array, and the whole loop.

    Loops that the array does not work along go by ones, and width and kernel stay whole.
    """
    mapped = {name for names in accelerator.pe_mapping for name in names[:1]}
    found = {}
    for name, length in layer.loops.items():
        cut = name in mapped or name not in _WHOLE
        values = range(lowest.factors[name], length, accelerator.parallel(name)) if cut else ()
        found[name] = np.array([*values, length], dtype=np.int64)
    return found


def size(candidates: Axes) -> int:
    """Return the number of tilings that there are: of all tiles, whether they fit or not, with three dataflows each."""
    return len(Dataflow) * prod(len(values) for values in candidates.values())


def no_tiling(
    layer: ConvLayer,
    accelerator: Accelerator,
    halo: bool,
    smallest: Tile | None = None,
    copies: int = 1,
    any_size: str = "--search exact --full-grid",
) -> NoTiling:
    """Return the error for a layer whose smallest tile does not fit: by operand what it needs, which is what would do.

    smallest: algorithm 1's tile if not given. copies: of each tile, 2 for double buffering. any_size: the options by
    which tiles of any size are searched, named where one of these would fit; "" if the search had them.
    """
    tile = smallest or initial_tile(layer, accelerator)
    memory = accelerator.memory
    need = [copies * size for size in tile_bytes(layer, tile, halo)]
    if memory.shared_bytes:
        short = f"{sum(need)} bytes, and the shared memory has {memory.shared_bytes}"
    else:
        there = (memory.input_bytes, memory.weight_bytes, memory.output_bytes)
        short = "; ".join(_short(("input", "weight", "output"), need, there))
    shape = ", ".join(f"{name} {factor}" for name, factor in tile.factors.items())
    remedy = "make it at least that large"
    least = [copies * size for size in tile_bytes(layer, _tile(dict.fromkeys(DIMENSIONS, 1)), halo)]
    if any_size and memory.holds(*least):
        remedy += f", or plan with tiles of any size ({any_size})"
    return NoTiling(
        f"layer {layer.name}: no tile fits memory {memory.name!r} of {accelerator.name}: the smallest one ({shape}"
        f"{'; held twice, for double buffering' if copies > 1 else ''}) needs {short}; {remedy}"
    )


def _short(names: Iterable[str], need: Iterable[int], there: Iterable[int]) -> list[str]:
    return [
        f"{needed} bytes for the {name}, which has {given}"
        for name, needed, given in zip(names, need, there, strict=True)
        if needed > given
    ]


def _tile(factors: Mapping[str, int]) -> Tile:
    return Tile(*(factors[name] for name in DIMENSIONS))
