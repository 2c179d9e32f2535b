"""The options of `mavcg calibrate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.shared_options import JsonEverything


@dataclass(frozen=True)
class CalibrateOptions:
    """The command line of `mavcg calibrate`."""

    runner: Annotated[
        str,
        typer.Option(
            metavar="R",
            help="Where to measure: ssh:user@host[:port], adb or adb:SERIAL, local; simulate:CORE for a modelled core.",
        ),
    ]
    core: Annotated[
        list[str] | None,
        typer.Option(metavar="CORE", help="Core type of the board to measure; may be repeated; default: all."),
    ] = None
    minutes: Annotated[
        float,
        typer.Option(min=0.1, max=600, metavar="M", help="Begin no loop after this time, for all core types together."),
    ] = 10.0
    facts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml",
            help="With simulate:CORE: facts that the simulated core has in place of its own, written as in a core's "
            "file; these are looked for.",
        ),
    ] = None
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the board's file; default: the machine's own name for itself."),
    ] = None
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace files of the same names below MAVCG_PROFILES.")
    ] = False
    as_json: JsonEverything = False
