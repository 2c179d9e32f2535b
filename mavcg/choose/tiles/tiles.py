"""Plan the kernels of a model library: for each kernel and core, the macro-tile of least modelled cost.

All macro-tiles of candidates.py, some hundred per kernel, are priced by cost/kernel_cost.py, and the first of the
cheapest is taken, as in the paper's algorithm 4. The plain one stays unless another is cheaper by more than the model's
error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from mavcg.choose.cheapest import cheapest
from mavcg.choose.tiles.candidates import candidates, plain_tile, task_sizes
from mavcg.choose.tiles.depthwise_parts import channel_groups
from mavcg.choose.tiles.parts import CoreTeam, panel_chunk, panels_of_a_part
from mavcg.choose.tiles.winograd_parts import winograd_chunk
from mavcg.cost.chunk_prefetch import pass_of, shares
from mavcg.cost.cycles import LEVEL_2, Cycles, Term
from mavcg.cost.kernel_cost import cost
from mavcg.cost.kernel_work import KernelWork, work_of
from mavcg.cost.level_traffic import fits_level_2, l2_tiling
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.conv.spec import MANY_WEIGHTS, Convolution
from mavcg.kernels.int8.specs import EightBitDepthwise
from mavcg.kernels.primitives.winograd.spec import Winograd
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.tile_plan import MacroTile, Order, TilePlan

LARGER_TASK_WORTH = 0.99  # a larger task must take less than this fraction of the cycles
PARTS_WORTH = 1.02  # a row in parts may take at most this multiple of the cycles of a whole row
# Least rows of a call where register tiles continue in the next row (Conv2d.short_rows): a call reads the weights once.
SHORT_ROWS = 8


@dataclass(frozen=True)
class TilingModel:
    """A model that compares tilings: its terms, its metric, and whether a tile must fit its memory.

    metric: "latency", or "performance-per-access" (equation 6.13). must_fit: true for the paper's memories, which hold
    a tile or do not; false for a cache, which holds a part of it.
    """

    terms: frozenset[Term]
    metric: Literal["latency", "performance-per-access"]
    must_fit: bool

    def value(self, cost: Cycles) -> float:
        """Return the objective to be minimised: cycles, or cycles x bytes (the inverse of equation 6.13 for one layer).

        Both are of one layer, so the number of its multiply-accumulates is a constant factor.
        """
        return cost.total if self.metric == "latency" else cost.total * cost.level_bytes[LEVEL_2]

    def without(self, term: Term) -> "TilingModel":
        """Return the model without a term."""
        return TilingModel(self.terms - {term}, self.metric, self.must_fit)


ROOFLINE = TilingModel(frozenset(), "performance-per-access", must_fit=True)
CALIBRATED = TilingModel(frozenset(Term), "latency", must_fit=False)


def plan_tiles(
    specs: Sequence[KernelSpec],
    cores: Mapping[str, CoreModel],
    together: Mapping[str, int] | None = None,
    model: TilingModel = CALIBRATED,
) -> TilePlan:
    """Return a macro-tile for each version of each kernel that can have one.

    cores: one core of each version's cluster, by its label (BoardModel.versions). together: number of cores of each
    label that work on one layer (BoardModel.counts); None: one core, so work is not cut further.
    Call rows, parts and minimum chunk are the same for all versions of a kernel, since threads of all clusters take
    chunks of one layer. For Winograd and 8-bit depthwise kernels only the minimum chunk and the parts are planned, and
    only if they are smaller than without a plan (winograd_parts.py, depthwise_parts.py). model: compares the
    macro-tiles.
    """
    counts = tuple((together or {}).get(label, 0) for label in cores)
    planned: dict[tuple[str, str], MacroTile] = {}
    for spec in specs:
        free_rows, scale = isinstance(spec, Convolution) and spec.free_rows, 1
        planned_for = spec
        if isinstance(spec, Convolution) and spec.single_pixels:
            planned_for, scale = spec.in_runs, spec.run_pixels
        work = work_of(planned_for)
        if (macro := _chunks_only(spec, cores, together or {})) is not None:
            planned |= {(kernel_name(spec), label): macro for label in cores}
        if work is None or not spec.rows:
            continue
        # Rows that end anywhere are not cut into parts.
        tiles = _best_of_all(work, tuple(cores.values()), () if free_rows else counts, model)
        for (label, core), macro in zip(cores.items(), tiles, strict=True):
            if isinstance(spec, Convolution) and spec.short_rows:
                macro = _with_calls(macro, min(SHORT_ROWS, spec.rows))
            planned[kernel_name(spec), label] = _with_rows(_of_short_runs(spec, work, core, macro), scale)
    return TilePlan(planned)


def _of_short_runs(spec: KernelSpec, work: KernelWork, core: CoreModel, macro: MacroTile) -> MacroTile:
    """Return the macro-tile with prefetches of the next chunk's weights, where a run may have few pixels.

    The plan is that of the longest run, whose calls find many weights in level 2; a short run has one call, and reads
    them from beyond it.
    """
    if not isinstance(spec, Convolution) or spec.weight_bytes < MANY_WEIGHTS:
        return macro
    few = spec.single_pixels or spec.short_rows
    if not few or not shares(work.rules, core.machine, pass_of(work, core.machine, macro)):
        return macro
    return replace(macro, prefetch_distance_bytes=core.fit.macro_tile.prefetch_distance)


def _with_calls(macro: MacroTile, rows: int) -> MacroTile:
    """Return the macro-tile with calls and blocks of at least as many rows."""
    return replace(macro, mc=macro.mc and max(macro.mc, rows), call_rows=max(macro.call_rows, rows))


def _with_rows(macro: MacroTile, scale: int) -> MacroTile:
    """Return the macro-tile of a kernel whose rows are `scale` times as many as those that it was planned for."""
    mc = macro.mc and macro.mc * scale
    min_chunk_rows = macro.min_chunk_rows and macro.min_chunk_rows * scale
    return replace(macro, mc=mc, call_rows=macro.call_rows * scale, min_chunk_rows=min_chunk_rows)


def _chunks_only(spec: KernelSpec, clusters: Mapping[str, CoreModel], together: Mapping[str, int]) -> MacroTile | None:
    """Return the planned chunks of a kernel that chooses its own tiles; None if the default chunks stay."""
    if isinstance(spec, Winograd) and (min_chunk := winograd_chunk(spec, clusters, together)):
        return MacroTile(panel_channels=spec.tiles.lanes, call_rows=spec.rows, min_chunk_rows=min_chunk)
    return channel_groups(spec, clusters, together) if isinstance(spec, EightBitDepthwise) else None


@cache
def _best_of_all(
    work: KernelWork,
    cores: tuple[CoreModel, ...],
    counts: tuple[int, ...],
    model: TilingModel,
) -> tuple[MacroTile, ...]:
    """Return the best macro-tile of each core, all with the call rows that are best for all cores together.

    counts: cores of each core's type.
    """
    best: tuple[float, tuple[MacroTile, ...]] | None = None
    for call_rows in task_sizes(work, [core.machine for core in cores]):
        chosen = [best_macro(work, core, call_rows, model=model) for core in cores]
        seconds = sum(
            model.value(cost(work.spec, macro, core, model.terms)) / core.ghz
            for core, macro in zip(cores, chosen, strict=True)
        )
        if best is None or seconds < LARGER_TASK_WORTH * best[0]:
            best = seconds, tuple(chosen)
    assert best is not None
    return _share_out(work, cores, counts, best[1])


def _share_out(
    work: KernelWork,
    cores: Sequence[CoreModel],
    counts: Sequence[int],
    tiles: tuple[MacroTile, ...],
) -> tuple[MacroTile, ...]:
    """Return the macro-tiles with smaller chunks or rows in parts, if the cores together end the layer sooner so.

    counts: cores of each core's type.
    """
    call_rows = tiles[0].call_rows
    if not (work.rules.packed or work.by_channels) or sum(counts) < 2:
        return tiles
    versions = list(zip(cores, tiles, strict=True))
    cycles = [cost(work.spec, macro, core).total for core, macro in versions]
    present = [number for number, count in enumerate(counts) if count]
    team = CoreTeam(tuple(cores[number] for number in present), tuple(counts[number] for number in present))
    seconds = [cycles[number] / cores[number].ghz for number in present]
    if work.by_channels:
        min_chunk, parts = panel_chunk(work, call_rows, team, seconds)
        whole = parts == 1 and min_chunk == call_rows
        return tiles if whole else tuple(replace(macro, min_chunk_rows=min_chunk, parts=parts) for macro in tiles)
    panels = panels_of_a_part(work, team, seconds)
    if panels >= work.panels:
        return tiles
    cut = [in_parts(work, *version, panels * work.rules.panel) for version in versions]
    if None in cut:
        return tiles
    return tuple(replace(macro, parts=-(-work.panels // panels)) for macro in cut if macro is not None)


def in_parts(work: KernelWork, core: CoreModel, macro: MacroTile, channels: int) -> MacroTile | None:
    """Return the macro-tile of a version with rows in parts of `channels` channels; None if it would be too slow.

    All parts pass over a block of rows one after the other, so they take the place of blocks of channels: a macro-tile
    with such blocks is replaced by the best one without.
    """
    if macro.nc is not None:
        whole = best_macro(work, core, macro.call_rows, work.layer.oc)
        if cost(work.spec, whole, core).total > PARTS_WORTH * cost(work.spec, macro, core).total:
            return None
        macro = replace(whole, order=Order.ROWS)
    return replace(macro, nc=channels)


def best_macro(
    work: KernelWork,
    core: CoreModel,
    call_rows: int,
    channels: int | None = None,
    model: TilingModel = CALIBRATED,
) -> MacroTile:
    """Return the macro-tile of least modelled cost for calls of call_rows rows; the plain one if none is much cheaper.

    channels: of a block; None: any number. If the model's tiles must fit and none does, the plain one is returned as
    well.
    """
    plain = replace(plain_tile(work, call_rows), nc=channels)
    task = work.task(call_rows)
    fitting = (
        macro
        for macro in candidates(work, core, plain)
        if not model.must_fit or fits_level_2(core, task, l2_tiling(macro, task))
    )

    def value(macro: MacroTile) -> float:
        return model.value(cost(work.spec, macro, core, model.terms))

    if not model.must_fit:
        chosen = cheapest(fitting, value, plain=plain, least_ratio=core.fit.macro_tile.min_gain)
    else:
        chosen = cheapest(fitting, value)
    return chosen or plain
