"""Cost of a macro-tile on a cluster, by a model: register tiles, and bytes into level 1 and level 2 of the caches.

A kernel's work is a layer of the planner's; a macro-tile is a tile of it, twice: of the operands that stay in level 2
while the blocks of a call run, and of those that stay in level 1 while rows of pixels pass over a chunk of weights. How
often each operand is read again: equations 6.2 to 6.5 of the paper. Cycles are those of one core, all caches its share.

Constants, [macro_tile] of profiles/fits, say which fraction of the time of filling a level does not overlap with
arithmetic. Those of x86 cores were fitted to timings of the layers of ResNet-50 and VGG-19 on a Zen 3
(docs/design/engine-tiles.md), and are taken for out-of-order AArch64 cores too; those of in-order cores are assumed.
"""

from dataclasses import dataclass, replace

from mavcg.cost_model.fits import fit_of
from mavcg.hardware.accelerator import Accelerator
from mavcg.kernels.builder.prefetch import LINE_BYTES
from mavcg.kernels.gemm.register_tile import BlockRegisters
from mavcg.kernels.registry import block_registers
from mavcg.planner.engine.prefetch import ChunkPass, known, shares
from mavcg.planner.engine.prefetch import cycles as prefetch_cycles
from mavcg.planner.layer_model.layer import ConvLayer, ItemBytes
from mavcg.planner.layer_model.tiling import Dataflow, Tile, Tiling
from mavcg.planner.layer_model.traffic import Traffic, reload_input, reload_output, reload_weight
from mavcg.specs.kernel import KernelSpec, Machine, SumsOfProducts
from mavcg.specs.tile_plan import MacroTile, Order


