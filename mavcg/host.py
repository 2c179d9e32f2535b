"""This machine as a board, so that `--board host` builds for it."""

from mavcg.board import Board, Cluster
from mavcg.profiles.load import load_board
from mavcg.runtime.binding import detect
from mavcg.target import host_target

HOST = "host"


def find_board(name: str) -> Board:
    """A board by name; "host" is this machine. Raises: MavcgError for an unknown name, with the near ones."""
    return host_board() if name == HOST else load_board(name)


def host_board() -> Board:
    """This machine: a cluster for each core type that is recognised. CPUs that are not run the generic version."""
    cpus_of: dict[str, list[int]] = {}
    for found in detect():
        if found.core:
            cpus_of.setdefault(found.core, []).append(found.cpu)
    clusters = tuple(Cluster(core, tuple(cpus)) for core, cpus in cpus_of.items())
    words = "this machine"
    return Board(HOST, words, host_target().zig_name, clusters)
