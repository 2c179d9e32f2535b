"""Cost of a macro-tile on a cluster: the planner's model with the terms of cores that have caches.

Bytes into level 1 and level 2 are those of level_traffic.py, by equations 6.1 to 6.5 of the paper; the roofs are those
of 6.6 to 6.12; the other terms are calibrated (planner/layer_model/tiling_cost.py names them). Cycles are those of one
core, all caches its share.

Constants, [macro_tile] of profiles/fits, say which fraction of the time of filling a level does not overlap with
arithmetic. Those of x86 cores were fitted to timings of the layers of ResNet-50 and VGG-19 on a Zen 3
(docs/design/engine-tiles.md), and are taken for out-of-order AArch64 cores too; those of in-order cores are assumed.
"""

from mavcg.cost_model.fits import fit_of
from mavcg.hardware.accelerator import Accelerator
from mavcg.kernels.builder.prefetch import LINE_BYTES
from mavcg.kernels.gemm.register_tile import BlockRegisters
from mavcg.planner.engine.level_traffic import (
    block_channels,
    l1_budget,
    l1_traffic,
    l2_tiling,
    l2_traffic,
    l2_traffic_by_dataflow,
    tasks_of,
)
from mavcg.planner.engine.prefetch import ChunkPass, is_modelled, shares
from mavcg.planner.engine.prefetch import cycles as prefetch_cycles
from mavcg.planner.engine.work import KernelWork, k_tile, registers
from mavcg.planner.layer_model.tiling import Tile
from mavcg.planner.layer_model.tiling_cost import Term, TilingCost
from mavcg.specs.kernel import Machine
from mavcg.specs.tile_plan import MacroTile

ALL_TERMS = frozenset(Term)