@dataclass(frozen=True)
class KernelWork:
    """A kernel as the model knows it.

    layer: all of it, the rows of all images one below the other. by_channels: true if calls are cut along the output
    channels, `panel` of them a row of work; false: along rows of pixels. sums: true if outputs can hold partial sums.
    step_terms: terms that a step of a register tile takes. residual: true if a residual is added to the outputs.
    products: of the spec.
    """

    spec: KernelSpec
    layer: ConvLayer
    by_channels: bool
    panel: int
    sums: bool
    packed: bool
    step_terms: int
    residual: bool
    products: SumsOfProducts

    @property
    def panels(self) -> int:
        """Panels of output channels of a group."""
        return -(-self.layer.oc // self.panel)

    @property
    def terms(self) -> int:
        """Terms of each sum."""
        return self.layer.ic * self.layer.kh * self.layer.kw

    def task(self, call_rows: int) -> ConvLayer:
        """Return the part of the layer that a call of so many rows of work computes."""
        layer = self.layer
        if self.by_channels:
            return replace(layer, oc=min(layer.oc, call_rows * self.panel))
        rows = min(layer.oh, call_rows)
        return replace(layer, oh=rows, ih=min(layer.ih, layer.input_rows(rows)))


def work_of(spec: KernelSpec) -> KernelWork | None:
    """Return a kernel's work; None for kernels that have no macro-tiles."""
    p = spec.products
    if p is None:
        return None
    layer = ConvLayer(
        "", p.out_channels, p.in_channels, p.rows, p.columns, *p.kernel, p.read_rows, p.read_columns, p.stride,
        dilation=p.dilation, groups=p.groups, items=ItemBytes(p.item_bytes, p.item_bytes, p.item_bytes),
    )  # fmt: skip
    return KernelWork(spec, layer, spec.by_channels, p.panel, p.partial_sums, p.packed, p.step_terms, p.residual, p)


def registers(work: KernelWork, machine: Machine, macro: MacroTile, channels: int) -> BlockRegisters:
    """Return the register tiles that the emitters choose for a block of so many channels."""
    return block_registers(work.spec, machine, macro, channels)


def k_tile(layer: ConvLayer, kc: int | None) -> tuple[int, int, int]:
    """Return (ic, kh, kw) of a tile of at most so many terms, as sums are cut: channels first, then columns, rows."""
    if kc is None or kc >= layer.ic * layer.kh * layer.kw:
        return layer.ic, layer.kh, layer.kw
    if kc >= layer.ic * layer.kw:
        return layer.ic, kc // (layer.ic * layer.kw), layer.kw
    if kc >= layer.ic:
        return layer.ic, 1, kc // layer.ic
    return kc, 1, 1


@dataclass(frozen=True)
class MacroTileCost:
    """Modelled cost of a kernel under a macro-tile. l1_bytes, l2_bytes: bytes that come into that level."""

    compute_cycles: float
    l1_bytes: float
    l2_bytes: float
    cycles: float


def cost(work: KernelWork, machine: Machine, core: Accelerator, macro: MacroTile) -> MacroTileCost:
    """Return the cost of all calls, one after the other on one core."""
    fit = fit_of(machine).macro_tile
    task = work.task(macro.call_rows)
    tasks = -(-work.layer.oc // task.oc) if work.by_channels else -(-work.layer.oh // task.oh)
    rows = min(macro.mc or task.oh, task.oh)
    channels = _block_channels(macro, task)
    tiles = registers(work, machine, macro, channels)
    chunk = min(tiles.channels, channels)
    ic, kh, kw = k_tile(task, macro.kc)
    terms = ic * kh * kw
    k_blocks = -(-work.terms // terms)

    # Arithmetic: steps of all register tiles, and what each tile costs besides, for each block of terms.
    share = work.layer.oc / channels * work.layer.groups / work.step_terms
    steps = tiles.cycles * share * work.terms * (1 if tiles.crossing else work.layer.oh)
    mr_tiles = sum(n for _, n in tiles.widths.tiles) * (1 if tiles.crossing else work.layer.oh)
    passes = mr_tiles * work.layer.oc / chunk * work.layer.groups
    pixels = work.layer.oh * work.layer.ow
    moved = 2 * pixels * work.layer.oc / chunk * work.layer.groups * tiles.vectors / fit.moves_per_cycle
    compute = steps + k_blocks * (passes * fit.tile_cycles + moved) + (k_blocks - 1) * passes * fit.resume_cycles
    chunk_pass = pass_of(work, machine, macro, tiles)
    times = k_blocks * work.layer.groups * work.layer.oc / chunk * work.layer.oh / rows
    lines = passes * work.terms * chunk * task.items.weight / LINE_BYTES
    compute += _chunk_start_cycles(work, machine, core, macro, chunk_pass, times, lines)

    l1 = _l1_bytes(l1_budget(machine, core), task, tiles, Tile(chunk, ic, rows, task.ow, kh, kw)) * tasks
    l2 = _l2_bytes(work, machine, core, macro, task, rows, channels)
    per_cycle = [level.bandwidth_gb_per_s / core.frequency_ghz for level in core.levels]
    behind_l2 = per_cycle[min(1, len(per_cycle) - 1)]
    # Weights come the first time from memory: those of a whole network fit no cache.
    first = work.layer.weight_elements * task.items.weight
    far_cycles, again_cycles = first / per_cycle[-1], (l2.weight_bytes - first) / behind_l2
    others_cycles = (l2.input_bytes + l2.output_bytes) / behind_l2
    l1_cycles, l2_cycles = l1 / per_cycle[0], far_cycles + again_cycles + others_cycles
    prefetched = _has_prefetch(work, machine, macro, chunk_pass)
    exposed = fit.l2_fill_exposed_prefetched if prefetched else fit.l2_fill_exposed
    late = work.by_channels and not prefetched and shares(work.products, machine, chunk_pass)
    shown = (fit.memory_fill_exposed if late else exposed) * far_cycles + exposed * again_cycles
    shown += fit.l1_fill_exposed * l1_cycles + fit.l2_fill_exposed * others_cycles
    residual = work.layer.output_elements * task.items.output if work.residual else 0
    if residual:
        shown += fit.l2_fill_exposed * residual / behind_l2
        l2_cycles += residual / behind_l2
    return MacroTileCost(compute, l1, l2.total_bytes + residual, max(compute + shown, l1_cycles, l2_cycles))


def l1_budget(machine: Machine, core: Accelerator) -> float:
    """Return the bytes of level 1 that a plan counts on."""
    return core.levels[0].shared_bytes * fit_of(machine).macro_tile.l1_share


def l2_budget(machine: Machine, core: Accelerator) -> float:
    """Return the bytes of level 2, or of the only level, that a plan counts on."""
    return core.levels[min(1, len(core.levels) - 1)].shared_bytes * fit_of(machine).macro_tile.l2_share


def _has_prefetch(work: KernelWork, machine: Machine, macro: MacroTile, chunk_pass: ChunkPass) -> bool:
    """True if weights are prefetched; on cores that prefetch.py models, only those that register tiles share are."""
    return macro.prefetch_distance_bytes is not None and (
        not known(work.products, machine) or shares(work.products, machine, chunk_pass)
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
    if known(work.products, machine) and (
        _has_prefetch(work, machine, macro, chunk_pass) or not macro.prefetch_distance_bytes
    ):
        return times * prefetch_cycles(work.spec, machine, macro, chunk_pass, l1_budget(machine, core))
    return lines * fit_of(machine).macro_tile.prefetch_cycles if macro.prefetch_distance_bytes else 0.0


def _block_channels(macro: MacroTile, task: ConvLayer) -> int:
    """Return the output channels of a block; a row's parts follow one another, as if they were one."""
    return task.oc if macro.parts > 1 else min(macro.nc or task.oc, task.oc)


def pass_of(
    work: KernelWork, machine: Machine, macro: MacroTile, tiles: BlockRegisters | None = None
) -> ChunkPass:  # fmt: skip
    """Return the pass of the rows of a block over a chunk of channels. tiles: the block's register tiles, if known."""
    task = work.task(macro.call_rows)
    rows, channels = min(macro.mc or task.oh, task.oh), _block_channels(macro, task)
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


def _l1_bytes(free: float, task: ConvLayer, tiles: BlockRegisters, tile: Tile) -> float:
    """Bytes into level 1 of a task, where so many bytes of it are free."""
    items = task.items
    terms = tile.ic * tile.kh * tile.kw
    mr = tiles.widths.mr
    panel = tile.oc * terms * items.weight
    pixels = mr * min(terms, tile.ic * tile.kw * tile.kh) * items.input
    slice_bytes = task.input_rows(tile.oh) * task.iw * tile.ic * items.input
    if panel + pixels > free:  # the weights of a register tile come anew for each
        narrow = replace(tile, oh=1, ow=min(mr, task.ow))
        weights = reload_weight(task, Tiling(narrow, Dataflow.INPUT))
    else:
        weights = reload_weight(task, Tiling(tile, Dataflow.INPUT))
    inputs = 1 if panel + slice_bytes <= free else reload_input(task, Tiling(tile, Dataflow.WEIGHT))
    outputs = reload_output(task, Tiling(tile, Dataflow.INPUT))
    return (
        task.weight_elements * items.weight * weights
        + task.input_elements * items.input * inputs
        + task.output_elements * items.output * outputs
    )


def _l2_bytes(
    work: KernelWork, machine: Machine, core: Accelerator, macro: MacroTile, task: ConvLayer, rows: int, channels: int
) -> Traffic:  # fmt: skip
    """Return the bytes into level 2 of a whole layer."""
    items, layer = task.items, work.layer
    free = l2_budget(machine, core)
    tasks = -(-layer.oc // task.oc) if work.by_channels else -(-layer.oh // task.oh)
    tile = Tile(channels, task.ic, rows, task.ow, task.kh, task.kw)
    flow = Dataflow.INPUT if macro.order is Order.ROWS else Dataflow.WEIGHT
    inputs, weights = reload_input(task, Tiling(tile, flow)), reload_weight(task, Tiling(tile, flow))
    of_weights, of_input = task.weight_elements * items.weight, task.input_elements * items.input
    # What stays by the order of the blocks stays only where it fits; what is small enough stays in any order, and of
    # weights that rows pass over one by one only where inputs, outputs and residual of these rows fit beside them. The
    # latter was measured on x86 and is left at that: an A55's loops have no free slots for more prefetches.
    beside = 0
    if machine.arch == "x86_64":
        beside = task.input_rows(rows) * task.iw * task.ic * items.input
        beside += rows * task.ow * task.oc * items.output * (1 + work.residual)
    of_all = layer.weight_elements * items.weight
    if of_weights + (beside if flow is Dataflow.INPUT and rows < layer.oh else 0) <= free:
        weights = 1
    elif flow is Dataflow.WEIGHT and channels * work.terms * items.weight > free:
        weights = reload_weight(task, Tiling(tile, Dataflow.INPUT))
    if of_input <= free:
        inputs = 1
    elif flow is Dataflow.INPUT and task.input_rows(rows) * task.iw * task.ic * items.input > free:
        inputs = reload_input(task, Tiling(tile, Dataflow.WEIGHT))
    moved_weights, moved_input = of_weights * weights * tasks, of_input * inputs * tasks
    if not work.by_channels and of_all + beside <= free:
        moved_weights = of_weights
    if work.by_channels and of_input <= free:
        moved_input = of_input
    return Traffic(moved_input, moved_weights, layer.output_elements * items.output)
