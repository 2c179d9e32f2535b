"""What a macro-tile costs on a cluster, by a model: register tiles, and bytes into level 1 and level 2 of the caches.

A kernel's work is a layer of the planner's; a macro-tile is a tile of it, twice: what stays in level 2 while the blocks
of a task run, and what stays in level 1 while rows of pixels pass over a chunk of weights. How often each operand is
read again are the paper's equations 6.2 to 6.5. Cycles are those of one core, all caches its share.

What of the moving shows in the time is by constants. Those of out-of-order cores were fitted to timings of the layers
of ResNet-50 and VGG-19 on a Zen 3 (docs/design/engine-tiles.md); those of in-order cores are assumptions.
"""

from dataclasses import dataclass, replace

from mavcg.accelerator import Accelerator
from mavcg.kernel import KernelSpec, Machine
from mavcg.kernels import conv_tiling, qconv_loops
from mavcg.kernels.conv_spec import Conv2d
from mavcg.kernels.matmul import PIECE_ROWS, MatMul
from mavcg.kernels.prefetch import LINE_BYTES
from mavcg.kernels.qconv_spec import QConv2d
from mavcg.kernels.qtiling import GROUP, form_of
from mavcg.kernels.tiling import Widths, choose, lanes_f32, tiling_of
from mavcg.planner.engine_asking import Pass, known, shares
from mavcg.planner.engine_asking import cycles as asking_cycles
from mavcg.planner.layer import ConvLayer, ItemBytes
from mavcg.planner.tiling import Dataflow, Tile, Tiling
from mavcg.planner.traffic import Traffic, reload_input, reload_output, reload_weight
from mavcg.tile_plan import MacroTile, Order

# Share of a cache that a plan counts on: lines of other data and of other sets' conflicts take the rest.
L1_SHARE, L2_SHARE = 0.75, 0.75
# Of the time that lines take to level 1, how much does not hide beside the arithmetic.
L1_SHOWS = {"in": 0.3, "out": 0.02}
# The same of lines to level 2, without and with a prefetch.
L2_SHOWS, L2_SHOWS_PREFETCHED = {"in": 0.9, "out": 0.6}, {"in": 0.3, "out": 0.25}
# And of weights that come from memory and are passed over once, where register tiles could ask for them and do not.
FAR_SHOWS = 1.0
PREFETCH_CYCLES = {"in": 0.5, "out": 0.1}  # of one: it takes an issue slot
TILE_CYCLES = {"in": 20, "out": 12}  # of a register tile's loops to begin and to end, beside its accumulators
# Of a tile that goes on with sums from the output, beside reading them: steps wait for the sums that were just written.
# Four resumptions a tile cost layers of 7x7 pixels 3 to 4 percent of their time on a Zen 3; of in-order cores unknown.
RESUMED_CYCLES = {"in": 0, "out": 40}
MOVES_PER_CYCLE = {"in": 1.0, "out": 2.0}  # accumulators read or written, at the ends of a tile


@dataclass(frozen=True)
class Work:
    """A kernel as the model sees it.

    layer: all of it, the rows of all images one below the other. by_channels: whether tasks are cut along the output
    channels, `panel` of them a row of work, or along rows of pixels. sums: whether outputs can hold partial sums.
    step_terms: terms that a step of a register tile takes. residual: whether outputs have something added to them.
    """

    spec: KernelSpec
    layer: ConvLayer
    by_channels: bool
    panel: int
    sums: bool
    packed: bool
    step_terms: int = 1
    residual: bool = False

    @property
    def terms(self) -> int:
        """Of each sum."""
        return self.layer.ic * self.layer.kh * self.layer.kw

    def task(self, task_rows: int) -> ConvLayer:
        """The part of the layer that a task of so many rows of work is."""
        layer = self.layer
        if self.by_channels:
            return replace(layer, oc=min(layer.oc, task_rows * self.panel))
        rows = min(layer.oh, task_rows)
        return replace(layer, oh=rows, ih=min(layer.ih, layer.input_rows(rows)))


def work_of(spec: KernelSpec) -> Work | None:
    """None for kernels that a macro-tile says nothing to."""
    if isinstance(spec, Conv2d | QConv2d):
        item = spec.x.item_bytes
        width = spec.out.shape[2]
        seen, stride = (spec.x.shape[0] * spec.x.shape[1], spec.x.shape[2]), spec.stride
        if spec.kernel == (1, 1):  # of the image only the pixels that it steps on are read
            seen, stride = (spec.pixel_rows, width), (1, 1)
        layer = ConvLayer(
            "", spec.out_channels, spec.in_channels, spec.pixel_rows, width, *spec.kernel, *seen, stride,
            dilation=spec.dilation, groups=spec.groups, items=ItemBytes(item, item, item),
        )  # fmt: skip
        if isinstance(spec, QConv2d):
            return Work(spec, layer, spec.by_channels, spec.lanes, False, True, GROUP)
        residual = spec.residual is not None
        return Work(spec, layer, spec.by_channels, spec.lanes, True, spec.packed, 1, residual)
    if isinstance(spec, MatMul):
        # One piece after the other, each by itself: rows of a piece are the columns of a layer of one row.
        width = min(spec.m, PIECE_ROWS)
        layer = ConvLayer("", spec.n, spec.k, 1, width, 1, 1, 1, width, groups=max(1, spec.rows))
        return Work(spec, layer, False, 1, True, False)
    return None


