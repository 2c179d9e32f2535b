"""The options of `mavcg profile`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.shared_options import SampleEvent, SampleFrequency


@dataclass(frozen=True)
class ProfileOptions:
    """The command line of `mavcg profile`."""

    command: Annotated[
        list[str] | None,
        typer.Argument(help="After --: the program to run and profile, with its arguments.", metavar="COMMAND.."),
    ] = None
    import_: Annotated[
        list[Path] | None,
        typer.Option(
            "--import",
            metavar="FILE",
            help="Read a profile instead of making one: perf.data, the text of perf script, perf report --stdio or "
            "simpleperf report --csv, callgrind.out, or a file of -o; the content tells which. May be repeated with "
            "--classes, for a row and a bar for each file.",
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File to write the profile to; default: mavcg-profile.json for a command, none for --import.",
        ),
    ] = None
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The mavcg.toml that names the command; default ./mavcg.toml.")
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print the ranking as JSON.")] = False
    threshold: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", help="Share of the time above which a function gets versions; default 5."),
    ] = None
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of functions in the table and the picture; default 15.")
    ] = 15
    board: Annotated[
        str | None,
        typer.Option(
            metavar="BOARD",
            help="Board that the profile was recorded on, which tells the core type of each CPU; default for a "
            "command: host.",
        ),
    ] = None
    binary: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Program or library in which to look up linkage names; may be repeated."),
    ] = None
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the shares as a picture, .png or .svg.")] = (
        None
    )
    recorder: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="TOOL",
            help="Recorder: perf samples the time, callgrind counts instructions exactly; default perf.",
        ),
    ] = None
    frequency: SampleFrequency = None
    event: SampleEvent = None
    call_graph: Annotated[
        bool,
        typer.Option("--call-graph", help="Record callers too, for the file of --keep; the ranking is by self time."),
    ] = False
    classes: Annotated[
        bool,
        typer.Option(
            "--classes", help="Show shares by class of function (GEMM/conv, depthwise, ..) instead of the ranking."
        ),
    ] = False
    of_file: Annotated[
        str | None,
        typer.Option(
            "--of", metavar="NAME", help="With --classes: count only functions of this file, such as libnet.so."
        ),
    ] = None
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also keep the recorder's own file (perf.data or callgrind.out)."),
    ] = None
