"""The space of tiles: algorithms 1 to 3 of e-PlaNNer, the candidates above a tile, and the test whether a tile fits.

A search returns the best tiling of the space for a layer as a Planned.

"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np

from mavcg.accelerators.plans.roofline import Reached
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling, trips
from mavcg.cost.traffic import Axes, Integers, reload_input, reload_psum, reload_weight, tile_bytes
from mavcg.errors import MavcgError
from mavcg.hardware.accelerator import DIMENSIONS, Accelerator, MemoryLevel

# Loops that are never cut, unless the array works along them (algorithm 1, lines 2 and 3).
_WHOLE = frozenset(("OW", "KH", "KW"))
# Loops that algorithm 2 tries to eliminate by whole tiles.
_ELIMINATED = ("OC", "IC", "OH")
# Innermost first. The paper starts from a random order; a fixed order makes ties reproducible.
_FIRST_ORDER = ("KW", "KH", "OW", "OH", "IC", "OC")
# Loops that make each dataflow when they are innermost (paper, 5.3), innermost first.
_INNERMOST = {Dataflow.INPUT: ("OC", "KW", "KH"), Dataflow.WEIGHT: ("OW", "OH"), Dataflow.OUTPUT: ("IC", "KW", "KH")}


@dataclass(frozen=True)
class Planned:
    """A layer's plan. candidates: tilings that the search evaluated or bounded (table 8.5 counts them)."""

    layer: ConvLayer
    tiling: Tiling
    reached: Reached
    candidates: int


class NoTiling(MavcgError):
    """Raised if no tile of a layer fits the memories; names the layer and the smallest memory that suffices."""


def unpruned_size(layer: ConvLayer) -> int:
    """Return the number of tilings before pruning: every size of every loop, three dataflows.

    Table 8.5 has its mean over layers.
    """
    return len(Dataflow) * prod(layer.loops.values())


def fits(layer: ConvLayer, tile: Tile, accelerator: Accelerator, halo: bool) -> bool:
    """True if the operands of a tile fit the memories together; exactly full fits (the paper's < is a slip)."""
    return accelerator.memory.holds(*tile_bytes(layer, tile, halo))


def initial_tile(layer: ConvLayer, accelerator: Accelerator) -> Tile:
    """Return the tile of algorithm 1: kernel and width whole, loops along the array of its length, all others 1."""
    loops = layer.loops
    factors = {name: loops[name] if name in _WHOLE else 1 for name in DIMENSIONS}
    for mapped in accelerator.pe_mapping:
        for name in mapped[:1]:
            factors[name] = min(accelerator.parallel(name), loops[name])
    return _tile(factors)


def lower_bound(layer: ConvLayer, accelerator: Accelerator, halo: bool = False) -> Tile:
    """Return the tile of algorithm 2: the one of eight tiles that fits and reloads fewest bytes.

    Each of OC, IC and OH is whole or as in algorithm 1's tile; if no tile fits, it is algorithm 1's. Line 4 of the
    paper makes each set whole on top of the best one so far; all of table 8.5 agrees with sets on top of the initial
    tile, as its text says, and only two of 20 figures with line 4 as printed.
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
    """Return algorithm 2's ReloadCount, in bytes: equation 6.1 with no stationary operand (6.2 to 6.5 unchanged)."""
    items = layer.items
    return (
        layer.input_elements * items.input * reload_input(layer, Tiling(tile, Dataflow.WEIGHT))
        + layer.weight_elements * items.weight * reload_weight(layer, Tiling(tile, Dataflow.INPUT))
        + layer.output_elements * (items.output + items.psum * reload_psum(layer, tile))
    )


def loop_order(layer: ConvLayer, tile: Tile, dataflow: Dataflow | None = None) -> tuple[str, ...]:
    """Return the loop order of algorithm 3: off-chip loops by trip count, the largest innermost; innermost comes first.

    With a dataflow, the loops that make it come before all others. Algorithm 4 tries all three dataflows anyway.
    """
    n = trips(layer, tile)
    first = _INNERMOST[dataflow] if dataflow else ()
    others = (name for name in _FIRST_ORDER if name not in first)
    return (*first, *sorted(others, key=lambda name: -n[name]))


def axes(layer: ConvLayer, accelerator: Accelerator, lowest: Tile) -> dict[str, Integers]:
    """Return the values of each factor of a tile from `lowest` on: multiples of the array's length, and the whole loop.

    Loops that the array does not work along go in steps of one; width and kernel stay whole.
    """
    mapped = {name for names in accelerator.pe_mapping for name in names[:1]}
    factor_values = {}
    for name, length in layer.loops.items():
        cut = name in mapped or name not in _WHOLE
        values = range(lowest.factors[name], length, accelerator.parallel(name)) if cut else ()
        factor_values[name] = np.array([*values, length], dtype=np.int64)
    return factor_values


