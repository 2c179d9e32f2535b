"""Branch and bound over trip counts: finds the best tiling of a layer without costing each.

Why the tiling that it finds is the best of its whole space:
1. A metric depends on a tiling's bytes and computation roof, and does not fall with fewer bytes or a higher roof, as
   all of roofline.METRICS do; `search` requires it of any other metric.
2. A tile is discarded only if another one has the same trip counts, no larger factor, no more traffic and no lower
   utilisation of the array (accelerators/plans/entries.py): the other fits wherever it does, and is as good.
3. The four loops over maps and kernel are chosen together, as one entry. For each entry, the fewest trips of OC and of
   IC that still fit, each taken beside the smallest factor of the other, bound the traffic from below; the bound is
   tight if one of the two loops has one trip. Entries are tried by ascending bound: once a bound is not below the best
   tiling so far, the search ends.
4. Within an entry, for each factor of OC the largest factor of IC that fits has the fewest trips, and traffic does not
   fall with trips: so it is the best of the pair. Smaller factors are tried only if the roof depends on the tile, since
   they may have a higher utilisation.
Among tilings with the same metric the result has the least traffic, then the fewest off-chip steps, then is the first
by entry (OH, OW, KH, KW), OC and dataflow.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mavcg.accelerators.plans import space
from mavcg.accelerators.plans.bounds import largest, least, most_input_channels, totals
from mavcg.accelerators.plans.entries import ChannelFactors, Spatial, channels, spatial
from mavcg.accelerators.plans.loop_order import traffic_with_halo
from mavcg.accelerators.plans.roofline import (
    Metric,
    Reached,
    busy_gmac_per_s,
    memory_gmac_per_s,
    performance_per_access,
)
from mavcg.accelerators.plans.space import Planned
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import Axes, Integers, Traffic, tile_bytes, traffic
from mavcg.errors import MavcgError
from mavcg.hardware.accelerator import DIMENSIONS, Accelerator, MemoryLevel

# Bytes are counted in 64 bits; each multiply-accumulate moves at most a few elements of at most 8 bytes.
_MOST_MACS = 1 << 50
# Factor on a bound that is a product of fractions: it stays a bound in spite of rounding.
_ROUNDING = 1 + 1e-12
# Pairs (or triples) of factors in one NumPy batch; a batch of entries has about this many.
_TOGETHER = 1 << 15


@dataclass(frozen=True)
class ExactOptions:
    """Options of a search: its traffic model and its space of tiles.

    model: "paper" counts traffic by equations 6.1 to 6.5; "halo" counts the bytes that are really moved
    (loop_order.py). grid: "pe" is the space of the exhaustive search: width and kernel whole, loops along
    the array in multiples of its length, all other loops in steps of one; "full" has every factor of every loop.
    halo_fits: True if an input tile must fit with its halo (space.fits). double_buffer: True if each tile takes its
    memory twice, so that the next tile is loaded during computation. overlap: True if transfers and computation
    overlap, so that the slower one counts (equation 6.12); otherwise a layer's seconds and all performance metrics are
    sums of both. The default is the paper's assumption, overlap with a single buffer; real overlap needs double_buffer.
    tile_roof: True if the computation roof only counts the elements that tiles keep busy (roofline.loop_utilisation),
    instead of all elements as in algorithm 4.
    """

    model: Literal["paper", "halo"] = "paper"
    grid: Literal["pe", "full"] = "pe"
    halo_fits: bool = True
    double_buffer: bool = False
    overlap: bool = True
    tile_roof: bool = False

    def __post_init__(self) -> None:
        if self.model not in ("paper", "halo") or self.grid not in ("pe", "full"):
            raise MavcgError(
                f"exact search: model {self.model!r}, grid {self.grid!r}: model must be paper or halo, grid pe or full"
            )
        if self.model == "halo" and not self.halo_fits:
            raise MavcgError("exact search: model halo with halo_fits=False: use halo_fits=True")
        if self.double_buffer and not self.overlap:
            raise MavcgError("exact search: double_buffer=True with overlap=False: drop one of them")

    @property
    def roof_varies(self) -> bool:
        """True if tiles have different roofs; in the grid "pe" all factors of a loop keep as many elements busy."""
        return self.tile_roof and self.grid == "full"


PAPER = ExactOptions()


@dataclass(frozen=True)
class SerialReached(Reached):
    """Result of a tiling on a machine that does not compute while it transfers."""

    @property
    def gmac_per_s(self) -> float:
        """MACs of the layer over the sum of transfer and computation time."""
        return 1 / (1 / self.compute_gmac_per_s + 1 / self.memory_gmac_per_s)


@dataclass(frozen=True)
class _Found:
    """A tiling with its metric. key: (bytes, off-chip steps), of which the smaller one wins among equal metrics."""

    value: float
    key: tuple[int, int]
    tiling: Tiling


def search(
    layer: ConvLayer,
    accelerator: Accelerator,
    metric: Metric = performance_per_access,
    options: ExactOptions = PAPER,
) -> Planned:
    """Return the tiling of largest metric in the space that the options name.

    metric: must not fall with fewer bytes or a higher roof, like those of roofline.METRICS. The result's `candidates`
    counts the bounds and tilings that were evaluated. Raises: NoTiling, with the smallest memory that suffices;
    MavcgError for a layer whose bytes exceed 64 bits.
    """
    if layer.macs > _MOST_MACS:
        raise MavcgError(f"layer {layer.name}: {layer.macs} multiply-accumulates; a plan may have at most {_MOST_MACS}")
    task = _task(layer, accelerator, metric, options)
    bound, steps, fits = least(layer, task.memory, task.entries, task.oc, task.ic)
    order = np.lexsort((steps, bound))
    order = order[fits[order]]
    evaluated = len(task.entries)
    best: _Found | None = None
    channel_use = float(task.oc.use.max() * task.ic.use.max())
    highest = float(task.entries.use.max()) * channel_use
    for piece in _pieces(order, task.width):
        if best is not None:
            first = int(piece[0])
            if not _may_beat(task, best, int(bound[first]), int(steps[first]), highest):
                break
            piece = piece[
                [
                    _may_beat(task, best, int(bound[i]), int(steps[i]), float(task.entries.use[i]) * channel_use)
                    for i in piece.tolist()
                ]
            ]
        for candidate in _front(task, task.entries.select(piece)):
            if (
                best is None
                or candidate.value > best.value
                or (candidate.value == best.value and candidate.key < best.key)
            ):
                best = candidate
        evaluated += len(Dataflow) * len(piece) * task.width
    assert best is not None, "the smallest tile fits"
    return Planned(layer, best.tiling, performance_of(layer, best.tiling, accelerator, options), evaluated)


def performance_of(
    layer: ConvLayer, tiling: Tiling, accelerator: Accelerator, options: ExactOptions = PAPER
) -> Reached:
    """Return the result of a tiling in the model of the options."""
    moved = (traffic if options.model == "paper" else traffic_with_halo)(layer, tiling)
    roof = busy_gmac_per_s(layer, tiling.tile, accelerator) if options.tile_roof else accelerator.peak_gmac_per_s
    return _performance(layer, accelerator, options, moved, roof)


def axes_of(layer: ConvLayer, accelerator: Accelerator, options: ExactOptions = PAPER) -> Axes:
    """Return every factor of each loop in the options' grid, ascending."""
    if options.grid == "full":
        return {name: np.arange(1, length + 1, dtype=np.int64) for name, length in layer.loops.items()}
    return space.axes(layer, accelerator, space.initial_tile(layer, accelerator))


