"""The verb `mavcg tune`: measure the costs for the selection of a network's primitives, keep and export them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.cli.output import Progress, console, note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.selection.costs.database import CostDb
    from mavcg.selection.network import Network
    from mavcg.specs.primitive import Primitive

INTERRUPTED = 130  # as shells report Ctrl-C
HOST, LOCAL, SIMULATE = "host", "local", "simulate"


def tune(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="An .onnx, .tflite or .prototxt file, or vgg16, resnet50, alexnet, squeezenet, yolov2.",
        ),
    ] = None,
    board: Annotated[str, typer.Option(metavar="B", help="The board to measure; `host`: this machine.")] = HOST,
    runner: Annotated[
        str,
        typer.Option(
            metavar="R",
            help="How to reach the board: local, ssh:user@host[:port], adb or adb:SERIAL; fleet:FILE: several; "
            "simulate: without it.",
        ),
    ] = LOCAL,
    core: Annotated[
        list[str] | None,
        typer.Option(metavar="CORE", help="Core type of the board, may be repeated; default: all of them."),
    ] = None,
    threads: Annotated[
        int, typer.Option(metavar="N", min=1, help="Measure with N threads, each on a CPU of its own of that core.")
    ] = 1,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only print what the machine reports about itself, and what to change first."),
    ] = False,
    db: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The database of costs; default: the one in MAVCG_CACHE.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Do not measure again what is in the database.")] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="At the end, write all costs as JSON, for another machine."),
    ] = None,
    import_: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="First import costs that --export wrote.")
    ] = None,
    family: Annotated[str | None, typer.Option(metavar="F", help="Only primitives of this family.")] = None,
    foreign: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=PATH]",
            help="Also measure the sgemm of a library here: openblas, or a CBLAS by its path.",
        ),
    ] = None,
    limit_seconds: Annotated[
        float | None, typer.Option(metavar="S", min=0, help="Start no measurement after this many seconds.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=1x3x224x224", help="Shape of a model's input with free dimensions."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Measure primitives and conversions between layouts for a network's convolutions, warm and cold.

    Each different convolution is measured once on each core, by those primitives that the model does not take for 4
    times as slow as the best. A small program does it, bound to a CPU: here, over ssh, or over adb; nothing else is
    needed on the board, and nothing is left there. Then those of each convolution that may be the fastest are measured
    by interleaved measurement with the engine's default, until it is clear which are faster. Every figure is kept at
    once:
    Ctrl-C loses nothing, and --resume goes on from there.

    `--runner simulate` needs no board: its Arm cores are simulated, each figure in about a second and marked as
    simulated. Measured and imported figures go before it.

    \b
    mavcg tune mobilenet_v2.onnx
    mavcg tune vgg16 --resume --limit-seconds 600 --threads 2
    mavcg tune --runner ssh:pi@10.0.0.7 --board rk3588 --check
    mavcg tune mobilenet_v2.onnx --board rk3588 --runner ssh:pi@10.0.0.7 --export rk3588.json
    mavcg tune squeezenet --board exynos9820 --runner adb --core cortex-a55
    mavcg tune resnet50.onnx --runner fleet:fleet.toml --db costs.sqlite
    mavcg tune mobilenet_v2.onnx --board exynos9820 --runner simulate --core cortex-a55
    mavcg tune squeezenet --foreign openblas --resume
    mavcg tune --import rk3588.json --db costs.sqlite --json
    """
    from mavcg.selection.costs.database import default_path, open_db

    given: dict[str, object]
    if model is None:
        given = {"--resume": resume, "--family": family, "--limit-seconds": limit_seconds is not None, "--shape": shape,
                 "--core": core, "--threads": threads != 1, "--foreign": foreign}  # fmt: skip
        if not check:
            given |= {"--board": board != HOST, "--runner": runner != LOCAL}
        _refuse(given, "is for measuring a MODEL; name one, or leave it out")
        if export is None and import_ is None and not check:
            raise MavcgError(
                "tune: no MODEL; name an .onnx, .tflite or .prototxt file or a built-in network, or --export FILE"
            )
    if check:
        given = {"MODEL": model, "--db": db, "--resume": resume, "--export": export, "--import": import_,
                 "--family": family, "--limit-seconds": limit_seconds is not None, "--shape": shape,
                 "--core": core, "--threads": threads != 1, "--foreign": foreign}  # fmt: skip
        _refuse(given, "has no effect with --check; leave one of them out")
        _check(board, runner, as_json)
        return
    document: dict[str, Any] = {}
    with open_db(db or default_path()) as database:
        document["db"] = str(database.path)
        if import_ is not None:
            document["imported"] = database.import_file(import_)
            note(f"{document['imported']} costs imported from {import_}")
        if model is not None:
            document |= _tune(
                model,
                shape or [],
                family,
                board,
                runner,
                core or [],
                threads,
                database,
                resume,
                limit_seconds,
                foreign or [],
            )
        if export is not None:
            document["exported"] = database.export(export)
            note(f"{document['exported']} costs in {export}")
    if as_json:
        print_json(document)
    elif model is not None:
        _show(document)
    if document.get("stopped") == "interrupt":
        raise typer.Exit(INTERRUPTED)


