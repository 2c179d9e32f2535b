"""The verb `mavcg simulate`: a call of a function, run in an emulator and timed on a core with its caches."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.cli.core_timing import SET_HELP, core_timing
from mavcg.cli.output import Progress, console, note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.hardware.board import Board
    from mavcg.hardware.core import Core
    from mavcg.hardware.timing import Timing
    from mavcg.simulate.simulation import Simulation


def simulate(
    source: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="AArch64 assembly, object, library or program that holds the function."),
    ],
    core: Annotated[str, typer.Option(metavar="CORE", help="The core to simulate; `mavcg cores` lists them.")],
    function: Annotated[str | None, typer.Option(metavar="F", help="The function to call.")] = None,
    per_layer: Annotated[
        bool,
        typer.Option("--per-layer", help="For a model library, with --board: a whole run on one thread, by layer."),
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="With --per-layer: time every instruction instead of sampling long layers.")
    ] = False,
    samples: Annotated[
        int | None,
        typer.Option(
            min=2, max=10_000, metavar="N", help="With --per-layer: number of samples in a long layer; default 24."
        ),
    ] = None,
    arguments: Annotated[
        str,
        typer.Option(
            "--args",
            metavar="WORDS",
            help="Its arguments in order: buf:BYTES[+OFFSET], ptrs:COUNTxBYTES, i:NUMBER, f:NUMBER, d:NUMBER; =0 "
            "behind a buffer fills it with zeroes, else moderate f32 numbers do. Buffers begin at multiples of 4,096.",
        ),
    ] = "",
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="[NAME=]X.npy",
            help="With --per-layer: an input of the model, in order or by name. Else: what the next buffer of --args "
            "holds. Without it, moderate numbers.",
        ),
    ] = None,
    board: Annotated[
        str | None, typer.Option(metavar="B", help="A board that has the core: its caches, clock and memory.")
    ] = None,
    warm: Annotated[
        int, typer.Option(min=0, max=1000, help="Calls before the counted one; 0: cold caches and predictor.")
    ] = 1,
    sharing: Annotated[
        int, typer.Option(min=1, max=64, help="Cores that run the same at the same time and share caches and memory.")
    ] = 1,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Stop a call after this many instructions; default 1e9, with --per-layer 2e11.",
        ),
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="A->B=N", help=SET_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Simulate a call of a function: cycles, what they are lost to, cache hits and misses.

    The code runs in an emulator, instruction by instruction; each is timed by the facts that `mavcg estimate` has, and
    by caches, a branch predictor, a store buffer or a window beside them. Facts that are not known are assumed, and
    the report says which. The figures are a model's, not measured. Calls to functions of the file are followed; memcpy
    and its like of other libraries are done at a stated cost.

    \b
    mavcg simulate kernel.S --function axpy --core cortex-a55 --args "buf:4096 buf:4096 i:1024 f:2"
    mavcg simulate libapp.so --function blur --core cortex-a75 --board exynos9820 --args "buf:65536+64 buf:65536 i:128"
    mavcg simulate kernel.o --function copy --core cortex-a76 --args "buf:1000000 buf:1000000 i:1000000" --warm 0 --json
    mavcg simulate libnet.so --board exynos9820 --core cortex-a55 --per-layer
    mavcg simulate libnet.so --board exynos9820 --core cortex-a55 --per-layer --input x=x.npy
    mavcg simulate libnet.so --board exynos9820 --core cortex-a75 --per-layer --whole --json
    """
    from mavcg.cli.input_arrays import read_buffers
    from mavcg.profiles.load import load_board
    from mavcg.simulate.run import INSTRUCTION_LIMIT
    from mavcg.simulate.sampling import UNITS
    from mavcg.simulate.simulation import simulate as simulate_call
    from mavcg.simulate.simulation import simulation_json

    kind, timing = core_timing(core, settings or ())
    place = load_board(board) if board is not None else None
    if per_layer:
        _refuse_beside_per_layer({"--function": function, "--args": arguments, "--sharing": sharing > 1})
        if place is None:
            raise MavcgError("--per-layer: name the --board whose caches and clock the model has")
        if whole and samples is not None:
            raise MavcgError("--samples: nothing is sampled with --whole; leave one of them out")
        units = None if whole else samples or UNITS
        _simulate_model(source, kind, timing, place, warm, limit, units, inputs or (), as_json)
        return
    for option, value in {"--whole": whole, "--samples": samples is not None}.items():
        if value:
            raise MavcgError(f"{option}: is about the layers of a model: give it with --per-layer, or leave it out")
    if function is None:
        raise MavcgError(
            f"{source}: name a --function; or --per-layer, for a library that `mavcg build` made of a model"
        )
    contents = read_buffers(inputs) if inputs else ()
    with Progress() as progress:
        simulation = simulate_call(
            source, function, arguments, kind, timing, place, warm=warm, sharing=sharing,
            limit=limit or INSTRUCTION_LIMIT, contents=contents, progress=progress,
        )  # fmt: skip
    if as_json:
        print_json(simulation_json(simulation))
        return
    _show(simulation)


