"""Facts of a core that the simulator needs in addition to instruction timing: window, branches, caches, memory.

A fact comes from the board's file or the core's file; if both lack it, it is assumed as for the typical core of its
kind (profiles/fits). The report states each assumption and the key that replaces it.
"""

from dataclasses import dataclass, fields, replace

from mavcg.errors import MavcgError
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.core import Core
from mavcg.hardware.cost_fit import SimulatorFit, TypicalCore, core_kind
from mavcg.hardware.machine import LINE_BYTES
from mavcg.profiles.cost_fits import fit_of_kind

IN_ORDER, OUT_OF_ORDER = "in", "out"
# Keys of a core's file, without the sizes of caches; a missing one is assumed from [simulator] of profiles/fits.
SIMULATOR_KEYS = (
    "window.reorder_buffer",
    "window.issue_queue",
    "window.load_queue",
    "window.store_queue",
    "branches.history_bits",
    "caches.split_cycles",
    "caches.l1d_ways",
    "caches.l2_ways",
    "caches.l3_ways",
    "caches.l2_latency",
    "caches.l3_latency",
    "caches.miss_slots",
    "caches.prefetch_lines",
    "caches.far_lines",
    "caches.prefetch_pages",
    "caches.stream_lines",
    "caches.memory_ns",
)
MISPREDICT, ASSUMED, PUBLISHED = "branches.mispredict", "assumed", "published"
_OF_BOARDS = ("max_khz", "memory_gb_per_s")
CALLEE_CYCLES = 20  # cycles of a call of memcpy and similar functions, without the transfer of their bytes


@dataclass(frozen=True)
class CacheFacts:
    """A cache level.

    name: l1, l2 or l3. size: in bytes. ways: associativity. latency: cycles of a hit in addition to a hit in level 1.
    line_cycles: cycles to transfer one line from it.
    """

    name: str
    size: int
    ways: int
    latency: int
    line_cycles: float


@dataclass(frozen=True)
class SimulatedCore:
    """Facts of a core for the simulator.

    It differs from CoreModel: a cache may be slower than the level behind it, a level no larger than the nearer one
    stays, cores share the memory's bandwidth equally if the board states no total, a mispredicted branch costs what the
    core's file says, and of several clusters with the core, the board's first counts.

    reorder_buffer: micro-operations in flight. issue_queue: operations that wait before each unit; 0 for no limit.
    load_queue: loads in flight. store_queue: stores in flight; on an in-order core, entries of the store buffer.
    mispredict: cycles from the issue of a mispredicted branch to that of the next instruction. history_bits: branch
    outcomes in the predictor's history; 0 to predict by address alone. split_cycles: additional cycles of an access
    that crosses a cache line. memory_latency: in cycles. memory_line_cycles: cycles to transfer one line from memory.
    miss_slots: line fills in flight. prefetch_lines: lines that the stride prefetcher fetches ahead; 0 for none.
    far_lines: lines that it fetches ahead into the last level once a stream is long. prefetch_pages: 1 if it continues
    into the next page, else 0. stream_lines: full lines of stores after which store misses no longer allocate in
    level 1; 0 for never. assumed: a sentence for each fact that no file gives.
    """

    ghz: float
    reorder_buffer: int
    issue_queue: int
    load_queue: int
    store_queue: int
    mispredict: int
    history_bits: int
    split_cycles: int
    levels: tuple[CacheFacts, ...]
    memory_latency: int
    memory_line_cycles: float
    miss_slots: int
    prefetch_lines: int
    far_lines: int
    prefetch_pages: int
    stream_lines: int
    assumed: tuple[str, ...] = ()

    def with_ideal_memory(self) -> "SimulatedCore":
        """Return the core with a memory in which every access hits in level 1, as the analytic models assume."""
        return replace(self, levels=(), split_cycles=0, prefetch_lines=0, stream_lines=0)


