"""The verb `mavcg simulate`: run a function in an emulator and time it on a model of a core with its caches."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.cli.core_timing import core_timing
from mavcg.cli.output import Progress, console, note, print_json
from mavcg.cli.shared_options import JsonEverything, Latencies
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
        typer.Option(
            "--per-layer", help="Simulate a run of a model library on one thread, layer by layer; needs --board."
        ),
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
            help="The function's arguments in order: buf:BYTES[+OFFSET] (a buffer), ptrs:COUNTxBYTES (an array of "
            "pointers to buffers), i:NUMBER (an integer), f:NUMBER (a float), d:NUMBER (a double). Buffers are filled "
            "with random f32 numbers from -4 to 4, or with zeroes if =0 follows, and begin at multiples of 4,096.",
        ),
    ] = "",
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="[NAME=]X.npy",
            help="With --per-layer: an input of the model, in order or by name. Otherwise: the contents of the next "
            "buffer of --args. Default: random f32 numbers from -4 to 4. May be repeated.",
        ),
    ] = None,
    board: Annotated[
        str | None, typer.Option(metavar="B", help="Board that has the core, and whose caches, clock and memory count.")
    ] = None,
    warm: Annotated[
        int,
        typer.Option(
            min=0, max=1000, help="Number of calls before the one that is timed; 0: cold caches and branch predictor."
        ),
    ] = 1,
    sharing: Annotated[
        int,
        typer.Option(min=1, max=64, help="Number of cores that run the same code at once, sharing caches and memory."),
    ] = 1,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Stop after this number of instructions; default 1e9, with --per-layer 2e11.",
        ),
    ] = None,
    settings: Latencies = None,
    as_json: JsonEverything = False,
) -> None:
    """Simulate a call of a function: cycles, causes of lost cycles, cache hits and misses.

    The code runs in an emulator. Each instruction is timed by the facts that `mavcg estimate` uses, and by models of
    the caches, the branch predictor, and the store buffer or the out-of-order window. Unknown facts are assumed, and
    the report names them. The figures are simulated, not measured. Calls to functions in the file are followed; memcpy
    and similar functions of other libraries are executed at a stated cost.

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

    simulated_core, timing = core_timing(core, settings or ())
    simulated_board = load_board(board) if board is not None else None
    if per_layer:
        _refuse_beside_per_layer({"--function": function, "--args": arguments, "--sharing": sharing > 1})
        if simulated_board is None:
            raise MavcgError("--per-layer: needs a --board, for the sizes of caches and the clock; name one")
        if whole and samples is not None:
            raise MavcgError("--samples: nothing is sampled with --whole; leave one of them out")
        units = None if whole else samples or UNITS
        _simulate_model(source, simulated_core, timing, simulated_board, warm, limit, units, inputs or (), as_json)
        return
    for option, value in {"--whole": whole, "--samples": samples is not None}.items():
        if value:
            raise MavcgError(f"{option}: is about a model's layers; give it with --per-layer, or leave it out")
    if function is None:
        raise MavcgError(
            f"{source}: name a --function; or give --per-layer, for a library that `mavcg build` made from a model"
        )
    contents = read_buffers(inputs) if inputs else ()
    with Progress() as progress:
        simulation = simulate_call(
            source, function, arguments, simulated_core, timing, simulated_board, warm=warm, sharing=sharing,
            limit=limit or INSTRUCTION_LIMIT, contents=contents, progress=progress,
        )  # fmt: skip
    if as_json:
        print_json(simulation_json(simulation))
        return
    _show(simulation)


def _refuse_beside_per_layer(options: dict[str, object]) -> None:
    """Raise MavcgError if an option for calls of one function is given. options: values by option."""
    for option, value in options.items():
        if value:
            raise MavcgError(f"{option}: is for calls of one function; it has no effect with --per-layer: leave it out")


def _simulate_model(
    source: Path, core: "Core", timing: "Timing", board: "Board", warm: int, limit: int | None,
    units: int | None, inputs: Sequence[str], as_json: bool,
) -> None:  # fmt: skip
    """Simulate a run of a model library and print a table of its layers.

    Args:
        units: number of samples in a long layer; None to time all instructions.
        inputs: values of --input; none for random f32 numbers from -4 to 4.
    """
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
    out.print(f"{report['ipc']} instructions per cycle; {report['milliseconds']} ms at {simulation.figures.ghz} GHz")
    for text, why in counts.unmodelled.items():
        note(f"`{text}` is timed as a default instruction: {why}")
    for sentence in simulation.figures.assumed:
        note(sentence)
