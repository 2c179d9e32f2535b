"""The cores of a board as models: facts of board and core files, and what is assumed where both lack one.

A model is one core of a cluster; the other working cores reduce its share of the caches and the bandwidth.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mavcg.errors import MavcgError, ProfileError
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.board import HOST, Board, Cluster
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.core_model import AssumedFact, BoardModel, CoreModel, no_cores
from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64, X86, CostFit, TypicalCore, core_kind
from mavcg.hardware.issue_rates import IssueRates, timing_rates, x86_rates
from mavcg.hardware.machine import Machine
from mavcg.hardware.timing import MissingFact, Timing
from mavcg.profiles.core_files import read_core
from mavcg.profiles.cost_fits import all_cores_fit, fit_of_kind
from mavcg.profiles.folders import files
from mavcg.profiles.timing import load_timing
from mavcg.runtime.machines import machines_for, with_half
from mavcg.specs.kernel import F32_BYTES
from mavcg.toolchain.target import Target, parse_target

CACHES = ("caches.l1d_bytes", "caches.l2_bytes")  # facts of a core's file
RATE_KEYS = ("fma_per_cycle", "vector_per_cycle", "loads_per_cycle", "stores_per_cycle", "width")  # of IssueRates
ALL_RATES = "all rates"
TYPICAL_CORES = 4  # cores of a type, if no board is given

# Names of the kinds of cores in sentences about assumed facts.
KIND_NAMES = {IN_ORDER: "in-order", OUT_OF_ORDER_AARCH64: "out-of-order AArch64", X86: "x86"}


def core_models(board: Board, cores: int = 1) -> tuple[CoreModel, ...]:
    """Return a core of each cluster of the board, with `cores` working cores, or all of the cluster's if fewer.

    Raises: MavcgError for a board without clusters, and as core_model.
    """
    if not board.clusters:
        raise MavcgError(no_cores(board))
    return tuple(
        core_model(board, number, min(cores, len(cluster.cpus))) for number, cluster in enumerate(board.clusters)
    )


def board_model(cores: Sequence[Core], target: Target, board: Board | None) -> BoardModel:
    """Return the model of the cores that a library is built for: it has a version for each of these, and a generic one.

    board: None for typical cores. Raises: MavcgError for an x86 core without AVX2 and FMA.
    """
    labels = (GENERIC, *(core.name for core in cores))
    return BoardModel(
        known := board or _typical_board(labels, target),
        target,
        board is not None,
        cores_of(labels, target, board),
        cores_each(labels, board),
        core_models(known) if known.clusters else (),
        tuple(core_model(known, number, len(cluster.cpus)) for number, cluster in enumerate(known.clusters)),
    )


def with_half_arithmetic(model: BoardModel) -> BoardModel:
    """Return the model of the same cores with versions of kernels that compute in f16 (runtime/machines.py)."""

    def half(core: CoreModel) -> CoreModel:
        return replace(core, machine=with_half(core.machine))

    return replace(
        model,
        versions={label: half(core) for label, core in model.versions.items()},
        clusters=tuple(map(half, model.clusters)),
        teams=tuple(map(half, model.teams)),
    )


def with_rate(model: BoardModel, core_name: str, key: str, factor: float) -> BoardModel:
    """Return the model of the same cores, of which one type issues instructions at another rate.

    key: of RATE_KEYS, or ALL_RATES for all of them. factor: of the core's own rate. The rate of all vector arithmetic
    is never below that of multiply-adds.
    """
    keys = RATE_KEYS if key == ALL_RATES else (key,)

    def with_rates(core: CoreModel) -> CoreModel:
        if core.core is None or core.core.name != core_name:
            return core
        rates = replace(core.rates, **{name: factor * getattr(core.rates, name) for name in keys})
        return replace(core, rates=replace(rates, vector_per_cycle=max(rates.vector_per_cycle, rates.fma_per_cycle)))

    return replace(
        model,
        versions={label: with_rates(core) for label, core in model.versions.items()},
        clusters=tuple(map(with_rates, model.clusters)),
        teams=tuple(map(with_rates, model.teams)),
    )


def cores_of(labels: Sequence[str], target: Target, board: Board | None = None) -> dict[str, CoreModel]:
    """Return one core of each label, alone: of the board's first cluster with that core, else a typical core."""
    cores = {}
    for label in labels:
        known_cluster = next((c for c in board.clusters if c.core == label), None) if board else None
        l3_bytes = board.l3_bytes if board is not None and known_cluster is not None else None
        name = board.name if board is not None and known_cluster is not None else "typical"
        one_cluster = (known_cluster or Cluster(label, (0,)),)
        cores[label] = core_model(Board(name, "", target.zig_name, one_cluster, l3_bytes=l3_bytes), 0)
    return cores


