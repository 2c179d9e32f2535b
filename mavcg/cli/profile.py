"""`mavcg profile`: which functions a program spends its time in, per core type where the data says so."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.cli.output import console, note, print_json
from mavcg.errors import MavcgError, ToolError

if TYPE_CHECKING:
    from mavcg.board import Board
    from mavcg.profiling.profile import Profile
    from mavcg.profiling.record import Recording, RecordOptions

# What a person reads of a name before it is cut; --json has it whole.
NAME_CHARS = 60

STDERR = 2


def profile(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Program to run and profile, with its arguments, after --.", metavar="COMMAND.."),
    ] = None,
    import_: Annotated[
        Path | None,
        typer.Option(
            "--import",
            metavar="FILE",
            help="Read a profile instead of making one: perf.data, text of perf script or perf report --stdio, "
            "simpleperf report --csv, callgrind.out, or what -o wrote. The kind is told by the content.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Save the profile, for mavcg build --profile.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ranking as JSON.")] = False,
    threshold: Annotated[
        float, typer.Option(metavar="PERCENT", help="Share over which a function is worth cloning.")
    ] = 5.0,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Functions in the table and the picture.")] = 15,
    board: Annotated[
        str | None,
        typer.Option(
            metavar="BOARD",
            help="Board it was recorded on: maps CPU numbers to core types; this machine for a command.",
        ),
    ] = None,
    binary: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Program or library in which to look up linkage names; may be repeated."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the shares as a picture, .png or .svg.")
    ] = None,
    recorder: Annotated[
        str,
        typer.Option("--with", metavar="TOOL", help="perf (samples time) or callgrind (counts instructions exactly)."),
    ] = "perf",
    frequency: Annotated[
        int | None, typer.Option(metavar="HZ", min=1, help="Samples per second and thread; 1999 when not given.")
    ] = None,
    event: Annotated[
        str | None, typer.Option(metavar="EVENT", help="Event that perf samples on; cycles, or cpu-clock where absent.")
    ] = None,
    call_graph: Annotated[
        bool, typer.Option("--call-graph", help="Record callers too, for --keep; the ranking is of self time anyway.")
    ] = False,
    keep: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the recorder's own file (perf.data or callgrind.out) too.")
    ] = None,
) -> None:
    """Rank the functions of a program by the time they take.

    \b
    mavcg profile -- ./app model.bin
    mavcg profile --import perf-script.txt --board exynos9820 -o app.profile.json
    mavcg profile --with callgrind --json -- ./app
    """
    from mavcg.profiling.load import load_profile
    from mavcg.profiling.profile import profile_of
    from mavcg.profiling.profile_file import save_profile
    from mavcg.profiling.record import DEFAULT_FREQUENCY_HZ, RecordOptions
    from mavcg.profiling.symbols import with_linkage_names

    if not 0 <= threshold <= 100:
        raise MavcgError(f"--threshold {threshold:g}: not a share in percent; give 0 to 100, such as 5")
    if (import_ is None) == (not command):
        wrong = "nothing to profile" if import_ is None else "both --import and a command"
        raise MavcgError(
            f"profile: {wrong}; give a command after --, as in mavcg profile -- ./app args, or a file, as in "
            f"mavcg profile --import perf-script.txt"
        )
    known_board, binaries = _board(board), tuple(binary or ())
    exit_status = None
    if import_ is not None:
        _refuse_recording_options(recorder, frequency, event, call_graph, keep)
        result = load_profile(import_, known_board, binaries)
    else:
        if recorder == "callgrind" and (event or frequency or call_graph):
            raise MavcgError("--with callgrind: counts every instruction; leave out --event, --frequency, --call-graph")
        # With --json our stdout is the document alone, so what the program prints goes to stderr.
        stdout = STDERR if as_json else None
        options = RecordOptions(frequency or DEFAULT_FREQUENCY_HZ, event, call_graph, keep, stdout)
        recording = _record(list(command or ()), recorder, options)
        where = known_board or (_this_machine() if recorder == "perf" else None)
        result = profile_of(with_linkage_names(recording.reading, binaries), where, recording.reading.command)
        exit_status = recording.exit_status
    for line in result.notes:
        note(line)
    if output is not None:
        save_profile(result, output)
        note(f"wrote {output}")
    if plot is not None:
        from mavcg.profiling.chart import plot_shares

        plot_shares(result, plot, threshold / 100, top)
        note(f"wrote {plot}")
    if as_json:
        print_json(ranking_json(result, exit_status))
    else:
        _print_table(result, threshold / 100, top)


def ranking_json(profile: "Profile", exit_status: int | None = None) -> dict[str, Any]:
    """The ranking as `mavcg profile --json` prints it: functions best first, shares as fractions."""
    from mavcg.profiling.ranking import rank

    return {
        "kind": profile.kind,
        "event": profile.event,
        "total": profile.total,
        "records": profile.records,
        "command": profile.command,
        "board": profile.board or None,
        "exit_status": exit_status,
        "functions": [
            {
                "symbol": f.symbol,
                "demangled": f.demangled,
                "object": f.object,
                "samples": f.samples,
                "share": f.share,
                "share_by_core": dict(f.share_by_core),
                "clonable": f.clonable,
                "why_not": f.why_not,
            }
            for f in rank(profile)
        ],
    }


def _board(name: str | None) -> "Board | None":
    if name is None:
        return None
    from mavcg.profiles.load import load_board

    return load_board(name)


def _this_machine() -> "Board | None":
    """This machine's map of CPU numbers, by MAVCG_CPU_MAP or as a built library finds it; None where all are alike."""
    from mavcg.board import Board, Cluster
    from mavcg.profiles.load import load_cores
    from mavcg.runtime.binding import detect
    from mavcg.target import ARCHES, host_target

    target = host_target()
    if target.arch not in ARCHES:
        return None
    cores = [core for core in load_cores().values() if core.arch == target.arch]
    try:
        found = detect(Path("/"), cores, os.environ.get("MAVCG_CPU_MAP"))
    except ToolError as error:  # the detector is compiled on first use; a ranking without core types is still one
        note(f"core types of this machine are not known: {error}")
        return None
    by_core: dict[str, list[int]] = {}
    for cpu in found:
        by_core.setdefault(cpu.core or "generic", []).append(cpu.cpu)
    if len(by_core) < 2:
        return None
    clusters = tuple(Cluster(core, tuple(cpus)) for core, cpus in by_core.items())
    return Board("this machine", "as detected", target.zig_name, clusters)


