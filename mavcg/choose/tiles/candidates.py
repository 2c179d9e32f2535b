"""Candidate macro-tiles of a kernel: register widths, blocks, orders, prefetches, call rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import lcm

from mavcg.cost.chunk_prefetch import is_modelled, pass_of, shares
from mavcg.cost.kernel_work import KernelWork, registers
from mavcg.cost.layer import ConvLayer
from mavcg.cost.level_traffic import NARROW_PANELS, crowds_next_chunk, l1_budget, l2_budget
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.profiles.cost_fits import fit_of
from mavcg.specs.kernel import F32_BYTES, Machine
from mavcg.specs.tile_plan import MacroTile, Order, worthwhile_call_rows

MOST_BLOCKS_OF_TERMS = 36
LEAST_TERMS = 64  # of a block: with fewer a register tile's beginning and end cost more than they save
# With at least this many calls per layer, cores whose speeds differ sixfold still end at about the same time.
LEAST_TASKS = 16


def task_sizes(work: KernelWork, machines: Sequence[Machine]) -> tuple[int, ...]:
    """Return the candidates for call rows, smallest first: enough work for a call, and whole chunks of channels."""
    spec = work.spec
    least = worthwhile_call_rows(spec)
    if work.by_channels and work.rules.packed:
        chunks = [registers(work, m, MacroTile(), work.layer.oc).channels for m in machines]
        chunk = lcm(*(max(1, channels // work.rules.panel) for channels in chunks))
        least = min(spec.rows, -(-least // chunk) * chunk)
    sizes = [least]
    while 2 * sizes[-1] * LEAST_TASKS <= spec.rows:
        sizes.append(2 * sizes[-1])
    return tuple(sizes)


def plain_tile(work: KernelWork, call_rows: int) -> MacroTile:
    """Return the macro-tile that the emitter uses without a plan."""
    mc = work.rules.plain_rows
    mc = None if mc is None or mc >= work.task(call_rows).oh else mc
    order = Order.CHANNELS if work.rules.channels_outer else Order.ROWS
    return MacroTile(
        mc, order=order, panel_channels=work.rules.panel if work.rules.packed else None, call_rows=call_rows
    )


def candidates(work: KernelWork, core: CoreModel, plain: MacroTile) -> Iterator[MacroTile]:
    """Yield the macro-tiles whose costs are compared with the plain one's."""
    task = work.task(plain.call_rows)
    for nr, kc, mc, nc, prefetch in product(
        register_widths(work, core, task),
        k_blocks(work, core),
        row_blocks(work, task.oh),
        (plain.nc,) if plain.nc is not None else channel_blocks(work, core, task.oc),
        prefetch_distances(work, core),
    ):
        for order in tuple(Order) if mc is not None and nc is not None else (plain.order,):
            macro = replace(plain, mc=mc, nc=nc, kc=kc, order=order, prefetch_distance_bytes=prefetch, nr=nr)
            if prefetch is None or prefetches_once(work, core.machine, macro):
                yield macro


def register_widths(work: KernelWork, core: CoreModel, task: ConvLayer) -> tuple[int | None, ...]:
    """Return the candidate register widths in channels: None (the emitter's choice), and a narrower one: one panel.

    A narrower tile has more pixels, and reads fewer weights per multiply-add: 3x3 layers at 14x14 and 13x13, and 1x1 at
    7x7
    take 0.95 to 1.02 of the time on a Zen 3. It is a candidate only if weights are read once. With a residual wider
    tiles
    are faster, and also where a panel is one vector: tiles of one vector take 1.02 to 1.5 times as long with AVX-512 on
    a Zen 4. There two panels are the candidate where they leave room for the next chunk in level 2, and the emitter's
    choice does not (level_traffic.crowds_next_chunk).
    """
    machine, narrow = core.machine, work.rules.panel
    if not (is_modelled(work.rules, machine) and work.by_channels) or work.rules.residual:
        return (None,)
    chosen = registers(work, machine, MacroTile(), task.oc).channels
    if narrow <= lanes_f32(machine):
        return (None, NARROW_PANELS * narrow) if crowds_next_chunk(work, core, task, chosen) else (None,)
    return (None, narrow) if chosen > narrow else (None,)


