"""The options of `mavcg tune-asm`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.shared_options import JsonReport, Latencies


@dataclass(frozen=True)
class TuneAsmOptions:
    """The command line of `mavcg tune-asm`."""

    source: Annotated[
        Path, typer.Argument(metavar="IN.S", help="File of AArch64 assembly, written by hand or by a compiler.")
    ]
    core: Annotated[str, typer.Option(metavar="CORE", help="The core to tune for; `mavcg cores` lists them.")]
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT.S", help="File for the new assembly; optional with --check."),
    ] = None
    function: Annotated[
        list[str] | None, typer.Option(metavar="F", help="Tune only this function; may be repeated; default: all.")
    ] = None
    solver_seconds: Annotated[
        float,
        typer.Option(
            metavar="S",
            min=0,
            help="Time of the exact solver for each loop, in seconds; 0: only the heuristic; default 8.",
        ),
    ] = 8.0
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Run each changed function in an emulator and compare the results of old and new code; needs "
            "mavcg[check].",
        ),
    ] = False
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--args",
            metavar="'F: ARGS'",
            help="With --check: arguments of the function F, such as 'F: buf:4096 i:64'; may be repeated.",
        ),
    ] = None
    unchecked_ok: Annotated[
        bool,
        typer.Option(
            "--unchecked-ok", help="With --check: also write changed functions that the check cannot decide on."
        ),
    ] = False
    settings: Latencies = None
    defines: Annotated[
        list[str] | None, typer.Option("-D", metavar="NAME[=V]", help="Define a macro for the preprocessor.")
    ] = None
    includes: Annotated[
        list[Path] | None, typer.Option("-I", metavar="DIR", help="Include folder of the preprocessor.")
    ] = None
    as_json: JsonReport = False
