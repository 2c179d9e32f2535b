"""Predict the latency of a model on a board, for `mavcg estimate MODEL --board B`."""

from mavcg.cli.estimate_options import EstimateOptions
from mavcg.console.output import Progress, console, note, print_json
from mavcg.errors import MavcgError


def estimate_model(options: EstimateOptions, board: str) -> None:
    """Predict a model's latency on a board and print it; on this machine, measure it too. Raises: MavcgError."""
    from mavcg.choose.predict.report import prediction_json, show_prediction
    from mavcg.choose.predict.timeline import write_timeline
    from mavcg.drawing.svg_plots import check_plot
    from mavcg.hardware.board import HOST
    from mavcg.lab.simulate.simulated_layers import simulated_steps
    from mavcg.model.estimating import HalfOptions, board_of, board_part, measured_ms, predict_file
    from mavcg.model.sizes import parse_shapes
    from mavcg.toolchain.codegen import default_workers

    source, plot = options.source, options.plot
    shapes = parse_shapes(options.shape or (), options.ignore_declared_shapes)
    count = _parse_threads(options.threads)
    half = HalfOptions(options.precision, _stored_type(options.weights))
    if plot is not None:
        check_plot(plot)
    with Progress() as progress:
        estimates = predict_file(
            source,
            board_part(board_of(board), options.core, options.mhz),
            count,
            shapes,
            options.jobs or default_workers(),
            progress,
            simulated_steps if options.simulate_unsure else None,
            half,
        )
        measured = measured_ms(source, estimates, shapes, progress, half) if board == HOST else None
    if plot is not None:
        write_timeline(estimates, measured, plot)
        note(f"wrote the timeline to {plot}")
    if options.as_json:
        print_json(prediction_json(estimates, measured))
        return
    show_prediction(estimates, measured, console())


def show_sensitivity(options: EstimateOptions, board_name: str) -> None:
    """Print how a model's predicted latency changes if an assumed fact of the board is halved or doubled, and which
    choices change if a rate of a core is wrong by as much as the core's model errs."""
    from rich.table import Table

    from mavcg.model.core_sensitivity import core_rows
    from mavcg.model.estimating import board_of, board_part
    from mavcg.model.sensitivity import sensitivity, sensitivity_json
    from mavcg.model.sizes import parse_shapes
    from mavcg.toolchain.codegen import default_workers

    board = board_part(board_of(board_name), options.core, options.mhz)
    workers, count = options.jobs or default_workers(), _parse_threads(options.threads)
    with Progress() as progress:
        estimates = sensitivity(
            options.source,
            board,
            count,
            parse_shapes(options.shape or (), options.ignore_declared_shapes),
            workers,
            progress=progress,
        )
    report = sensitivity_json(estimates, board)
    if options.as_json:
        print_json(report)
        return
    title = f"{report['model']} on {report['board']}: {report['ms']:.3f} ms as assumed (modelled, not measured)"
    table = Table("cluster", "assumed fact", title=title)
    for heading in ("assumed", "changed to", "ms", "ratio", "threads", "layers changed"):
        table.add_column(heading, justify="right")
    for row in report["facts"]:
        cells = [row["cluster"] or "all", row["key"], f"{row['assumed']:g}", f"{row['value']:g}"]
        if "refused" in row:
            table.add_row(*cells, "not possible")
            continue
        changed = f"{len(row['layers_changed'])} of {report['layers']}"
        table.add_row(*cells, f"{row['ms']:.3f}", f"{row['ratio']:.3f}", str(row["fastest_threads"]), changed)
    console().print(table)
    if not report["facts"]:
        note(f"no fact of {report['board']} is assumed")
    if not report["core_facts"]:
        note("the choices of a library are made: name the model's file to see which change if a core's model is wrong")
        return
    table = Table("core", "rate", title="Rates of cores, changed by the error of the core's model")
    table.add_column("changed by", justify="right")
    table.add_column("layers whose choice changes")
    for core_cells in core_rows(report["core_facts"]):
        table.add_row(*core_cells)
    console().print(table)


def _stored_type(text: str | None) -> str | None:
    """Return the type that --weights names. Raises: MavcgError for another word."""
    from mavcg.model.weight_choice import STORED_TYPES

    if text is not None and text not in STORED_TYPES:
        raise MavcgError(f"--weights {text}: give {' or '.join(STORED_TYPES)}, or leave it out for f32")
    return text


def _parse_threads(text: str | None) -> int:
    """Parse a number of threads; 0 for auto. Raises: MavcgError."""
    if text == "auto":
        return 0
    if text is not None and (not text.isascii() or not text.isdigit() or int(text) < 1):
        raise MavcgError(f"--threads {text}: give a number of threads, 1 or more, or auto")
    return int(text or 1)