@dataclass(frozen=True)
class _SearchTask:
    """Data that all parts of one search read. width: pairs or triples of factors of OC and IC for each entry."""

    layer: ConvLayer
    accelerator: Accelerator
    metric: Metric
    options: ExactOptions
    memory: MemoryLevel
    oc: ChannelFactors
    ic: ChannelFactors
    entries: Spatial

    @property
    def width(self) -> int:
        return len(self.oc) * (len(self.ic) if self.options.roof_varies else 1)


def _task(layer: ConvLayer, accelerator: Accelerator, metric: Metric, options: ExactOptions) -> _SearchTask:
    grid = axes_of(layer, accelerator, options)
    memory = space.half_memory(accelerator.memory) if options.double_buffer else accelerator.memory
    smallest = Tile(*(int(grid[name][0]) for name in DIMENSIONS))
    if not memory.holds(*tile_bytes(layer, smallest, options.halo_fits)):
        copies, any_size = 2 if options.double_buffer else 1, "--full-grid" if options.grid == "pe" else ""
        raise space.no_tiling(layer, accelerator, options.halo_fits, smallest, copies, any_size)
    oc, ic = (channels(layer, accelerator, name, grid[name], options.roof_varies) for name in ("OC", "IC"))
    entries = spatial(
        layer,
        accelerator,
        grid,
        halo_traffic=options.model == "halo",
        halo_fits=options.halo_fits,
        tile_roof=options.roof_varies,
    )
    return _SearchTask(layer, accelerator, metric, options, memory, oc, ic, entries)


