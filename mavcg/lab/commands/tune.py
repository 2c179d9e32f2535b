"""The verb `mavcg tune`: measure the costs for the selection of a network's primitives, keep and export them."""

from typing import Any

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import console, note, print_json
from mavcg.errors import MavcgError
from mavcg.lab.commands.tune_options import HOST, LOCAL, SIMULATE, TuneOptions, refuse_options

INTERRUPTED = 130  # exit status after Ctrl-C, as shells report it


def run_tune(options: TuneOptions) -> None:
    """Measure primitives and conversions between layouts for a network's convolutions, with warm and cold caches.

    Each different convolution is measured once on each core type, with the primitives that the model does not predict
    to be over 4 times as slow as the best. A small program measures, bound to a CPU: here, over ssh, or over adb. The
    board needs nothing else, and nothing is left on it. Then, for each convolution, the primitives that may be the
    fastest are compared with the engine's default by interleaved measurement until it is clear which are faster. Every
    figure is kept at once: Ctrl-C loses nothing, and --resume continues from there.

    `--runner simulate` needs no board: it simulates the board's Arm cores, in about a second for each figure, and marks
    the figures as simulated. Measured and imported figures take precedence over them.

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
    from mavcg.choose.algorithms.costs.database_file import default_path, open_db

    if options.model is None:
        _refuse_without_model(options)
    if options.check:
        from mavcg.lab.commands.tune_check import check_machine

        _refuse_beside_check(options)
        check_machine(options.board, options.runner, options.as_json, options.insecure)
        return
    document: dict[str, Any] = {}
    with open_db(options.db or default_path()) as database:
        document["db"] = str(database.path)
        if options.import_ is not None:
            document["imported"] = database.import_file(options.import_)
            note(f"{document['imported']} costs imported from {options.import_}")
        if options.model is not None:
            from mavcg.lab.commands.tune_network import tune_model

            document |= tune_model(options, options.model, database)
        if options.export is not None:
            document["exported"] = database.export(options.export)
            note(f"{document['exported']} costs in {options.export}")
    if options.as_json:
        print_json(document)
    elif options.model is not None:
        show_costs(document)
    if document.get("stopped") == "interrupt":
        raise typer.Exit(INTERRUPTED)


tune = command_of("tune", TuneOptions, run_tune)


def _measuring_options(options: TuneOptions) -> dict[str, object]:
    """Return the options that only measurements of a model take, by name."""
    return {
        "--resume": options.resume,
        "--family": options.family,
        "--limit-seconds": options.limit_seconds is not None,
        "--shape": options.shape,
        "--core": options.core,
        "--threads": options.threads != 1,
        "--foreign": options.foreign,
        "--ignore-declared-shapes": options.ignore_declared_shapes,
    }


def _refuse_without_model(options: TuneOptions) -> None:
    """Raise MavcgError if no model is given and there is nothing else to do, or an option needs a model."""
    machine: dict[str, object] = {"--board": options.board != HOST, "--runner": options.runner != LOCAL}
    refuse_options(
        _measuring_options(options) | ({} if options.check else machine),
        "is only for the measurement of a MODEL; name a model, or leave the option out",
    )
    if options.export is None and options.import_ is None and not options.check:
        raise MavcgError(
            "tune: no MODEL; name an .onnx, .tflite or .prototxt file or a built-in network, or --export FILE"
        )


def _refuse_beside_check(options: TuneOptions) -> None:
    """Raise MavcgError if another option than those of the machine is given with --check."""
    refuse_options(
        {"MODEL": options.model, "--db": options.db, "--export": options.export, "--import": options.import_}
        | _measuring_options(options),
        "has no effect with --check; leave one of the two out",
    )


def show_costs(document: dict[str, Any]) -> None:
    """Print the fastest primitives of each core; of a fleet those of each board type, and the boards."""
    if "types" in document:
        from mavcg.lab.commands.tune_fleet import show_fleet

        for board_type in document["types"]:
            _show_cores(board_type, str(document["db"]), f"{board_type['type']}: ")
        show_fleet(document)
    else:
        _show_cores(document, str(document["db"]), "")


def _show_cores(document: dict[str, Any], database: str, prefix: str) -> None:
    from rich.table import Table

    from mavcg.hardware.cpu_list import cpus_text

    out = console()
    for core in document["cores"]:
        label = ", ".join(filter(None, (core["core"], cpus_text(core["cpus"]))))
        headings = ("C,H,W,stride,K,M,pad,groups", "fastest by itself", "ms", "GMAC/s", "is")
        table = Table(*headings, title=f"{prefix}On {label}")
        for row in core["fastest"]:
            rate = row["macs"] / row["ms"] / 1e6 if row["ms"] else 0.0
            table.add_row(row["scenario"], row["primitive"], f"{row['ms']:.3f}", f"{rate:.1f}", row["kind"])
        out.print(table)
        out.print(_summary(core, document.get("runner") == SIMULATE) + f": {database}")


def _summary(core: dict[str, Any], simulated: bool) -> str:
    """Return a sentence on what was measured on a core, and what is left."""
    failed = f", {len(core['failed'])} cannot be measured" if core["failed"] else ""
    interleaved = (
        ""
        if simulated
        else f"; the fastest of {core['in_turns']} convolutions by interleaved measurement, "
        f"{core['undecided']} undecided"
    )
    return (
        f"{core['measured']} {'simulated' if simulated else 'measured'} in {core['seconds']:.0f} s, "
        f"{core['already']} known already, {core['pruned']} left out by the model, {core['left']} left to do"
        f"{failed}{interleaved}"
    )
