"""`mavcg build MODEL`: what the verb does with an ONNX or TFLite file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.cli.output import Progress, console, print_json
from mavcg.errors import MavcgError, ToolError

if TYPE_CHECKING:
    from mavcg.model_road.request import Selecting


def build_model_library(
    model: Path,
    output: str | None,
    board: str | None,
    cores: Sequence[str],
    target: str | None,
    shapes: Sequence[str],
    threads: int,
    jobs: int | None,
    tune: str | None,
    max_error: float | None,
    selecting: "Selecting",
    as_json: bool,
) -> None:
    """Build and report. Raises: MavcgError for bad input, with nothing written."""
    from mavcg.model_road.model import build_model
    from mavcg.model_road.report import model_json, show_model
    from mavcg.model_road.request import make_model_request

    request, _ = make_model_request(
        model, output, board, cores, target, shapes, threads, jobs, tune, max_error, selecting
    )
    with Progress() as progress:
        try:
            result = build_model(request, progress)
        except ToolError:
            raise
        except MavcgError as error:
            # The importers name the file themselves; passes and kernels know nodes only.
            raise (error if model.name in str(error) else MavcgError(f"{model}: {error}")) from error
    if as_json:
        print_json(model_json(result))
        return
    show_model(result, console())
