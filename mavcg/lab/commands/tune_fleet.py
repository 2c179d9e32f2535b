"""Measure a network on the boards of a fleet, for `mavcg tune --runner fleet:FILE`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.console.output import Progress, console, note, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mavcg.choose.algorithms.costs.database import CostDb
    from mavcg.choose.algorithms.network import Network
    from mavcg.lab.commands.tune_options import TuneOptions
    from mavcg.lab.fleet.fleet_file import Fleet
    from mavcg.specs.primitive import Primitive


PREFIX = "fleet:"


def is_fleet(runner: str) -> bool:
    """True if the value of --runner names a fleet's file."""
    return runner.startswith(PREFIX)


def open_fleet(runner: str, board: str | None, insecure: bool = False) -> "Fleet":
    """Return the fleet that the value of --runner names.

    board: keep only boards of this type. insecure: allow plain TCP to a scheduler on another machine. Raises:
    MavcgError.
    """
    from mavcg.lab.fleet.fleet_file import of_type, read_fleet

    fleet = read_fleet(Path(runner.removeprefix(PREFIX)), insecure)
    return fleet if board is None else of_type(fleet, board)


def tune_on_fleet(
    fleet: "Fleet",
    model: str,
    network: "Network",
    primitives: "Sequence[Primitive]",
    options: "TuneOptions",
    database: "CostDb",
) -> dict[str, Any]:
    """Measure the costs of a network on a fleet, and return the document of --json. Raises: MavcgError."""
    from mavcg.lab.fleet.report import fleet_document
    from mavcg.lab.fleet.tune_fleet import FleetRequest, tune_fleet

    cores = tuple(options.core or ())
    request = FleetRequest(
        network, primitives, cores, options.threads, database.path, options.resume, options.limit_seconds
    )
    with Progress() as progress:
        tuned, interrupted = tune_fleet(fleet, request, progress, note)
    document = fleet_document(fleet, model, tuned, interrupted, database, primitives)
    note_measurements_left(document)
    return document


def check_fleet(fleet: "Fleet", as_json: bool) -> None:
    """Print what each board of a fleet reports about itself. Raises: MavcgError if its scheduler is not reached."""
    from mavcg.lab.fleet.hosts import fleet_facts, open_hosts
    from mavcg.lab.fleet.report import check_document, show_check

    with open_hosts(fleet) as hosts:
        document = check_document(fleet, fleet_facts(fleet, hosts))
    if as_json:
        print_json(document)
    else:
        show_check(document, console())


def show_fleet(document: dict[str, Any]) -> None:
    """Print a table with a row for each board of a fleet."""
    from mavcg.lab.fleet.report import show_boards

    show_boards(document, console())


def note_measurements_left(document: dict[str, Any]) -> None:
    """Print a note if measurements are left, since the time was up or the user stopped them."""
    if document["left"] or document["undecided"]:
        note(
            f"{why_stopped(document)}: {document['left']} measurements are left, and {document['undecided']} "
            "convolutions to be measured by interleaved measurement; `mavcg tune` with --resume continues"
        )


def why_stopped(document: dict[str, Any]) -> str:
    """Return why a run of `mavcg tune` ended before all measurements were made."""
    return "stopped" if document["stopped"] == "interrupt" else "time is up"