def _pieces(order: Integers, width: int) -> Iterator[Integers]:
    """Yield batches of entries: small ones first, for a tiling that later entries have to beat, then larger ones."""
    start, count = 0, 4
    while start < len(order):
        yield order[start : start + count]
        start, count = start + count, max(1, min(2 * count, _TOGETHER // width))


def _may_beat(task: _SearchTask, best: _Found, total_bytes: int, steps: int, use: float) -> bool:
    """True if a tiling with at least these bytes and steps, and at most this utilisation, may be better than `best`."""
    if not task.options.roof_varies:
        return (total_bytes, steps) < best.key
    roof = task.accelerator.peak_gmac_per_s * use * _ROUNDING
    bound = task.metric(_performance(task.layer, task.accelerator, task.options, Traffic(total_bytes, 0, 0), roof))
    return bound > best.value or (bound == best.value and (total_bytes, steps) < best.key)


def _front(task: _SearchTask, entries: Spatial) -> Iterator[_Found]:
    """Yield the tilings with these entries that are Pareto-optimal in bytes and utilisation of the array."""
    layer, oc, ic = task.layer, task.oc, task.ic
    most = most_input_channels(task.memory, entries, oc.factor)
    if task.options.roof_varies:
        ic_index = np.broadcast_to(np.arange(len(ic)), (*most.shape, len(ic)))
        fits = ic.factor <= most[:, :, None]
        oc_trips, oc_use = oc.trips[:, None], oc.use[:, None]
        entry_use, entry_steps = entries.use[:, None, None], (entries.pixels * entries.taps)[:, None, None]
    else:
        ic_index = largest(ic, most)
        fits = ic.factor[0] <= most
        oc_trips, oc_use = oc.trips, oc.use
        entry_use, entry_steps = entries.use[:, None], (entries.pixels * entries.taps)[:, None]
    ic_trips = ic.trips[ic_index]
    by_flow = np.stack(np.broadcast_arrays(*totals(layer, entries, oc_trips, ic_trips)))
    flow, total = by_flow.argmin(axis=0), by_flow.min(axis=0)
    use = entry_use * oc_use * ic.use[ic_index]
    steps = entry_steps * oc_trips * ic_trips
    remaining = np.flatnonzero(fits)
    total, use, steps = total.ravel(), use.ravel(), steps.ravel()
    while len(remaining):
        fewest = remaining[total[remaining] == total[remaining].min()]
        fewest = fewest[use[fewest] == use[fewest].max()]
        flat_index = int(fewest[steps[fewest].argmin()])
        index = np.unravel_index(flat_index, fits.shape)
        oh, ow, kh, kw = entries.tiles[index[0]].tolist()
        tile = Tile(int(oc.factor[index[1]]), int(ic.factor[ic_index[index]]), oh, ow, kh, kw)
        tiling = Tiling(tile, tuple(Dataflow)[int(flow[index])])
        value = task.metric(performance_of(layer, tiling, task.accelerator, task.options))
        yield _Found(value, (int(total[flat_index]), int(steps[flat_index])), tiling)
        remaining = remaining[use[remaining] > use[flat_index]]


def _performance(
    layer: ConvLayer, accelerator: Accelerator, options: ExactOptions, moved: Traffic, compute: float
) -> Reached:
    kind = Reached if options.overlap else SerialReached
    return kind(layer.macs, moved, compute, memory_gmac_per_s(accelerator, layer.macs, moved))