@dataclass(frozen=True)
class Registers:
    """Register tiles of a block: widths of a row, channels of a chunk, cycles of a step for all channels and widths.

    crossing: whether tiles go on in the next row, so that `widths` and `cycles` are of all rows.
    """

    widths: Widths
    channels: int
    vectors: int
    cycles: float
    crossing: bool


def registers(work: Work, machine: Machine, macro: MacroTile, channels: int) -> Registers:
    """As the emitters choose them."""
    spec = work.spec
    if isinstance(spec, Conv2d):
        lanes = lanes_f32(machine)
        tiling, crossing = conv_tiling.register_tiling(spec, machine, macro, channels)
        pixels = work.layer.ow * (work.layer.oh if crossing else 1)
        # Without what the register model adds where weights do not stay in level 1: that is counted in bytes here.
        cycles = tiling_of(machine, pixels, -(-channels // lanes), tiling.vectors, 0).cycles
        return Registers(tiling.widths, tiling.vectors * lanes, tiling.vectors, cycles, crossing)
    if isinstance(spec, QConv2d):
        chosen = qconv_loops.register_tiling(spec, machine, macro, channels)
        form = form_of(machine, spec.lanes, spec.x.dtype, spec.in_i16)
        per_chunk = sum(n * form.step_cycles(mr, chosen.vectors * form.parts) for mr, n in chosen.widths.tiles)
        chunks = channels / (chosen.vectors * form.lanes)
        return Registers(
            chosen.widths, chosen.vectors * form.lanes, chosen.vectors * form.parts, chunks * per_chunk, False
        )
    assert isinstance(spec, MatMul)
    lanes = lanes_f32(machine)
    vectors = -(-spec.n // lanes)
    tiling = choose(machine, work.layer.ow, vectors, min(spec.k, macro.k_block or spec.k))
    cycles = tiling_of(machine, work.layer.ow, vectors, tiling.vectors, 0).cycles
    return Registers(tiling.widths, tiling.vectors * lanes, tiling.vectors, cycles, False)


def k_tile(layer: ConvLayer, k_block: int) -> tuple[int, int, int]:
    """(ic, kh, kw) of a tile of at most so many terms, as sums are cut: channels innermost, then columns, then rows."""
    if not 0 < k_block < layer.ic * layer.kh * layer.kw:
        return layer.ic, layer.kh, layer.kw
    if k_block >= layer.ic * layer.kw:
        return layer.ic, k_block // (layer.ic * layer.kw), layer.kw
    if k_block >= layer.ic:
        return layer.ic, 1, k_block // layer.ic
    return k_block, 1, 1


@dataclass(frozen=True)
class Cost:
    """Of a kernel under a macro-tile, all by the model. l1_bytes, l2_bytes: that come into that level."""

    compute_cycles: float
    l1_bytes: float
    l2_bytes: float
    cycles: float


def cost(work: Work, machine: Machine, core: Accelerator, macro: MacroTile) -> Cost:
    """Of all tasks, one after the other on one core."""
    order = "in" if machine.in_order else "out"
    task = work.task(macro.task_rows)
    tasks = -(-work.layer.oc // task.oc) if work.by_channels else -(-work.layer.oh // task.oh)
    rows = min(macro.rows or task.oh, task.oh)
    channels = _block_channels(macro, task)
    tiles = registers(work, machine, macro, channels)
    chunk = min(tiles.channels, channels)
    ic, kh, kw = k_tile(task, macro.k_block)
    terms = ic * kh * kw
    k_blocks = -(-work.terms // terms)

    # Arithmetic: steps of all register tiles, and what each tile costs besides, for each block of terms.
    share = work.layer.oc / channels * work.layer.groups / work.step_terms
    steps = tiles.cycles * share * work.terms * (1 if tiles.crossing else work.layer.oh)
    mr_tiles = sum(n for _, n in tiles.widths.tiles) * (1 if tiles.crossing else work.layer.oh)
    passes = mr_tiles * work.layer.oc / chunk * work.layer.groups
    pixels = work.layer.oh * work.layer.ow
    moved = 2 * pixels * work.layer.oc / chunk * work.layer.groups * tiles.vectors / MOVES_PER_CYCLE[order]
    compute = steps + k_blocks * (passes * TILE_CYCLES[order] + moved) + (k_blocks - 1) * passes * RESUMED_CYCLES[order]
    one = pass_of(work, machine, macro)
    times = k_blocks * work.layer.groups * work.layer.oc / chunk * work.layer.oh / rows
    lines = passes * work.terms * chunk * task.items.weight / LINE_BYTES
    compute += _beginnings(work, machine, core, macro, one, times, lines)

    l1 = _l1_bytes(core, task, tiles, Tile(chunk, ic, rows, task.ow, kh, kw)) * tasks
    l2 = _l2_bytes(work, core, macro, task, rows, channels, machine.arch == "x86_64")
    per_cycle = [level.bandwidth_gb_per_s / core.frequency_ghz for level in core.levels]
    behind_l2 = per_cycle[min(1, len(per_cycle) - 1)]
    # Weights come the first time from memory: those of a whole network fit no cache.
    first = work.layer.weight_elements * task.items.weight
    far_cycles, again_cycles = first / per_cycle[-1], (l2.weight_bytes - first) / behind_l2
    others_cycles = (l2.input_bytes + l2.output_bytes) / behind_l2
    l1_cycles, l2_cycles = l1 / per_cycle[0], far_cycles + again_cycles + others_cycles
    asked = _asks(work, machine, macro, one)
    shows = (L2_SHOWS_PREFETCHED if asked else L2_SHOWS)[order]
    late = work.by_channels and not asked and shares(work.spec, machine, one)
    shown = (FAR_SHOWS if late else shows) * far_cycles + shows * again_cycles
    shown += L1_SHOWS[order] * l1_cycles + L2_SHOWS[order] * others_cycles
    residual = work.layer.output_elements * task.items.output if work.residual else 0
    if residual:
        shown += L2_SHOWS[order] * residual / behind_l2
        l2_cycles += residual / behind_l2
    return Cost(compute, l1, l2.total_bytes + residual, max(compute + shown, l1_cycles, l2_cycles))


def _asks(work: Work, machine: Machine, macro: MacroTile, one: Pass) -> bool:
    """Whether weights are there early: on cores that engine_asking models only those that register tiles share."""
    return macro.prefetch_bytes > 0 and (not known(work.spec, machine) or shares(work.spec, machine, one))


def _beginnings(
    work: Work, machine: Machine, core: Accelerator, macro: MacroTile, one: Pass, times: float, lines: float
) -> float:
    """Cycles of so many passes' beginnings, or of prefetches in their place; lines: of weights, for all tiles."""
    if known(work.spec, machine) and (_asks(work, machine, macro, one) or not macro.prefetch_bytes):
        return times * asking_cycles(work.spec, machine, macro, one, core.levels[0].shared_bytes * L1_SHARE)
    return lines * PREFETCH_CYCLES["in" if machine.in_order else "out"] if macro.prefetch_bytes else 0.0


def _block_channels(macro: MacroTile, task: ConvLayer) -> int:
    """Output channels of a block; a row's parts pass in turn, as if they were one."""
    return task.oc if macro.parts > 1 else min(macro.out_channels or task.oc, task.oc)


def pass_of(work: Work, machine: Machine, macro: MacroTile) -> Pass:
    """Of the rows of a block over a chunk of channels."""
    task = work.task(macro.task_rows)
    rows, channels = min(macro.rows or task.oh, task.oh), _block_channels(macro, task)
    tiles = registers(work, machine, macro, channels)
    ic, kh, kw = k_tile(task, macro.k_block)
    terms, chunk, items = ic * kh * kw, min(tiles.channels, channels), task.items
    returns: int | None = None
    if not work.by_channels:
        moved = rows * task.ow * task.oc * items.output + task.input_rows(rows) * task.iw * ic * items.input
        returns = task.oc * terms * items.weight + moved if task.oc > chunk else 0
    return Pass(
        tiles.widths, tiles.crossing, rows, chunk * terms * items.weight, returns,
        tiles.widths.mr * terms * items.input, terms,
    )  # fmt: skip


def _l1_bytes(core: Accelerator, task: ConvLayer, tiles: Registers, tile: Tile) -> float:
    """Into level 1, of a task."""
    items, free = task.items, core.levels[0].shared_bytes * L1_SHARE
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
    work: Work, core: Accelerator, macro: MacroTile, task: ConvLayer, rows: int, channels: int, of_x86: bool
) -> Traffic:  # fmt: skip
    """Into level 2, of a whole layer."""
    items, layer = task.items, work.layer
    free = (core.levels[1] if len(core.levels) > 1 else core.levels[0]).shared_bytes * L2_SHARE
    tasks = -(-layer.oc // task.oc) if work.by_channels else -(-layer.oh // task.oh)
    tile = Tile(channels, task.ic, rows, task.ow, task.kh, task.kw)
    flow = Dataflow.INPUT if macro.order is Order.ROWS else Dataflow.WEIGHT
    inputs, weights = reload_input(task, Tiling(tile, flow)), reload_weight(task, Tiling(tile, flow))
    of_weights, of_input = task.weight_elements * items.weight, task.input_elements * items.input
    # What stays by the order of the blocks stays only where it fits; what is small enough stays in any order, and of
    # weights that rows pass over one by one only where inputs, outputs and residual of these rows fit beside them. The
    # latter was measured on x86 and is left at that: an A55's loops have no free slots for the prefetches it asks for.
    beside = 0
    if of_x86:
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