def _refuse_beside_per_layer(given: dict[str, object]) -> None:
    """Refuse options of single calls. Raises: MavcgError."""
    for option, value in given.items():
        if value:
            raise MavcgError(
                f"{option}: is for the call of one function; it has no meaning beside --per-layer: leave it out"
            )


def _simulate_model(
    source: Path, core: "Core", timing: "Timing", board: "Board", warm: int, limit: int | None,
    units: int | None, inputs: Sequence[str], as_json: bool,
) -> None:  # fmt: skip
    """units: of a layer that are timed; None: all. inputs: values of --input; none: moderate numbers."""
    from rich.table import Table

    from mavcg.cli.input_arrays import read_input_arrays
    from mavcg.simulate.model_run import MODEL_INSTRUCTION_LIMIT, model_json, simulate_model
    from mavcg.simulate.sampling import SamplePlan

    plan = None if units is None else SamplePlan(units=units)
    with Progress() as progress:
        simulation = simulate_model(
            source, core, timing, board, warm, limit or MODEL_INSTRUCTION_LIMIT, plan, progress,
            (lambda names: read_input_arrays(names, inputs)) if inputs else None,
        )  # fmt: skip
    report = model_json(simulation)
    if as_json:
        print_json(report)
        return
    table = Table("layer", "operator", title=f"{source} on one {core.name} of {board.name} (simulated, not measured)")
    for heading in ("cycles", "standard error", "ms", "share"):
        table.add_column(heading, justify="right")

    def row(name: str, op: str, cycles: int, error: int | None, ms: float, share: str) -> None:
        by_sampling = f"{100 * error / cycles:.2f} %" if error and cycles else ""
        table.add_row(name, op, f"{cycles:,}", by_sampling, f"{ms:.3f}", share)

    for layer in report["layers"]:
        share = f"{100 * layer['cycles'] / report['cycles']:.1f} %" if report["cycles"] else ""
        row(layer["name"], layer["op"], layer["cycles"], layer["standard_error_cycles"], layer["milliseconds"], share)
    sampling = report["sampling"]
    row("all", "", report["cycles"], sampling["standard_error_cycles"], report["milliseconds"], "")
    console().print(table)
    if not sampling["whole"]:
        note(
            f"sampled: {sampling['timed_instructions']:,} of {report['instructions']:,} instructions were timed; "
            f"standard errors are of the sampling alone; --whole times all"
        )
        if any(layer["standard_error_cycles"] is None for layer in report["layers"]):
            note("layers alternate by bands of rows: standard errors of single layers are not known, that of all is")
    for sentence in simulation.figures.assumed:
        note(sentence)


def _show(simulation: "Simulation") -> None:
    from rich.table import Table

    from mavcg.simulate.simulation import simulation_json

    report, counts = simulation_json(simulation), simulation.counts
    title = f"{simulation.file}: {simulation.function} on {simulation.core} (simulated, not measured)"
    table = Table("", "count", "of all cycles", title=title)
    table.columns[1].justify = table.columns[2].justify = "right"

    def row(name: str, count: int, share: bool = False) -> None:
        part = f"{100 * count / counts.cycles:.1f} %" if share and counts.cycles else ""
        table.add_row(name, f"{count:,}", part)

    row("cycles", counts.cycles)
    row("instructions", counts.instructions)
    for cause, cycles in sorted(counts.stalls.items(), key=lambda item: -item[1]):
        row(f"cycles lost to: {cause}", cycles, share=True)
    for level, numbers in report["caches"].items():
        row(f"{level} hits", numbers["hits"])
        row(f"{level} misses", numbers["misses"])
    row("branches mispredicted", counts.mispredicts)
    row("unaligned accesses", counts.unaligned)
    for name, calls in counts.callees.items():
        row(f"calls of {name}", calls)
    out = console()
    out.print(table)
    out.print(f"{report['ipc']} instructions a cycle; {report['milliseconds']} ms at {simulation.figures.ghz} GHz")
    for text, why in counts.unmodelled.items():
        note(f"`{text}` is timed as a default instruction: {why}")
    for sentence in simulation.figures.assumed:
        note(sentence)
