"""A board: the clusters of a processor, read from profiles/boards/<name>.toml."""

from dataclasses import dataclass

HOST = "host"  # name of this machine as a board; mavcg/hosts knows its facts


@dataclass(frozen=True)
class Cluster:
    """Cores of one type that share a clock. Facts without a source are None.

    cpus: Linux CPU numbers. max_khz: highest clock. l1d_bytes: level-1 data cache of one core. l2_bytes: one level-2
    cache, which l2_cores cores (not hardware threads) share; 0 if the cores have none, and level 3 follows level 1.
    l3_bytes: level-3 cache that only this cluster has. l2_gb_per_s, l3_gb_per_s, memory_gb_per_s: traffic of one core
    alone to and from the level-2 cache, the level-3 cache and the memory, in 10^9 bytes per second; a byte that is
    copied counts twice. fma_per_cycle: f32 vector multiply-adds of one core per cycle, if measured on this board;
    otherwise the core's file has it. caches: facts of this chip's caches that replace those of the core's file: (key,
    value), with keys as in the file's [caches].
    """

    core: str
    cpus: tuple[int, ...]
    max_khz: int | None = None
    l1d_bytes: int | None = None
    l2_bytes: int | None = None
    l2_cores: int | None = None
    l2_gb_per_s: float | None = None
    l3_gb_per_s: float | None = None
    memory_gb_per_s: float | None = None
    fma_per_cycle: float | None = None
    l3_bytes: int | None = None
    caches: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Board:
    """A board with its clusters.

    name: stem of its file. soc: marketing name of the processor. target: target triple of its libraries. l3_bytes:
    cache that all clusters share; None if there is none or its size is unknown. memory_gb_per_s: traffic of all cores
    together to and from off-chip memory, in 10^9 bytes per second. battery: True if a battery usually powers the board,
    so that threads of its libraries spin for a shorter time.
    """

    name: str
    soc: str
    target: str
    clusters: tuple[Cluster, ...]
    sources: tuple[tuple[str, str], ...] = ()
    l3_bytes: int | None = None
    memory_gb_per_s: float | None = None
    battery: bool = False

    @property
    def cores(self) -> tuple[str, ...]:
        """Return the core types on the board, each once, in the order of the clusters."""
        return tuple(dict.fromkeys(cluster.core for cluster in self.clusters))

    def core_of_cpu(self, cpu: int) -> str | None:
        """Return the core type of a Linux CPU number; None if the board has no such CPU."""
        return next((c.core for c in self.clusters if cpu in c.cpus), None)
