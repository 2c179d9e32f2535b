"""Checks what app.toml asks of a library, before anything is built."""

from itertools import combinations

from mavcg.apps.application_file import ApplicationFile, NetworkEntry
from mavcg.errors import MavcgError


def check_buildable(file: ApplicationFile) -> None:
    """Raise MavcgError naming the line of a setting that a library cannot be built with."""
    for entry in file.networks:
        location = f"{file.path}: line {entry.line}: network '{entry.name}'"
        if entry.schedules:
            raise MavcgError(
                f"{entry.schedule_place}: a library runs layers in an order of its own; leave schedule out, and "
                "give memory for layers by parts"
            )
        if entry.precision != "fp32":
            raise MavcgError(
                f"{location}: precision = '{entry.precision}': a library computes in the types of the model's file; "
                f"leave precision out, or give a file in {entry.precision}"
            )


def parallel_pairs(file: ApplicationFile) -> frozenset[frozenset[int]]:
    """Return the pairs of networks, by number, that may run at the same time.

    A partition, NETWORK.0 and on, stands for its network: nothing says how far the others of a pipeline are.
    Raises: MavcgError for unknown names.
    """
    numbers = [{_number(file, name) for name in group} for group in file.parallel]
    return frozenset(frozenset(pair) for group in numbers for pair in combinations(sorted(group), 2))


def _number(file: ApplicationFile, name: str) -> int:
    """Return the number of the network that a name, or that of one of its partitions, is of."""
    for number, entry in enumerate(file.networks):
        if name == entry.name or (entry.partitions and _is_partition(name, entry)):
            return number
    names = ", ".join(entry.name for entry in file.networks)
    raise MavcgError(f"{file.path}: parallel: '{name}' is no network; there are {names}")


def _is_partition(name: str, entry: NetworkEntry) -> bool:
    network, _, number = name.rpartition(".")
    return network == entry.name and number.isascii() and number.isdigit()
