"""The cores of a board on which threads run, for the costs of a selection."""

from collections import Counter
from collections.abc import Sequence

from mavcg.cost.board_model import core_model, core_models
from mavcg.errors import MavcgError
from mavcg.hardware.board import HOST, Board
from mavcg.hardware.core_model import CoreModel
from mavcg.hosts.host import find_board, measured_host_board


def board_of(name: str) -> Board:
    """Return a board by name; `host` is this machine, measured. Raises: MavcgError for an unknown name."""
    return measured_host_board() if name == HOST else find_board(name)


def by_speed(board: Board) -> list[int]:
    """Return the numbers of the clusters, fastest cores first. Raises: MavcgError for a board without clusters."""
    machines = core_models(board)
    return sorted(range(len(machines)), key=lambda n: (-machines[n].peak_gmac_per_s, n))


def workers_of(board: Board, core: str = "", threads: int = 1) -> tuple[CoreModel, ...]:
    """Return a machine for each thread, fastest first: the fastest cluster is filled, then the next.

    core: name of a core, or several separated by commas; others are not used. Each machine has its share of caches and
    bandwidth beside the other threads. Raises: MavcgError for a core that the board lacks, or more threads than cores.
    """
    if threads < 1:
        raise MavcgError(f"--threads {threads}: give 1 or more threads")
    order = _named_clusters(board, core) if core else by_speed(board)
    left, counts = threads, dict[int, int]()
    for number in order:
        counts[number] = min(left, len(board.clusters[number].cpus))
        left -= counts[number]
    if left:
        where = f"of {core}" if core else f"on {board.name}"
        raise MavcgError(
            f"--threads {threads}: there are only {threads - left} cores {where}; give at most as many threads"
        )
    workers: list[CoreModel] = []
    for number, count in counts.items():
        if count:
            workers += [core_model(board, number, count, threads - count)] * count
    return tuple(workers)


def _named_clusters(board: Board, names: str) -> list[int]:
    core_names = [name.strip() for name in names.split(",")]
    order = by_speed(board)
    have = [board.clusters[number].core for number in order]
    for name in core_names:
        if name not in have:
            known = ", ".join(dict.fromkeys(cluster.core for cluster in board.clusters))
            raise MavcgError(f"--core {name}: {board.name} has no such core; it has {known}")
    return [number for number in order if board.clusters[number].core in core_names]


def label_of(workers: Sequence[CoreModel]) -> str:
    """Return the key of these threads' costs.

    The core's name, or for several cores NxCORE+NxCORE, with threads per core.
    """
    counts = Counter(machine.cluster.core for machine in workers)
    if len(counts) == 1:
        return next(iter(counts))
    return "+".join(f"{count}x{core}" for core, count in counts.items())
