"""The options of `mavcg select`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.shared_options import IgnoreDeclaredShapes, JsonEverything, ModelShapes, OptionalNetwork

TIME_LIMIT_S = 60.0  # the same as in selection.strategies, which is not imported for --help


@dataclass(frozen=True)
class SelectOptions:
    """The command line of `mavcg select`."""

    model: OptionalNetwork = None
    board: Annotated[str | None, typer.Option(metavar="B", help="The board to select for; host is this machine.")] = (
        None
    )
    strategy: Annotated[
        str, typer.Option(help="How to choose: pbqp (the optimum), local, sum2d or family:NAME; default pbqp.")
    ] = "pbqp"
    core: Annotated[
        str,
        typer.Option(metavar="CORE", help="Core types of the board, with commas; default: its fastest core type."),
    ] = ""
    threads: Annotated[
        int,
        typer.Option(metavar="N", help="Number of threads, each on its own core, the fastest cores first; default 1."),
    ] = 1
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Select for a batch of N images: with all threads on one image at a time, or with groups of threads "
            "on several.",
        ),
    ] = None
    per_cluster: Annotated[
        bool,
        typer.Option("--per-cluster", help="Show the choice for each cluster by itself, and the one choice for all."),
    ] = False
    db: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Database of costs from `mavcg tune`; default: this user's."),
    ] = None
    simulate_unsure: Annotated[
        bool,
        typer.Option(
            "--simulate-unsure",
            help="On an AArch64 board: first simulate the primitives among which the model cannot tell the fastest.",
        ),
    ] = False
    max_error: Annotated[
        float | None,
        typer.Option(
            metavar="E",
            help="Exclude primitives whose error, relative to the largest sum, is larger; default: no limit.",
        ),
    ] = None
    max_workspace: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES", min=0, help="Exclude primitives that need a larger workspace; default: no limit."
        ),
    ] = None
    max_arena: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            min=0,
            help="Largest size of the images, layout conversions and workspace that are live at the same time; "
            "default: no limit.",
        ),
    ] = None
    share_conversions: Annotated[
        bool,
        typer.Option(
            "--share-conversions", help="Count a layout conversion that several nodes read once, not for each node."
        ),
    ] = False
    foreign: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=PATH]",
            help="Also offer the sgemm of a library of this machine: openblas, or a CBLAS by its path; repeatable.",
        ),
    ] = None
    shape: ModelShapes = None
    ignore_declared_shapes: IgnoreDeclaredShapes = False
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the speed of each strategy and the choices, as .svg or .png."),
    ] = None
    instance: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Solve this PBQP instance, with costs of nodes and of pairs of nodes along edges."
        ),
    ] = None
    time_limit: Annotated[
        float,
        typer.Option(
            metavar="S",
            help="Time for the search, in seconds, after which the best choice so far is printed with its gap; "
            "default 60.",
        ),
    ] = TIME_LIMIT_S
    as_json: JsonEverything = False
