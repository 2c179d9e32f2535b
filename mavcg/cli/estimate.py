"""The verb `mavcg estimate`: cycles of loops on a core, or the latency of a model on a board, by models."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.cli.core_timing import SET_HELP, core_timing
from mavcg.cli.output import Progress, console, note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.assembly.loop_estimates import BlockEstimate
    from mavcg.hardware.timing import Timing


def estimate(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="AArch64 assembly, object, library or program; or a model, or a library built of one."
        ),
    ],
    core: Annotated[
        str | None, typer.Option(metavar="CORE", help="For loops of code: the core to model; `mavcg cores` lists them.")
    ] = None,
    function: Annotated[
        str | None, typer.Option(metavar="F", help="The function; without it: all that have loops.")
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="A->B=N", help=SET_HELP)] = None,
    blocks: Annotated[bool, typer.Option("--blocks", help="Also the blocks of loops that have several.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also print every instruction, and what it waits for.")
    ] = False,
    board: Annotated[
        str | None,
        typer.Option(metavar="B", help="For models: the board; `host`: this machine, which is also measured."),
    ] = None,
    threads: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto",
            help="For models: number of threads, the fastest cores first; default 1. auto: as predicted.",
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=1x3x224x224", help="Shape of a model's input with free dimensions."),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity", help="For models: show the effect of halving and doubling each assumed fact of the board."
        ),
    ] = False,
    simulate_unsure: Annotated[
        bool,
        typer.Option(
            "--simulate-unsure",
            help="For models on AArch64 boards: simulate the layers that the model is unsure of; a second run is fast.",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="For models: draw a timeline with a lane for each cluster, as .svg or .png."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", min=1, help="Number of compilers at a time; default: one for each CPU."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Estimate cycles of loops, and what they are lost to; or a model's latency by layer, cluster and threads.

    The figures are a model's. Of loops, with --core: loads hit the first-level cache, branches are predicted
    correctly; of a
    library that mavcg built, F is the version that this core runs. Of a model or its library, with --board: cycles of
    its kernels against the bytes that they move; with `--board host` it is measured beside that.

    \b
    mavcg estimate kernel.S --core cortex-a55
    mavcg estimate libapp.so --function gemm_8x8 --core cortex-a55 --json
    mavcg estimate kernel.S --function gemm_8x8 --core cortex-a55 --set "ldr_x->ins=3"
    mavcg estimate mobilenet_v2.onnx --board exynos9820 --plot timeline.svg
    mavcg estimate libmobilenet_v2.so --board host --threads 2 --json
    mavcg estimate squeezenet.onnx --board exynos9820 --sensitivity
    mavcg estimate mobilenet_v2.onnx --board exynos9820 --simulate-unsure --json
    """
    from mavcg.predict.files import is_model_file, library_note

    model = is_model_file(source)
    if board is not None:
        _refuse("--board", "assembly and its", "--core", {
            "--core": core, "--function": function, "--set": settings, "--blocks": blocks, "--verbose": verbose
        })  # fmt: skip
        if not source.exists():
            raise MavcgError(f"{source}: is not there; name a model's file, or a library that mavcg built of one")
        if not model and library_note(source) is None:
            raise MavcgError(
                f"--board {board}: {source} is neither a model (.onnx, .tflite, .prototxt) nor a library that "
                f"mavcg built of one; of assembly, objects and other libraries name a --core"
            )
        if sensitivity:
            if plot is not None:
                raise MavcgError("--plot: draws one prediction; it has no meaning beside --sensitivity: leave one out")
            if simulate_unsure:
                raise MavcgError("--simulate-unsure: --sensitivity compares what is modelled; leave one of them out")
            _show_sensitivity(source, board, threads, shape or (), jobs, as_json)
            return
        _estimate_model(source, board, threads, shape or (), plot, jobs, as_json, simulate_unsure)
        return
    if model:
        raise MavcgError(f"{source}: is a model; name a --board, such as --board exynos9820 or --board host")
    _refuse(f"--core {core or ''}".strip(), "models, with", "--board", {
        "--threads": threads, "--shape": shape, "--plot": plot, "--jobs": jobs, "--sensitivity": sensitivity,
        "--simulate-unsure": simulate_unsure,
    })  # fmt: skip
    if core is None:
        raise MavcgError(
            f"{source}: name a --core for the cycles of its loops; or a --board, where it is a model or a library "
            f"that mavcg built of one"
        )
    _estimate_loops(source, core, function, settings, blocks, verbose, as_json)


