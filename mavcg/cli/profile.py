"""The verb `mavcg profile`: rank the functions of a program by time, for each core type if the data has core types."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.cli.output import note, print_json
from mavcg.cli.profile_classes import check_classes, show_classes
from mavcg.cli.profile_report import nothing_json, print_table, ranking_json
from mavcg.cli.shared_options import SampleEvent, SampleFrequency
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.profiling.profile import Profile
    from mavcg.profiling.record import RecordOptions
    from mavcg.program_pipeline.profile_command import ProfileRun

STDERR = 2
DEFAULT_THRESHOLD_PERCENT = 5.0
_GIVE_ONE = (
    "give a command after --, as in mavcg profile -- ./app args, or a file, as in "
    "mavcg profile --import perf-script.txt"
)


def profile(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="After --: the program to run and profile, with its arguments.", metavar="COMMAND.."),
    ] = None,
    import_: Annotated[
        list[Path] | None,
        typer.Option(
            "--import",
            metavar="FILE",
            help="Read a profile instead of making one: perf.data, the text of perf script, perf report --stdio or "
            "simpleperf report --csv, callgrind.out, or a file of -o; the content tells which. May be repeated with "
            "--classes, for a row and a bar for each file.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write the profile to; default: mavcg-profile.json for a command, none for --import.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The mavcg.toml that names the command; default ./mavcg.toml.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ranking as JSON.")] = False,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", help="Share of the time above which a function gets versions; default 5."),
    ] = None,
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of functions in the table and the picture; default 15.")
    ] = 15,
    board: Annotated[
        str | None,
        typer.Option(
            metavar="BOARD",
            help="Board that the profile was recorded on, which tells the core type of each CPU; default for a "
            "command: host.",
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
        str | None,
        typer.Option(
            "--with",
            metavar="TOOL",
            help="Recorder: perf samples the time, callgrind counts instructions exactly; default perf.",
        ),
    ] = None,
    frequency: SampleFrequency = None,
    event: SampleEvent = None,
    call_graph: Annotated[
        bool,
        typer.Option("--call-graph", help="Record callers too, for the file of --keep; the ranking is by self time."),
    ] = False,
    classes: Annotated[
        bool,
        typer.Option(
            "--classes", help="Show shares by class of function (GEMM/conv, depthwise, ..) instead of the ranking."
        ),
    ] = False,
    of_file: Annotated[
        str | None,
        typer.Option(
            "--of", metavar="NAME", help="With --classes: count only functions of this file, such as libnet.so."
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also keep the recorder's own file (perf.data or callgrind.out)."),
    ] = None,
) -> None:
    """Rank the functions of a program by the time they take, and keep the profile for `mavcg build`.

    Without a command, it runs the command that ./mavcg.toml names ([profile] command, after [profile] build); options
    override the file. The profile is kept beside the file, as mavcg-profile.json unless the file or -o gives another
    name.

    \b
    mavcg profile
    mavcg profile -- ./app model.bin
    mavcg profile --import perf-script.txt --board exynos9820 -o app.profile.json
    mavcg profile --with callgrind --json -- ./app
    mavcg profile --classes --of libnet.so -- mavcg bench libnet.so --seconds 5
    mavcg profile --classes --import a.json --import b.json --plot shares.svg
    """
    from mavcg.profiling.load import load_profile
    from mavcg.profiling.profile_file import save_profile
    from mavcg.program_pipeline.profile_command import profile_command, profiled_board

    if threshold is not None and not 0 <= threshold <= 100:
        raise MavcgError(f"--threshold {threshold:g}: is not a share in percent; give 0 to 100, such as 5")
    check_classes(classes, of_file, import_ or [])
    binaries, exit_status, kept = tuple(binary or ()), None, output
    more: list[Profile] = []
    if import_:
        if command or config is not None:
            conflicting = "a command" if command else "--config"
            raise MavcgError(f"profile: --import and {conflicting} exclude each other; {_GIVE_ONE}")
        _refuse_recording_options(recorder, frequency, event, call_graph, keep)
        result, *more = (load_profile(path, profiled_board(board), binaries) for path in import_)
    else:
        run = _run(config, tuple(command or ()), {
            "recorder": recorder, "frequency": frequency, "event": event, "board": board, "threshold": threshold,
        })  # fmt: skip
        if run is None:
            if as_json:
                print_json({"classes": [], "gemm_mean": None} if classes else nothing_json())
            return
        threshold, kept = run.threshold, output or _default_output(run)
        profiled = profile_command(run, _record_options(run, call_graph, keep, as_json), binaries, note)
        result, exit_status = profiled.profile, profiled.exit_status
        for line in profiled.notes:
            note(line)
    for line in result.notes:
        note(line)
    if kept is not None:
        if output is None:
            kept.parent.mkdir(parents=True, exist_ok=True)
        save_profile(result, kept)
        note(f"wrote {kept}")
    if classes:
        labels = [path.stem for path in import_] if import_ else [of_file or result.command or "the program"]
        show_classes(dict(zip(labels, (result, *more), strict=True)), of_file or "", plot, as_json)
        return
    percent = DEFAULT_THRESHOLD_PERCENT if threshold is None else threshold
    if plot is not None:
        from mavcg.profiling.chart import plot_shares

        plot_shares(result, plot, percent / 100, top)
        note(f"wrote {plot}")
    if as_json:
        of_a_command = {} if import_ else {"profile": str(kept) if kept else None}
        print_json({**ranking_json(result, exit_status), **of_a_command})
    else:
        print_table(result, percent / 100, top)


def _run(config: Path | None, command: tuple[str, ...], options: dict[str, Any]) -> "ProfileRun | None":
    """Return the run to profile, of the given command or that of mavcg.toml; None, after a note, if there is nothing.

    Args:
        options: values that override those of the file, by field of ProfileRun; None for an option not given.
    """
    from mavcg.program_pipeline.buildfile import FILE_NAME, read_project
    from mavcg.program_pipeline.profile_command import ProfileRun, nothing_to_profile, project_run

    path = config or (Path(FILE_NAME) if Path(FILE_NAME).is_file() else None)
    if path is None and not command:
        raise MavcgError(
            f"profile: nothing to profile; {_GIVE_ONE}, or write a {FILE_NAME} that names the command "
            "(`mavcg init` does)"
        )
    run = ProfileRun(command)
    if path is not None:
        project = read_project(path)
        run = project_run(project)
        if command:  # the given command runs in this folder, without the file's build
            run = replace(run, command=command, build=(), folder=Path(), location="")
        elif not run.command:
            note(nothing_to_profile(project))
            return None
    if options["recorder"] == "callgrind":  # the file's settings of perf's sampling do not apply to it
        run = replace(run, frequency=None, event=None)
    return replace(run, **{name: value for name, value in options.items() if value is not None})


def _default_output(run: "ProfileRun") -> Path | None:
    """Return the file that keeps the profile without -o; None, after a note, if this folder cannot be written."""
    from mavcg.program_pipeline.profile_command import refuse_other_file

    refuse_other_file(run.output)
    if run.output == Path(run.output.name) and not os.access(".", os.W_OK):
        note("the profile is not kept, because this folder cannot be written; -o FILE keeps it elsewhere")
        return None
    return run.output


def _record_options(run: "ProfileRun", call_graph: bool, keep: Path | None, as_json: bool) -> "RecordOptions":
    from mavcg.profiling.record import DEFAULT_FREQUENCY_HZ, RecordOptions

    # With --json, stdout has only the document, so the program's output goes to stderr.
    stdout = STDERR if as_json else None
    keep = keep.absolute() if keep else None  # the command runs in the folder of its mavcg.toml
    return RecordOptions(run.frequency or DEFAULT_FREQUENCY_HZ, run.event, call_graph, keep, stdout)


def _refuse_recording_options(
    recorder: str | None, frequency: int | None, event: str | None, call_graph: bool, keep: Path | None
) -> None:
    """Raise MavcgError for an option about recording with --import, whose profile is recorded already."""
    values = {
        "--with": (recorder or "perf") != "perf",
        "--frequency": frequency,
        "--event": event,
        "--call-graph": call_graph,
        "--keep": keep,
    }
    given = [name for name, value in values.items() if value]
    if given:
        raise MavcgError(
            f"profile: {', '.join(given)} with --import: has no effect on a recorded profile; leave it out"
        )