class _Facts:
    """Figures of a core's file by key, with a record of the assumptions made for missing ones."""

    def __init__(self, core: Core, cluster: Cluster | None = None) -> None:
        self.core = core
        self.figures = {fact.key: fact.value for fact in core.facts}
        self.figures |= {f"caches.{key}": value for key, value in (cluster.caches if cluster else ())}
        self.assumed: list[str] = []

    def figure(self, key: str) -> float | None:
        """Return a figure of the core's file; None if missing. Raises: MavcgError if it is negative or too large."""
        value = self.figures.get(key)
        if value is None or isinstance(value, str | bool):
            return None
        if not 0 <= value < 1 << 40:
            raise MavcgError(f"cores/{self.core.name}.toml: {key}: {value} is negative or too large; correct it")
        return float(value)

    def assume(self, key: str, value: float, unit: str) -> float:
        remedy = "name a --board that has it" if key in _OF_BOARDS else f"give it in cores/{self.core.name}.toml"
        self.assumed.append(f"{key}: {value:g} {unit} assumed; {remedy}".replace("  ", " "))
        return value

    def find(self, key: str, unit: str = "") -> float:
        """Return a figure of the core's file; if missing, record and return the assumption for cores of its kind."""
        value = self.figure(key)
        return value if value is not None else self.assume(key, assumed_fact(self.core, key), unit)


@dataclass(frozen=True)
class SimulatorFact:
    """A fact of a simulated core. grade: "assumed", or "published" where the core's file has a source for it."""

    key: str
    value: float
    unit: str
    grade: str
    source: str


def simulator_facts(core: Core) -> tuple[SimulatorFact, ...]:
    """Return the facts that the simulator uses for an AArch64 core, without instruction timing and cache sizes."""
    given = {fact.key: fact for fact in core.facts}
    units = {field.name: field.metadata["unit"] for field in fields(SimulatorFit)}
    facts = []
    for key in (*SIMULATOR_KEYS, MISPREDICT):
        fact = given.get(key)
        if fact is not None and not isinstance(fact.value, str | bool):
            facts.append(SimulatorFact(key, float(fact.value), fact.unit, PUBLISHED, fact.source))
        else:
            unit = units.get(_field(key), "cycles")
            facts.append(
                SimulatorFact(key, assumed_fact(core, key), unit, ASSUMED, f"profiles/fits/{_kind(core)}.toml")
            )
    return tuple(facts)


def assumed_fact(core: Core, key: str) -> float:
    """Return the value assumed for a fact that the core's file lacks. key: one of SIMULATOR_KEYS, or MISPREDICT."""
    fit = fit_of_kind(_kind(core))
    assert fit.simulator is not None  # every kind of AArch64 core has the section
    if key == MISPREDICT:
        return fit.typical.miss_cycles
    return float(getattr(fit.simulator, _field(key)))


def _field(key: str) -> str:
    """Return the name in [simulator] of profiles/fits for a key of a core's file."""
    return key.partition(".")[2].replace("_ways", "_associativity")


def _kind(core: Core) -> str:
    return core_kind(core.arch, in_order=core.order == IN_ORDER)


def simulated_core(
    core: Core, board: Board | None = None, sharing: int = 1, cluster: Cluster | None = None
) -> SimulatedCore:
    """Return the facts of a core for the simulator.

    board: gives caches, clock and memory; None to take them from the core's file. sharing: number of cores that use the
    shared caches and the memory equally. cluster: of the board's clusters with this core; None for the first.
    Raises: MavcgError for a board without this core, and for figures that no core can have.
    """
    cluster = cluster or _cluster(core, board)
    facts = _Facts(core, cluster)
    typical = _typical(facts)
    khz = cluster.max_khz if cluster else None
    ghz = (khz if khz is not None else facts.assume("max_khz", typical.ghz * 1e6, "kHz")) / 1e6
    rate = _memory_rate(facts, cluster, board, sharing)
    miss = facts.find(MISPREDICT, "cycles")
    levels = _levels(facts, cluster, board, sharing, ghz)
    window = core.order == OUT_OF_ORDER
    return SimulatedCore(
        ghz=ghz,
        reorder_buffer=max(1, round(_in_flight(facts))) if window else 1,
        issue_queue=round(facts.find("window.issue_queue", "operations before each unit")) if window else 0,
        load_queue=max(1, round(facts.find("window.load_queue"))) if window else 1,
        store_queue=max(1, round(facts.find("window.store_queue"))),
        mispredict=round(miss),
        history_bits=min(12, round(facts.find("branches.history_bits"))),
        split_cycles=round(facts.find("caches.split_cycles")),
        levels=levels,
        memory_latency=round(facts.find("caches.memory_ns", "ns") * ghz),
        memory_line_cycles=LINE_BYTES / (rate / ghz),
        miss_slots=max(1, round(facts.find("caches.miss_slots"))),
        prefetch_lines=round(facts.find("caches.prefetch_lines", "lines")),
        far_lines=round(facts.find("caches.far_lines", "lines")),
        prefetch_pages=int(facts.find("caches.prefetch_pages") > 0),
        stream_lines=round(facts.find("caches.stream_lines", "lines")),
        assumed=tuple(facts.assumed),
    )


