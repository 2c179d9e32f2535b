"""`mavcg simulate --process`: options, the run, and its report."""

from typing import TYPE_CHECKING, Any

from mavcg.console.output import Progress, console, note, print_json
from mavcg.errors import MavcgError
from mavcg.lab.commands.simulate_options import SimulateOptions

if TYPE_CHECKING:
    from mavcg.hardware.board import Board
    from mavcg.hardware.core import Core
    from mavcg.hardware.timing import Timing

_STANDARD_ERROR = 2


def run_process(options: SimulateOptions, core: "Core", timing: "Timing", board: "Board | None") -> None:
    """Simulate a program and print its counts. Raises: MavcgError for options of other kinds of simulation."""
    from mavcg.lab.simulate.process import ProcessOptions, process_json, simulate_process
    from mavcg.lab.simulate.process_emulator import CallRegion

    others = {
        "--per-layer": options.per_layer,
        "--whole": options.whole,
        "--samples": options.samples is not None,
        "--args": options.arguments,
        "--input": options.inputs,
        "--limit": options.limit is not None,
    }
    for option, value in others.items():
        if value:
            raise MavcgError(f"{option}: has no effect with --process: leave it out")
    if options.function is None and (options.call is not None or options.between):
        raise MavcgError("--call, --between: count calls of a function; name a --function")
    first = options.call or 1
    region = CallRegion(options.function, first, None if options.call is None else first, options.between)
    how = ProcessOptions(region, options.warm, options.every or 0, options.sysroot, _STANDARD_ERROR, options.sharing)
    command = [str(options.source), *(options.program_arguments or ())]
    with Progress() as progress:
        simulation = simulate_process(command, core, timing, board, how, progress)
    report = process_json(simulation)
    if options.as_json:
        print_json(report)
    else:
        _show(report)


def refuse_process_options(options: SimulateOptions) -> None:
    """Raise MavcgError if an option of --process is given without it."""
    only = {
        "--sysroot": options.sysroot,
        "--call": options.call,
        "--between": options.between,
        "--every": options.every,
        "ARGS": options.program_arguments,
    }
    for option, value in only.items():
        if value:
            raise MavcgError(f"{option}: is for whole programs; give it with --process, or leave it out")


def _show(report: dict[str, Any]) -> None:
    from rich.table import Table

    what = " ".join(report["command"])
    title = f"{report['function'] + ' of ' if report['function'] else ''}{what} on {report['core']} (simulated)"
    table = Table("", "count", "of all cycles", title=title)
    table.columns[1].justify = table.columns[2].justify = "right"

    def row(name: str, count: int, share: bool = False) -> None:
        part = f"{100 * count / report['cycles']:.1f} %" if share and report["cycles"] else ""
        table.add_row(name, f"{count:,}", part)

    row("cycles", report["cycles"])
    row("instructions", report["instructions"])
    for cause, cycles in sorted(report["stalls"].items(), key=lambda item: -item[1]):
        row(f"cycles lost to: {cause}", cycles, share=True)
    for level, numbers in report["caches"].items():
        row(f"{level} hits", numbers["hits"])
        row(f"{level} misses", numbers["misses"])
    row("branches", report["branches"]["count"])
    row("branches mispredicted", report["branches"]["missed"])
    for thread in report["threads"] if len(report["threads"]) > 1 else ():
        row(f"cycles of thread {thread['thread']}", thread["cycles"], share=True)
    console().print(table)
    console().print(f"{report['ipc']} instructions per cycle; {report['milliseconds']} ms at {report['ghz']} GHz")
    if not report["sampling"]["whole"]:
        error = report["standard_error_cycles"]
        known = "unknown: too few samples" if error is None else f"{error:,} cycles"
        note(
            f"sampled: {report['timed_instructions']:,} of {report['instructions']:,} instructions were timed; "
            f"standard error of the sampling: {known}"
        )
    if report["unmodelled"]:
        kinds = len(report["confidence"]["unmodelled"])
        note(f"{report['unmodelled']:,} instructions of {kinds} forms have no timing facts; --json lists them")
    if report["unknown_addresses"]:
        note(f"{report['unknown_addresses']:,} accesses without a known address are timed as hits of level 1")
    for sentence in report["confidence"]["assumed"]:
        note(sentence)
