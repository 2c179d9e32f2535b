"""The options of `mavcg estimate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.shared_options import IgnoreDeclaredShapes, JsonEverything, Latencies


@dataclass(frozen=True)
class EstimateOptions:
    """The command line of `mavcg estimate`."""

    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="With --core: AArch64 assembly, an object, a library or a program. With --board: a model's file, or "
            "a library that mavcg built from one.",
        ),
    ]
    core: Annotated[
        str | None,
        typer.Option(
            metavar="CORE",
            help="For code: the core to model; `mavcg cores` lists them. For models: predict for the board's cores of "
            "this type alone, little ones too.",
        ),
    ] = None
    mhz: Annotated[
        float | None,
        typer.Option(
            min=10, max=100_000, metavar="N", help="For models: clock of the cores, in MHz; default: the board's."
        ),
    ] = None
    function: Annotated[
        str | None, typer.Option(metavar="F", help="For code: the function; default: all functions that have loops.")
    ] = None
    settings: Latencies = None
    blocks: Annotated[
        bool, typer.Option("--blocks", help="For code: also show the basic blocks of loops that have several.")
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", help="For code: also print each instruction, and what it waits for.")
    ] = False
    board: Annotated[
        str | None,
        typer.Option(
            metavar="B", help="For models: the board to predict for; on host, this machine, it is also measured."
        ),
    ] = None
    threads: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto",
            help="For models: number of threads, which take the fastest cores first; auto: the number that is "
            "predicted to be fastest; default 1.",
        ),
    ] = None
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=1x3x224x224", help="For models: shape of an input whose dimensions are free."),
    ] = None
    ignore_declared_shapes: IgnoreDeclaredShapes = False
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="For models: show how the prediction changes if an assumed fact of the board is halved or doubled, "
            "and which choices change if a core is slower or faster by the error of its model.",
        ),
    ] = False
    simulate_unsure: Annotated[
        bool,
        typer.Option(
            "--simulate-unsure",
            help="For models on AArch64 boards: simulate the layers that the model is unsure of; results are kept, so "
            "that a second run is fast.",
        ),
    ] = False
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="f32|f16|bf16|auto", help="For models: arithmetic of floats, as in `mavcg build`; default f32."
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="f16|bf16", help="For models: type of weights in memory where that pays, as in `mavcg build`."
        ),
    ] = None
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="For models: draw a timeline with a lane for each cluster, as .svg or .png."),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j", "--jobs", min=1, help="For models: number of compilers at a time; default: one for each CPU."
        ),
    ] = None
    as_json: JsonEverything = False
