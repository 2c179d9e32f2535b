"""Dominance and traffic bounds by which the exact searches discard tiles without costing each.

Equations 6.1 to 6.5 depend on a tile only through its trip counts. Among the factors of a loop with the same trip count
the smallest is as good as the others and fits wherever they do; so a loop of N iterations has at most 2 sqrt(N) factors
worth trying. With halo the number of rows read depends on the factor too, and with a computation roof of each tile so
does the utilisation of the array: then a larger factor of the same trip count is kept if it is better in one of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mavcg.choose.layer_model.layer import ConvLayer
from mavcg.choose.layer_model.roofline import loop_utilisation
from mavcg.choose.layer_model.tile_memory import Axes, Integers, bytes_of
from mavcg.choose.layer_model.windows import WindowAxis, axes, rows_read
from mavcg.hardware.accelerator import Accelerator, MemoryLevel

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ChannelFactors:
    """Factors of OC or IC worth trying, ascending, with their trip counts and the array's utilisation."""

    factor: Integers
    trips: Integers
    use: Floats

    def __len__(self) -> int:
        return len(self.factor)


@dataclass(frozen=True)
class Spatial:
    """Entries of factors of OH, OW, KH and KW together, one row for each combination.

    pixels, taps: trip counts of the loops over output maps and over the kernel. input_bytes, weight_bytes,
    output_bytes: of a group's tile, for one channel (for weights: one of each). once: bytes of the whole input if it is
    stationary. each: bytes of the input for each trip of OC if it is not. use: utilisation of the array along these
    four loops.
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
        """Return the entries with these indices, [count]."""
        return Spatial(*(getattr(self, name)[entries] for name in self.__dataclass_fields__))


def channels(
    layer: ConvLayer, accelerator: Accelerator, name: str, factors: Integers, tile_roof: bool
) -> ChannelFactors:
    """Return the factors of one loop that no other dominates.

    These are the smallest factor of each trip count, and with tile_roof also larger ones of higher utilisation.
    factors: [count], ascending.
    """
    n = -(-layer.loops[name] // factors)
    if not tile_roof:
        kept = np.sort(np.unique(n, return_index=True)[1])
        return ChannelFactors(factors[kept], n[kept], np.ones(len(kept)))
    use = loop_utilisation(layer, accelerator, name, factors)
    kept = pareto_indices(n, [factors], [-use])
    return ChannelFactors(factors[kept], n[kept], use[kept])


@dataclass(frozen=True)
class Half:
    """Factors of OH and KH, or of OW and KW, with their trip counts. rows: input rows in all their windows together."""

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
    """Return all combinations of factors of OH, OW, KH and KW, except those with a dominated half.

    The halves are vertical (OH, KH) and horizontal (OW, KW). grid: candidate factors of each loop, ascending.
    """
    down, across = (
        _half(layer, accelerator, grid, axis, out, tap, halo_traffic, tile_roof)
        for axis, (out, tap) in zip(axes(layer), (("OH", "KH"), ("OW", "KW")), strict=True)
    )
    combinations = combine_maps(layer, down, across, halo_fits)
    if halo_traffic:
        return combinations
    once = np.full(len(combinations), layer.input_elements * layer.items.input)
    return replace(combinations, once=once, each=once * combinations.taps)


def combine_maps(layer: ConvLayer, down: Half, across: Half, halo_fits: bool = True) -> Spatial:
    """Return the Cartesian product of a vertical and a horizontal half.

    Input bytes count the windows that the tiles read.
    """
    in_down, in_across = (
        indices.ravel() for indices in np.meshgrid(np.arange(len(down)), np.arange(len(across)), indexing="ij")
    )
    tiles = np.stack([down.out[in_down], across.out[in_across], down.tap[in_down], across.tap[in_across]], axis=1)
    ones = np.ones(len(tiles), np.int64)
    factors = {"OC": ones, "IC": ones} | {name: tiles[:, i] for i, name in enumerate(("OH", "OW", "KH", "KW"))}
    read = layer.groups * layer.ic * layer.items.input * down.rows[in_down] * across.rows[in_across]
    return Spatial(
        tiles,
        down.out_trips[in_down] * across.out_trips[in_across],
        down.tap_trips[in_down] * across.tap_trips[in_across],
        *bytes_of(layer, factors, halo_fits),
        once=read,
        each=read,
        use=down.use[in_down] * across.use[in_across],
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
        use = loop_utilisation(layer, accelerator, out_name, out)
        use = use * loop_utilisation(layer, accelerator, tap_name, tap)
    if halo_traffic or tile_roof:
        kept = pareto_indices(kind, [out, tap], [rows, -use])
    else:
        kept = np.sort(
            np.unique(kind, return_index=True)[1]
        )  # the first of each kind is the smallest in both directions
    return Half(out[kept], tap[kept], out_trips[kept], tap_trips[kept], rows[kept], use[kept])


def _rows(axis: WindowAxis, out: Integers, tap: Integers) -> Integers:
    """Return rows_read of many tiles; in closed form if there is no padding, since no window is cut short then."""
    reach = (axis.out - 1) * axis.stride + (axis.taps - 1) * axis.dilation + 1
    if axis.before or reach > axis.length:
        return np.array([rows_read(axis, *pair) for pair in zip(out.tolist(), tap.tolist(), strict=True)], np.int64)
    out_trips, tap_trips = -(-axis.out // out), -(-axis.taps // tap)
    starts = (axis.out - out_trips) * axis.stride  # rows between the first rows of windows, in all tiles of a tap
    spans = (axis.taps - tap_trips) * axis.dilation + tap_trips
    return tap_trips * starts + out_trips * spans


def pareto_indices(kind: Integers, sizes: Sequence[Integers], costs: Sequence[NDArray[np.generic]]) -> Integers:
    """Return the indices, ascending, of the entries that no other entry of the same kind dominates.

    An entry dominates another if it is at most as large in all sizes and costs. kind, each of sizes, each of costs:
    [entries]. Of equal entries the first is kept, as sizes ascend with the index in at least the first key.
    """
    by_kind = np.lexsort((np.arange(len(kind)), *reversed(sizes), kind))
    kept: list[int] = []
    columns = [values.tolist() for values in (*sizes, *costs)]
    kinds = kind.tolist()
    front: list[tuple[float, ...]] = []
    last = None
    for index in by_kind.tolist():
        if kinds[index] != last:
            last, front = kinds[index], []
        entry = tuple(values[index] for values in columns)
        if not any(all(a <= b for a, b in zip(dominating, entry, strict=True)) for dominating in front):
            front.append(entry)
            kept.append(index)
    return np.array(sorted(kept), np.int64)


def most_input_channels(memory: MemoryLevel, spatial: Spatial, out_channels: Integers) -> Integers:
    """Return the largest factor of IC that fits beside each factor of OC, or a number below 1 if none does.

    out_channels: factors of OC, which broadcast against the entries of `spatial`.
    """
    weights = out_channels * spatial.weight_bytes[:, None]
    outputs = out_channels * spatial.output_bytes[:, None]
    inputs = spatial.input_bytes[:, None]
    if memory.shared_bytes:
        return (memory.shared_bytes - outputs) // (inputs + weights)
    most = np.minimum(memory.input_bytes // inputs, memory.weight_bytes // weights)
    return np.where(outputs <= memory.output_bytes, most, 0)


def most_output_channels(memory: MemoryLevel, spatial: Spatial, in_channels: int) -> Integers:
    """Return the largest factor of OC that fits beside in_channels input channels for each entry.

    Below 1 if none does.
    """
    weights = in_channels * spatial.weight_bytes
    inputs = in_channels * spatial.input_bytes
    if memory.shared_bytes:
        return (memory.shared_bytes - inputs) // (spatial.output_bytes + weights)
    most = np.minimum(memory.output_bytes // spatial.output_bytes, memory.weight_bytes // weights)
    return np.where(inputs <= memory.input_bytes, most, 0)


class Before(NamedTuple):
    """Trip counts of the loops over tiles of the next memory level further out; 1 if there is none (levels.py)."""

    oc: int = 1
    pixels: int = 1
    reductions: int = 1


NOTHING_BEHIND = Before()


def totals(
    layer: ConvLayer, spatial: Spatial, oc_trips: Integers, ic_trips: Integers, before: Before = NOTHING_BEHIND
) -> tuple[Integers, ...]:
    """Return the bytes of equation 6.1 for each dataflow, in the order of Dataflow.

    Trip counts broadcast against the entries, which are the first axis. Bytes never fall with a trip count, so trip
    counts that are too small give a lower bound.
    """
    shape = (len(spatial),) + (1,) * (max(oc_trips.ndim, ic_trips.ndim) - 1)
    pixels, taps, once, each = (v.reshape(shape) for v in (spatial.pixels, spatial.taps, spatial.once, spatial.each))
    items = layer.items
    weights = layer.weight_elements * items.weight
    outputs, psums = layer.output_elements * items.output, layer.output_elements * items.psum * 2
    input_bytes, weight_bytes, output_bytes = each * oc_trips, weights * pixels, outputs + psums * (taps * ic_trips - 1)
    return (
        once * before.oc + weight_bytes + output_bytes,
        input_bytes + weights * before.pixels + output_bytes,
        input_bytes + weight_bytes + outputs + psums * (before.reductions - 1),
    )


def least(
    layer: ConvLayer,
    memory: MemoryLevel,
    spatial: Spatial,
    oc: ChannelFactors,
    ic: ChannelFactors,
    before: Before = NOTHING_BEHIND,
) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Return for each entry lower bounds of the bytes and off-chip steps of its tiles, and whether any tile fits.

    The largest factor of OC that fits beside the smallest of IC has the fewest trips of OC, and vice versa; the traffic
    with both minima at once is at most that of any tile that fits.
    """
    most_ic = most_input_channels(memory, spatial, oc.factor[:1])[:, 0]
    most_oc = most_output_channels(memory, spatial, int(ic.factor[0]))
    fits = (most_ic >= ic.factor[0]) & (most_oc >= oc.factor[0])
    oc_trips = oc.trips[largest(oc, most_oc)]
    ic_trips = ic.trips[largest(ic, most_ic)]
    bound = np.minimum.reduce(totals(layer, spatial, oc_trips, ic_trips, before))
    return bound, spatial.pixels * spatial.taps * oc_trips * ic_trips, fits


def largest(channel_factors: ChannelFactors, most: Integers) -> Integers:
    """Return the index of the largest factor up to each limit in `most`, of any shape; 0 if all are larger."""
    index: Integers = np.maximum(np.searchsorted(channel_factors.factor, most, side="right") - 1, 0)
    return index