def prefetch_distances(work: KernelWork, core: CoreModel) -> tuple[int | None, ...]:
    """Return the candidate prefetch distances of weights, in bytes: None (no prefetch), and the core's.

    The f32 weights of a single pixel are one long stream, which AArch64 cores bring to the last level by themselves,
    further ahead than they have fills of level 1: a prefetch instruction takes one until its line is there. Simulated,
    a product of 1x1024 by 1024x1000 takes 3.5 million cycles of a Cortex-A55 with prefetches, 2.5 without. In f16 the
    blocks of a sum interrupt the stream, and prefetches save a fifth.
    """
    one_pixel = work.layer.oh * work.layer.ow == 1
    streamed = one_pixel and core.machine.arch == "aarch64" and work.layer.items.weight == F32_BYTES
    return (None, core.fit.macro_tile.prefetch_distance) if work.rules.packed and not streamed else (None,)


def prefetches_once(work: KernelWork, machine: Machine, macro: MacroTile) -> bool:
    """True if no line is prefetched twice: register tiles share the prefetches, or panels are long.

    If the distance is more than half a panel, each register tile would prefetch the same lines of another panel again,
    and evict its own from level 1: a product of 64 x 64 x 64 with its weights in level 2 then runs at two thirds of its
    speed.
    """
    panel_bytes = work.terms * work.rules.panel * work.layer.items.weight
    if panel_bytes >= 2 * fit_of(machine).macro_tile.prefetch_distance:
        return True
    return shares(work.rules, machine, pass_of(work, machine, macro))


def k_blocks(work: KernelWork, core: CoreModel) -> tuple[int | None, ...]:
    """Return the candidate blocks of terms: None (all), and the two largest even divisors that stay in level 1."""
    layer = work.layer
    blocks: list[int | None] = [None]
    if not work.rules.partial_sums:
        return (None,)
    chunk = registers(work, core.machine, MacroTile(), layer.oc).channels
    free = l1_budget(core) / 2
    row = layer.ic * layer.kw
    even = [row * n for n in range(1, layer.kh) if layer.kh % n == 0]
    even += [layer.ic * n for n in range(1, layer.kw) if layer.kw % n == 0]
    even += [layer.ic // n for n in range(1, 65) if layer.ic % n == 0]
    for terms in sorted({t for t in even if LEAST_TERMS <= t < work.terms}, reverse=True):
        if work.terms / terms <= MOST_BLOCKS_OF_TERMS and chunk * terms * layer.items.weight <= free:
            blocks.append(terms)
    return tuple(blocks[:3])


def row_blocks(work: KernelWork, rows: int) -> tuple[int | None, ...]:
    """Return the candidate blocks of rows: None (all rows), and powers of two below the rows of a call.

    Matrix products cut their rows themselves and have None only.
    """
    if not work.rules.row_blocks:
        return (None,)
    blocks: list[int | None] = [None]
    n = 1
    while n < rows:
        blocks.append(n)
        n *= 2
    return tuple(blocks)


def channel_blocks(work: KernelWork, core: CoreModel, channels: int) -> tuple[int | None, ...]:
    """Return the candidate blocks of channels: None (all), one and four register tiles, and what fits level 2."""
    chunk = registers(work, core.machine, MacroTile(), channels).channels
    step = lcm(chunk, work.rules.panel) if work.rules.packed else chunk
    fitting = int(l2_budget(core)) // (work.terms * work.layer.items.weight) // step * step
    return tuple(dict.fromkeys((None, *(n for n in (step, 4 * step, fitting) if 0 < n < channels))))
