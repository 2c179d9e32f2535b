"""A board: the clusters of a processor, from profiles/boards/<name>.toml."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cluster:
    """Cores of one type that share a clock: `cpus` are Linux CPU numbers; max_khz is absent when no source gave it."""

    core: str
    cpus: tuple[int, ...]
    max_khz: int | None = None


@dataclass(frozen=True)
class Board:
    """name: file stem; soc: the marketing name; target: the target triple a library for it is built for."""

    name: str
    soc: str
    target: str
    clusters: tuple[Cluster, ...]
    sources: tuple[tuple[str, str], ...] = ()

    @property
    def cores(self) -> tuple[str, ...]:
        """Core types on the board, in the order of the clusters, each once."""
        return tuple(dict.fromkeys(cluster.core for cluster in self.clusters))

    def core_of_cpu(self, cpu: int) -> str | None:
        """Core type of a Linux CPU number, or None when the board has no such CPU."""
        return next((c.core for c in self.clusters if cpu in c.cpus), None)
