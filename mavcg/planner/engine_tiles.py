"""The plan of a model library's kernels: a macro-tile for each of them on each core, the cheapest that the model finds.

All macro-tiles of the space below are looked at, with the model of engine_cost: there are some hundred of a kernel. The
plain one is kept unless another is cheaper by more than the model can be trusted with.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from math import lcm

from mavcg.accelerator import Accelerator
from mavcg.board import Board, Cluster
from mavcg.kernel import KernelSpec, Machine
from mavcg.kernels.conv_spec import Conv2d
from mavcg.kernels.conv_tiling import plain_macro
from mavcg.kernels.emit import kernel_name
from mavcg.kernels.primitives.winograd_spec import Winograd
from mavcg.kernels.qconv_spec import QConv2d
from mavcg.kernels.qdepthwise import QDepthwise
from mavcg.planner.board_machine import cluster_machine
from mavcg.planner.engine_asking import known, shares
from mavcg.planner.engine_cost import L1_SHARE, L2_SHARE, Work, cost, pass_of, registers, work_of
from mavcg.planner.engine_groups import channel_groups
from mavcg.planner.engine_parts import Cores, panels_claimed, panels_of_a_part
from mavcg.planner.engine_shared import shared_claim
from mavcg.target import Target, parse_target
from mavcg.tile_plan import MacroTile, Order, TilePlan, least_task_rows

# A step of 64 bytes of weights takes some 6 cycles: this is far enough for a line from level 3, and less than a page.
PREFETCH_BYTES = 4096
MOST_BLOCKS_OF_TERMS = 36
LEAST_TERMS = 64  # of a block: with fewer a register tile's beginning and end cost more than they save
# A layer in so many tasks leaves cores that differ sixfold work to even out at its end.
LEAST_TASKS = 16
# Of the plain one's cycles, what another macro-tile must be below: on x86 the model was fitted to measurements.
WORTH = {"x86_64": 0.99, "aarch64": 0.98}
LARGER_TASK_WORTH = 0.99
PARTS_WORTH = 1.02  # of its cycles: what a row in parts may take at most

# Level 1 and level 2 of x86 cores in KiB, by their design: the vendors' optimisation manuals (Intel 248966, chapters on
# each microarchitecture; AMD 56305, 56665, 57647, 58455). They are taken where a board does not say. Of other cores the
# licensee decides; those get what board_machine has as typical.
CORE_CACHES = {
    "haswell": (32, 256), "broadwell": (32, 256), "skylake": (32, 256), "skylake-avx512": (32, 1024),
    "icelake-client": (48, 512), "icelake-server": (48, 1280), "tigerlake": (48, 1280), "rocketlake": (48, 512),
    "znver1": (32, 512), "znver2": (32, 512), "znver3": (32, 512), "znver4": (32, 1024), "znver5": (48, 1024),
}  # fmt: skip
X86_L3_BYTES = 8 << 20  # what an x86 processor has at least, where no board says


def plan_tiles(
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    clusters: Mapping[str, Accelerator],
    together: Mapping[str, int] | None = None,
) -> TilePlan:
    """A macro-tile for each kernel that can have one, and each version.

    machines: by the version's label. clusters: one core of each label's cluster, as cores_of gives them. together: how
    many cores of each label work on one layer (engine_parts.cores_each); None: one, and work is not cut for more. The
    size of a task, its parts and what is claimed of it are the same for all versions of a kernel, since threads of all
    clusters claim from one layer. Of Winograd's and 8-bit depthwise kernels nothing else is planned, and only
    where they are claimed in smaller pieces than by themselves (engine_shared.py, engine_groups.py).
    """
    counts = tuple((together or {}).get(label, 0) for label in machines)
    found: dict[tuple[str, str], MacroTile] = {}
    for spec in specs:
        work = work_of(spec)
        if (macro := _claims_alone(spec, clusters, together or {})) is not None:
            found |= {(kernel_name(spec), label): macro for label in machines}
        if work is None or not spec.rows:
            continue
        tiles = _best_of_all(work, tuple(machines.items()), tuple(clusters[label] for label in machines), counts)
        for label, macro in zip(machines, tiles, strict=True):
            found[kernel_name(spec), label] = macro
    return TilePlan(found)


def _claims_alone(
    spec: KernelSpec, clusters: Mapping[str, Accelerator], together: Mapping[str, int]
) -> MacroTile | None:
    """Of kernels that are tiled by themselves: how they are claimed, where they are not as without a plan."""
    if isinstance(spec, Winograd) and (claim := shared_claim(spec, clusters, together)):
        return MacroTile(pack_lanes=spec.tiles.lanes, task_rows=spec.rows, claim_rows=claim)
    return channel_groups(spec, clusters, together) if isinstance(spec, QDepthwise) else None


def cores_of(labels: Sequence[str], target: Target, board: Board | None = None) -> dict[str, Accelerator]:
    """One core of each label's cluster: the board's first that has it, else one with what is typical of its kind.

    What the board does not say is CORE_CACHES, X86_L3_BYTES, and the assumptions of board_machine.cluster_machine.
    """
    found = {}
    for label in labels:
        known = next((c for c in board.clusters if c.core == label), None) if board else None
        l3_bytes = board.l3_bytes if board is not None and known is not None else None
        name = board.name if board is not None and known is not None else "typical"
        one = Board(name, "", target.zig_name, (known or Cluster(label, (0,)),), l3_bytes=l3_bytes)
        found[label] = cluster_machine(with_known_caches(one), 0).accelerator
    return found


def with_known_caches(board: Board) -> Board:
    """The board with CORE_CACHES and X86_L3_BYTES where it does not say itself."""

    def filled(cluster: Cluster) -> Cluster:
        l1, l2 = CORE_CACHES.get(cluster.core, (None, None))
        return replace(
            cluster, l1d_bytes=cluster.l1d_bytes or (l1 and l1 << 10), l2_bytes=cluster.l2_bytes or (l2 and l2 << 10)
        )

    l3_bytes = board.l3_bytes or (X86_L3_BYTES if parse_target(board.target).arch == "x86_64" else None)
    return replace(board, clusters=tuple(map(filled, board.clusters)), l3_bytes=l3_bytes)


@cache
def _best_of_all(
    work: Work, machines: tuple[tuple[str, Machine], ...], cores: tuple[Accelerator, ...], counts: tuple[int, ...]
) -> tuple[MacroTile, ...]:
    """The best macro-tile of each machine, all with the size of task that is best for all together.

    counts: of cores of each.
    """
    best: tuple[float, tuple[MacroTile, ...]] | None = None
    for task_rows in task_sizes(work, [machine for _, machine in machines]):
        chosen = [
            best_macro(work, machine, core, task_rows) for (_, machine), core in zip(machines, cores, strict=True)
        ]
        seconds = sum(
            cost(work, machine, core, macro).cycles / core.frequency_ghz
            for (_, machine), core, macro in zip(machines, cores, chosen, strict=True)
        )
        if best is None or seconds < LARGER_TASK_WORTH * best[0]:
            best = seconds, tuple(chosen)
    assert best is not None
    return _shared_out(work, [machine for _, machine in machines], cores, counts, best[1])


def _shared_out(
    work: Work, machines: Sequence[Machine], cores: Sequence[Accelerator], counts: Sequence[int],
    tiles: tuple[MacroTile, ...],
) -> tuple[MacroTile, ...]:  # fmt: skip
    """The same, with smaller claims or rows in parts where so many cores end the layer sooner for it."""
    spec, task_rows = work.spec, tiles[0].task_rows
    if not isinstance(spec, Conv2d | QConv2d) or sum(counts) < 2:
        return tiles
    versions = list(zip(machines, cores, tiles, strict=True))
    cycles = [cost(work, *version).cycles for version in versions]
    there = [number for number, count in enumerate(counts) if count]
    together = Cores(
        tuple(machines[number] for number in there),
        tuple(cycles[number] / cores[number].frequency_ghz for number in there),
        tuple(counts[number] for number in there),
    )
    if work.by_channels:
        claim, parts = panels_claimed(work, task_rows, together)
        whole = parts == 1 and claim == task_rows
        return tiles if whole else tuple(replace(macro, claim_rows=claim, parts=parts) for macro in tiles)
    panels = panels_of_a_part(work, together)
    if panels >= spec.panels:
        return tiles
    cut = [in_parts(work, *version, panels * spec.lanes) for version in versions]
    if None in cut:
        return tiles
    return tuple(replace(macro, parts=-(-spec.panels // panels)) for macro in cut if macro is not None)


def in_parts(work: Work, machine: Machine, core: Accelerator, macro: MacroTile, channels: int) -> MacroTile | None:
    """The macro-tile of a version whose rows are cut into parts of so many channels; None where it would be slower.

    All parts pass over a block of rows one after the other, as all channels do, so there are no other blocks of
    channels: a macro-tile that has them gives way to the best one that has not.
    """
    if macro.out_channels:
        whole = best_macro(work, machine, core, macro.task_rows, work.layer.oc)
        if cost(work, machine, core, whole).cycles > PARTS_WORTH * cost(work, machine, core, macro).cycles:
            return None
        macro = replace(whole, order=Order.ROWS)
    return replace(macro, out_channels=channels)


def task_sizes(work: Work, machines: Sequence[Machine]) -> tuple[int, ...]:
    """Rows of work that a task may have, the smallest first: worth a thread's while, whole chunks of channels."""
    spec = work.spec
    least = least_task_rows(spec)
    if work.by_channels and work.packed:
        chunks = [registers(work, m, MacroTile(), work.layer.oc).channels for m in machines]
        chunk = lcm(*(max(1, channels // work.panel) for channels in chunks))
        least = min(spec.rows, -(-least // chunk) * chunk)
    sizes = [least]
    while 2 * sizes[-1] * LEAST_TASKS <= spec.rows:
        sizes.append(2 * sizes[-1])
    return tuple(sizes)


def best_macro(work: Work, machine: Machine, core: Accelerator, task_rows: int, channels: int = 0) -> MacroTile:
    """The cheapest macro-tile for tasks of so many rows, by the model; the plain one where none is much cheaper.

    channels: of a block; 0: any number.
    """
    plain = replace(plain_tile(work, task_rows), out_channels=channels)
    limit = WORTH[machine.arch] * cost(work, machine, core, plain).cycles
    best = plain
    for macro in candidates(work, machine, core, plain):
        cycles = cost(work, machine, core, macro).cycles
        if cycles < limit:
            best, limit = macro, cycles
    return best


def plain_tile(work: Work, task_rows: int) -> MacroTile:
    """What the emitter takes where it is told nothing."""
    spec = work.spec
    lanes = work.panel if work.packed else 0
    if isinstance(spec, Conv2d):
        macro = plain_macro(spec)
        rows = 0 if macro.rows >= work.task(task_rows).oh else macro.rows
        return replace(macro, rows=rows, pack_lanes=lanes, task_rows=task_rows)
    return MacroTile(order=Order.CHANNELS if work.packed else Order.ROWS, pack_lanes=lanes, task_rows=task_rows)


def candidates(work: Work, machine: Machine, core: Accelerator, plain: MacroTile) -> Iterator[MacroTile]:
    """All macro-tiles that are looked at beside the plain one."""
    task = work.task(plain.task_rows)
    for register, k_block, rows, channels, prefetch in product(
        register_widths(work, machine, task.oc),
        k_blocks(work, machine, core),
        row_blocks(work, task.oh),
        (plain.out_channels,) if plain.out_channels else channel_blocks(work, machine, core, task.oc),
        (0, PREFETCH_BYTES) if work.packed else (0,),
    ):
        for order in tuple(Order) if rows and channels else (plain.order,):
            macro = replace(
                plain, rows=rows, out_channels=channels, k_block=k_block, order=order, prefetch_bytes=prefetch,
                tile_channels=register,
            )  # fmt: skip
            if not prefetch or asks_once(work, machine, macro):
                yield macro


def register_widths(work: Work, machine: Machine, channels: int) -> tuple[int, ...]:
    """0, what the emitter chooses; and a panel, where it chooses more and weights are passed over once.

    A tile of fewer channels has more pixels, and reads the fewer weights for each multiply-add: 3x3 layers at 14x14 and
    13x13, 1x1 at 7x7 take 0.95 to 1.02 of the time on a Zen 3. With a residual wider tiles are the faster ones.
    """
    if not (known(work.spec, machine) and work.by_channels) or work.residual:
        return (0,)
    return (0, work.panel) if registers(work, machine, MacroTile(), channels).channels > work.panel else (0,)


def asks_once(work: Work, machine: Machine, macro: MacroTile) -> bool:
    """Whether a prefetch is of lines that are not asked for again: its tiles share them, or panels are long.

    Where the distance is more than half a panel each register tile would ask for the same lines of another panel again,
    and take level 1 from its own: a product of 64 x 64 x 64 with its weights in level 2 then has two thirds of its
    speed.
    """
    panel_bytes = work.terms * work.panel * work.layer.items.weight
    return panel_bytes >= 2 * PREFETCH_BYTES or shares(work.spec, machine, pass_of(work, machine, macro))


def k_blocks(work: Work, machine: Machine, core: Accelerator) -> tuple[int, ...]:
    """0, and blocks of terms that divide the sum evenly, the largest whose weights stay in level 1 among them."""
    layer, found = work.layer, [0]
    if not work.sums:
        return (0,)
    chunk = registers(work, machine, MacroTile(), layer.oc).channels
    free = core.levels[0].shared_bytes * L1_SHARE / 2
    row = layer.ic * layer.kw
    even = [row * n for n in range(1, layer.kh) if layer.kh % n == 0]
    even += [layer.ic * n for n in range(1, layer.kw) if layer.kw % n == 0]
    even += [layer.ic // n for n in range(1, 65) if layer.ic % n == 0]
    for terms in sorted({t for t in even if LEAST_TERMS <= t < work.terms}, reverse=True):
        if work.terms / terms <= MOST_BLOCKS_OF_TERMS and chunk * terms * layer.items.weight <= free:
            found.append(terms)
    return tuple(found[:3])


def row_blocks(work: Work, rows: int) -> tuple[int, ...]:
    """0, and powers of two below the rows of a task. Products cut their rows by themselves."""
    if not isinstance(work.spec, Conv2d) and not work.packed:
        return (0,)
    found, n = [0], 1
    while n < rows:
        found.append(n)
        n *= 2
    return tuple(found)


def channel_blocks(work: Work, machine: Machine, core: Accelerator, channels: int) -> tuple[int, ...]:
    """0, a chunk of a register tile, and as many whole chunks as stay in level 2."""
    chunk = registers(work, machine, MacroTile(), channels).channels
    step = lcm(chunk, work.panel) if work.packed else chunk
    level = core.levels[1] if len(core.levels) > 1 else core.levels[0]
    fitting = int(level.shared_bytes * L2_SHARE) // (work.terms * work.layer.items.weight) // step * step
    return tuple(dict.fromkeys((0, *(n for n in (step, 4 * step, fitting) if 0 < n < channels))))