def _refuse(given: dict[str, object], why: str) -> None:
    for option, value in given.items():
        if value:
            raise MavcgError(f"tune {option}: {why}")


def _tune(
    model: str, shapes: list[str], family: str | None, board_name: str, where: str, cores: list[str], threads: int,
    database: "CostDb", resume: bool, limit_s: float | None, foreign: list[str],
) -> dict[str, Any]:  # fmt: skip
    from mavcg.cli.tune_fleet import is_fleet, open_fleet, tune_on_fleet
    from mavcg.model_pipeline.sizes import parse_shapes
    from mavcg.runners.core_cpus import differences, hints
    from mavcg.runners.open import open_runner
    from mavcg.runners.tune_network import board_cores, board_of, tune_network, tuned_document
    from mavcg.selection.select_network import read_network

    if where == SIMULATE:
        _refuse(
            {"--threads": threads != 1, "--foreign": foreign}, f"--runner {SIMULATE} has one thread of our own code"
        )
    primitives = [*_primitives(family), *_foreign_primitives(foreign, board_name, where)]
    network = read_network(model, parse_shapes(shapes))
    if where == SIMULATE:
        return _simulate(model, network, primitives, board_name, cores, database, resume, limit_s)
    if is_fleet(where):
        fleet = open_fleet(where, None if board_name == HOST else board_name)
        return tune_on_fleet(fleet, model, network, primitives, cores, threads, database, resume, limit_s)
    board = board_of(board_name, where)
    with open_runner(where) as runner:
        facts = runner.facts()
        tunable, warnings = board_cores(board, cores, runner.name, facts, threads)
        mismatches = differences(facts, board) if board_name != HOST else ()
        for words in (*warnings, *(f"{runner.name}: {each}" for each in (*mismatches, *hints(facts)))):
            note(words)
        with Progress() as progress:
            done = tune_network(
                network, primitives, board, tunable, runner, facts, database, resume=resume, limit_s=limit_s, note=note,
                progress=lambda number, total, words: progress(f"{number} of {total}: {words}"),
            )  # fmt: skip
    document = tuned_document(model, board_name, where, done, database, primitives)
    if document["left"] or document["undecided"]:
        why = "stopped" if document["stopped"] == "interrupt" else "time is up"
        note(
            f"{why}: {document['left']} measurements are left, and {document['undecided']} convolutions to be measured "
            "by interleaved measurement; `mavcg tune` with --resume goes on"
        )
    return document


def _simulate(
    model: str, network: "Network", primitives: "list[Primitive]", board_name: str, cores: list[str],
    database: "CostDb", resume: bool, limit_s: float | None,
) -> dict[str, Any]:  # fmt: skip
    from mavcg.hosts.host import find_board
    from mavcg.runners.simulated_tuning import simulated_cores, tune_simulated
    from mavcg.runners.tune_network import tuned_document
    from mavcg.toolchain.codegen import default_workers

    if board_name == HOST:
        raise MavcgError(f"--runner {SIMULATE}: its board is not named; name it by --board (`mavcg cores` lists them)")
    board = find_board(board_name)
    with Progress() as progress:
        done = tune_simulated(
            network, primitives, board, simulated_cores(board, cores), database, resume=resume, limit_s=limit_s,
            workers=default_workers(), note=note,
            progress=lambda number, total, words: progress(f"{number} of {total}: {words}"),
        )  # fmt: skip
    document = tuned_document(model, board_name, SIMULATE, done, database, primitives)
    if document["left"]:
        why = "stopped" if document["stopped"] == "interrupt" else "time is up"
        note(f"{why}: {document['left']} primitives are left; `mavcg tune` with --resume goes on")
    return document


