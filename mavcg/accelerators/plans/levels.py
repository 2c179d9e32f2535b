"""Search for one tiling for each level of memory, from the outermost level inwards.

The space. Factors of loops along the array are multiples of its length, those of other loops any; or the whole tile of
the next level out. The kernel is cut only if some level cannot hold a tile with the whole kernel. Among the factors
with the same number of tiles only the smallest is tried, and larger ones whose windows read fewer rows; for each choice
of maps, kernel and OC, the largest factor of IC that fits.

The search. Tilings of a level are tried by ascending traffic into it, and within each the nearer levels in the same
way. A layer's rate is at most the roof of any of its levels, so once a tiling's own roof is not above the best rate so
far, none after it can be better. Nor can any exceed the roof of the least traffic that the layer could have at each
level by itself: each row of input that is read at all is read at least once, and a loop cut twice has no fewer tiles
than a loop cut once. A search that has tried most_tried tilings of a level takes the best so far: LevelsPlan.proved
tells whether that happened, and best_gmac_per_s bounds the rate of all others.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from mavcg.accelerators.plans.bounds import NOTHING_BEHIND, Before, largest, least, most_input_channels, totals
from mavcg.accelerators.plans.entries import ChannelFactors, Half, Spatial, combine_maps, pareto_indices
from mavcg.accelerators.plans.nested import LevelsPlan, Pieces, before, cut, cut_all, plan_of, rows_of, whole
from mavcg.accelerators.plans.roofline import busy_gmac_per_s
from mavcg.accelerators.plans.space import cuts_kernel
from mavcg.accelerators.plans.windows import WindowAxis, axes
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import Integers
from mavcg.hardware.accelerator import Accelerator, MemoryLevel

# Tilings of a level that are tried before the best so far is taken. A few suffice if computation or the outermost level
# is the bound. If a nearer level is, a layer may take a second; with 12, up to a tenth less GMAC/s in a third of it.
MOST_TRIED = 24
# Tiles in one NumPy batch.
_TOGETHER = 1 << 16


class _Ranked(NamedTuple):
    """A tiling of one level, with the bytes that it moves into the level and its steps."""

    total_bytes: int
    steps: int
    tiling: Tiling


@dataclass(frozen=True)
class _Reached:
    """The best tilings of a level and all nearer ones, nearest first. proved: no others are better."""

    gmac_per_s: float
    tilings: tuple[Tiling, ...]
    proved: bool


def plan_levels(
    layer: ConvLayer, accelerator: Accelerator, most_tried: int = MOST_TRIED, tile_roof: bool = False
) -> LevelsPlan:
    """Return the tilings whose lowest roof is highest; ties go to the first by traffic into the outermost level.

    most_tried: tilings tried of a level, within each tiling of the next level out. tile_roof: whether the computation
    roof is that of the elements which tiles keep busy, which is the same for all tilings of the space.
    Raises: NoTiling for a level that holds no tile, with the smallest memory that suffices.
    """
    compute = accelerator.peak_gmac_per_s
    if tile_roof:
        compute = busy_gmac_per_s(layer, Tile(*layer.loops.values()), accelerator)
    task = _LevelsTask(layer, accelerator, cuts_kernel(layer, accelerator), most_tried, compute)
    best = min([task.compute, *(task.roof(level, task.least_bytes(level)) for level in accelerator.levels)])
    solution = task.solve(len(accelerator.levels) - 1, whole(layer), best)
    return plan_of(layer, accelerator, solution.tilings, best, task.candidates, solution.proved, tile_roof)


@dataclass
class _LevelsTask:
    """One search: the data that all its parts read, and the number of tilings evaluated.

    compute: the computation roof, in GMAC/s.
    """

    layer: ConvLayer
    accelerator: Accelerator
    cuts_kernel: bool
    most_tried: int
    compute: float
    candidates: int = 0
    halves: dict[tuple[bytes, ...], Half] = field(default_factory=dict)

    def roof(self, level: MemoryLevel, total_bytes: int) -> float:
        """Return the rate that a level's bandwidth allows for total_bytes into it, in GMAC/s."""
        return level.bandwidth_gb_per_s * self.layer.macs / total_bytes

    def solve(self, number: int, behind: Pieces, best: float) -> _Reached:
        """Return the best tilings of levels[number] and all nearer levels.

        behind: tiles of the next level out. best: upper bound of the rate; the search stops when it is reached.
        """
        level = self.accelerator.levels[number]
        best_reached: _Reached | None = None
        all_proved = True
        tried = 0
        for ranked in islice(self.rank_tilings(level, behind), self.most_tried if number else 1):
            tried += 1
            roof = min(self.compute, self.roof(level, ranked.total_bytes))
            if best_reached is not None and roof <= best_reached.gmac_per_s:
                return replace(best_reached, proved=all_proved)
            if number == 0:
                return _Reached(roof, (ranked.tiling,), proved=True)
            nearer = self.solve(number - 1, cut_all(behind, ranked.tiling.tile), min(best, roof))
            all_proved &= nearer.proved
            reached = min(roof, nearer.gmac_per_s)
            if best_reached is None or reached > best_reached.gmac_per_s:
                best_reached = _Reached(reached, (*nearer.tilings, ranked.tiling), proved=False)
                if reached >= best:
                    return replace(best_reached, proved=True)
        assert best_reached is not None, "the smallest tile fits each level"
        return replace(best_reached, proved=all_proved and tried < self.most_tried)

    def rank_tilings(self, level: MemoryLevel, behind: Pieces) -> Iterator[_Ranked]:
        """Yield the tilings of a level by ascending traffic, then steps.

        For each choice of maps and OC the largest IC.
        """
        oc, ic = (self.channels(name, behind[name]) for name in ("OC", "IC"))
        down, across = axes(self.layer)
        entries = combine_maps(
            self.layer,
            self.half(down, "OH", behind["OH"], "KH", behind["KH"]),
            self.half(across, "OW", behind["OW"], "KW", behind["KW"]),
        )
        return self.ascending(level, entries, oc, ic, before(behind))

    def least_bytes(self, level: MemoryLevel) -> int:
        """Return a lower bound of the bytes into a level, whatever the tilings of the levels further out.

        It is the least traffic of the layer by itself, with each input row that any window reads counted once.
        """
        layer = self.layer
        pieces = whole(layer)
        down, across = (
            self.half(axis, out, pieces[out], tap, pieces[tap])
            for axis, (out, tap) in zip(axes(layer), (("OH", "KH"), ("OW", "KW")), strict=True)
        )
        read = [_rows_read_at_all(axis) for axis in axes(layer)]
        down, across = (
            _smallest_of_each(replace(half, rows=np.full(len(half), rows)))
            for half, rows in zip((down, across), read, strict=True)
        )
        entries = combine_maps(layer, down, across)
        oc, ic = (self.channels(name, pieces[name]) for name in ("OC", "IC"))
        return next(self.ascending(level, entries, oc, ic, NOTHING_BEHIND)).total_bytes

    def ascending(
        self, level: MemoryLevel, entries: Spatial, oc: ChannelFactors, ic: ChannelFactors, outside: Before
    ) -> Iterator[_Ranked]:
        """Yield all tilings that fit by ascending bytes and steps, one for each entry and factor of OC."""
        bound, steps, fits = least(self.layer, level, entries, oc, ic, outside)
        order = np.lexsort((steps, bound))
        order = order[fits[order]]
        self.candidates += len(entries)
        waiting: list[_Ranked] = []
        at, count = 0, 8
        while at < len(order) or waiting:
            limit = (math.inf, math.inf)
            if at < len(order):
                piece = order[at : at + count]
                waiting += self.tilings(level, entries.select(piece), oc, ic, outside)
                waiting.sort(key=lambda ranked: (ranked.total_bytes, ranked.steps, ranked.tiling.tile))
                del waiting[self.most_tried :]  # no more are needed
                at, count = at + len(piece), max(1, min(2 * count, _TOGETHER // len(oc)))
                if at < len(order):
                    limit = (int(bound[order[at]]), int(steps[order[at]]))
            ready = sum((ranked.total_bytes, ranked.steps) < limit for ranked in waiting)
            yield from waiting[:ready]
            del waiting[:ready]

    def tilings(
        self, level: MemoryLevel, at: Spatial, oc: ChannelFactors, ic: ChannelFactors, outside: Before
    ) -> Iterator[_Ranked]:
        """Yield the best most_tried tilings of these entries, one for each entry and factor of OC that fits."""
        most = most_input_channels(level, at, oc.factor)
        ic_index = largest(ic, most)
        by_flow = np.stack(totals(self.layer, at, oc.trips, ic.trips[ic_index], outside))
        total, flow = by_flow.min(axis=0), by_flow.argmin(axis=0)
        steps = (at.pixels * at.taps)[:, None] * oc.trips * ic.trips[ic_index]
        self.candidates += len(Dataflow) * total.size
        fits = np.flatnonzero(most >= ic.factor[0])
        factors = oc.factor[fits % len(oc)]  # ties go to the smallest tile, as in `ascending`
        first = np.lexsort((*at.tiles[fits // len(oc)].T[::-1], factors, steps.ravel()[fits], total.ravel()[fits]))
        for flat_index in fits[first[: self.most_tried]].tolist():
            entry, channel = divmod(flat_index, len(oc))
            oh, ow, kh, kw = at.tiles[entry].tolist()
            tile = Tile(int(oc.factor[channel]), int(ic.factor[ic_index[entry, channel]]), oh, ow, kh, kw)
            tiling = Tiling(tile, tuple(Dataflow)[int(flow[entry, channel])])
            yield _Ranked(int(total[entry, channel]), int(steps[entry, channel]), tiling)

    def channels(self, name: str, pieces: Integers) -> ChannelFactors:
        """Return the factors of OC or IC for the tiles `pieces` of the next level out.

        The smallest for each number of tiles.
        """
        factors, trips = self.factors(name, pieces)
        indices = np.sort(np.unique(trips, return_index=True)[1])
        return ChannelFactors(factors[indices], trips[indices], np.ones(len(indices)))

    def half(self, axis: WindowAxis, out_name: str, out: Integers, tap_name: str, taps: Integers) -> Half:
        """Return the factors of two loops along one direction, for tiles `out` and `taps` of the next level out."""
        key = (out_name.encode(), out.tobytes(), taps.tobytes())
        if key not in self.halves:
            out_factors, out_trips = self.factors(out_name, out)
            tap_factors, tap_trips = self.factors(tap_name, taps)
            out_cuts = [cut(out, factor) for factor in out_factors.tolist()]
            tap_cuts = [cut(taps, factor) for factor in tap_factors.tolist()]
            rows = np.array([[rows_of(axis, a, b) for b in tap_cuts] for a in out_cuts], np.int64)
            out_count, tap_count = len(out_factors), len(tap_factors)
            self.halves[key] = _smallest_of_each(
                Half(
                    np.repeat(out_factors, tap_count),
                    np.tile(tap_factors, out_count),
                    np.repeat(out_trips, tap_count),
                    np.tile(tap_trips, out_count),
                    rows.ravel(),
                    np.ones(out_count * tap_count),
                )
            )
        return self.halves[key]

    def factors(self, name: str, pieces: Integers) -> tuple[Integers, Integers]:
        """Return every factor of a loop, ascending, and the number of tiles that each makes.

        pieces: tiles of the next level out.
        """
        lengths, times = np.unique(pieces[:, 1], return_counts=True)
        most = int(lengths[-1])
        step = self.accelerator.parallel(name)
        if name in ("KH", "KW") and not self.cuts_kernel:
            factors = np.array([most], np.int64)
        else:
            factors = np.array([*range(step, most, step), most], np.int64)
        return factors, (times[:, None] * -(-lengths[:, None] // factors)).sum(axis=0)


def _smallest_of_each(half: Half) -> Half:
    indices = pareto_indices(
        half.out_trips * (int(half.tap_trips.max()) + 1) + half.tap_trips, [half.out, half.tap], [half.rows]
    )
    return Half(*(getattr(half, name)[indices] for name in half.__dataclass_fields__))


def _rows_read_at_all(axis: WindowAxis) -> int:
    """Return the number of input rows that at least one output row reads."""
    rows = np.arange(axis.out)[:, None] * axis.stride + np.arange(axis.taps) * axis.dilation - axis.before
    return len(np.unique(rows[(rows >= 0) & (rows < axis.length)]))
