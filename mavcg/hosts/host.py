"""Represent this machine as a board, so that `--board host` builds and plans for it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError
from mavcg.hardware.board import HOST, Board, Cluster
from mavcg.hardware.core import GENERIC
from mavcg.profiles.load import load_board
from mavcg.runtime.binding import detect
from mavcg.toolchain.target import host_target

if TYPE_CHECKING:
    from mavcg.hosts.facts import CoreFacts


def find_board(name: str) -> Board:
    """Return a board by name; "host" is this machine. Raises: MavcgError for an unknown name, with similar ones."""
    return host_board() if name == HOST else load_board(name)


def host_board() -> Board:
    """Return this machine as a board with a cluster for each recognised core type.

    Other CPUs run the generic version.
    """
    cpus_of: dict[str, list[int]] = {}
    for cpu in detect():
        if cpu.core:
            cpus_of.setdefault(cpu.core, []).append(cpu.cpu)
    clusters = tuple(Cluster(core, tuple(cpus)) for core, cpus in cpus_of.items())
    words = "this machine"
    return Board(HOST, words, host_target().zig_name, clusters)


def measured_host_board(again: bool = False) -> Board:
    """Return this machine as a board with its caches, clocks and bandwidths, as kept from before or measured now.

    A measurement takes a second or two. If no core is recognised, all CPUs are one cluster of "generic" cores; the
    planner states what it assumes about them.

    Args:
        again: True to measure even if figures are kept. A file that MAVCG_HOST_FACTS names is used instead of both.
    Raises: MavcgError for a faulty file, and for an x86 core without AVX2 and FMA.
    """
    from mavcg.hosts.facts import host_facts  # NumPy and LLVM, which the other boards do without

    board = host_board()
    clusters = board.clusters or (Cluster(GENERIC, tuple(cpu.cpu for cpu in detect())),)
    facts = host_facts(clusters, again)
    by_core = {core_facts.core: core_facts for core_facts in facts.clusters}
    filled = tuple(_with_facts(cluster, by_core[cluster.core]) for cluster in clusters if cluster.core in by_core)
    if len(filled) < len(clusters):
        missing = next(cluster.core for cluster in clusters if cluster.core not in by_core)
        raise MavcgError(
            f"MAVCG_HOST_FACTS: the file has no cluster of {missing}, which this machine has; it was made on another "
            f"machine: unset MAVCG_HOST_FACTS to measure this one"
        )
    return replace(board, clusters=filled, l3_bytes=facts.l3_bytes, memory_gb_per_s=facts.memory_gb_per_s)


def _with_facts(cluster: Cluster, facts: "CoreFacts") -> Cluster:
    return replace(
        cluster,
        max_khz=facts.max_khz,
        l1d_bytes=facts.l1d_bytes,
        l2_bytes=facts.l2_bytes,
        l2_cores=facts.l2_cores,
        l2_gb_per_s=facts.l2_gb_per_s,
        l3_gb_per_s=facts.l3_gb_per_s,
        memory_gb_per_s=facts.memory_gb_per_s,
        fma_per_cycle=facts.fma_per_cycle,
    )
