"""Plan the kernels of a model library: for each kernel and core the macro-tile that the cost model finds cheapest.

All macro-tiles of the space below, some hundred a kernel, are costed by cost.py. The plain one is kept unless another
is cheaper by more than the model's error.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from math import lcm

from mavcg.cost_model.board_machine import cluster_machine
from mavcg.cost_model.fits import core_kind, fit_of, fit_of_kind
from mavcg.hardware.accelerator import Accelerator
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.target import Target, parse_target
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.gemm.register_tile import lanes_f32
from mavcg.kernels.int8.depthwise import QDepthwise
from mavcg.kernels.primitives.winograd.spec import Winograd
from mavcg.planner.engine.cost import KernelWork, cost, l1_budget, l2_budget, pass_of, registers, work_of
from mavcg.planner.engine.depthwise_parts import channel_groups
from mavcg.planner.engine.parts import CoreTeam, panel_chunk, panels_of_a_part
from mavcg.planner.engine.prefetch import known, shares
from mavcg.planner.engine.winograd_parts import winograd_chunk
from mavcg.profiles.load import files, read_core
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.tile_plan import MacroTile, Order, TilePlan, worthwhile_call_rows

MOST_BLOCKS_OF_TERMS = 36
LEAST_TERMS = 64  # of a block: with fewer a register tile's beginning and end cost more than they save
# A layer of at least so many calls leaves work to even out at its end between cores that differ sixfold.
LEAST_TASKS = 16
LARGER_TASK_WORTH = 0.99  # a larger task must take less than this fraction of the cycles
CACHES = ("caches.l1d_bytes", "caches.l2_bytes")  # facts of a core's file
PARTS_WORTH = 1.02  # a row in parts may take at most this multiple of the cycles


def plan_tiles(
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    clusters: Mapping[str, Accelerator],
    together: Mapping[str, int] | None = None,
) -> TilePlan:
    """Return a macro-tile for each kernel that can have one, and each version.

    machines: by the version's label. clusters: one core of each label's cluster, as cores_of gives them. together: how
    many cores of each label work on one layer (parts.cores_each); None: one, and work is not cut for more. Call rows,
    parts and minimum chunk are the same for all versions of a kernel, since threads of all clusters take chunks of one
    layer. For Winograd's and 8-bit depthwise kernels only the minimum chunk and the parts are planned, and only where
    they are smaller than without a plan (winograd_parts.py, depthwise_parts.py).
    """
    counts = tuple((together or {}).get(label, 0) for label in machines)
    planned: dict[tuple[str, str], MacroTile] = {}
    for spec in specs:
        work = work_of(spec)
        if (macro := _chunks_only(spec, clusters, together or {})) is not None:
            planned |= {(kernel_name(spec), label): macro for label in machines}
        if work is None or not spec.rows:
            continue
        tiles = _best_of_all(work, tuple(machines.items()), tuple(clusters[label] for label in machines), counts)
        for label, macro in zip(machines, tiles, strict=True):
            planned[kernel_name(spec), label] = macro
    return TilePlan(planned)


def _chunks_only(
    spec: KernelSpec, clusters: Mapping[str, Accelerator], together: Mapping[str, int]
) -> MacroTile | None:
    """Return the chunks of a kernel that chooses its tiles itself; None where they are those of no plan."""
    if isinstance(spec, Winograd) and (min_chunk := winograd_chunk(spec, clusters, together)):
        return MacroTile(panel_channels=spec.tiles.lanes, call_rows=spec.rows, min_chunk_rows=min_chunk)
    return channel_groups(spec, clusters, together) if isinstance(spec, QDepthwise) else None


def cores_of(labels: Sequence[str], target: Target, board: Board | None = None) -> dict[str, Accelerator]:
    """Return a core of each label's cluster: of the board's first that has it, else a typical one of its kind.

    What the board does not say comes from with_known_caches and the assumptions of board_machine.cluster_machine.
    """
    cores = {}
    for label in labels:
        known_cluster = next((c for c in board.clusters if c.core == label), None) if board else None
        l3_bytes = board.l3_bytes if board is not None and known_cluster is not None else None
        name = board.name if board is not None and known_cluster is not None else "typical"
        one_cluster = (known_cluster or Cluster(label, (0,)),)
        alone = Board(name, "", target.zig_name, one_cluster, l3_bytes=l3_bytes)
        cores[label] = cluster_machine(with_known_caches(alone), 0).accelerator
    return cores


def with_known_caches(board: Board) -> Board:
    """Return the board with the caches of its cores' design, and the typical level 3, where it does not say itself."""

    def filled(cluster: Cluster) -> Cluster:
        path = files("cores").get(cluster.core)
        facts = () if path is None else read_core(path).facts
        sizes = {fact.key: int(fact.value) for fact in facts if fact.key in CACHES}
        l1d_bytes, l2_bytes = (sizes.get(key) for key in CACHES)
        own_l2 = cluster.l2_bytes if cluster.l2_bytes is not None else l2_bytes  # 0: it has none
        return replace(cluster, l1d_bytes=cluster.l1d_bytes or l1d_bytes, l2_bytes=own_l2)

    typical = fit_of_kind(core_kind(parse_target(board.target).arch, in_order=False)).typical
    l3_bytes = board.l3_bytes or typical.l3_bytes or None
    return replace(board, clusters=tuple(map(filled, board.clusters)), l3_bytes=l3_bytes)