def _refuse(chosen: str, kind: str, purpose: str, given: dict[str, object]) -> None:
    """Refuse an option that belongs to the other kind of estimate. Raises: MavcgError."""
    for option, value in given.items():
        if value:
            raise MavcgError(
                f"{option}: is for {kind} {purpose}; it has no meaning beside {chosen}: leave one of them out"
            )


def _estimate_model(
    source: Path,
    board: str,
    threads: str | None,
    shapes: Sequence[str],
    plot: Path | None,
    jobs: int | None,
    as_json: bool,
    simulate_unsure: bool,
) -> None:
    from mavcg.drawing.svg_plots import check_plot
    from mavcg.hosts.host import HOST
    from mavcg.model_pipeline.estimating import board_of, measured_ms, predict_file
    from mavcg.model_pipeline.sizes import parse_shapes
    from mavcg.predict.report import prediction_json, show_prediction
    from mavcg.predict.timeline import write_timeline
    from mavcg.toolchain.codegen import default_workers

    count = _threads(threads)
    if plot is not None:
        check_plot(plot)
    with Progress() as progress:
        estimates = predict_file(
            source, board_of(board), count, parse_shapes(shapes), jobs or default_workers(), progress, simulate_unsure
        )
        measured = measured_ms(source, estimates, shapes, progress) if board == HOST else None
    if plot is not None:
        write_timeline(estimates, measured, plot)
        note(f"{plot}: the timeline")
    if as_json:
        print_json(prediction_json(estimates, measured))
        return
    show_prediction(estimates, measured, console())


def _show_sensitivity(
    source: Path, board: str, threads: str | None, shapes: Sequence[str], jobs: int | None, as_json: bool
) -> None:
    from rich.table import Table

    from mavcg.model_pipeline.estimating import board_of
    from mavcg.model_pipeline.sensitivity import sensitivity, sensitivity_json
    from mavcg.model_pipeline.sizes import parse_shapes
    from mavcg.toolchain.codegen import default_workers

    place, workers = board_of(board), jobs or default_workers()
    with Progress() as progress:
        estimates = sensitivity(source, place, _threads(threads), parse_shapes(shapes), workers, progress=progress)
    report = sensitivity_json(estimates, place)
    if as_json:
        print_json(report)
        return
    title = f"{report['model']} on {report['board']}: {report['ms']:.3f} ms as assumed (modelled, not measured)"
    table = Table("of", "assumed fact", title=title)
    for heading in ("assumed", "taken", "ms", "ratio", "threads", "layers changed"):
        table.add_column(heading, justify="right")
    for row in report["facts"]:
        cells = [row["cluster"] or "the board", row["key"], f"{row['assumed']:g}", f"{row['value']:g}"]
        if "refused" in row:
            table.add_row(*cells, "not possible")
            continue
        changed = f"{len(row['layers_changed'])} of {report['layers']}"
        table.add_row(*cells, f"{row['ms']:.3f}", f"{row['ratio']:.3f}", str(row["fastest_threads"]), changed)
    console().print(table)
    if not report["facts"]:
        note(f"nothing is assumed of {report['board']}")


def _threads(text: str | None) -> int:
    """Parse a number of threads; 0 for auto. Raises: MavcgError."""
    if text == "auto":
        return 0
    if text is not None and (not text.isascii() or not text.isdigit() or int(text) < 1):
        raise MavcgError(f"--threads {text}: give a number of threads, 1 or more, or auto")
    return int(text or 1)


