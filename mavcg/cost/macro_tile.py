"""Cycles of a kernel in macro-tiles: the planner's roofline with the terms of cores that have caches.

Traffic into level 1 and level 2 comes from level_traffic.py (equations 6.1 to 6.5 of the paper); the roofs are those of
6.6 to 6.12; the other terms are calibrated (cycles.py names them). Cycles are those of one core with its share of the
caches.

Constants, [macro_tile] of profiles/fits, give the fraction of a level's fill time that does not overlap with
arithmetic. Those of x86 cores were fitted to timings of the layers of ResNet-50 and VGG-19 on a Zen 3
(docs/design/engine-tiles.md), and are used for out-of-order AArch64 cores too; those of in-order cores are assumed.
"""

from dataclasses import dataclass

from mavcg.cost.chunk_prefetch import ChunkPass, is_modelled, pass_of, shares
from mavcg.cost.chunk_prefetch import cycles as prefetch_cycles
from mavcg.cost.cycles import ALL_TERMS, ARRAY, LEVEL_1, LEVEL_2, Cycles, Term
from mavcg.cost.kernel_work import KernelWork, k_tile, registers
from mavcg.cost.layer import Tile, Tiling
from mavcg.cost.level_traffic import (
    crowds_next_chunk,
    l1_budget,
    l1_traffic,
    l2_tiling,
    l2_traffic,
    l2_traffic_by_dataflow,
    tasks_of,
)
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.gemm.register_tile import BlockRegisters
from mavcg.specs.kernel import Machine
from mavcg.specs.tile_plan import MacroTile


def tile_cycles(work: KernelWork, core: CoreModel, macro: MacroTile, terms: frozenset[Term] = ALL_TERMS) -> Cycles:
    """Return the cycles of all calls of a kernel in these macro-tiles: the roofline and the given further terms."""
    task = work.task(macro.call_rows)
    tiling = l2_tiling(macro, task)
    tiles = registers(work, core.machine, macro, tiling.tile.oc)
    chunk_pass = pass_of(work, core.machine, macro, tiles)
    arithmetic = _arithmetic(work, core, macro, tiling.tile, tiles, chunk_pass)
    moving = _transfers(work, core, macro, tiling, tiles, terms)
    fit = core.fit.macro_tile
    chunk = min(tiles.channels, tiling.tile.oc)
    evicted = Term.RESIDENCY in terms and crowds_next_chunk(work, core, task, chunk)
    prefetched = _has_prefetch(work, core.machine, macro, chunk_pass) and not evicted
    exposed = fit.l2_fill_exposed_prefetched if prefetched else fit.l2_fill_exposed
    late = work.by_channels and not prefetched and shares(work.rules, core.machine, chunk_pass)
    first_exposed = fit.memory_fill_exposed if late else exposed
    residual = moving.residual_bytes / moving.l2_bytes_per_cycle
    others = fit.l1_fill_exposed * moving.l1_cycles + fit.l2_fill_exposed * (moving.others + residual)
    by_term = {
        Term.REGISTER_TILES: arithmetic.register_tiles,
        Term.TILE_ENDS: arithmetic.tile_ends,
        Term.RESUMED_SUMS: arithmetic.resumed_sums,
        Term.CHUNK_STARTS: arithmetic.chunk_starts,
        Term.EXPOSED_WEIGHTS: first_exposed * moving.first_weights + exposed * moving.later_weights,
        Term.EXPOSED_FILLS: others,
    }
    array = {} if Term.REGISTER_TILES in terms else {ARRAY: work.layer.macs / core.macs_per_cycle}
    return Cycles(
        {**array, **{str(term): cycles for term, cycles in by_term.items() if term in terms}},
        {LEVEL_1: moving.l1_cycles, LEVEL_2: moving.l2_cycles},
        {LEVEL_1: moving.l1_bytes, LEVEL_2: moving.l2_bytes},
    )


@dataclass(frozen=True)
class _ArithmeticCycles:
    """Cycles of a core's own instructions in all calls: register tiles, their ends, resumed sums, starts of chunks."""

    register_tiles: float
    tile_ends: float
    resumed_sums: float
    chunk_starts: float


