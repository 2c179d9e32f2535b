"""A board's clusters as the planner's machines: what is known of the cores and caches, and what had to be assumed.

One core of a cluster is the machine; that others work beside it shows in the shares of the caches and of the bandwidth
that are left to it.

    lanes of an f32 vector           columns of the array, along OC: a vector of packed weights is output channels
    vector multiply-adds a cycle     rows of the array, along OW: each pipe does another pixel of the output row
    the clock                        frequency
    L1, L2, L3                       levels, each one memory for all operands, with the bandwidth of what is behind it

A cycle of the array is thus a cycle of the core with every multiply-add pipe at work. What else a cycle can issue
beside them, which is where in-order cores differ, is the pipeline model's to say, not this one's.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mavcg.cost_model.fits import all_cores_fit, core_kind, fit_of_kind
from mavcg.errors import MavcgError, ProfileError
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64, X86, CostFit, TypicalCore
from mavcg.hardware.target import parse_target
from mavcg.hardware.timing import MissingFact
from mavcg.lowering.machines import machines_for
from mavcg.profiles.load import files, read_core
from mavcg.profiles.timing import load_timing
from mavcg.specs.kernel import F32_BYTES

HOST, HOST_FACTS_VARIABLE = "host", "MAVCG_HOST_FACTS"  # as in mavcg/hosts, which is above

# Kinds of cores as the sentences on assumed facts name them.
KIND_NAMES = {IN_ORDER: "in-order", OUT_OF_ORDER_AARCH64: "out-of-order AArch64", X86: "x86"}


@dataclass(frozen=True)
class AssumedFact:
    """A fact of a board that no file gives. cluster: its number; None: of the board. key: as board files name it."""

    cluster: int | None
    key: str
    value: float
    unit: str


@dataclass(frozen=True)
class ClusterMachine:
    """One core of a cluster while some of them work.

    core: its facts, or None where the board names a core that has no file. fma_per_cycle: f32 vector multiply-adds that
    the core does in a cycle. cores: how many of the cluster work.
    kind: of the core, by which it has its constants.
    assumed: a sentence for each fact that was missing, with the value taken for it and how to give the real one;
    every report of what was planned or predicted with this machine shows them. missing: the same facts as values.
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
        """The constants of the core's kind."""
        return fit_of_kind(self.kind)


def cluster_machines(board: Board, cores: int = 1) -> tuple[ClusterMachine, ...]:
    """Return a machine for each cluster of the board, each with that many cores at work, or all that it has if fewer.

    Raises: MavcgError for a board without clusters, and whatever cluster_machine raises.
    """
    if not board.clusters:
        raise MavcgError(
            f"--board {board.name}: no core of it is known, so there is no machine to plan for; "
            f"name a --board of `mavcg cores`, or an --accelerator file"
        )
    return tuple(
        cluster_machine(board, number, min(cores, len(cluster.cpus))) for number, cluster in enumerate(board.clusters)
    )


def cluster_machine(board: Board, number: int, cores: int = 1, elsewhere: int = 0) -> ClusterMachine:
    """Return one core of the cluster of that number, while `cores` of the cluster and `elsewhere` of the others work.

    Cores share their L2 as the board says, the L3 and the memory with all that work, in equal parts. A level whose
    share is no larger than the one before it is left out.

    Raises: MavcgError for a number of cores that the cluster has not, and for an x86 core without AVX2 and FMA.
    """
    cluster = board.clusters[number]
    place = f"{board.name}: clusters[{number}] ({cluster.core})"
    if not 1 <= cores <= len(cluster.cpus) or elsewhere < 0:
        raise MavcgError(f"{place}: {cores} cores at work and {elsewhere} elsewhere; give 1 to {len(cluster.cpus)}")
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
        notes.append(f"{place}: {key} is not known: {otherwise:g} {unit} assumed, {because}; {_remedy(board, key)}")
        return otherwise

    if core is None:
        remedy = "add its file (docs/add-a-core.md)"
        notes.append(f"{place}: is not a known core, so a typical core of its kind is assumed; {remedy}")
    lanes = _vector_bytes(board, core) // F32_BYTES
    fma = cluster.fma_per_cycle or _fma_per_cycle(core, lanes)
    fma = known_or_assumed("fma_per_cycle", fma, typical.fma_per_cycle, "vector multiply-adds a cycle")
    ghz = known_or_assumed("max_khz", cluster.max_khz, typical.ghz * 1e6, "kHz") / 1e6
    levels = _levels(board, cluster, cores, elsewhere, typical, ghz, known_or_assumed)
    columns, rows = _array(lanes, fma)
    accelerator = Accelerator(f"{board.name}: {cluster.core}", ghz, levels, (columns, rows), (("OC",), ("OW",)))
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
    # A cache is at least as fast as what is behind it.
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
        del sizes[1]  # level 1 is filled from what is behind level 2 elsewhere
    levels: list[MemoryLevel] = []
    for (name, size), behind in zip(sizes, rates, strict=True):
        if levels and size <= levels[-1].shared_bytes:
            nearer = levels.pop()  # this level adds nothing: what is behind it is behind the nearer one
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
    """Return the bytes of the vectors that kernels for this core use."""
    machines = machines_for(() if core is None else (core,), parse_target(board.target))
    return machines[GENERIC if core is None else core.name].vector_bytes


def _fma_per_cycle(core: Core | None, lanes: int) -> float | None:
    """Return the number of vector multiply-adds that the core does a cycle by its own facts; None where it has none."""
    if core is None:
        return None
    if core.arch == "x86_64":
        vector = {8: "ymm", 16: "zmm"}[lanes]
        key = f"instr.vfmadd231ps {vector}.throughput"
        found = next((fact.value for fact in core.facts if fact.key == key), None)
        return float(found) if isinstance(found, int | float) else None
    try:
        return load_timing(core).of("fmla_q").per_cycle
    except (MissingFact, ProfileError):
        return None


def _array(lanes: int, fma_per_cycle: float) -> tuple[int, int]:
    """Return the columns and rows that do lanes x fma_per_cycle multiply-accumulates a cycle, or the nearest whole
    number.

    Less than one vector a cycle is a shorter vector: a core with half the pipe's width takes two cycles for it.
    """
    if fma_per_cycle < 1:
        return max(1, round(lanes * fma_per_cycle)), 1
    return lanes, round(fma_per_cycle)
