"""The options of `mavcg tune`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.shared_options import IgnoreDeclaredShapes, Insecure, JsonEverything, ModelShapes, OptionalNetwork
from mavcg.errors import MavcgError

HOST, LOCAL, SIMULATE = "host", "local", "simulate"


@dataclass(frozen=True)
class TuneOptions:
    """The command line of `mavcg tune`."""

    model: OptionalNetwork = None
    board: Annotated[
        str, typer.Option(metavar="B", help="The board to measure on; default host, which is this machine.")
    ] = HOST
    runner: Annotated[
        str,
        typer.Option(
            metavar="R",
            help="How to reach the board: local (the default), ssh:user@host[:port], adb or adb:SERIAL; fleet:FILE for "
            "several boards; simulate to simulate its cores instead.",
        ),
    ] = LOCAL
    core: Annotated[
        list[str] | None,
        typer.Option(metavar="CORE", help="Core type of the board to measure on; may be repeated; default: all."),
    ] = None
    threads: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Number of threads, each bound to its own CPU of the core; default 1."),
    ] = 1
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Measure nothing; print what the machine reports about itself, and what to change first."
        ),
    ] = False
    db: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Database that keeps the costs; default: the one in the folder MAVCG_CACHE."),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Skip the measurements whose results are in the database already.")
    ] = False
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="At the end, write all costs as JSON, for another machine."),
    ] = None
    import_: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="At the start, add costs that --export wrote.")
    ] = None
    family: Annotated[
        str | None,
        typer.Option(
            metavar="F", help="Measure only primitives of this family; `mavcg primitives` lists them; default: all."
        ),
    ] = None
    foreign: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=PATH]",
            help="Also measure the sgemm of a library on this machine: openblas, or a CBLAS by its path; repeatable.",
        ),
    ] = None
    limit_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", min=0, help="Start no measurement after this time, in seconds; default: no limit."),
    ] = None
    insecure: Insecure = False
    shape: ModelShapes = None
    ignore_declared_shapes: IgnoreDeclaredShapes = False
    as_json: JsonEverything = False


def refuse_options(values: dict[str, object], why: str) -> None:
    """Raise MavcgError if one of these options of `mavcg tune` is given. why: the end of the message."""
    for option, value in values.items():
        if value:
            raise MavcgError(f"tune {option}: {why}")