def _refuse_recording_options(
    recorder: str, frequency: int | None, event: str | None, call_graph: bool, keep: Path | None
) -> None:
    """An option that says how to record has no meaning for a file that is recorded already."""
    given = {"--with": recorder != "perf", "--frequency": frequency, "--event": event, "--call-graph": call_graph}
    wrong = [name for name, value in {**given, "--keep": keep}.items() if value]
    if wrong:
        raise MavcgError(f"profile: {', '.join(wrong)} with --import: that profile is made already; leave it out")


def _record(command: list[str], recorder: str, options: "RecordOptions") -> "Recording":
    from mavcg.profiling.record import RECORDERS, describe_exit, record

    if recorder not in RECORDERS:
        raise MavcgError(f"--with {recorder}: not a recorder; give one of {', '.join(RECORDERS)}")
    recording = record(command, recorder, options)
    if recording.exit_status:
        note(
            f"{command[0]} ended with {describe_exit(recording.exit_status)}; the profile is of the run up to there: "
            f"see that it did the work that matters"
        )
    if recorder == "callgrind":
        note("counts are instructions, not time: a cache miss and a division cost as much as an addition here")
    return recording


def _print_table(profile: "Profile", threshold: float, top: int) -> None:
    """The ranking for people: over the threshold first seen, what cannot be cloned with its reason."""
    from rich.table import Table
    from rich.text import Text

    from mavcg.profiling.names import short_names
    from mavcg.profiling.ranking import MIN_CORE_RECORDS, is_over, rank, trusted_cores

    ranked, trusted = rank(profile), trusted_cores(profile)
    cores = sorted({core for function in ranked for core in function.share_by_core})
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("share", justify="right", no_wrap=True)
    for core in cores:
        table.add_column(Text(core if core in trusted else f"{core} *"), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("function", overflow="fold", ratio=1)
    table.add_column("in", no_wrap=True)
    names = short_names([f.demangled for f in ranked[:top]], NAME_CHARS)
    for f, name in zip(ranked[:top], names, strict=True):
        over = is_over(f, threshold, trusted)
        mark = Text("clone", "bold green") if over and f.clonable else Text("")
        style = "" if f.clonable and over else "dim"
        shares = [_percent(f.share), *(_percent(f.share_by_core.get(core, 0.0)) for core in cores)]
        table.add_row(
            *(Text(s) for s in shares), mark, _name(name, f.why_not), Text(_printable(Path(f.object).name)), style=style
        )
    out = console()
    out.print(table)
    rest = ranked[top:]
    if rest:
        out.print(Text(f"{_percent(sum(f.share for f in rest))} in {len(rest)} more functions (--top)", "dim"))
    chosen = sum(1 for f in ranked if f.clonable and is_over(f, threshold, trusted))
    counted = f"{profile.records} samples" if profile.kind == "samples" else f"{profile.total:.0f} instructions"
    out.print(
        Text(f"{counted} ({profile.event}); {chosen} functions over {100 * threshold:g} % are worth a version per core")
    )
    if any(core not in trusted for core in cores):
        out.print(Text(f"* fewer than {MIN_CORE_RECORDS} samples: too few to judge by this core type alone", "dim"))


def _name(name: str, why_not: str) -> Any:
    from rich.text import Text

    text = Text(_printable(name))
    if why_not:
        text.append(f"  ({_printable(why_not.partition(':')[0])})", "italic")
    return text


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _printable(text: str) -> str:
    """A name from a file, without what would move a terminal's cursor."""
    return "".join(char if char.isprintable() else "?" for char in text)
