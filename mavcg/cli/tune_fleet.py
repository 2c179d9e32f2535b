"""`mavcg tune --runner fleet:FILE`: a network measured on the boards of a fleet."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.cli.output import Progress, console, note, print_json

if TYPE_CHECKING:
    from mavcg.fleet.fleet_file import Fleet
    from mavcg.selection.costs.database import CostDb
    from mavcg.selection.network import Network
    from mavcg.specs.primitive import Primitive

PREFIX = "fleet:"
INTERRUPT = "interrupt"


def is_fleet(runner: str) -> bool:
    """True for a --runner that names a fleet's file."""
    return runner.startswith(PREFIX)


def open_fleet(runner: str, board: str | None) -> "Fleet":
    """Return the fleet of a --runner; board: only its boards of this type. Raises: MavcgError."""
    from mavcg.fleet.fleet_file import of_type, read_fleet

    fleet = read_fleet(Path(runner.removeprefix(PREFIX)))
    return fleet if board is None else of_type(fleet, board)


def tune_on_fleet(
    fleet: "Fleet", model: str, network: "Network", primitives: "Sequence[Primitive]", cores: Sequence[str],
    threads: int, database: "CostDb", resume: bool, limit_s: float | None,
) -> dict[str, Any]:  # fmt: skip
    """Measure, and return the document. Raises: MavcgError."""
    from mavcg.fleet.report import fleet_document
    from mavcg.fleet.tune_fleet import FleetRequest, tune_fleet

    request = FleetRequest(network, primitives, tuple(cores), threads, database.path, resume, limit_s)
    with Progress() as progress:
        tuned, interrupted = tune_fleet(fleet, request, progress, note)
    document = fleet_document(fleet, model, tuned, interrupted, database, primitives)
    if document["left"] or document["undecided"]:
        why = "stopped" if document["stopped"] == INTERRUPT else "time is up"
        note(
            f"{why}: {document['left']} measurements are left, and {document['undecided']} convolutions to be measured "
            "by interleaved measurement; `mavcg tune` with --resume goes on"
        )
    return document


def check_fleet(fleet: "Fleet", as_json: bool) -> None:
    """Print what each board of a fleet reports of itself. Raises: MavcgError where its scheduler is not reached."""
    from mavcg.fleet.report import check_document, show_check
    from mavcg.fleet.tune_fleet import fleet_facts, open_hosts

    with open_hosts(fleet) as hosts:
        document = check_document(fleet, fleet_facts(fleet, hosts))
    if as_json:
        print_json(document)
    else:
        show_check(document, console())


def show_fleet(document: dict[str, Any]) -> None:
    """Print a row for each board."""
    from mavcg.fleet.report import show_boards

    show_boards(document, console())
