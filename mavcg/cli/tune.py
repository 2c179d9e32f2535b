"""`mavcg tune`: measure what the selection of a network's primitives needs, keep it, and carry it elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.cli.output import Progress, console, note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.kernel import Machine
    from mavcg.primitive import Primitive
    from mavcg.selection.cost_db import CostDb
    from mavcg.selection.tuning import Plan, Tuned

INTERRUPTED = 130  # as shells report Ctrl-C


def tune(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help="An .onnx or .tflite file, or vgg16, resnet50, alexnet, squeezenet, yolov2."
        ),
    ] = None,
    board: Annotated[str, typer.Option(metavar="B", help="Where to measure: `host`, this machine.")] = "host",
    db: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The database of costs; without: the one in MAVCG_CACHE.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Do not measure again what is in the database.")] = False,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Then write all costs as JSON, to be carried on.")
    ] = None,
    import_: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="First take in costs that --export wrote.")
    ] = None,
    family: Annotated[str | None, typer.Option(metavar="F", help="Primitives of this family alone.")] = None,
    limit_seconds: Annotated[
        float | None, typer.Option(metavar="S", min=0, help="Begin no measurement after so many seconds.")
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option(metavar="NAME=1x3x224x224", help="Of a model's input with free dimensions.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as JSON.")] = False,
) -> None:
    """Measure primitives and conversions between layouts for a network's convolutions, one thread, warm caches.

    Each different convolution is measured once, by those primitives that the model does not take for 4 times as slow as
    the best. Every figure is kept at once: Ctrl-C loses nothing, and --resume goes on from there.

    \b
    mavcg tune mobilenet_v2.onnx --board host
    mavcg tune vgg16 --resume --limit-seconds 600
    mavcg tune --export costs.json
    mavcg tune --import board-costs.json --db costs.sqlite --json
    """
    from mavcg.selection.cost_db import default_path, open_db

    if model is None:
        _refuse_without_model(board, resume, family, limit_seconds, shape)
        if export is None and import_ is None:
            raise MavcgError("tune: no MODEL; name an .onnx or .tflite file or a built-in network, or --export FILE")
    elif board != "host":
        raise MavcgError(
            f"--board {board}: only `host` can be measured from here; run `mavcg tune` on the board with --export "
            "FILE, and bring the file here by --import"
        )
    document: dict[str, Any] = {}
    with open_db(db or default_path()) as database:
        document["db"] = str(database.path)
        if import_ is not None:
            document["imported"] = database.import_file(import_)
            note(f"{document['imported']} costs imported from {import_}")
        tuned = None
        if model is not None:
            tuned = _tune(model, shape or [], family, database, resume, limit_seconds, document, as_json)
        if export is not None:
            document["exported"] = database.export(export)
            note(f"{document['exported']} costs in {export}")
    if as_json:
        print_json(document)
    if tuned is not None and tuned.stopped == "interrupt":
        raise typer.Exit(INTERRUPTED)


def _refuse_without_model(
    board: str, resume: bool, family: str | None, limit_seconds: float | None, shape: list[str] | None
) -> None:
    given = {"--resume": resume, "--family": family, "--limit-seconds": limit_seconds is not None, "--shape": shape}
    given["--board"] = board != "host"
    for option, value in given.items():
        if value:
            raise MavcgError(f"tune {option}: is for measuring a MODEL; name one, or leave it out")


def _tune(
    model: str, shapes: list[str], family: str | None, database: "CostDb", resume: bool, limit_s: float | None,
    document: dict[str, Any], quiet: bool,
) -> "Tuned":  # fmt: skip
    from mavcg.host import measured_host_board
    from mavcg.model_request import parse_shapes
    from mavcg.planner.board_machine import cluster_machines
    from mavcg.primitive_run import find_machine
    from mavcg.select_network import read_network
    from mavcg.selection.modelled import modelled_costs
    from mavcg.selection.tuning import plan_of, tune_plan

    primitives, network = _primitives(family), read_network(model, parse_shapes(shapes))
    machine = find_machine("host")
    cluster = cluster_machines(measured_host_board())[0]
    plan = plan_of(network, primitives, modelled_costs(cluster))
    for words in (*cluster.assumed, *plan.left_out):
        note(words)
    note(
        f"{len(plan.scenarios)} convolutions, {len(plan.sizes)} sizes of images: {len(plan.jobs)} measurements, "
        f"{plan.pruned} left out by the model"
    )
    with Progress() as progress:
        tuned = tune_plan(
            plan, database, machine, resume=resume, limit_s=limit_s,
            progress=lambda done, total, job: progress(f"of {total}: {job.name}"),
        )  # fmt: skip
    if tuned.left:
        why = "stopped" if tuned.stopped == "interrupt" else "time is up"
        note(f"{why}: {tuned.left} measurements are left; `mavcg tune` with --resume goes on")
    document.update(_document(model, machine, plan, tuned, database, primitives))
    if not quiet:
        _show(document)
    return tuned


def _primitives(family: str | None) -> "list[Primitive]":
    from mavcg.kernels.primitives.registry import all_primitives

    known = all_primitives()
    families = list(dict.fromkeys(primitive.family for primitive in known))
    if family is not None and family not in families:
        raise MavcgError(f"--family {family}: there is none of this name; there are {', '.join(families)}")
    return [primitive for primitive in known if family in (None, primitive.family)]


def _document(
    model: str, machine: "Machine", plan: "Plan", tuned: "Tuned", database: "CostDb", primitives: "list[Primitive]"
) -> dict[str, Any]:
    from dataclasses import asdict

    from mavcg.primitive_check import block_of
    from mavcg.selection.cost_db import compiler_version
    from mavcg.selection.tuning import fastest, scenario_text

    costs = database.provider(machine.name, 1, block_of(machine))
    return {
        "model": model,
        "board": "host",
        "core": machine.name,
        "threads": 1,
        "compiler": compiler_version(),
        "convolutions": len(plan.scenarios),
        "sizes": len(plan.sizes),
        "measured": len(tuned.measured),
        "already": tuned.already,
        "pruned": plan.pruned,
        "left": tuned.left,
        "stopped": tuned.stopped,
        "seconds": tuned.seconds,
        "fastest": [
            {"scenario": scenario_text(scenario), "primitive": name, "macs": scenario.macs, **asdict(cost)}
            for scenario, name, cost in fastest(plan, costs, primitives)
        ],
        "costs": [{"what": job.name, "predicted_ms": job.predicted_ms, **asdict(cost)} for job, cost in tuned.measured],
    }


def _show(document: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(
        "C,H,W,stride,K,M,pad,groups", "fastest by itself", "ms", "GMAC/s", "is", title=f"On {document['core']}"
    )
    for each in document["fastest"]:
        rate = each["macs"] / each["ms"] / 1e6 if each["ms"] else 0.0
        table.add_row(each["scenario"], each["primitive"], f"{each['ms']:.3f}", f"{rate:.1f}", each["kind"])
    out = console()
    out.print(table)
    out.print(
        f"{document['measured']} measured in {document['seconds']:.0f} s, {document['already']} known already, "
        f"{document['pruned']} left out by the model, {document['left']} left to do: {document['db']}"
    )
