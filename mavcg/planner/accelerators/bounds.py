"""Bounds by which an exact search leaves out tiles that another one dominates, or whose traffic is bound to be high.

Equations 6.1 to 6.5 read a tile through its trip counts alone. Of all factors of a loop with the same trip count the
smallest one is thus as good as the others and fits wherever they do: a loop of N iterations has at most 2 sqrt(N)
factors that count. With halo the rows that are read depend on the factor too, and with a roof that depends on the tile
so does the use of the array: then a larger factor of the same trip count stays where it is better in one of these.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.tile_memory import Axes, Integers, bytes_of
from mavcg.planner.layer_model.windows import WindowAxis, axes, rows_read

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ChannelFactors:
    """Factors of OC or IC that count, ascending, with their trip counts and the use of the array along the loop."""

    factor: Integers
    trips: Integers
    use: Floats

    def __len__(self) -> int:
        return len(self.factor)


@dataclass(frozen=True)
class Spatial:
    """Factors of OH, OW, KH and KW together, one entry each. Bytes are of a group's tile for one channel.

    pixels, taps: trips of the loops over the output's maps, and over the kernel. input_bytes, weight_bytes,
    output_bytes: of a tile for one channel (weights: one of each). once, each: bytes of the whole input where it is
    stationary, and where it is not for each trip of OC. use: of the array along these four loops.
    """

    tiles: Integers  # [entry, (OH, OW, KH, KW)]
    pixels: Integers
    taps: Integers
    input_bytes: Integers
    weight_bytes: Integers
    output_bytes: Integers
    once: Integers
    each: Integers
    use: Floats

    def __len__(self) -> int:
        return len(self.pixels)

    def select(self, entries: Integers) -> "Spatial":
        """Return the entries with these numbers, [count]."""
        return Spatial(*(getattr(self, name)[entries] for name in self.__dataclass_fields__))


def use_of_array(accelerator: Accelerator, name: str, factor: Integers) -> Floats:
    """A loop's share in equation 6.7: factor over the steps of the array that it takes, of the array's length.

    factor: [count].
    """
    parallel = accelerator.parallel(name)
    return factor / (-(-factor // parallel) * parallel)


def channels(accelerator: Accelerator, name: str, length: int, factors: Integers, tile_roof: bool) -> ChannelFactors:
    """Return the factors of one loop that no other dominates: of each trip count the smallest, or also better used
    ones.

    length: trip count of the loop, in elements; factors: [count], ascending.
    """
    n = -(-length // factors)
    if not tile_roof:
        kept = np.sort(np.unique(n, return_index=True)[1])
        return ChannelFactors(factors[kept], n[kept], np.ones(len(kept)))
    use = use_of_array(accelerator, name, factors)
    kept = pareto_indices(n, [factors], [-use])
    return ChannelFactors(factors[kept], n[kept], use[kept])


@dataclass(frozen=True)
class Half:
    """Factors of OH and KH, or of OW and KW, with their trips; rows: of input that all their windows read."""

    out: Integers
    tap: Integers
    out_trips: Integers
    tap_trips: Integers
    rows: Integers
    use: Floats

    def __len__(self) -> int:
        return len(self.out)


def spatial(
    layer: ConvLayer, accelerator: Accelerator, grid: Axes, *, halo_traffic: bool, halo_fits: bool, tile_roof: bool
) -> Spatial:
    """Return all combinations of the other four loops whose halves, down and across, no other dominates.

    grid: the factors of each loop to choose from, ascending.
    """
    down, across = (
        _half(layer, accelerator, grid, axis, out, tap, halo_traffic, tile_roof)
        for axis, (out, tap) in zip(axes(layer), (("OH", "KH"), ("OW", "KW")), strict=True)
    )
    made = combine_maps(layer, down, across, halo_fits)
    if halo_traffic:
        return made
    once = np.full(len(made), layer.input_elements * layer.items.input)
    return replace(made, once=once, each=once * made.taps)


def combine_maps(layer: ConvLayer, down: Half, across: Half, halo_fits: bool = True) -> Spatial:
    """Return each of one half with each of the other; the input's bytes are those that the windows read."""
    of_down, of_across = (
        places.ravel() for places in np.meshgrid(np.arange(len(down)), np.arange(len(across)), indexing="ij")
    )
    tiles = np.stack([down.out[of_down], across.out[of_across], down.tap[of_down], across.tap[of_across]], axis=1)
    one = np.ones(len(tiles), np.int64)
    factors = {"OC": one, "IC": one} | {name: tiles[:, i] for i, name in enumerate(("OH", "OW", "KH", "KW"))}
    read = layer.groups * layer.ic * layer.items.input * down.rows[of_down] * across.rows[of_across]
    return Spatial(
        tiles,
        down.out_trips[of_down] * across.out_trips[of_across],
        down.tap_trips[of_down] * across.tap_trips[of_across],
        *bytes_of(layer, factors, halo_fits),
        once=read,
        each=read,
        use=down.use[of_down] * across.use[of_across],
    )