def cores_each(labels: Sequence[str], board: Board | None) -> dict[str, int]:
    """Return the number of cores of each label: the board's, or the typical number if the board has none of them."""
    clusters = board.clusters if board is not None else ()
    counts = {label: sum(len(c.cpus) for c in clusters if c.core == label) for label in labels}
    if any(counts.values()):
        return counts
    return {label: TYPICAL_CORES if label != GENERIC or len(labels) == 1 else 0 for label in labels}


def _typical_board(labels: Sequence[str], target: Target) -> Board:
    """Return a board of one core of each version."""
    cores = [label for label in labels if label != GENERIC] or [GENERIC]
    return Board("typical", "", target.zig_name, tuple(Cluster(core, (n,)) for n, core in enumerate(cores)))


def core_model(board: Board, number: int, cores: int = 1, elsewhere: int = 0) -> CoreModel:
    """Return one core of cluster `number`, while `cores` cores of it and `elsewhere` cores of other clusters work.

    Cores share their L2 as the board states, and L3 and memory equally among all working cores. A level whose share is
    no larger than the nearer level's is left out. Multiply-adds per cycle are those measured on the board, else those
    of the core's file, else typical ones. Raises: MavcgError for more cores than the cluster has, and for an x86 core
    without AVX2 and FMA.
    """
    cluster = board.clusters[number]
    location = f"{board.name}: clusters[{number}] ({cluster.core})"
    if not 1 <= cores <= len(cluster.cpus) or elsewhere < 0:
        raise MavcgError(f"{location}: {cores} cores at work and {elsewhere} elsewhere; give 1 to {len(cluster.cpus)}")
    path = files("cores").get(cluster.core)
    core = None if path is None else read_core(path)
    target = parse_target(board.target)
    kind = core_kind(target.arch, in_order=core is not None and core.order == "in")
    fit = fit_of_kind(kind)
    typical = fit.typical
    notes: list[str] = []
    missing: list[AssumedFact] = []

    def known_or_assumed(key: str, value: float | None, otherwise: float, unit: str, because: str = "") -> float:
        if value is not None:
            return value
        missing.append(AssumedFact(None if "all cores" in unit else number, key, otherwise, unit))
        because = because or f"typical of {KIND_NAMES[kind]} cores"
        notes.append(f"{location}: {key} is not known: {otherwise:g} {unit} assumed, {because}; {_remedy(board, key)}")
        return otherwise

    if core is None:
        remedy = "add its file (docs/add-a-core.md)"
        notes.append(f"{location}: is not a known core, so a typical core of its kind is assumed; {remedy}")
    machine = machines_for(() if core is None else (core,), target)[GENERIC if core is None else core.name]
    lanes = machine.vector_bytes // F32_BYTES
    fma = cluster.fma_per_cycle or _fma_per_cycle(core, lanes)
    fma = known_or_assumed("fma_per_cycle", fma, typical.fma_per_cycle, "vector multiply-adds a cycle")
    ghz = known_or_assumed("max_khz", cluster.max_khz, typical.ghz * 1e6, "kHz") / 1e6
    own_caches = {fact.key: int(fact.value) for fact in (core.facts if core else ()) if fact.key in CACHES}
    l1d_bytes, l2_bytes = (own_caches.get(key) for key in CACHES)
    cached = replace(
        cluster,
        l1d_bytes=cluster.l1d_bytes or l1d_bytes,
        l2_bytes=cluster.l2_bytes if cluster.l2_bytes is not None else l2_bytes,  # 0: it has none
    )
    levels = _levels(board, cached, cores, elsewhere, typical, ghz, known_or_assumed)
    timing, rates, assumed_rates = _rates(machine, core, fit)
    rates = replace(rates, fma_per_cycle=fma, vector_per_cycle=max(rates.vector_per_cycle, fma))
    return CoreModel(
        machine,
        cluster,
        number,
        fit,
        ghz,
        macs_per_cycle(lanes, fma),
        levels,
        rates,
        core,
        timing,
        cores,
        tuple(notes),
        assumed_rates,
        tuple(missing),
    )


def _rates(machine: Machine, core: Core | None, fit: CostFit) -> tuple[Timing | None, IssueRates, tuple[str, ...]]:
    """Return a core's timing, its instructions per cycle, and a sentence for each unknown rate."""
    if machine.arch == "x86_64":
        return None, *x86_rates(core, fit.typical_rates, fit.typical.miss_cycles)
    if core is None:
        return None, fit.typical_rates, (f"{machine.name}: no facts; a typical core's rates are assumed",)
    try:
        timing = load_timing(core)
        return timing, timing_rates(timing, fit.typical.miss_cycles), ()
    except (MissingFact, ProfileError) as error:
        return None, fit.typical_rates, (f"{error}; rates of a typical core are assumed",)


