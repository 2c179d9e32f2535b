"""Factors that the exact searches try: those that no other one dominates, and entries of maps and kernel made of them.

Equations 6.1 to 6.5 depend on a tile only through its trip counts. Among the factors of a loop with the same trip count
the smallest is as good as the others and fits wherever they do; so a loop of N iterations has at most 2 sqrt(N) factors
worth trying. With halo the number of rows read depends on the factor too, and with a computation roof of each tile so
does the utilisation of the array: then a larger factor of the same trip count is kept if it is better in one of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mavcg.accelerators.plans.roofline import loop_utilisation
from mavcg.accelerators.plans.windows import WindowAxis, axes, rows_read
from mavcg.cost.layer import ConvLayer
from mavcg.cost.traffic import Axes, Integers, bytes_of
from mavcg.hardware.accelerator import Accelerator

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
