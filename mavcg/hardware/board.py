"""A board: the clusters of a processor, from profiles/boards/<name>.toml."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cluster:
    """Cores of one type that share a clock. What no source gave is None.

    cpus: Linux CPU numbers. max_khz: the highest clock. l1d_bytes: the level-1 data cache of one core.
    l2_bytes: one level-2 cache, of which l2_cores cores (not hardware threads) share each; 0: the cores have none, and
    level 3 is behind level 1. l3_bytes: the level-3 cache
    that only this cluster has.
    l2_gb_per_s, l3_gb_per_s, memory_gb_per_s: 10^9 bytes a second that one core alone moves to and from the level-2
    cache, the level-3 cache and the memory; a byte that is copied is moved twice.
    fma_per_cycle: f32 vector multiply-adds that one core does a cycle, where this machine was measured; elsewhere the
    core's own facts say it.
    caches: facts of this chip's caches in place of those of the core's file: (key, value), with keys as the file's
    [caches] has them.
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
    """name: file stem; soc: the marketing name; target: the target triple a library for it is built for.

    l3_bytes: the cache that all clusters share, or None when there is none or no source gave it.
    memory_gb_per_s: 10^9 bytes a second that all cores together move to and from the memory off the chip.
    battery: the board is usually powered by a battery: threads of its libraries poll for a shorter time.
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
        """Core types on the board, in the order of the clusters, each once."""
        return tuple(dict.fromkeys(cluster.core for cluster in self.clusters))

    def core_of_cpu(self, cpu: int) -> str | None:
        """Return the core type of a Linux CPU number, or None when the board has no such CPU."""
        return next((c.core for c in self.clusters if cpu in c.cpus), None)
