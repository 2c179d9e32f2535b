"""Measure or simulate the costs of one network, for `mavcg tune MODEL`."""

from typing import TYPE_CHECKING, Any

from mavcg.console.output import Progress, note
from mavcg.errors import MavcgError
from mavcg.lab.commands.tune_fleet import note_measurements_left, why_stopped
from mavcg.lab.commands.tune_options import HOST, LOCAL, SIMULATE, TuneOptions, refuse_options

if TYPE_CHECKING:
    from mavcg.choose.algorithms.costs.database import CostDb
    from mavcg.choose.algorithms.network import Network
    from mavcg.lab.tuning.state import RunControl
    from mavcg.specs.primitive import Primitive


def tune_model(options: TuneOptions, model: str, database: "CostDb") -> dict[str, Any]:
    """Measure the costs of a network on the machine that the options name, and return the document of --json.

    Raises: MavcgError for bad options and for a machine that is not reached or not the board.
    """
    from mavcg.kernels.primitives.registry import primitives_of_family
    from mavcg.lab.commands.tune_fleet import is_fleet, open_fleet, tune_on_fleet
    from mavcg.model.reading import read_network
    from mavcg.model.sizes import parse_shapes

    if options.runner == SIMULATE:
        refuse_options(
            {"--threads": options.threads != 1, "--foreign": options.foreign},
            f"--runner {SIMULATE} simulates one thread of mavcg's own code; leave one of the two out",
        )
    primitives = [*primitives_of_family(options.family), *_foreign_primitives(options)]
    network = read_network(model, parse_shapes(options.shape or (), options.ignore_declared_shapes))
    if options.runner == SIMULATE:
        return _simulate(options, model, network, primitives, database)
    if is_fleet(options.runner):
        fleet = open_fleet(options.runner, None if options.board == HOST else options.board, options.insecure)
        return tune_on_fleet(fleet, model, network, primitives, options, database)
    return _measure(options, model, network, primitives, database)


def _measure(
    options: TuneOptions, model: str, network: "Network", primitives: "list[Primitive]", database: "CostDb"
) -> dict[str, Any]:
    """Measure on the board behind --runner."""
    from mavcg.lab.runners.core_cpus import differences, hints
    from mavcg.lab.runners.open import open_runner
    from mavcg.lab.tuning.tune_network import board_cores, board_of, tune_network, tuned_document

    board = board_of(options.board, options.runner)
    with open_runner(options.runner) as runner:
        facts = runner.facts()
        tunable, warnings = board_cores(board, options.core or [], runner.name, facts, options.threads)
        mismatches = differences(facts, board) if options.board != HOST else ()
        for message in (*warnings, *(f"{runner.name}: {text}" for text in (*mismatches, *hints(facts)))):
            note(message)
        with Progress() as progress:
            done = tune_network(
                network,
                primitives,
                board,
                tunable,
                runner,
                facts,
                database,
                _control(options, progress),
            )
    document = tuned_document(model, options.board, options.runner, done, database, primitives)
    note_measurements_left(document)
    return document


def _simulate(
    options: TuneOptions, model: str, network: "Network", primitives: "list[Primitive]", database: "CostDb"
) -> dict[str, Any]:
    """Simulate the board's Arm cores, for --runner simulate."""
    from mavcg.hosts.host import find_board
    from mavcg.lab.tuning.simulated import simulated_cores, tune_simulated
    from mavcg.lab.tuning.tune_network import tuned_document
    from mavcg.toolchain.codegen import default_workers

    if options.board == HOST:
        raise MavcgError(f"--runner {SIMULATE}: its board is not named; name it by --board (`mavcg cores` lists them)")
    board = find_board(options.board)
    with Progress() as progress:
        done = tune_simulated(
            network,
            primitives,
            board,
            simulated_cores(board, options.core or []),
            database,
            default_workers(),
            _control(options, progress),
        )
    document = tuned_document(model, options.board, SIMULATE, done, database, primitives)
    if document["left"]:
        note(f"{why_stopped(document)}: {document['left']} primitives are left; `mavcg tune` with --resume continues")
    return document


def _foreign_primitives(options: TuneOptions) -> "tuple[Primitive, ...]":
    """Return the primitives that call the libraries of --foreign."""
    from mavcg.choose.algorithms.foreign import check_host, primitives_of
    from mavcg.hosts.foreign_library import find_foreign

    libraries = tuple(map(find_foreign, options.foreign or []))
    check_host(libraries, options.board if options.runner == LOCAL else options.runner)
    return primitives_of(libraries)


def _control(options: TuneOptions, progress: Progress) -> "RunControl":
    from mavcg.lab.tuning.state import RunControl

    def tell(number: int, total: int, label: str) -> None:
        progress(f"{number} of {total}: {label}")

    return RunControl(options.resume, options.limit_seconds, tell, note)
