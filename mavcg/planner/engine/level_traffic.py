"""Bytes that a macro-tile moves into level 1 and level 2: equations 6.1 to 6.5, and what a cache keeps.

A macro-tile is a tile of a kernel's layer twice: of the operands that stay in level 2 while the blocks of a call run,
and of those that stay in level 1 while rows of pixels pass over a chunk of weights. Both are counted by
planner/layer_model/traffic.py. What is decided here is which operands stay.
"""

from dataclasses import replace

from mavcg.cost_model.fits import fit_of
from mavcg.hardware.accelerator import Accelerator
from mavcg.kernels.gemm.register_tile import BlockRegisters
from mavcg.planner.engine.work import KernelWork
from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.tile_memory import tile_bytes
from mavcg.planner.layer_model.tiling import Dataflow, Tile, Tiling
from mavcg.planner.layer_model.traffic import Traffic, no_reload, traffic
from mavcg.specs.kernel import Machine
from mavcg.specs.tile_plan import MacroTile, Order


def l1_budget(machine: Machine, core: Accelerator) -> float:
    """Return the bytes of level 1 that a plan counts on."""
    return core.levels[0].shared_bytes * fit_of(machine).macro_tile.l1_share


def l2_budget(machine: Machine, core: Accelerator) -> float:
    """Return the bytes of level 2, or of the only level, that a plan counts on."""
    return core.levels[min(1, len(core.levels) - 1)].shared_bytes * fit_of(machine).macro_tile.l2_share


def block_channels(macro: MacroTile, task: ConvLayer) -> int:
    """Return the output channels of a block; a row's parts follow one another, as if they were one."""
    return task.oc if macro.parts > 1 else min(macro.nc or task.oc, task.oc)


def l2_tiling(macro: MacroTile, task: ConvLayer) -> Tiling:
    """Return the tiling of a call in level 2: blocks of rows and channels, in the order of the macro-tile."""
    rows = min(macro.mc or task.oh, task.oh)
    tile = Tile(block_channels(macro, task), task.ic, rows, task.ow, task.kh, task.kw)
    return Tiling(tile, Dataflow.INPUT if macro.order is Order.ROWS else Dataflow.WEIGHT)


def fits_level_2(core: Accelerator, task: ConvLayer, tiling: Tiling) -> bool:
    """True if level 2 holds a tile of all three operands together, as the paper's memories have to."""
    return core.levels[min(1, len(core.levels) - 1)].holds(*tile_bytes(task, tiling.tile, halo=True))


def tasks_of(work: KernelWork, task: ConvLayer) -> int:
    """Return the number of calls of a layer, each a task of this size at most."""
    return -(-work.layer.oc // task.oc) if work.by_channels else -(-work.layer.oh // task.oh)


def l1_traffic(free: float, task: ConvLayer, tiles: BlockRegisters, tile: Tile) -> Traffic:
    """Return the bytes into level 1 of a task, where so many bytes of it are free.

    tile: a chunk of channels, the rows and the terms of a block. The chunk's weights stay while the rows pass where
    they fit beside the pixels of a register tile; if not, they come anew for each register tile. The rows stay while
    the chunks pass where they fit as well.
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
    """Return the bytes into level 2 of a layer whose calls keep the operand of the dataflow, as in the paper."""
    of_task, tasks = traffic(task, tiling), tasks_of(work, task)
    return Traffic(of_task.input_bytes * tasks, of_task.weight_bytes * tasks, no_reload(work.layer).output_bytes)


def l2_traffic(work: KernelWork, machine: Machine, core: Accelerator, task: ConvLayer, tiling: Tiling) -> Traffic:
    """Return the bytes into level 2 of a layer, where a call finds what the cache has kept."""
    items, layer, rows = task.items, work.layer, tiling.tile.oh
    free, flow = l2_budget(machine, core), tiling.dataflow
    of_weights, of_input = task.weight_elements * items.weight, task.input_elements * items.input
    # What stays by the order of the blocks stays only where it fits; what is small enough stays in any order, and of
    # weights that rows pass over one by one only where inputs, outputs and residual of these rows fit beside them. The
    # latter was measured on x86 and is left at that: an A55's loops have no free slots for more prefetches.
    of_rows = task.input_rows(rows) * task.iw * task.ic * items.input
    beside = 0
    if machine.arch == "x86_64":
        beside = of_rows + rows * task.ow * task.oc * items.output * (1 + work.residual)
    kept = set[Dataflow]()
    if of_weights + (beside if flow is Dataflow.INPUT and rows < layer.oh else 0) <= free or (
        flow is Dataflow.WEIGHT and tiling.tile.oc * work.terms * items.weight <= free
    ):
        kept.add(Dataflow.WEIGHT)
    if of_input <= free or (flow is Dataflow.INPUT and of_rows <= free):
        kept.add(Dataflow.INPUT)
    of_task, tasks = traffic(task, tiling, kept), tasks_of(work, task)
    of_all = layer.weight_elements * items.weight
    weights_stay = not work.by_channels and of_all + beside <= free
    input_stays = work.by_channels and of_input <= free
    return Traffic(
        of_input if input_stays else of_task.input_bytes * tasks,
        of_weights if weights_stay else of_task.weight_bytes * tasks,
        no_reload(layer).output_bytes,
    )
