"""The options of `mavcg simulate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.shared_options import JsonEverything, Latencies


@dataclass(frozen=True)
class SimulateOptions:
    """The command line of `mavcg simulate`."""

    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="AArch64 assembly, object, library or program that holds the function; with --process the program.",
        ),
    ]
    core: Annotated[str, typer.Option(metavar="CORE", help="The core to simulate; `mavcg cores` lists them.")]
    program_arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", help="With --process: the program's arguments.", show_default=False),
    ] = None
    process: Annotated[
        bool,
        typer.Option(
            "--process",
            help="Run FILE with ARGS in qemu, as a program, and simulate all of it, or the calls of --function. Its "
            "output goes to standard error. Give options first, then -- FILE ARGS.",
        ),
    ] = False
    sysroot: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --process: where the program finds its loader, libraries and /proc, /sys files."
        ),
    ] = None
    call: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="With --process: count the N-th call of --function alone; default all."),
    ] = None
    between: Annotated[
        bool,
        typer.Option(
            "--between",
            help="With --process: count what runs from the end of call N of --function to the begin of the next call.",
        ),
    ] = False
    every: Annotated[
        int | None,
        typer.Option(
            min=1_000_000,
            metavar="N",
            help="With --process: time one sample of 40,000 instructions in every N and estimate the others; default "
            "all are timed.",
        ),
    ] = None
    function: Annotated[
        str | None, typer.Option(metavar="F", help="The function to call; with --process the one to count.")
    ] = None
    per_layer: Annotated[
        bool,
        typer.Option(
            "--per-layer", help="Simulate a run of a model library on one thread, layer by layer; needs --board."
        ),
    ] = False
    whole: Annotated[
        bool, typer.Option("--whole", help="With --per-layer: time every instruction instead of sampling long layers.")
    ] = False
    samples: Annotated[
        int | None,
        typer.Option(
            min=2, max=10_000, metavar="N", help="With --per-layer: number of samples in a long layer; default 24."
        ),
    ] = None
    arguments: Annotated[
        str,
        typer.Option(
            "--args",
            metavar="WORDS",
            help="The function's arguments in order: buf:BYTES[+OFFSET] (a buffer), ptrs:COUNTxBYTES (an array of "
            "pointers to buffers), i:NUMBER (an integer), f:NUMBER (a float), d:NUMBER (a double). Buffers are filled "
            "with random f32 numbers from -4 to 4, or with zeroes if =0 follows, and begin at multiples of 4,096.",
        ),
    ] = ""
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="[NAME=]X.npy",
            help="With --per-layer: an input of the model, in order or by name. Otherwise: the contents of the next "
            "buffer of --args. Default: random f32 numbers from -4 to 4. May be repeated.",
        ),
    ] = None
    board: Annotated[
        str | None, typer.Option(metavar="B", help="Board that has the core, and whose caches, clock and memory count.")
    ] = None
    warm: Annotated[
        int,
        typer.Option(
            min=0, max=1000, help="Number of calls before the one that is timed; 0: cold caches and branch predictor."
        ),
    ] = 1
    sharing: Annotated[
        int,
        typer.Option(min=1, max=64, help="Number of cores that run the same code at once, sharing caches and memory."),
    ] = 1
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Stop after this number of instructions; default 1e9, with --per-layer 2e11.",
        ),
    ] = None
    settings: Latencies = None
    as_json: JsonEverything = False
