"""The verb `mavcg simulate`: run a function in an emulator and time it on a model of a core with its caches."""

from typing import TYPE_CHECKING, Any

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, note, print_json
from mavcg.errors import MavcgError
from mavcg.lab.commands.simulate_options import SimulateOptions
from mavcg.lab.commands.simulate_process import refuse_process_options, run_process
from mavcg.profiles.core_timing import core_timing

if TYPE_CHECKING:
    from mavcg.hardware.board import Board
    from mavcg.hardware.core import Core
    from mavcg.hardware.timing import Timing
    from mavcg.lab.simulate.simulation import Simulation


def run_simulate(options: SimulateOptions) -> None:
    """Simulate a call of a function: cycles, causes of lost cycles, cache hits and misses.

    The code runs in an emulator. Each instruction is timed by the facts that `mavcg estimate` uses, and by models of
    the caches, the branch predictor, and the store buffer or the out-of-order window. Unknown facts are assumed, and
    the report names them. The figures are simulated, not measured. Calls to functions in the file are followed; memcpy
    and similar functions of other libraries are executed at a stated cost. With --process a whole program runs, with
    its libraries and system calls, in qemu (Debian's package qemu-user).

    \b
    mavcg simulate kernel.S --function axpy --core cortex-a55 --args "buf:4096 buf:4096 i:1024 f:2"
    mavcg simulate libapp.so --function blur --core cortex-a75 --board exynos9820 --args "buf:65536+64 buf:65536 i:128"
    mavcg simulate kernel.o --function copy --core cortex-a76 --args "buf:1000000 buf:1000000 i:1000000" --warm 0 --json
    mavcg simulate libnet.so --board exynos9820 --core cortex-a55 --per-layer
    mavcg simulate libnet.so --board exynos9820 --core cortex-a55 --per-layer --input x=x.npy
    mavcg simulate libnet.so --board exynos9820 --core cortex-a75 --per-layer --whole --json
    mavcg simulate --process --core cortex-a55 --json -- ./app --frames 3
    mavcg simulate --process --sysroot root --core cortex-a76 --function blur --call 3 -- ./app image.pgm
    """
    from mavcg.profiles.load import load_board

    core, timing = core_timing(options.core, options.settings or ())
    board = load_board(options.board) if options.board is not None else None
    if options.process:
        run_process(options, core, timing, board)
        return
    refuse_process_options(options)
    if options.per_layer:
        _simulate_layers(options, core, timing, board)
    else:
        _simulate_call(options, core, timing, board)


simulate = command_of("simulate", SimulateOptions, run_simulate)


def _simulate_layers(options: SimulateOptions, core: "Core", timing: "Timing", board: "Board | None") -> None:
    """Simulate a run of a model library by layer. Raises: MavcgError for a missing board, and options of calls."""
    from mavcg.lab.simulate.sampling import UNITS

    _refuse_beside_per_layer(
        {"--function": options.function, "--args": options.arguments, "--sharing": options.sharing > 1}
    )
    if board is None:
        raise MavcgError("--per-layer: needs a --board, for the sizes of caches and the clock; name one")
    if options.whole and options.samples is not None:
        raise MavcgError("--samples: nothing is sampled with --whole; leave one of them out")
    _simulate_model(options, core, timing, board, None if options.whole else options.samples or UNITS)


def _simulate_call(options: SimulateOptions, core: "Core", timing: "Timing", board: "Board | None") -> None:
    """Simulate a call of one function. Raises: MavcgError for options of models, and if no function is named."""
    from mavcg.console.arrays import read_buffers
    from mavcg.lab.simulate.simulated_program import INSTRUCTION_LIMIT
    from mavcg.lab.simulate.simulation import CallOptions, simulation_json
    from mavcg.lab.simulate.simulation import simulate as simulate_call

    for option, value in {"--whole": options.whole, "--samples": options.samples is not None}.items():
        if value:
            raise MavcgError(f"{option}: is about a model's layers; give it with --per-layer, or leave it out")
    if options.function is None:
        raise MavcgError(
            f"{options.source}: name a --function; or give --per-layer, for a library that `mavcg build` made from a "
            "model"
        )
    contents = read_buffers(options.inputs) if options.inputs else ()
    how = CallOptions(options.warm, options.sharing, options.limit or INSTRUCTION_LIMIT, contents)
    with Progress() as progress:
        simulation = simulate_call(
            options.source, options.function, options.arguments, core, timing, board, how, progress
        )
    if options.as_json:
        print_json(simulation_json(simulation))
    else:
        _show(simulation)


def _refuse_beside_per_layer(options: dict[str, object]) -> None:
    """Raise MavcgError if an option for calls of one function is given. options: values by option."""
    for option, value in options.items():
        if value:
            raise MavcgError(f"{option}: is for calls of one function; it has no effect with --per-layer: leave it out")


def _simulate_model(
    options: SimulateOptions, core: "Core", timing: "Timing", board: "Board", units: int | None
) -> None:
    """Simulate a run of a model library and print its layers. units: samples in a long layer; None to time all."""
    from mavcg.console.arrays import read_input_arrays
    from mavcg.lab.simulate.model_run import MODEL_INSTRUCTION_LIMIT, ModelRunOptions, model_json, simulate_model
    from mavcg.lab.simulate.sampling import SamplePlan

    inputs = options.inputs or ()
    how = ModelRunOptions(
        options.warm,
        options.limit or MODEL_INSTRUCTION_LIMIT,
        None if units is None else SamplePlan(units=units),
        (lambda names: read_input_arrays(names, inputs)) if inputs else None,
    )
    with Progress() as progress:
        simulation = simulate_model(options.source, core, timing, board, how, progress)
    report = model_json(simulation)
    if options.as_json:
        print_json(report)
        return
    title = f"{options.source} on one {core.name} of {board.name} (simulated, not measured)"
    _show_layers(report, title)
    for sentence in simulation.figures.assumed:
        note(sentence)


def _show_layers(report: dict[str, Any], title: str) -> None:
    """Print a table of layers, and notes on the samples. report: the document of --json."""
    from rich.table import Table

    table = Table("layer", "operator", title=title)
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


def _show(simulation: "Simulation") -> None:
    from rich.table import Table

    from mavcg.lab.simulate.simulation import simulation_json

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