def _levels(
    board: Board,
    cluster: Cluster,
    cores: int,
    elsewhere: int,
    typical: TypicalCore,
    ghz: float,
    known: Callable[..., float],
) -> tuple[MemoryLevel, ...]:
    working = cores + elsewhere
    l1 = int(known("l1d_bytes", cluster.l1d_bytes, typical.l1d_bytes, "bytes"))
    l2 = int(known("l2_bytes", cluster.l2_bytes, typical.l2_bytes, "bytes"))
    sharing = int(known("l2_cores", cluster.l2_cores, 1, "core sharing each L2")) if l2 else 1
    alike = [c.memory_gb_per_s for c in board.clusters if c.core == cluster.core and c.memory_gb_per_s is not None]
    otherwise, because = (min(alike), "as another cluster has") if alike else (typical.memory_gb_per_s, "")
    alone = known("memory_gb_per_s", cluster.memory_gb_per_s, otherwise, "GB/s of one core", because)
    from_memory = alone
    filling = all_cores_fit().memory.cores_that_fill
    if working > 1 or board.memory_gb_per_s is not None:
        fastest = max([alone, *(c.memory_gb_per_s for c in board.clusters if c.memory_gb_per_s is not None)])
        everything = known(
            "memory_gb_per_s",
            board.memory_gb_per_s,
            filling * fastest,
            "GB/s of all cores together",
            f"{filling} times the fastest core",
        )
        from_memory = min(alone, everything / working)
    # A cache is at least as fast as the level behind it.
    sizes, rates, behind = [("L1", l1), ("L2", l2 // min(cores, sharing))], [from_memory], alone
    shared_l3 = board.l3_bytes
    if cluster.l3_bytes is None and not shared_l3 and typical.l3_bytes:
        shared_l3 = int(known("l3_bytes", None, typical.l3_bytes, "bytes for all cores"))
    if cluster.l3_bytes is not None or shared_l3 is not None:
        l3 = cluster.l3_bytes // cores if cluster.l3_bytes is not None else (shared_l3 or 0) // working
        sizes.append(("L3", l3))
        l3_gb_per_s = max(typical.l3_bytes_per_cycle * ghz, behind)
        behind = known("l3_gb_per_s", cluster.l3_gb_per_s, l3_gb_per_s, "GB/s")
        rates.insert(0, behind)
    if l2:
        l2_gb_per_s = max(typical.l2_bytes_per_cycle * ghz, behind)
        rates.insert(0, known("l2_gb_per_s", cluster.l2_gb_per_s, l2_gb_per_s, "GB/s"))
    else:
        del sizes[1]  # level 1 is filled from the level that would be behind level 2
    levels: list[MemoryLevel] = []
    for (name, size), behind in zip(sizes, rates, strict=True):
        if levels and size <= levels[-1].shared_bytes:
            nearer = levels.pop()  # no larger than the nearer level, so that level is filled from behind this one
            name, size, behind = nearer.name, nearer.shared_bytes, min(behind, nearer.bandwidth_gb_per_s)
        levels.append(MemoryLevel(name, behind, shared_bytes=size))
    return tuple(levels)


def _remedy(board: Board, key: str) -> str:
    if board.name == HOST:
        return "give it in a file for MAVCG_HOST_FACTS"
    if key == "fma_per_cycle":
        return "add the timing of its multiply-add to the core's file"
    return f"add {key} to boards/{board.name}.toml"


def _fma_per_cycle(core: Core | None, lanes: int) -> float | None:
    """Return the core's vector multiply-adds per cycle by its own facts; None if it has none."""
    if core is None:
        return None
    if core.arch == "x86_64":
        vector = {8: "ymm", 16: "zmm"}[lanes]
        key = f"instr.vfmadd231ps {vector}.throughput"
        throughput = next((fact.value for fact in core.facts if fact.key == key), None)
        return float(throughput) if isinstance(throughput, int | float) else None
    try:
        return load_timing(core).of("fmla_q").per_cycle
    except (MissingFact, ProfileError):
        return None


def macs_per_cycle(lanes: int, fma_per_cycle: float) -> int:
    """Return the multiply-accumulates per cycle: of whole vectors, or of part of one below one vector per cycle."""
    return max(1, round(lanes * fma_per_cycle)) if fma_per_cycle < 1 else lanes * round(fma_per_cycle)
