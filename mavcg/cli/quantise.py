"""The verb `mavcg quantise`: 8-bit models from ONNX files in f32, by what each layer gains and loses on a board."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, note, print_json
from mavcg.console.shared_options import Jobs, JsonEverything
from mavcg.errors import MavcgError


@dataclass(frozen=True)
class QuantiseOptions:
    """The command line of `mavcg quantise`."""

    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="An ONNX file in f32.")]
    inputs: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Calibration inputs: a .npy file for each, or .npz with an array for each of the model's inputs.",
        ),
    ]
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="M.onnx", help="File to write the model to; default: none, only print."),
    ] = None
    board: Annotated[
        str, typer.Option(metavar="B", help="Board that times are predicted for; default host, this machine.")
    ] = "host"
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Threads of the prediction; default 1.")] = 1
    max_error: Annotated[
        float | None,
        typer.Option(
            metavar="E",
            help="Largest error of the outputs relative to f32, as root mean squares; the fastest point within it is "
            "taken; default 0.1.",
        ),
    ] = None
    point: Annotated[
        int | None,
        typer.Option(metavar="N", help="Take this point of the table instead; --max-error is then not asked."),
    ] = None
    mixtures: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=64,
            help="Models between f32 and 8 bits that are predicted and measured, too; default 4.",
        ),
    ] = 4
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw error against predicted time, as .svg or .png.")
    ] = None
    jobs: Jobs = None
    as_json: JsonEverything = False


def run_quantise(options: QuantiseOptions) -> None:
    """Write a model with layers in 8 bits: those that pay on a board, within a limit on the error.

    Each layer's time in f32 and in 8 bits is predicted for the board, and its error is measured on the calibration
    inputs. Then whole models are predicted and measured, from f32 to all layers in 8 bits: the points. Those between
    have the layers whose error is small for the time that they save, or all but the layers with the largest errors.
    onnxruntime's quantiser writes the model, in QDQ format with weights by channel; a build computes it in 8 bits.

    \b
    mavcg quantise mobilenet_v2.onnx --inputs photographs/ --board exynos9820 -o mobilenet_v2_int8.onnx
    mavcg quantise model.onnx --inputs samples/ --board rk3588 --max-error 0.02 -o model_int8.onnx
    mavcg quantise model.onnx --inputs samples/ --board rk3588 --plot front.svg --json
    mavcg quantise model.onnx --inputs samples/ --board rk3588 --point 3 -o model_int8.onnx
    """
    from mavcg.drawing.svg_plots import check_plot
    from mavcg.files.scratch import scratch_folder
    from mavcg.files.whole_file import write_whole
    from mavcg.model.estimating import board_of
    from mavcg.model.quantise.front import MAX_ERROR
    from mavcg.model.quantise.quantise import QuantiseQuestion, check_format, predictor, quantise
    from mavcg.model.quantise.report import quantised_json, show_quantised, write_front
    from mavcg.toolchain.codegen import default_workers

    limit = MAX_ERROR if options.max_error is None else options.max_error
    if not limit >= 0 or math.isinf(limit):
        raise MavcgError(f"--max-error {limit}: give 0 or more, such as 0.05")
    if options.point is not None and options.max_error is not None:
        raise MavcgError(
            "--point: names a point itself, and --max-error limits the choice of one; leave one of them out"
        )
    check_format(options.model)
    _check_output(options.output)
    if options.plot is not None:
        check_plot(options.plot)
    question = QuantiseQuestion(
        options.model, options.inputs, board_of(options.board), limit, options.mixtures, options.point
    )
    with Progress() as progress, scratch_folder("mavcg-quantise-") as folder:
        workers = options.jobs or default_workers()
        predict = predictor(question.board, options.model.stem, options.threads, workers, progress)
        made = quantise(question, predict, folder, progress)
    if options.output is not None:
        write_whole(options.output, made.model, "-o")
    if options.plot is not None:
        write_front(question, made, options.plot)
        note(f"wrote error against predicted time to {options.plot}")
    if options.as_json:
        print_json(quantised_json(question, options.threads, made, options.output))
        return
    show_quantised(question, made, console())
    if options.output is not None:
        note(f"wrote point {made.chosen} to {options.output}; mavcg build {options.output} --board {options.board}")


def _check_output(output: Path | None) -> None:
    """Raise MavcgError, before any work, for an output that cannot be written or would not be known as ONNX."""
    if output is None:
        return
    if output.suffix.lower() != ".onnx":
        raise MavcgError(f"-o {output}: an ONNX file is written; name a file that ends in .onnx")
    if not output.parent.is_dir() or output.is_dir():
        raise MavcgError(f"-o {output}: is a folder, or its folder does not exist; name a file in an existing folder")


quantise_verb = command_of("quantise", QuantiseOptions, run_quantise)
