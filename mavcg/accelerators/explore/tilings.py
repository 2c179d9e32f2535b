"""Search for the tilings of a design space, each only once.

The best tiling of a layer has the fewest bytes, whatever bandwidth and clock are: all tiles of the searches' grid keep
as many elements busy (roofline.loop_utilisation), so time depends on bytes alone. The other figures of a machine are
reduced to what the layer distinguishes: a memory larger than a whole operand counts as one that just holds it, an array
longer than its loop as one of the loop's length. Machines and layers that agree in these share a search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mavcg.accelerators.explore.design_space import Structure
from mavcg.accelerators.plans import exact
from mavcg.accelerators.plans.space import NoTiling
from mavcg.cost.layer import ConvLayer, Tile
from mavcg.cost.traffic import tile_bytes
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.lab.jobs.messages import MessageError

# Loops that the search cuts only if the array runs along them (space.axes).
_WHOLE = ("OW", "KH", "KW")


Arrays = tuple[tuple[str, int], ...]


class SearchKey(NamedTuple):
    """A layer, and the figures of a machine on which its best tiling depends.

    memory: bytes for input, weights and output; the fourth is that of a shared memory. arrays: loops along the array,
    with the lengths of its sides.
    """

    layer: ConvLayer
    memory: tuple[int, int, int, int]
    arrays: Arrays


@dataclass(frozen=True)
class TileTraffic:
    """The best tiling: off-chip bytes by operand, tile and dataflow."""

    input_bytes: int
    weight_bytes: int
    output_bytes: int
    tile: tuple[int, ...]
    dataflow: str

    @property
    def total_bytes(self) -> int:
        """Bytes of all operands."""
        return self.input_bytes + self.weight_bytes + self.output_bytes


class KeyMaker:
    """Maker of the search keys of many structures, for layers of one precision."""

    def __init__(self, layers: Sequence[ConvLayer]) -> None:
        self._layers = tuple(layers)
        self._whole = [tile_bytes(layer, Tile(*layer.loops.values()), halo=True) for layer in layers]
        self._arrays: dict[Arrays, tuple[Arrays, ...]] = {}

    def keys(self, structure: Structure) -> tuple[SearchKey, ...]:
        """Return the search key of each layer on this machine."""
        arrays = self._arrays.get(structure.arrays)
        if arrays is None:
            arrays = tuple(_relevant_arrays(layer, structure.arrays) for layer in self._layers)
            self._arrays[structure.arrays] = arrays
        memory = structure.memory
        if shared := memory.shared_bytes:
            sizes = [(0, 0, 0, min(shared, sum(whole))) for whole in self._whole]
        else:
            a, b, c = memory.input_bytes, memory.weight_bytes, memory.output_bytes
            sizes = [(min(a, of_in), min(b, of_weight), min(c, of_out), 0) for of_in, of_weight, of_out in self._whole]
        return tuple(map(SearchKey, self._layers, sizes, arrays))


def _relevant_arrays(layer: ConvLayer, arrays: Arrays) -> Arrays:
    """Return the sides of an array that change the candidate tiles, none longer than its loop."""
    relevant = []
    for name, length in arrays:
        length = min(length, layer.loops[name])
        as_unmapped = layer.loops[name] if name in _WHOLE else 1
        if length != as_unmapped:
            relevant.append((name, length))
    return tuple(relevant)


def search_tiling(key: SearchKey) -> TileTraffic | None:
    """Return the best tiling; None if no tile fits the memory."""
    try:
        planned = exact.search(key.layer, _machine(key))
    except NoTiling:
        return None
    moved, tiling = planned.reached.traffic, planned.tiling
    tile = tuple(tiling.tile.factors.values())
    return TileTraffic(moved.input_bytes, moved.weight_bytes, moved.output_bytes, tile, tiling.dataflow.value)


def search_tilings(keys: tuple[SearchKey, ...]) -> tuple[TileTraffic | None, ...]:
    """Return the best tiling for each key; this is the function that workers run."""
    return tuple(map(search_tiling, keys))


def check_search_tilings(keys: Sequence[SearchKey], results: Sequence[TileTraffic | None]) -> None:
    """Raise MessageError for figures of a worker that no tiling has."""
    for traffic in results:
        if (
            traffic is not None
            and min(traffic.input_bytes, traffic.weight_bytes, traffic.output_bytes, *traffic.tile) < 0
        ):
            raise MessageError("a tiling with a negative figure")


def _machine(key: SearchKey) -> Accelerator:
    sides = (*key.arrays, ("", 1), ("", 1))[:2]
    names, lengths = zip(*sides, strict=True)
    mapping = tuple((name,) if name else () for name in names)
    level = MemoryLevel("memory", 1.0, *key.memory)
    return Accelerator("machine", 1.0, (level,), (lengths[0], lengths[1]), (mapping[0], mapping[1]))
