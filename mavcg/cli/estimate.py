"""The verb `mavcg estimate`: predict the cycles of loops on a core, or the latency of a neural network on a board."""

from pathlib import Path

from mavcg.cli.estimate_options import EstimateOptions
from mavcg.console.option_class import command_of
from mavcg.errors import MavcgError


def run_estimate(options: EstimateOptions) -> None:
    """Predict the cycles of loops and their causes, or a neural network's latency by layer, cluster and threads.

    All figures are predicted, not measured. With --core alone, loads are assumed to hit the first-level cache, and
    branches to be predicted correctly; in a library that mavcg built, the version that this core runs is shown. With
    --board, each kernel takes the time of its instructions or of the bytes that it moves, whichever is longer; with
    `--board host` the network is also measured.

    \b
    mavcg estimate kernel.S --core cortex-a55
    mavcg estimate libapp.so --function gemm_8x8 --core cortex-a55 --json
    mavcg estimate kernel.S --function gemm_8x8 --core cortex-a55 --set "ldr_x->ins=3"
    mavcg estimate mobilenet_v2.onnx --board exynos9820 --plot timeline.svg
    mavcg estimate mobilenet_v2.onnx --board exynos9820 --core cortex-a55 --mhz 1400
    mavcg estimate libmobilenet_v2.so --board host --threads 2 --json
    mavcg estimate squeezenet.onnx --board exynos9820 --sensitivity
    mavcg estimate mobilenet_v2.onnx --board exynos9820 --simulate-unsure --json
    """
    if options.board is not None:
        _estimate_model(options, options.board)
    else:
        _estimate_loops(options)


estimate = command_of("estimate", EstimateOptions, run_estimate)


def _estimate_model(options: EstimateOptions, board: str) -> None:
    """Predict a model's latency on a board. Raises: MavcgError for other files, and options that exclude each other."""
    from mavcg.cli.estimate_models import estimate_model, show_sensitivity

    _refuse(
        "--board",
        "code",
        {
            "--function": options.function,
            "--set": options.settings,
            "--blocks": options.blocks,
            "--verbose": options.verbose,
        },
    )
    _refuse_other_files(options.source, board)
    if board == "host" and (options.core is not None or options.mhz is not None):
        raise MavcgError("--board host: is measured as it is; --core and --mhz are for other boards: leave them out")
    if not options.sensitivity:
        estimate_model(options, board)
        return
    if options.plot is not None:
        raise MavcgError("--plot: draws one prediction, and --sensitivity makes several; leave one out")
    for option, value in (("--precision", options.precision), ("--weights", options.weights)):
        if value is not None:
            raise MavcgError(f"{option}: --sensitivity compares predictions in f32; leave one of them out")
    if options.simulate_unsure:
        raise MavcgError("--simulate-unsure: --sensitivity compares modelled figures; leave one of them out")
    show_sensitivity(options, board)


def _estimate_loops(options: EstimateOptions) -> None:
    """Predict the cycles of loops on a core. Raises: MavcgError for models, a missing core, and options of models."""
    from mavcg.choose.predict.files import is_model_file
    from mavcg.cli.estimate_loops import estimate_loops

    source, core = options.source, options.core
    if is_model_file(source):
        raise MavcgError(f"{source}: is a model; name a --board, such as --board exynos9820 or --board host")
    _refuse(
        f"--core {core or ''}".strip(),
        "models",
        {
            "--threads": options.threads,
            "--mhz": options.mhz is not None,
            "--shape": options.shape,
            "--plot": options.plot,
            "--jobs": options.jobs,
            "--sensitivity": options.sensitivity,
            "--simulate-unsure": options.simulate_unsure,
            "--precision": options.precision,
            "--weights": options.weights,
            "--ignore-declared-shapes": options.ignore_declared_shapes,
        },
    )
    if core is None:
        raise MavcgError(
            f"{source}: name a --core for the cycles of its loops; or a --board, if it is a model or a library "
            f"that mavcg built from one"
        )
    estimate_loops(options, core)


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
    from mavcg.choose.predict.files import is_model_file, library_note

    if not source.exists():
        raise MavcgError(f"{source}: does not exist; name a model's file, or a library that mavcg built from one")
    if not is_model_file(source) and library_note(source) is None:
        raise MavcgError(
            f"--board {board}: {source} is neither a model (.onnx, .tflite, .prototxt) nor a library that mavcg built "
            "from one; for assembly, objects and other libraries name a --core"
        )
