"""Traffic of a macro-tile into level 1 and level 2: equations 6.1 to 6.5, and the operands that a cache keeps.

A macro-tile is a tile of the layer at two levels: of the operands that stay in level 2 while the blocks of a call run,
and of those that stay in level 1 while rows of pixels pass over a chunk of weights. cost/traffic.py
counts both; this module decides which operands stay.
"""

from dataclasses import replace

from mavcg.cost.kernel_work import KernelWork, block_channels
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.cost.traffic import Traffic, no_reload, tile_bytes, traffic
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.gemm.register_tile import BlockRegisters
from mavcg.specs.tile_plan import MacroTile, Order

# Panels of a register tile that is narrower than the emitter's choice, where a panel is one vector: chunks of these 32
# channels of 3x3, stride 2, 512 to 512 channels at 7x7, take 0.77 of the time of 64 channels (2026-12-01, ca76e8b6,
# Intel Xeon with AMX (sapphirerapids), docs/design/engine-tiles.md). Other numbers of panels were not measured.
NARROW_PANELS = 2


def l1_budget(core: CoreModel) -> float:
    """Return the bytes of level 1 that a plan may use."""
    return core.levels[0].shared_bytes * core.fit.macro_tile.l1_share


def l2_budget(core: CoreModel) -> float:
    """Return the bytes of level 2, or of the only level, that a plan may use."""
    return core.levels[min(1, len(core.levels) - 1)].shared_bytes * core.fit.macro_tile.l2_share


def l2_tiling(macro: MacroTile, task: ConvLayer) -> Tiling:
    """Return the tiling of a call in level 2: blocks of rows and channels, in the order of the macro-tile."""
    rows = min(macro.mc or task.oh, task.oh)
    tile = Tile(block_channels(macro, task), task.ic, rows, task.ow, task.kh, task.kw)
    return Tiling(tile, Dataflow.INPUT if macro.order is Order.ROWS else Dataflow.WEIGHT)


def fits_level_2(core: CoreModel, task: ConvLayer, tiling: Tiling) -> bool:
    """True if level 2 holds a tile of all three operands at once, as the paper's memories must."""
    return core.levels[min(1, len(core.levels) - 1)].holds(*tile_bytes(task, tiling.tile, halo=True))


def crowds_next_chunk(work: KernelWork, core: CoreModel, task: ConvLayer, chunk: int) -> bool:
    """True if register tiles of a chunk push the next one's weights out of level 2, and those of a narrow one do not.

    A chunk's own weights pass through level 2 with each of its register tiles, and evict what was prefetched before
    unless both chunks and the call's inputs fit. Blocks of terms change nothing: all those of a chunk come first.
    Measured where two multiply-adds of 64 bytes start in a cycle, which read weights fastest; elsewhere, and where a
    narrow chunk is too large as well, prefetches count as they were fitted. chunk: output channels.
    """
    if not (core.machine.two_wide_pipes and work.by_channels):
        return False
    level_2 = core.levels[min(1, len(core.levels) - 1)].shared_bytes
    room = level_2 - task.input_elements * task.items.input
    both = 2 * work.terms * task.items.weight  # bytes for each channel of two chunks
    return NARROW_PANELS * work.rules.panel * both <= room < chunk * both


def tasks_of(work: KernelWork, task: ConvLayer) -> int:
    """Return the number of calls of a layer, where a call computes at most this task."""
    return -(-work.layer.oc // task.oc) if work.by_channels else -(-work.layer.oh // task.oh)


def l1_traffic(free: float, task: ConvLayer, tiles: BlockRegisters, tile: Tile) -> Traffic:
    """Return the traffic into level 1 of a task, in bytes, with `free` bytes of level 1 available.

    tile: a chunk of channels, the rows and the terms of a block. The chunk's weights stay while the rows pass if they
    fit beside the pixels of a register tile; if not, each register tile loads them again. The rows stay while the
    chunks pass if they fit as well.
    """
    items = task.items
    terms = tile.ic * tile.kh * tile.kw
    panel = tile.oc * terms * items.weight
    pixels = tiles.widths.mr * terms * items.input
    rows = task.input_rows(tile.oh) * task.iw * tile.ic * items.input
    if panel + pixels > free:
        tile = replace(tile, oh=1, ow=min(tiles.widths.mr, task.ow))
    kept = (Dataflow.INPUT,) if panel + rows <= free else ()
    return traffic(task, Tiling(tile, Dataflow.WEIGHT), kept)


def l2_traffic_by_dataflow(work: KernelWork, task: ConvLayer, tiling: Tiling) -> Traffic:
    """Return the traffic into level 2 of a layer whose calls keep only the operand of the dataflow, as in the paper."""
    task_traffic, tasks = traffic(task, tiling), tasks_of(work, task)
    return Traffic(
        task_traffic.input_bytes * tasks, task_traffic.weight_bytes * tasks, no_reload(work.layer).output_bytes
    )


def l2_traffic(work: KernelWork, core: CoreModel, task: ConvLayer, tiling: Tiling) -> Traffic:
    """Return the traffic into level 2 of a layer, in bytes, with the operands that the cache keeps between calls."""
    items, layer, rows = task.items, work.layer, tiling.tile.oh
    free, flow = l2_budget(core), tiling.dataflow
    weight_bytes, input_bytes = task.weight_elements * items.weight, task.input_elements * items.input
    # The stationary operand stays only if it fits; another operand that is small enough stays in any order. Weights
    # that blocks of rows pass over stay only if inputs, outputs and residual of a block fit beside them. This last
    # condition was measured on x86 and applies only there: an A55's loops have no free slots for more prefetches.
    row_bytes = task.input_rows(rows) * task.iw * task.ic * items.input
    beside = 0
    if core.machine.arch == "x86_64":
        beside = row_bytes + rows * task.ow * task.oc * items.output * (1 + work.rules.residual)
    kept = set[Dataflow]()
    if weight_bytes + (beside if flow is Dataflow.INPUT and rows < layer.oh else 0) <= free or (
        flow is Dataflow.WEIGHT and tiling.tile.oc * work.terms * items.weight <= free
    ):
        kept.add(Dataflow.WEIGHT)
    if input_bytes <= free or (flow is Dataflow.INPUT and row_bytes <= free):
        kept.add(Dataflow.INPUT)
    task_traffic, tasks = traffic(task, tiling, kept), tasks_of(work, task)
    all_weight_bytes = layer.weight_elements * items.weight
    weights_stay = not work.by_channels and all_weight_bytes + beside <= free
    input_stays = work.by_channels and input_bytes <= free
    return Traffic(
        input_bytes if input_stays else task_traffic.input_bytes * tasks,
        weight_bytes if weights_stay else task_traffic.weight_bytes * tasks,
        no_reload(layer).output_bytes,
    )