def cost(
    work: KernelWork, machine: Machine, core: Accelerator, macro: MacroTile, terms: frozenset[Term] = ALL_TERMS
) -> TilingCost:
    """Return the cost of all calls, one after the other on one core, by these terms beside the roofline."""
    fit = fit_of(machine).macro_tile
    task = work.task(macro.call_rows)
    tasks = tasks_of(work, task)
    tiling = l2_tiling(macro, task)
    rows, channels = tiling.tile.oh, tiling.tile.oc
    tiles = registers(work, machine, macro, channels)
    chunk = min(tiles.channels, channels)
    ic, kh, kw = k_tile(task, macro.kc)
    k_blocks = -(-work.terms // (ic * kh * kw))

    # Arithmetic: steps of all register tiles, and what each tile costs besides, for each block of terms.
    share = work.layer.oc / channels * work.layer.groups / work.step_terms
    steps = tiles.cycles * share * work.terms * (1 if tiles.crossing else work.layer.oh)
    mr_tiles = sum(n for _, n in tiles.widths.tiles) * (1 if tiles.crossing else work.layer.oh)
    passes = mr_tiles * work.layer.oc / chunk * work.layer.groups
    pixels = work.layer.oh * work.layer.ow
    moved = 2 * pixels * work.layer.oc / chunk * work.layer.groups * tiles.vectors / fit.moves_per_cycle
    chunk_pass = pass_of(work, machine, macro, tiles)
    times = k_blocks * work.layer.groups * work.layer.oc / chunk * work.layer.oh / rows
    lines = passes * work.terms * chunk * task.items.weight / LINE_BYTES

    # Moving: bytes into each level at the bandwidth of what is behind it.
    l1 = l1_traffic(l1_budget(machine, core), task, tiles, Tile(chunk, ic, rows, task.ow, kh, kw)).total_bytes * tasks
    l1 *= Term.LEVEL_1 in terms
    if Term.RESIDENCY in terms:
        l2 = l2_traffic(work, machine, core, task, tiling)
    else:
        l2 = l2_traffic_by_dataflow(work, task, tiling)
    per_cycle = [level.bandwidth_gb_per_s / core.frequency_ghz for level in core.levels]
    behind_l2 = per_cycle[min(1, len(per_cycle) - 1)]
    # Weights come the first time from memory: those of a whole network fit no cache.
    first = work.layer.weight_elements * task.items.weight
    far_cycles = first / (per_cycle[-1] if Term.FIRST_READ in terms else behind_l2)
    again_cycles = (l2.weight_bytes - first) / behind_l2
    others_cycles = (l2.input_bytes + l2.output_bytes) / behind_l2
    l1_cycles, l2_cycles = l1 / per_cycle[0], far_cycles + again_cycles + others_cycles
    prefetched = _has_prefetch(work, machine, macro, chunk_pass)
    exposed = fit.l2_fill_exposed_prefetched if prefetched else fit.l2_fill_exposed
    late = work.by_channels and not prefetched and shares(work.products, machine, chunk_pass)
    residual = work.layer.output_elements * task.items.output if work.residual else 0

    def cycles_if(term: Term, cycles: float) -> float:
        return cycles if term in terms else 0.0

    return TilingCost(
        work.layer.macs / core.pes,
        l1,
        l2.total_bytes + residual,
        l1_cycles,
        l2_cycles + residual / behind_l2,
        register_tile_cycles=cycles_if(Term.REGISTER_TILES, steps),
        tile_end_cycles=cycles_if(Term.TILE_ENDS, k_blocks * (passes * fit.tile_cycles + moved)),
        resumed_sum_cycles=cycles_if(Term.RESUMED_SUMS, (k_blocks - 1) * passes * fit.resume_cycles),
        chunk_start_cycles=cycles_if(
            Term.CHUNK_STARTS, _chunk_start_cycles(work, machine, core, macro, chunk_pass, times, lines)
        ),
        exposed_weight_cycles=cycles_if(
            Term.EXPOSED_WEIGHTS, (fit.memory_fill_exposed if late else exposed) * far_cycles + exposed * again_cycles
        ),
        exposed_fill_cycles=cycles_if(
            Term.EXPOSED_FILLS, fit.l1_fill_exposed * l1_cycles + fit.l2_fill_exposed * others_cycles
        ),
        exposed_residual_cycles=cycles_if(Term.EXPOSED_FILLS, fit.l2_fill_exposed * residual / behind_l2),
    )


def _has_prefetch(work: KernelWork, machine: Machine, macro: MacroTile, chunk_pass: ChunkPass) -> bool:
    """True if weights are prefetched; on cores that prefetch.py models, only those that register tiles share are."""
    return macro.prefetch_distance_bytes is not None and (
        not is_modelled(work.products, machine) or shares(work.products, machine, chunk_pass)
    )


def _chunk_start_cycles(
    work: KernelWork,
    machine: Machine,
    core: Accelerator,
    macro: MacroTile,
    chunk_pass: ChunkPass,
    times: float,
    lines: float,
) -> float:
    """Return the cycles of the starts of so many passes, or of prefetches instead; lines: of weights, for all tiles."""
    if is_modelled(work.products, machine) and (
        _has_prefetch(work, machine, macro, chunk_pass) or not macro.prefetch_distance_bytes
    ):
        return times * prefetch_cycles(work.spec, machine, macro, chunk_pass, l1_budget(machine, core))
    return lines * fit_of(machine).macro_tile.prefetch_cycles if macro.prefetch_distance_bytes else 0.0


def pass_of(
    work: KernelWork, machine: Machine, macro: MacroTile, tiles: BlockRegisters | None = None
) -> ChunkPass:  # fmt: skip
    """Return the pass of the rows of a block over a chunk of channels. tiles: the block's register tiles, if known."""
    task = work.task(macro.call_rows)
    rows, channels = min(macro.mc or task.oh, task.oh), block_channels(macro, task)
    tiles = tiles or registers(work, machine, macro, channels)
    ic, kh, kw = k_tile(task, macro.kc)
    terms, chunk, items = ic * kh * kw, min(tiles.channels, channels), task.items
    returns: int | None = None
    if not work.by_channels:
        moved = rows * task.ow * task.oc * items.output + task.input_rows(rows) * task.iw * ic * items.input
        returns = task.oc * terms * items.weight + moved if task.oc > chunk else 0
    return ChunkPass(
        tiles.widths, tiles.crossing, rows, chunk * terms * items.weight, returns,
        tiles.widths.mr * terms * items.input, terms,
    )  # fmt: skip