def _estimate_loops(
    source: Path,
    core: str,
    function: str | None,
    settings: list[str] | None,
    blocks: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    from mavcg.assembly.asm_input import read_asm_input
    from mavcg.assembly.loop_estimates import estimate_function, function_json, head_json, to_show

    kind, timing = core_timing(core, settings or ())
    code = read_asm_input(source, kind, [function] if function else [])
    estimates = [(f.name, estimate_function(code, f, timing)) for f in code.functions]
    if function is None:
        estimates = [(name, loops) for name, loops in estimates if loops]
    if as_json:
        functions = [function_json(name, loops) for name, loops in estimates]
        one = {"function": functions[0]["name"], "loops": functions[0]["loops"]} if function else {}
        print_json({**head_json(code.source.file, timing, settings or ()), **one, "functions": functions})
        return
    shown = [(name, to_show(loops, blocks)) for name, loops in estimates]
    if function is None and not blocks:
        small = [(name, loops) for name, loops in shown if any(loop.kind == "loop" for loop in loops)]
        if small and len(small) < len(shown):
            note(f"{len(shown) - len(small)} functions with no loop of one block are left out; --blocks shows them")
        shown = small or shown
    _show(str(source), shown, timing, settings or (), verbose)


def _show(
    file: str,
    estimates: "Sequence[tuple[str, list[BlockEstimate]]]",
    timing: "Timing",
    settings: Sequence[str],
    verbose: bool,
) -> None:
    from rich.table import Table

    from mavcg.assembly.loop_estimates import model_of

    out = console()
    assumed = f", with {', '.join(settings)}" if settings else ""
    title = f"{file} on {timing.core}, {model_of(timing)} model{assumed} (predicted, not measured)"
    table = Table("function", "loop", title=title)
    rates = [
        heading
        for heading, work in (("FLOP", "flops"), ("int OP", "int_ops"), ("MAC", "macs"))
        if any(getattr(loop.work, work) for _, loops in estimates for loop in loops)
    ]
    for heading in ("cycles", "instr.", *(f"{rate}/cycle" for rate in rates)):
        table.add_column(heading, justify="right")
    table.add_column("bound by")
    for name, loops in estimates:
        for loop in loops:
            loop_location = loop.location if loop.kind == "loop" else f"{loop.location}, {loop.kind}"
            cycles = f"{loop.estimate.cycles:.2f}" if loop.estimate else "?"
            counts = {"FLOP": loop.work.flops, "int OP": loop.work.int_ops, "MAC": loop.work.macs}
            bound = f"{loop.estimate.bound_by}: {loop.estimate.because}" if loop.estimate else loop.why
            if loop.calls:
                bound += f"; without the time in {', '.join(loop.calls)}"
            table.add_row(
                name,
                loop_location,
                cycles,
                str(loop.instructions),
                *(_rate(loop, counts[rate]) for rate in rates),
                bound,
            )
            name = ""
    if table.row_count:
        out.print(table)
    for name, loops in estimates:
        if not loops:
            out.print(f"{name}: has no loops")
        for loop in loops if verbose else ():
            _show_ops(name, loop)
    if not estimates:
        out.print(f"{file}: no function has loops")


def _show_ops(name: str, loop: "BlockEstimate") -> None:
    from rich.table import Table

    if loop.estimate is None:
        return
    table = Table(title=f"{name}, {loop.location}")
    for heading in ("cycle", "slot", "stall", "lost slots"):
        table.add_column(heading, justify="right")
    for heading in ("instruction", "class", "waits for, or busy units"):
        table.add_column(heading)
    for op in loop.estimate.ops:
        busy = ", ".join(f"{pool} {share:.2f}" for pool, share in op.pressure.items())
        cells = ["" if value is None else str(value) for value in (op.cycle, op.slot)]
        lost = [f"{value:.2f}" if value else "" for value in (op.stall_cycles, op.lost_slots)]
        table.add_row(*cells, *lost, op.op.text, op.op.op_class, "; ".join(filter(None, (op.why, busy))))
    console().print(table)


def _rate(loop: "BlockEstimate", count: int) -> str:
    rate = loop.per_cycle(count) if count else None
    return "" if rate is None else f"{rate:.2f}"