def _check(board_name: str, where: str, as_json: bool) -> None:
    from mavcg.cli.tune_fleet import check_fleet, is_fleet, open_fleet
    from mavcg.hosts.host import find_board
    from mavcg.runners.open import open_runner
    from mavcg.runners.tune_network import facts_document

    if where == SIMULATE:
        raise MavcgError(f"tune --check: --runner {SIMULATE} has no machine to look at; leave one of them out")
    if is_fleet(where):
        check_fleet(open_fleet(where, None if board_name == HOST else board_name), as_json)
        return

    with open_runner(where) as runner:
        facts = runner.facts()
    board = None if board_name == HOST else find_board(board_name)
    document = facts_document(where, facts, board)
    if as_json:
        print_json(document)
    else:
        _show_facts(document)
    for words in (*document["differences"], *document["hints"]):
        note(f"{where}: {words}")


def _primitives(family: str | None) -> "list[Primitive]":
    from mavcg.kernels.primitives.registry import all_primitives, eight_bit_primitives

    known = (*all_primitives(), *eight_bit_primitives())
    families = list(dict.fromkeys(primitive.family for primitive in known))
    if family is not None and family not in families:
        raise MavcgError(f"--family {family}: there is none of this name; there are {', '.join(families)}")
    return [primitive for primitive in known if family in (None, primitive.family)]


def _foreign_primitives(foreign: list[str], board_name: str, where: str) -> "tuple[Primitive, ...]":
    from mavcg.hosts.foreign_library import find_foreign
    from mavcg.selection.foreign import check_host, primitives_of

    libraries = tuple(map(find_foreign, foreign))
    check_host(libraries, board_name if where == LOCAL else where)
    return primitives_of(libraries)


def _show(document: dict[str, Any]) -> None:
    if "types" in document:
        from mavcg.cli.tune_fleet import show_fleet

        for of_type in document["types"]:
            _show_cores(of_type, str(document["db"]), f"{of_type['type']}: ")
        show_fleet(document)
    else:
        _show_cores(document, str(document["db"]), "")


def _show_cores(document: dict[str, Any], database: str, prefix: str) -> None:
    from rich.table import Table

    from mavcg.hardware.cpu_list import cpus_text

    out = console()
    for each in document["cores"]:
        where = ", ".join(filter(None, (each["core"], cpus_text(each["cpus"]))))
        headings = ("C,H,W,stride,K,M,pad,groups", "fastest by itself", "ms", "GMAC/s", "is")
        table = Table(*headings, title=f"{prefix}On {where}")
        for row in each["fastest"]:
            rate = row["macs"] / row["ms"] / 1e6 if row["ms"] else 0.0
            table.add_row(row["scenario"], row["primitive"], f"{row['ms']:.3f}", f"{rate:.1f}", row["kind"])
        out.print(table)
        failed = f", {len(each['failed'])} cannot be measured" if each["failed"] else ""
        simulated = document.get("runner") == SIMULATE
        interleaved = (
            ""
            if simulated
            else f"; the fastest of {each['in_turns']} convolutions by interleaved measurement, "
            f"{each['undecided']} undecided"
        )
        out.print(
            f"{each['measured']} {'simulated' if simulated else 'measured'} in {each['seconds']:.0f} s, "
            f"{each['already']} known already, {each['pruned']} left out by the model, {each['left']} left to do"
            f"{failed}{interleaved}: {database}"
        )


def _show_facts(document: dict[str, Any]) -> None:
    from rich.table import Table

    from mavcg.hardware.cpu_list import cpu_ranges

    groups: dict[tuple[object, ...], list[int]] = {}
    for cpu in document["cpus"]:
        what = "switched off" if not cpu["online"] else "" if cpu["allowed"] else "not allowed"
        clock = ["" if cpu[key] is None else f"{cpu[key] / 1e6:.2f}" for key in ("khz", "limit_khz", "most_khz")]
        row = (cpu["core"] or "generic", cpu["how"], *clock, cpu["governor"], what)
        groups.setdefault(row, []).append(cpu["cpu"])
    columns = ("CPUs", "core", "how it is known", "GHz now", "may", "can", "governor", "")
    table = Table(*columns, title=" ".join(w for w in (document["runner"], document["model"], document["system"]) if w))
    for row, cpus in groups.items():
        table.add_row(cpu_ranges(cpus), *map(str, row))
    out = console()
    out.print(table)
    room = [
        f"{document[key] / 1e9:.1f} GB {words}"
        for key, words in (("memory_bytes", "of memory available"), ("free_bytes", "free for temporary files"))
        if document[key] is not None
    ]
    heat = [f"{zone} {celsius:.0f}" for zone, celsius in document["celsius"].items()]
    out.print("; ".join([*room, *([f"degrees: {', '.join(heat)}"] if heat else [])]))
