"""The verb `mavcg build MODEL.. --boards A,B`: a library of every model for every board."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mavcg.cli.error_exit import EXIT_BAD_INPUT
from mavcg.cli.output import console, note, print_json
from mavcg.cli.resource_limits import ResourceLimits, build_limits, enforce_limits
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.model_pipeline.model_request import ModelRequest
    from mavcg.model_pipeline.request import SelectionOptions

_INTERRUPTED = 130  # as shells report Ctrl-C


def refuse_without_boards(models: Sequence[Path], workers: str | None) -> None:
    """Raise MavcgError for what only a build for --boards takes."""
    if len(models) > 1:
        raise MavcgError(f"{models[1]}: several models are built for --boards A,B,..; name them, or build one model")
    if workers is not None:
        raise MavcgError(
            f"--workers {workers}: is of builds for --boards A,B,..; -j says how many compilers run at once"
        )


def farm_requests(
    models: Sequence[Path],
    boards: str,
    output: str | None,
    workers: str | None,
    selection: "SelectionOptions",
    refused: Mapping[str, object],
    settings: Mapping[str, Any],
) -> "list[ModelRequest]":
    """Return a request for every model and board: FOLDER/BOARD/libMODEL.so.

    refused: options that such builds do not have. settings: arguments of make_model_request. Raises: MavcgError.
    """
    from mavcg.importers.load import is_model
    from mavcg.model_pipeline.request import identifier, make_model_request

    for option, value in refused.items():
        if value:
            raise MavcgError(f"{option}: is not of a build for --boards; leave it out, or build one library")
    if workers is not None and not workers.isdecimal() and selection.db is not None:
        raise MavcgError(f"--db {selection.db}: workers of a scheduler take costs of their own; leave it out")
    names = [name.strip() for name in boards.split(",")]
    if "" in names:
        raise MavcgError(f"--boards {boards}: has an empty name; write it as in --boards exynos9820,rk3588")
    if again := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise MavcgError(f"--boards {boards}: {again} is named twice; name each board once")
    if not models:
        raise MavcgError("--boards: no model is named; give .onnx, .tflite or .prototxt files")
    for model in models:
        if not is_model(model):
            raise MavcgError(f"{model}: is no model; --boards takes .onnx, .tflite and .prototxt files")
    stems = [identifier(model.stem) for model in models]
    if again := next((stem for i, stem in enumerate(stems) if stem in stems[:i]), None):
        raise MavcgError(f"lib{again}.so: would be the library of two models; give their files other names")
    folder = Path(output or "libraries")
    if folder.is_file():
        raise MavcgError(f"-o {folder}: is a file; name a folder, in which each board gets one")
    requests = []
    for board in names:
        for model, stem in zip(models, stems, strict=True):
            request, _ = make_model_request(model, None, board, (), selection=selection, **settings)
            requests.append(replace(request, output=folder / board / f"lib{stem}.so"))
    return requests


def build_and_report(
    requests: "Sequence[ModelRequest]", workers: str | None, max_seconds: float | None, max_memory: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Build these libraries and print the report. Exits with status 2 where one of them could not be built."""
    from mavcg.explore.open_engine import open_engine
    from mavcg.farm.build_farm import build_farm
    from mavcg.farm.library_tasks import Refusal
    from mavcg.farm.object_store import open_object_store
    from mavcg.farm.report import farm_json, show_farm
    from mavcg.farm.sources_digest import worker_digest

    limits = [build_limits(max_seconds, max_memory, request.model) for request in requests]
    seconds = max_seconds if max_seconds is not None else sum(each.seconds for each in limits)
    _make_folders({request.output.parent for request in requests})
    try:
        with (
            open_engine(workers, len(requests) == 1, note, worker_digest) as engine,
            enforce_limits(ResourceLimits(seconds, limits[0].memory_bytes), f"{len(requests)} libraries") as progress,
        ):
            result = build_farm(requests, engine, open_object_store(), progress)
    except KeyboardInterrupt:
        note("interrupted; compiled kernels are kept: the same command goes on")
        raise typer.Exit(_INTERRUPTED) from None
    if as_json:
        print_json(farm_json(result))
    else:
        show_farm(result, console())
    for request, each in zip(result.requests, result.results, strict=True):
        if isinstance(each, Refusal):
            note(f"{request.model} for {request.board.name if request.board else ''}: {each.reason}")
    if any(isinstance(each, Refusal) for each in result.results):
        raise typer.Exit(EXIT_BAD_INPUT)


def _make_folders(folders: set[Path]) -> None:
    for folder in sorted(folders):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MavcgError(f"-o {folder}: cannot be made ({error.strerror}); name another folder") from None