@cache
def _best_of_all(
    work: KernelWork, machines: tuple[tuple[str, Machine], ...], cores: tuple[Accelerator, ...], counts: tuple[int, ...]
) -> tuple[MacroTile, ...]:
    """Return the best macro-tile of each machine, all with the call rows that are best for all together.

    counts: cores of each machine's type.
    """
    best: tuple[float, tuple[MacroTile, ...]] | None = None
    for call_rows in task_sizes(work, [machine for _, machine in machines]):
        chosen = [
            best_macro(work, machine, core, call_rows) for (_, machine), core in zip(machines, cores, strict=True)
        ]
        seconds = sum(
            cost(work, machine, core, macro).cycles / core.frequency_ghz
            for (_, machine), core, macro in zip(machines, cores, chosen, strict=True)
        )
        if best is None or seconds < LARGER_TASK_WORTH * best[0]:
            best = seconds, tuple(chosen)
    assert best is not None
    return _share_out(work, [machine for _, machine in machines], cores, counts, best[1])


def _share_out(
    work: KernelWork, machines: Sequence[Machine], cores: Sequence[Accelerator], counts: Sequence[int],
    tiles: tuple[MacroTile, ...],
) -> tuple[MacroTile, ...]:  # fmt: skip
    """Return the macro-tiles with smaller chunks or rows in parts, where so many cores end the layer sooner for it."""
    call_rows = tiles[0].call_rows
    if not (work.packed or work.by_channels) or sum(counts) < 2:
        return tiles
    versions = list(zip(machines, cores, tiles, strict=True))
    cycles = [cost(work, *version).cycles for version in versions]
    present = [number for number, count in enumerate(counts) if count]
    team = CoreTeam(
        tuple(machines[number] for number in present),
        tuple(cycles[number] / cores[number].frequency_ghz for number in present),
        tuple(counts[number] for number in present),
    )
    if work.by_channels:
        min_chunk, parts = panel_chunk(work, call_rows, team)
        whole = parts == 1 and min_chunk == call_rows
        return tiles if whole else tuple(replace(macro, min_chunk_rows=min_chunk, parts=parts) for macro in tiles)
    panels = panels_of_a_part(work, team)
    if panels >= work.panels:
        return tiles
    cut = [in_parts(work, *version, panels * work.panel) for version in versions]
    if None in cut:
        return tiles
    return tuple(replace(macro, parts=-(-work.panels // panels)) for macro in cut if macro is not None)


def in_parts(
    work: KernelWork, machine: Machine, core: Accelerator, macro: MacroTile, channels: int
) -> MacroTile | None:
    """Return the macro-tile of a version with rows in parts of so many channels; None where it would be slower.

    All parts pass over a block of rows one after the other, as all channels do, so there are no other blocks of
    channels: a macro-tile that has them gives way to the best one that has not.
    """
    if macro.nc is not None:
        whole = best_macro(work, machine, core, macro.call_rows, work.layer.oc)
        if cost(work, machine, core, whole).cycles > PARTS_WORTH * cost(work, machine, core, macro).cycles:
            return None
        macro = replace(whole, order=Order.ROWS)
    return replace(macro, nc=channels)


def task_sizes(work: KernelWork, machines: Sequence[Machine]) -> tuple[int, ...]:
    """Return the candidates for call rows, the smallest first: worth a call, in whole chunks of channels."""
    spec = work.spec
    least = worthwhile_call_rows(spec)
    if work.by_channels and work.packed:
        chunks = [registers(work, m, MacroTile(), work.layer.oc).channels for m in machines]
        chunk = lcm(*(max(1, channels // work.panel) for channels in chunks))
        least = min(spec.rows, -(-least // chunk) * chunk)
    sizes = [least]
    while 2 * sizes[-1] * LEAST_TASKS <= spec.rows:
        sizes.append(2 * sizes[-1])
    return tuple(sizes)


def best_macro(
    work: KernelWork, machine: Machine, core: Accelerator, call_rows: int, channels: int | None = None
) -> MacroTile:
    """Return the cheapest macro-tile for calls of so many rows, by the model; the plain one if none is much cheaper.

    channels: of a block; None: any number.
    """
    plain = replace(plain_tile(work, call_rows), nc=channels)
    limit = fit_of(machine).macro_tile.min_gain * cost(work, machine, core, plain).cycles
    best = plain
    for macro in candidates(work, machine, core, plain):
        cycles = cost(work, machine, core, macro).cycles
        if cycles < limit:
            best, limit = macro, cycles
    return best


def plain_tile(work: KernelWork, call_rows: int) -> MacroTile:
    """Return the macro-tile that the emitter takes without a plan."""
    mc = work.products.plain_rows
    mc = None if mc is None or mc >= work.task(call_rows).oh else mc
    order = Order.CHANNELS if work.products.channels_outer else Order.ROWS
    return MacroTile(mc, order=order, panel_channels=work.panel if work.packed else None, call_rows=call_rows)


def candidates(work: KernelWork, machine: Machine, core: Accelerator, plain: MacroTile) -> Iterator[MacroTile]:
    """Yield the macro-tiles that are costed beside the plain one."""
    task = work.task(plain.call_rows)
    for nr, kc, mc, nc, prefetch in product(
        register_widths(work, machine, task.oc),
        k_blocks(work, machine, core),
        row_blocks(work, task.oh),
        (plain.nc,) if plain.nc is not None else channel_blocks(work, machine, core, task.oc),
        (None, fit_of(machine).macro_tile.prefetch_distance) if work.packed else (None,),
    ):
        for order in tuple(Order) if mc is not None and nc is not None else (plain.order,):
            macro = replace(plain, mc=mc, nc=nc, kc=kc, order=order, prefetch_distance_bytes=prefetch, nr=nr)
            if prefetch is None or prefetches_once(work, machine, macro):
                yield macro


def register_widths(work: KernelWork, machine: Machine, channels: int) -> tuple[int | None, ...]:
    """Return None (the emitter chooses), and a panel's channels where it chooses more and weights are read once.

    A tile of fewer channels has more pixels, and reads the fewer weights for each multiply-add: 3x3 layers at 14x14 and
    13x13, 1x1 at 7x7 take 0.95 to 1.02 of the time on a Zen 3. With a residual wider tiles are the faster ones, and so
    they are where a panel is one vector: tiles of one take 1.02 to 1.5 times as long with AVX-512 on a Zen 4.
    """
    if not (known(work.products, machine) and work.by_channels) or work.residual or work.panel <= lanes_f32(machine):
        return (None,)
    chosen = registers(work, machine, MacroTile(), channels).channels
    return (None, work.panel) if chosen > work.panel else (None,)


def prefetches_once(work: KernelWork, machine: Machine, macro: MacroTile) -> bool:
    """True if no line is prefetched twice: register tiles share the prefetches, or panels are long.

    Where the distance is more than half a panel each register tile would prefetch the same lines of another panel
    again, and displace its own from level 1: a product of 64 x 64 x 64 with its weights in level 2 then has two thirds
    of its speed.
    """
    panel_bytes = work.terms * work.panel * work.layer.items.weight
    if panel_bytes >= 2 * fit_of(machine).macro_tile.prefetch_distance:
        return True
    return shares(work.products, machine, pass_of(work, machine, macro))


def k_blocks(work: KernelWork, machine: Machine, core: Accelerator) -> tuple[int | None, ...]:
    """Return None (all terms) and blocks that divide the sum evenly, also the largest whose weights stay in level 1."""
    layer = work.layer
    blocks: list[int | None] = [None]
    if not work.sums:
        return (None,)
    chunk = registers(work, machine, MacroTile(), layer.oc).channels
    free = l1_budget(machine, core) / 2
    row = layer.ic * layer.kw
    even = [row * n for n in range(1, layer.kh) if layer.kh % n == 0]
    even += [layer.ic * n for n in range(1, layer.kw) if layer.kw % n == 0]
    even += [layer.ic // n for n in range(1, 65) if layer.ic % n == 0]
    for terms in sorted({t for t in even if LEAST_TERMS <= t < work.terms}, reverse=True):
        if work.terms / terms <= MOST_BLOCKS_OF_TERMS and chunk * terms * layer.items.weight <= free:
            blocks.append(terms)
    return tuple(blocks[:3])


def row_blocks(work: KernelWork, rows: int) -> tuple[int | None, ...]:
    """Return None (all rows) and the powers of two below the rows of a call. Products cut their rows by themselves."""
    if not work.products.row_blocks:
        return (None,)
    blocks: list[int | None] = [None]
    n = 1
    while n < rows:
        blocks.append(n)
        n *= 2
    return tuple(blocks)


def channel_blocks(work: KernelWork, machine: Machine, core: Accelerator, channels: int) -> tuple[int | None, ...]:
    """Return None (all channels), the channels of a register tile, and of as many as stay in level 2."""
    chunk = registers(work, machine, MacroTile(), channels).channels
    step = lcm(chunk, work.panel) if work.packed else chunk
    fitting = int(l2_budget(machine, core)) // (work.terms * work.layer.items.weight) // step * step
    return tuple(dict.fromkeys((None, *(n for n in (step, 4 * step, fitting) if 0 < n < channels))))