def _arithmetic(
    work: KernelWork,
    core: CoreModel,
    macro: MacroTile,
    block: Tile,
    tiles: BlockRegisters,
    chunk_pass: ChunkPass,
) -> _ArithmeticCycles:
    """Return the cycles of arithmetic. block: rows and channels of a block of level 2. tiles: its register tiles."""
    fit, layer, task = core.fit.macro_tile, work.layer, work.task(macro.call_rows)
    chunk = min(tiles.channels, block.oc)
    ic, kh, kw = k_tile(task, macro.kc)
    k_blocks = -(-work.terms // (ic * kh * kw))
    share = layer.oc / block.oc * layer.groups / work.rules.step_terms
    steps = tiles.cycles * share * work.terms * (1 if tiles.crossing else layer.oh)
    mr_tiles = sum(n for _, n in tiles.widths.tiles) * (1 if tiles.crossing else layer.oh)
    passes = mr_tiles * layer.oc / chunk * layer.groups
    moved = 2 * (layer.oh * layer.ow) * layer.oc / chunk * layer.groups * tiles.vectors / fit.moves_per_cycle
    chunk_passes = k_blocks * layer.groups * layer.oc / chunk * layer.oh / block.oh
    lines = passes * work.terms * chunk * task.items.weight / LINE_BYTES
    return _ArithmeticCycles(
        steps,
        k_blocks * (passes * fit.tile_cycles + moved),
        (k_blocks - 1) * passes * fit.resume_cycles,
        _chunk_start_cycles(work, core, macro, chunk_pass, chunk_passes, lines),
    )


@dataclass(frozen=True)
class _Transfers:
    """Bytes into level 1 and level 2 in all calls, and the cycles that they take.

    l1_cycles, l2_cycles: all bytes into the level, at the bandwidth behind it. first_weights, later_weights: cycles of
    the first and of all later reads of the weights into level 2. others: cycles of inputs and outputs into level 2.
    l2_bytes_per_cycle: bandwidth behind level 2.
    """

    l1_bytes: float
    l2_bytes: float
    l1_cycles: float
    l2_cycles: float
    first_weights: float
    later_weights: float
    others: float
    residual_bytes: int
    l2_bytes_per_cycle: float


def _transfers(
    work: KernelWork,
    core: CoreModel,
    macro: MacroTile,
    tiling: Tiling,
    tiles: BlockRegisters,
    terms: frozenset[Term],
) -> _Transfers:
    """Return the transfers by these terms. tiling: of a call in level 2. tiles: the register tiles of a block."""
    task, items = work.task(macro.call_rows), work.layer.items
    ic, kh, kw = k_tile(task, macro.kc)
    l1_tile = Tile(min(tiles.channels, tiling.tile.oc), ic, tiling.tile.oh, task.ow, kh, kw)
    l1_bytes = l1_traffic(l1_budget(core), task, tiles, l1_tile).total_bytes * tasks_of(work, task)
    l1_bytes *= Term.LEVEL_1 in terms
    if Term.RESIDENCY in terms:
        l2 = l2_traffic(work, core, task, tiling)
    else:
        l2 = l2_traffic_by_dataflow(work, task, tiling)
    per_cycle = [level.bandwidth_gb_per_s / core.ghz for level in core.levels]
    behind_l2 = per_cycle[min(1, len(per_cycle) - 1)]
    # The first read of the weights is from memory: no cache holds those of a whole network.
    first_bytes = work.layer.weight_elements * items.weight
    first_weights = first_bytes / (per_cycle[-1] if Term.FIRST_READ in terms else behind_l2)
    later_weights = (l2.weight_bytes - first_bytes) / behind_l2
    others = (l2.input_bytes + l2.output_bytes) / behind_l2
    residual_bytes = work.layer.output_elements * items.output if work.rules.residual else 0
    return _Transfers(
        l1_bytes,
        l2.total_bytes + residual_bytes,
        l1_bytes / per_cycle[0],
        first_weights + later_weights + others + residual_bytes / behind_l2,
        first_weights,
        later_weights,
        others,
        residual_bytes,
        behind_l2,
    )


def _has_prefetch(work: KernelWork, machine: Machine, macro: MacroTile, chunk_pass: ChunkPass) -> bool:
    """True if weights are prefetched.

    On cores that chunk_prefetch.py models, only prefetches that register tiles share count.
    """
    return macro.prefetch_distance_bytes is not None and (
        not is_modelled(work.rules, machine) or shares(work.rules, machine, chunk_pass)
    )


def _chunk_start_cycles(
    work: KernelWork,
    core: CoreModel,
    macro: MacroTile,
    chunk_pass: ChunkPass,
    passes: float,
    lines: float,
) -> float:
    """Return the cycles that passes over chunks wait at their starts, or that their prefetches take instead.

    passes: number of passes. lines: cache lines of weights that all register tiles read.
    """
    if is_modelled(work.rules, core.machine) and (
        _has_prefetch(work, core.machine, macro, chunk_pass) or not macro.prefetch_distance_bytes
    ):
        return passes * prefetch_cycles(work.spec, core.machine, macro, chunk_pass, l1_budget(core))
    return lines * core.fit.macro_tile.prefetch_cycles if macro.prefetch_distance_bytes else 0.0
