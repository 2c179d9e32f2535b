"""The verb `mavcg estimate`: predict the cycles of loops on a core, or the latency of a neural network on a board."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.cli.shared_options import JsonEverything, Latencies
from mavcg.errors import MavcgError


def estimate(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="With --core: AArch64 assembly, an object, a library or a program. With --board: a model's file, or "
            "a library that mavcg built from one.",
        ),
    ],
    core: Annotated[
        str | None, typer.Option(metavar="CORE", help="For code: the core to model; `mavcg cores` lists them.")
    ] = None,
    function: Annotated[
        str | None, typer.Option(metavar="F", help="For code: the function; default: all functions that have loops.")
    ] = None,
    settings: Latencies = None,
    blocks: Annotated[
        bool, typer.Option("--blocks", help="For code: also show the basic blocks of loops that have several.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="For code: also print each instruction, and what it waits for.")
    ] = False,
    board: Annotated[
        str | None,
        typer.Option(
            metavar="B", help="For models: the board to predict for; on host, this machine, it is also measured."
        ),
    ] = None,
    threads: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto",
            help="For models: number of threads, which take the fastest cores first; auto: the number that is "
            "predicted to be fastest; default 1.",
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=1x3x224x224", help="For models: shape of an input whose dimensions are free."),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="For models: show how the prediction changes if an assumed fact of the board is halved or doubled.",
        ),
    ] = False,
    simulate_unsure: Annotated[
        bool,
        typer.Option(
            "--simulate-unsure",
            help="For models on AArch64 boards: simulate the layers that the model is unsure of; results are kept, so "
            "that a second run is fast.",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="For models: draw a timeline with a lane for each cluster, as .svg or .png."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j", "--jobs", min=1, help="For models: number of compilers at a time; default: one for each CPU."
        ),
    ] = None,
    as_json: JsonEverything = False,
) -> None:
    """Predict the cycles of loops and their causes, or a neural network's latency by layer, cluster and threads.

    All figures are predicted, not measured. With --core, loads are assumed to hit the first-level cache, and branches
    to be predicted correctly; in a library that mavcg built, the version that this core runs is shown. With --board,
    each kernel takes the time of its instructions or of the bytes that it moves, whichever is longer; with
    `--board host` the network is also measured.

    \b
    mavcg estimate kernel.S --core cortex-a55
    mavcg estimate libapp.so --function gemm_8x8 --core cortex-a55 --json
    mavcg estimate kernel.S --function gemm_8x8 --core cortex-a55 --set "ldr_x->ins=3"
    mavcg estimate mobilenet_v2.onnx --board exynos9820 --plot timeline.svg
    mavcg estimate libmobilenet_v2.so --board host --threads 2 --json
    mavcg estimate squeezenet.onnx --board exynos9820 --sensitivity
    mavcg estimate mobilenet_v2.onnx --board exynos9820 --simulate-unsure --json
    """
    if board is not None:
        from mavcg.cli.estimate_models import estimate_model, show_sensitivity

        _refuse("--board", "code", {
            "--core": core, "--function": function, "--set": settings, "--blocks": blocks, "--verbose": verbose
        })  # fmt: skip
        _refuse_other_files(source, board)
        if sensitivity:
            if plot is not None:
                raise MavcgError("--plot: draws one prediction, and --sensitivity makes several; leave one out")
            if simulate_unsure:
                raise MavcgError("--simulate-unsure: --sensitivity compares modelled figures; leave one of them out")
            show_sensitivity(source, board, threads, shape or (), jobs, as_json)
        else:
            estimate_model(source, board, threads, shape or (), plot, jobs, as_json, simulate_unsure)
        return
    from mavcg.cli.estimate_loops import estimate_loops
    from mavcg.predict.files import is_model_file

    if is_model_file(source):
        raise MavcgError(f"{source}: is a model; name a --board, such as --board exynos9820 or --board host")
    _refuse(f"--core {core or ''}".strip(), "models", {
        "--threads": threads, "--shape": shape, "--plot": plot, "--jobs": jobs, "--sensitivity": sensitivity,
        "--simulate-unsure": simulate_unsure,
    })  # fmt: skip
    if core is None:
        raise MavcgError(
            f"{source}: name a --core for the cycles of its loops; or a --board, if it is a model or a library "
            f"that mavcg built from one"
        )
    estimate_loops(source, core, function, settings or (), blocks, verbose, as_json)


def _refuse(chosen: str, purpose: str, options: dict[str, object]) -> None:
    """Raise MavcgError if an option of the other kind of estimate is given.

    Args:
        chosen: option that decided the kind of estimate.
        purpose: what the options are for.
        options: values by option.
    """
    for option, value in options.items():
        if value:
            raise MavcgError(f"{option}: is for {purpose}; it has no effect with {chosen}: leave one of them out")


def _refuse_other_files(source: Path, board: str) -> None:
    """Raise MavcgError for a file that is neither a model nor a library built from one."""
    from mavcg.predict.files import is_model_file, library_note

    if not source.exists():
        raise MavcgError(f"{source}: does not exist; name a model's file, or a library that mavcg built from one")
    if not is_model_file(source) and library_note(source) is None:
        raise MavcgError(
            f"--board {board}: {source} is neither a model (.onnx, .tflite, .prototxt) nor a library that mavcg built "
            "from one; for assembly, objects and other libraries name a --core"
        )