def _in_flight(facts: _Facts) -> float:
    """Return the maximum micro-operations in flight: measured on silicon if known, else the reorder buffer's size."""
    given = facts.figure("window.in_flight")
    return given if given is not None else facts.find("window.reorder_buffer", "micro-operations")


def _cluster(core: Core, board: Board | None) -> Cluster | None:
    if board is None:
        return None
    for cluster in board.clusters:
        if cluster.core == core.name:
            return cluster
    names = ", ".join(board.cores) or "none that is known"
    raise MavcgError(f"--core {core.name}: {board.name} has no such core; it has {names}: name one of them")


def _memory_rate(facts: _Facts, cluster: Cluster | None, board: Board | None, sharing: int) -> float:
    """Return the memory bandwidth of one of `sharing` cores, in GB/s, by the rule of board_model.core_model."""
    known = cluster.memory_gb_per_s if cluster else None
    if known is None and board is not None:
        known = min(
            (c.memory_gb_per_s for c in board.clusters if c.core == facts.core.name and c.memory_gb_per_s), default=None
        )
    alone = known if known is not None else facts.assume("memory_gb_per_s", _typical(facts).memory_gb_per_s, "GB/s")
    everything = board.memory_gb_per_s if board is not None else None
    return alone / sharing if everything is None else min(alone, everything / sharing)


def _typical(facts: _Facts) -> TypicalCore:
    return fit_of_kind(_kind(facts.core)).typical


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _levels(
    facts: _Facts, cluster: Cluster | None, board: Board | None, sharing: int, ghz: float
) -> tuple[CacheFacts, ...]:
    typical = _typical(facts)
    l1 = _first(cluster.l1d_bytes if cluster else None, facts.figure("caches.l1d_bytes"))
    l2 = _first(cluster.l2_bytes if cluster else None, facts.figure("caches.l2_bytes"))
    on_board = (cluster.l3_bytes if cluster else None, board.l3_bytes if board else None)
    l3 = _first(*on_board, facts.figure("caches.l3_bytes"))
    l1 = l1 if l1 is not None else facts.assume("caches.l1d_bytes", typical.l1d_bytes, "bytes")
    l2 = l2 if l2 is not None else facts.assume("caches.l2_bytes", typical.l2_bytes, "bytes")
    levels = [CacheFacts("l1", round(l1), round(facts.find("caches.l1d_ways")), 0, 0.0)]
    if l2:
        sharers = min(sharing, (cluster and cluster.l2_cores) or 1)
        rate = (
            cluster.l2_gb_per_s / ghz if cluster and cluster.l2_gb_per_s else facts.figure("caches.l2_bytes_per_cycle")
        )
        rate = rate or facts.assume("caches.l2_bytes_per_cycle", typical.l2_bytes_per_cycle, "bytes/cycle")
        levels.append(_level(facts, "l2", l2 / sharers, rate))
    if l3:
        rate = (
            cluster.l3_gb_per_s / ghz if cluster and cluster.l3_gb_per_s else facts.figure("caches.l3_bytes_per_cycle")
        )
        rate = rate or facts.assume("caches.l3_bytes_per_cycle", typical.l3_bytes_per_cycle, "bytes/cycle")
        levels.append(_level(facts, "l3", l3 / sharing, rate))
    for level in levels:
        if level.size < LINE_BYTES or level.ways < 1 or level.size > 1 << 30:
            raise MavcgError(
                f"core {facts.core.name}: a cache of {level.size} bytes in {level.ways} ways; correct its file"
            )
    return tuple(levels)


def _level(facts: _Facts, name: str, size: float, rate: float) -> CacheFacts:
    ways, latency = facts.find(f"caches.{name}_ways"), facts.find(f"caches.{name}_latency", "cycles beyond level 1")
    return CacheFacts(name, round(size), round(ways), round(latency), LINE_BYTES / rate)