def pruned_axes(layer: ConvLayer, accelerator: Accelerator, halo: bool) -> Iterator[dict[str, Integers]]:
    """Yield the axes of tiles above the lower bound, computed without halo as in the paper.

    With `halo`, yield also those above the bound computed with halo, for a layer of whose first tiles none fits.
    """
    for bound_halo in (False, True) if halo else (False,):
        yield axes(layer, accelerator, lower_bound(layer, accelerator, bound_halo))


def size(candidates: Axes) -> int:
    """Return the number of tilings of these candidates.

    All tiles, whether they fit or not, with three dataflows each.
    """
    return len(Dataflow) * prod(len(values) for values in candidates.values())


def no_tiling(
    layer: ConvLayer,
    accelerator: Accelerator,
    halo: bool,
    smallest: Tile | None = None,
    copies: int = 1,
    any_size: str = "--search exact --full-grid",
) -> NoTiling:
    """Return the error for a layer whose smallest tile does not fit.

    It names the memory of each operand that would suffice. smallest: None for algorithm 1's tile. copies: of each tile,
    2 for double buffering. any_size: options that allow tiles of any size, named if such a tile would fit; "" if the
    search had them.
    """
    tile = smallest or initial_tile(layer, accelerator)
    memory = accelerator.memory
    need = [copies * size for size in tile_bytes(layer, tile, halo)]
    if memory.shared_bytes:
        short = f"{sum(need)} bytes, and the shared memory has {memory.shared_bytes}"
    else:
        capacities = (memory.input_bytes, memory.weight_bytes, memory.output_bytes)
        short = "; ".join(_short(("input", "weight", "output"), need, capacities))
    shape = ", ".join(f"{name} {factor}" for name, factor in tile.factors.items())
    remedy = "make it at least that large"
    least = [copies * size for size in tile_bytes(layer, _tile(dict.fromkeys(DIMENSIONS, 1)), halo)]
    if any_size and memory.holds(*least):
        remedy += f", or plan with tiles of any size ({any_size})"
    return NoTiling(
        f"layer {layer.name}: no tile fits memory {memory.name!r} of {accelerator.name}: the smallest one ({shape}"
        f"{'; held twice, for double buffering' if copies > 1 else ''}) needs {short}; {remedy}"
    )


def _short(names: Iterable[str], need: Iterable[int], capacities: Iterable[int]) -> list[str]:
    return [
        f"{needed} bytes for the {name}, which has {given}"
        for name, needed, given in zip(names, need, capacities, strict=True)
        if needed > given
    ]


def _tile(factors: Mapping[str, int]) -> Tile:
    return Tile(*(factors[name] for name in DIMENSIONS))


def cuts_kernel(layer: ConvLayer, accelerator: Accelerator) -> bool:
    """True if some level cannot hold a tile with the whole kernel. Raises: NoTiling if a level holds no tile at all."""
    cuts = False
    for number, level in enumerate(accelerator.levels):
        tile = _smallest(layer, accelerator, kernel=True)
        if level.holds(*tile_bytes(layer, tile, halo=True)):
            continue
        cuts = True
        tile = _smallest(layer, accelerator, kernel=False)
        need = tile_bytes(layer, tile, halo=True)
        if not level.holds(*need):
            needed = f"{sum(need)} bytes" if level.shared_bytes else "{}, {} and {} bytes".format(*need)
            capacity = (
                f"{level.shared_bytes} bytes"
                if level.shared_bytes
                else f"{level.input_bytes}, {level.weight_bytes} and {level.output_bytes} bytes"
            )
            shape = ", ".join(f"{name} {factor}" for name, factor in tile.factors.items())
            raise NoTiling(
                f"layer {layer.name}: no tile fits levels[{number}] ({level.name!r}) of {accelerator.name}, which has "
                f"{capacity}: the smallest ({shape}) needs {needed}; make it at least that large"
            )
    return cuts


def _smallest(layer: ConvLayer, accelerator: Accelerator, kernel: bool) -> Tile:
    loops = layer.loops
    factors = {name: min(accelerator.parallel(name), length) for name, length in loops.items()}
    if kernel:
        factors |= {"KH": layer.kh, "KW": layer.kw}
    return Tile(*(factors[name] for name in DIMENSIONS))


def half_memory(memory: MemoryLevel) -> MemoryLevel:
    """Return a memory of half the size, for tiles that each take their memory twice."""
    return replace(
        memory,
        input_bytes=memory.input_bytes // 2,
        weight_bytes=memory.weight_bytes // 2,
        output_bytes=memory.output_bytes // 2,
        shared_bytes=memory.shared_bytes // 2,
    )
