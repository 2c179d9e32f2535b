"""The verb `mavcg measure`: measure the gain of each version on its core, if this machine has that core."""

import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, note, print_json
from mavcg.console.shared_options import SampleEvent, SampleFrequency
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.program.measure_versions import LibraryMeasurements, VersionFinding
    from mavcg.program.measurements import Measurement


@dataclass(frozen=True)
class MeasureVerbOptions:
    """The command line of `mavcg measure`."""

    library: Annotated[Path, typer.Argument(metavar="LIB.so", help="A library or program that mavcg built.")]
    command: Annotated[
        list[str] | None,
        typer.Argument(help="After --: a program that uses the library, with its arguments.", metavar="COMMAND.."),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the gains for `mavcg build --measurements`; an existing file keeps its entries of other cores.",
        ),
    ] = None
    runs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Rounds for each core type, of two runs each; default 5."),
    ] = None
    frequency: SampleFrequency = None
    event: SampleEvent = None
    min_gain: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT", help="Smallest gain of versions that mavcg build should keep, for the report; default 1."
        ),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False


def run_measure(options: MeasureVerbOptions) -> None:
    """Measure how much faster each version is than the generic one, on the cores of this machine.

    The program runs under perf, bound to the CPUs of each core type in turn, alternately with the generic versions and
    with that core's versions. Its stdout is discarded. `mavcg build --measurements FILE` then drops the versions that
    do not help.

    \b
    mavcg measure libapp.so -o gains.json -- ./app model.bin
    mavcg measure ./app --runs 9 -- ./app model.bin
    MAVCG_CPU_MAP=0-3=cortex-a55,4-7=cortex-a76 mavcg measure libapp.so --json -- ./app
    mavcg build --measurements gains.json
    """
    from mavcg.program import measure_versions, perf_runs
    from mavcg.program.measurements import load_measurements, merge_measurements, save_measurements
    from mavcg.program.version_choice import MIN_GAIN
    from mavcg.program.version_symbols import read_library

    if not options.command:
        raise MavcgError(
            f"measure: no command is named; give one after --, as in mavcg measure {options.library} -- ./app args"
        )
    if options.min_gain is not None and not 0 <= options.min_gain < float("inf"):
        raise MavcgError(f"--min-gain {options.min_gain:g}: is not a percentage of 0 or more; give one, such as 1")
    # A file that cannot be merged or written is refused here, since the measurement takes minutes.
    old = load_measurements(options.output) if options.output is not None and options.output.exists() else ()
    if options.output is not None and not options.output.parent.is_dir():
        raise MavcgError(
            f"-o {options.output}: the folder {options.output.parent} does not exist; make it, or name another file"
        )
    versions = read_library(options.library)
    groups = measure_versions.measurable_groups(versions, perf_runs.this_machine(), frozenset(os.sched_getaffinity(0)))
    defaults = measure_versions.MeasureOptions()
    settings = measure_versions.MeasureOptions(
        options.runs or defaults.runs, options.frequency or defaults.frequency_hz, options.event
    )
    with nullcontext() if versions.has_settings else perf_runs.preloaded_settings(), Progress() as progress:
        measured = measure_versions.measure(versions, groups, options.command, settings, progress)
    for line in measured.notes:
        note(line)
    if options.output is not None:
        new = [finding.measurement for finding in measured.findings if not finding.why_not]
        save_measurements(merge_measurements(old, new), options.output)
        note(f"wrote {options.output}")
    threshold = MIN_GAIN if options.min_gain is None else options.min_gain / 100
    if options.as_json:
        print_json(measured_json(measured, versions.path, options.command, settings.runs, threshold))
    else:
        _show(measured, settings.runs, threshold)


measure = command_of("measure", MeasureVerbOptions, run_measure)


def measured_json(
    measured: "LibraryMeasurements", library: Path, command: list[str], runs: int, min_gain: float
) -> dict[str, Any]:
    """Return the document of `mavcg measure --json`: times as counts of its `event`, gains and shares as fractions."""
    from mavcg.program.profiling.demangle import demangle

    return {
        "library": str(library),
        "command": command,
        "event": measured.event,
        "runs": runs,
        "functions": [
            {
                "name": m.function,
                "demangled": demangle(m.function),
                "core": m.core,
                "cpus": list(finding.group.cpus),
                "machine": m.machine,
                "generic_share": m.generic_share,
                "generic": list(m.generic),
                "own": list(m.own),
                "samples": {"generic": m.generic_samples, "own": m.own_samples},
                "gain": None if finding.why_not else m.gain,
                "spread": None if finding.why_not or m.spread is None else list(m.spread),
                "noise": None if finding.why_not else m.noise,
                "verdict": verdict(finding, min_gain),
                "why_not": finding.why_not,
            }
            for finding in measured.findings
            for m in [finding.measurement]
        ],
        "notes": list(measured.notes),
    }


def verdict(finding: "VersionFinding", min_gain: float) -> str:
    """Return what `mavcg build` does with the version: "keep", "drop", or "unknown", which keeps it too.

    min_gain: smallest gain that keeps a version, as a fraction.
    """
    from mavcg.program.measurements import as_gain

    gain = as_gain(finding.measurement)
    if finding.why_not or gain is None:
        return "unknown"
    return "keep" if gain.helps(min_gain) else "drop"


def _show(measured: "LibraryMeasurements", runs: int, min_gain: float) -> None:
    from rich.table import Table

    from mavcg.hardware.cpu_list import cpu_ranges
    from mavcg.program.profiling.demangle import demangle
    from mavcg.program.report_words import shorten

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("function")
    table.add_column("core")
    for name in ("generic time", "gain", "least", "most", "noise", "samples"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    names = [demangle(finding.measurement.function) for finding in measured.findings]
    for finding in measured.findings:
        m, group = finding.measurement, finding.group
        decision = verdict(finding, min_gain)
        table.add_row(
            shorten(demangle(m.function), names),
            f"{group.core} ({cpu_ranges(group.cpus)})",
            f"{m.generic_share:.1%}",
            *_gain_texts(m, finding.why_not),
            f"{m.generic_samples}, {m.own_samples}",
            f"no gain stated: {finding.why_not}" if decision == "unknown" else decision,
            style="" if decision == "keep" else "dim",
        )
    out = console()
    out.print(table)
    machines = "; ".join(dict.fromkeys(finding.measurement.machine for finding in measured.findings))
    out.print(
        f"gain: fraction of the generic version's {measured.event} that the core's version saves: median of {runs} "
        f"rounds, and its smallest and largest value in a round; noise: what chance alone may show; a version with "
        f"{min_gain:.1%} or more, and more than the noise, is kept; "
        f"measured on {machines}"
    )


def _gain_texts(m: "Measurement", why_not: str) -> tuple[str, str, str, str]:
    if why_not or m.gain is None or m.spread is None or m.noise is None:
        return "", "", "", ""
    return f"{m.gain:+.1%}", f"{m.spread[0]:+.1%}", f"{m.spread[1]:+.1%}", f"{m.noise:.1%}"
