"""The options of `mavcg plan`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.shared_options import IgnoreDeclaredShapes, JsonEverything, ModelShapes, OptionalNetwork


@dataclass(frozen=True)
class PlanOptions:
    """The command line of `mavcg plan`."""

    model: OptionalNetwork = None
    board: Annotated[
        str | None,
        typer.Option(metavar="B", help="Board whose clusters are planned for, or a GPU; host is this machine."),
    ] = None
    accelerator: Annotated[
        str | None,
        typer.Option(metavar="X", help="Accelerator to plan for: a name, such as setup-a, or a JSON file."),
    ] = None
    search: Annotated[
        str, typer.Option(help="Search for tilings: exact, pruned (the paper's) or exhaustive; default exact.")
    ] = "exact"
    metric: Annotated[
        str,
        typer.Option(
            help="What the search optimises: performance-per-access, latency, traffic or energy; default "
            "performance-per-access."
        ),
    ] = "performance-per-access"
    halo: Annotated[
        bool,
        typer.Option("--halo", help="Exact search: count the input that neighbouring tiles both read."),
    ] = False
    double_buffer: Annotated[
        bool, typer.Option("--double-buffer", help="Exact search: reserve memory for two tiles of each operand.")
    ] = False
    full_grid: Annotated[bool, typer.Option("--full-grid", help="Exact search: allow tiles of any size.")] = False
    levels: Annotated[
        bool, typer.Option("--levels", help="Also plan tiles within tiles, for each level of the machine's memory.")
    ] = False
    paper_variant: Annotated[
        bool,
        typer.Option(
            "--paper-variant",
            help="Use a built-in network with the layers that the thesis counts, and time layers as its algorithm 4 "
            "does, with all processing elements busy.",
        ),
    ] = False
    shape: ModelShapes = None
    ignore_declared_shapes: IgnoreDeclaredShapes = False
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines", help="Compare with the planners Zhang, Ma and Smart-Shuttle, and with lower bounds."
        ),
    ] = False
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|FILE",
            help="Draw rooflines and traffic as SVG files in a folder; or the traffic as a .svg or .png file, with the "
            "rooflines beside it.",
        ),
    ] = None
    emit_ir: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the plan as text to this file.")] = None
    emit_c: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the plan of the network, or of the --layer, as C to this file."),
    ] = None
    emit_cuda: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write CUDA C++ to this folder: kernels for a GPU, or an accelerator's plan."),
    ] = None
    cuda_type: Annotated[
        str | None,
        typer.Option(metavar="T", help="With --emit-cuda: type of elements, f32, f16 or i8; default: the model's."),
    ] = None
    layer: Annotated[str | None, typer.Option(metavar="NAME", help="Plan only this layer; default: all.")] = None
    check_ir: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plan nothing; verify this plan of --emit-ir.")
    ] = None
    run_ir: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Plan nothing; run this plan of --emit-ir on seeded integers, and count the bytes that it moves.",
        ),
    ] = None
    check_cuda: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Plan nothing; run the kernels of --emit-cuda in this folder by emulation."),
    ] = None
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Search again instead of using kept plans, and keep none.")
    ] = False
    as_json: JsonEverything = False