def _half(
    layer: ConvLayer,
    accelerator: Accelerator,
    grid: Axes,
    axis: WindowAxis,
    out_name: str,
    tap_name: str,
    halo_traffic: bool,
    tile_roof: bool,
) -> Half:
    out, tap = (values.ravel() for values in np.meshgrid(grid[out_name], grid[tap_name], indexing="ij"))
    out_trips, tap_trips = -(-axis.out // out), -(-axis.taps // tap)
    kind = out_trips * (axis.taps + 1) + tap_trips
    rows = _rows(axis, out, tap) if halo_traffic else np.ones(len(out), np.int64)
    use = np.ones(len(out))
    if tile_roof:
        use = use_of_array(accelerator, out_name, out) * use_of_array(accelerator, tap_name, tap)
    if halo_traffic or tile_roof:
        kept = pareto_indices(kind, [out, tap], [rows, -use])
    else:
        kept = np.sort(
            np.unique(kind, return_index=True)[1]
        )  # the first of each kind is the smallest in both directions
    return Half(out[kept], tap[kept], out_trips[kept], tap_trips[kept], rows[kept], use[kept])


def _rows(axis: WindowAxis, out: Integers, tap: Integers) -> Integers:
    """Return rows_read of many tiles. Without padding windows are never cut short, and a sum has a closed form."""
    reach = (axis.out - 1) * axis.stride + (axis.taps - 1) * axis.dilation + 1
    if axis.before or reach > axis.length:
        return np.array([rows_read(axis, *pair) for pair in zip(out.tolist(), tap.tolist(), strict=True)], np.int64)
    out_trips, tap_trips = -(-axis.out // out), -(-axis.taps // tap)
    starts = (axis.out - out_trips) * axis.stride  # rows between the first rows of windows, in all tiles of a tap
    spans = (axis.taps - tap_trips) * axis.dilation + tap_trips
    return tap_trips * starts + out_trips * spans


def pareto_indices(kind: Integers, sizes: Sequence[Integers], costs: Sequence[NDArray[np.generic]]) -> Integers:
    """Return the places of the entries that no other one of the same kind matches in every size and cost, in ascending
    order.

    kind, each of sizes and of costs: [entries]. Sizes ascend with the place in at least the first key, so of equal
    entries the first stays.
    """
    by_kind = np.lexsort((np.arange(len(kind)), *reversed(sizes), kind))
    kept: list[int] = []
    columns = [values.tolist() for values in (*sizes, *costs)]
    kinds = kind.tolist()
    front: list[tuple[float, ...]] = []
    last = None
    for place in by_kind.tolist():
        if kinds[place] != last:
            last, front = kinds[place], []
        entry = tuple(values[place] for values in columns)
        if not any(all(a <= b for a, b in zip(other, entry, strict=True)) for other in front):
            front.append(entry)
            kept.append(place)
    return np.array(sorted(kept), np.int64)


def most_input_channels(memory: MemoryLevel, spatial: Spatial, out_channels: Integers) -> Integers:
    """Return IC's largest factor that fits beside factors of OC, which broadcast against the entries of `spatial`; or
    less than 1."""
    weights = out_channels * spatial.weight_bytes[:, None]
    outputs = out_channels * spatial.output_bytes[:, None]
    inputs = spatial.input_bytes[:, None]
    if memory.shared_bytes:
        return (memory.shared_bytes - outputs) // (inputs + weights)
    most = np.minimum(memory.input_bytes // inputs, memory.weight_bytes // weights)
    return np.where(outputs <= memory.output_bytes, most, 0)


def most_output_channels(memory: MemoryLevel, spatial: Spatial, in_channels: int) -> Integers:
    """Return OC's largest factor that fits beside one of IC, for each entry; or less than 1."""
    weights = in_channels * spatial.weight_bytes
    inputs = in_channels * spatial.input_bytes
    if memory.shared_bytes:
        return (memory.shared_bytes - inputs) // (spatial.output_bytes + weights)
    most = np.minimum(memory.output_bytes // spatial.output_bytes, memory.weight_bytes // weights)
    return np.where(inputs <= memory.input_bytes, most, 0)


class Before(NamedTuple):
    """Trips of the loops over tiles of a level of memory that is further away; 1 where there is none (levels.py)."""

    oc: int = 1
    pixels: int = 1
    reductions: int = 1


NOTHING_BEHIND = Before()


def totals(
    layer: ConvLayer, spatial: Spatial, oc_trips: Integers, ic_trips: Integers, before: Before = NOTHING_BEHIND
) -> tuple[Integers, ...]:
    """Equation 6.1 for each dataflow in Dataflow's order: bytes. Trips broadcast against the entries, which come first.

    In every trip count these do not fall, so trips that are too small make a bound.
    """
    shape = (len(spatial),) + (1,) * (max(oc_trips.ndim, ic_trips.ndim) - 1)
    pixels, taps, once, each = (v.reshape(shape) for v in (spatial.pixels, spatial.taps, spatial.once, spatial.each))
    items = layer.items
    weights = layer.weight_elements * items.weight
    outputs, psums = layer.output_elements * items.output, layer.output_elements * items.psum * 2
    of_input, of_weight, of_output = each * oc_trips, weights * pixels, outputs + psums * (taps * ic_trips - 1)
    return (
        once * before.oc + of_weight + of_output,
        of_input + weights * before.pixels + of_output,
        of_input + of_weight + outputs + psums * (before.reductions - 1),
    )


def least(
    layer: ConvLayer,
    memory: MemoryLevel,
    spatial: Spatial,
    oc: ChannelFactors,
    ic: ChannelFactors,
    before: Before = NOTHING_BEHIND,
) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Return for each entry bounds of the bytes and off-chip steps of a tile with it, and whether any tile fits.

    The largest factor of OC that fits beside the smallest of IC has the fewest trips that OC can have, and the other
    way round: traffic with both at once is no more than that of any tile that fits.
    """
    most_ic = most_input_channels(memory, spatial, oc.factor[:1])[:, 0]
    most_oc = most_output_channels(memory, spatial, int(ic.factor[0]))
    fits = (most_ic >= ic.factor[0]) & (most_oc >= oc.factor[0])
    oc_trips = oc.trips[largest(oc, most_oc)]
    ic_trips = ic.trips[largest(ic, most_ic)]
    bound = np.minimum.reduce(totals(layer, spatial, oc_trips, ic_trips, before))
    return bound, spatial.pixels * spatial.taps * oc_trips * ic_trips, fits


def largest(of: ChannelFactors, most: Integers) -> Integers:
    """Return the index of the largest factor up to each limit, of any shape; 0 also where none is as small."""
    found: Integers = np.maximum(np.searchsorted(of.factor, most, side="right") - 1, 0)
    return found
