"""A board's clusters as machines of the planner: known facts of the cores and caches, and assumed ones.

The machine is one core of a cluster; the other working cores reduce its share of the caches and the bandwidth.
    lanes of an f32 vector           columns of the array, along OC: a vector of packed weights is output channels
    vector multiply-adds per cycle   rows of the array, along OW: each pipe computes another pixel of the output row
    the clock                        frequency
    L1, L2, L3                       levels, each one memory for all operands, with the bandwidth behind it
A cycle of the array is thus a cycle of the core with every multiply-add pipe busy. The other instructions of a cycle,
in which in-order cores differ, are the pipeline model's concern.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mavcg.errors import MavcgError, ProfileError
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64, X86, CostFit, TypicalCore
from mavcg.hardware.fits import all_cores_fit, core_kind, fit_of_kind
from mavcg.hardware.timing import MissingFact
from mavcg.kernels.machines import machines_for
from mavcg.profiles.load import files, read_core
from mavcg.profiles.timing import load_timing
from mavcg.specs.kernel import F32_BYTES
from mavcg.toolchain.target import parse_target

HOST, HOST_FACTS_VARIABLE = "host", "MAVCG_HOST_FACTS"  # as in mavcg/hosts, which is above

# Names of the kinds of cores in sentences about assumed facts.
KIND_NAMES = {IN_ORDER: "in-order", OUT_OF_ORDER_AARCH64: "out-of-order AArch64", X86: "x86"}


@dataclass(frozen=True)
class AssumedFact:
    """A fact of a board that no file gives.

    cluster: its number; None for a fact of the whole board. key: as in board files.
    """

    cluster: int | None
    key: str
    value: float
    unit: str


@dataclass(frozen=True)
class ClusterMachine:
    """One core of a cluster, while `cores` cores of the cluster work.

    core: its facts; None if the board's core has no file. fma_per_cycle: f32 vector multiply-adds per cycle. kind: of
    the core, which selects its constants. assumed: a sentence for each missing fact, with the value assumed and how to
    give the real one; every report that uses this machine shows them. missing: the same facts as values.
    """

    cluster: Cluster
    core: Core | None
    accelerator: Accelerator
    fma_per_cycle: float
    cores: int = 1
    assumed: tuple[str, ...] = ()
    kind: str = OUT_OF_ORDER_AARCH64
    missing: tuple[AssumedFact, ...] = ()

    @property
    def fit(self) -> CostFit:
        """Cost constants of the core's kind."""
        return fit_of_kind(self.kind)


def cluster_machines(board: Board, cores: int = 1) -> tuple[ClusterMachine, ...]:
    """Return a machine for each cluster of the board, with `cores` working cores, or all of the cluster's if fewer.

    Raises: MavcgError for a board without clusters, and as cluster_machine.
    """
    if not board.clusters:
        raise MavcgError(
            f"--board {board.name}: none of its cores is known, so there is no machine to plan for; "
            f"name a --board of `mavcg cores`, or an --accelerator file"
        )
    return tuple(
        cluster_machine(board, number, min(cores, len(cluster.cpus))) for number, cluster in enumerate(board.clusters)
    )


def cluster_machine(board: Board, number: int, cores: int = 1, elsewhere: int = 0) -> ClusterMachine:
    """Return one core of cluster `number`, while `cores` cores of it and `elsewhere` cores of other clusters work.

    Cores share their L2 as the board states, and L3 and memory equally among all working cores. A level whose share is
    no larger than the nearer level's is left out. Raises: MavcgError for more cores than the cluster has, and for an
    x86 core without AVX2 and FMA.
    """
    cluster = board.clusters[number]
    location = f"{board.name}: clusters[{number}] ({cluster.core})"
    if not 1 <= cores <= len(cluster.cpus) or elsewhere < 0:
        raise MavcgError(f"{location}: {cores} cores at work and {elsewhere} elsewhere; give 1 to {len(cluster.cpus)}")
    path = files("cores").get(cluster.core)
    core = None if path is None else read_core(path)
    kind = _kind(board, core)
    typical = fit_of_kind(kind).typical
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
    lanes = _vector_bytes(board, core) // F32_BYTES
    fma = cluster.fma_per_cycle or _fma_per_cycle(core, lanes)
    fma = known_or_assumed("fma_per_cycle", fma, typical.fma_per_cycle, "vector multiply-adds a cycle")
    ghz = known_or_assumed("max_khz", cluster.max_khz, typical.ghz * 1e6, "kHz") / 1e6
    levels = _levels(board, cluster, cores, elsewhere, typical, ghz, known_or_assumed)
    columns, rows = _array(lanes, fma)
    accelerator = Accelerator(
        f"{board.name}: {cluster.core}", ghz, levels, (columns, rows), (("OC",), ("OW",)), any_outputs=True
    )
    return ClusterMachine(cluster, core, accelerator, fma, cores, tuple(notes), kind, tuple(missing))


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
    if cluster.l3_bytes is not None or board.l3_bytes is not None:
        l3 = cluster.l3_bytes // cores if cluster.l3_bytes is not None else (board.l3_bytes or 0) // working
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
        return f"give it in a file for {HOST_FACTS_VARIABLE}"
    if key == "fma_per_cycle":
        return "add the timing of its multiply-add to the core's file"
    return f"add {key} to boards/{board.name}.toml"


def _kind(board: Board, core: Core | None) -> str:
    return core_kind(parse_target(board.target).arch, in_order=core is not None and core.order == "in")


def _vector_bytes(board: Board, core: Core | None) -> int:
    """Return the vector size, in bytes, of kernels for this core."""
    machines = machines_for(() if core is None else (core,), parse_target(board.target))
    return machines[GENERIC if core is None else core.name].vector_bytes


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


def _array(lanes: int, fma_per_cycle: float) -> tuple[int, int]:
    """Return (columns, rows) of the array that computes about lanes x fma_per_cycle multiply-accumulates per cycle.

    Less than one vector per cycle is modelled as a shorter vector: a core with pipes of half the width takes two
    cycles.
    """
    if fma_per_cycle < 1:
        return max(1, round(lanes * fma_per_cycle)), 1
    return lanes, round(fma_per_cycle)
