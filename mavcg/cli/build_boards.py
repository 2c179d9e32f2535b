"""The verb `mavcg build MODEL.. --boards A,B`: a library of every model for every board."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mavcg.cli.build_options import BuildOptions
from mavcg.cli.build_tables import library_options, selection_options, single_library_options
from mavcg.console.error_exit import EXIT_BAD_INPUT
from mavcg.console.output import console, note, print_json
from mavcg.console.resource_limits import ResourceLimits, build_limits, enforce_limits
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.model.model_request import ModelRequest

_INTERRUPTED = 130  # as shells report Ctrl-C


def refuse_without_boards(models: Sequence[Path], workers: str | None) -> None:
    """Raise MavcgError for several models, and for --workers: only a build for --boards takes them."""
    if len(models) > 1:
        raise MavcgError(
            f"{models[1]}: several models are built only with --boards A,B,..; add this option, or build one model"
        )
    if workers is not None:
        raise MavcgError(
            f"--workers {workers}: is only for builds with --boards A,B,..; -j sets how many compilers run at a time"
        )


def build_for_boards(options: BuildOptions, boards: str) -> None:
    """Build a library of every model for every board and print the report.

    boards: value of --boards. Exits with status 2 if a library could not be built. Raises: MavcgError.
    """
    requests = farm_requests(options, boards)
    _build_and_report(requests, options)


def farm_requests(options: BuildOptions, boards: str) -> "list[ModelRequest]":
    """Return a request for every model and board, whose library is FOLDER/BOARD/libMODEL.so.

    Raises: MavcgError for options that these builds do not take, and for names that do not fit.
    """
    from mavcg.model.request import identifier, make_model_request, without_declared_shapes

    for option, value in single_library_options(options).items():
        if value:
            raise MavcgError(f"{option}: cannot be used with --boards; leave it out, or build a single library")
    if options.workers is not None and not options.workers.isdecimal() and options.db is not None:
        raise MavcgError(
            f"--db {options.db}: workers on other machines use databases of their own; leave the option out"
        )
    names = _board_names(boards)
    models = options.inputs or []
    _refuse_models(models)
    folder = Path(options.output or "libraries")
    if folder.is_file():
        raise MavcgError(f"-o {folder}: is a file; name a folder, in which each board gets a folder")
    made = library_options(replace(options, cores=None, calibrate=None))  # the loop above refuses them
    made = replace(made, bounded=True)
    selection = selection_options(options)
    requests = []
    for board in names:
        for model in models:
            request, _ = make_model_request(model, None, replace(made, board=board), selection)
            output = folder / board / f"lib{identifier(model.stem)}.so"
            request = without_declared_shapes(request, options.ignore_declared_shapes)
            requests.append(replace(request, output=output, strip=options.strip))
    return requests


def _board_names(boards: str) -> list[str]:
    """Split the value of --boards. Raises: MavcgError for an empty name and for a name that occurs twice."""
    names = [name.strip() for name in boards.split(",")]
    if "" in names:
        raise MavcgError(f"--boards {boards}: has an empty name; write it as in --boards exynos9820,rk3588")
    if repeated := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise MavcgError(f"--boards {boards}: {repeated} is named twice; name each board once")
    return names


def _refuse_models(models: Sequence[Path]) -> None:
    """Raise MavcgError for no model, for files that are not models, and for two models with one library."""
    from mavcg.importers.load import is_model
    from mavcg.model.request import identifier

    if not models:
        raise MavcgError("--boards: no model is named; give .onnx, .tflite or .prototxt files")
    for model in models:
        if not is_model(model):
            raise MavcgError(f"{model}: is not a model; --boards takes .onnx, .tflite and .prototxt files")
    stems = [identifier(model.stem) for model in models]
    if repeated := next((stem for i, stem in enumerate(stems) if stem in stems[:i]), None):
        raise MavcgError(f"lib{repeated}.so: would be the library of two models; give their files different names")


def _build_and_report(requests: "Sequence[ModelRequest]", options: BuildOptions) -> None:
    """Build these libraries and print the report. Exits with status 2 if a library could not be built."""
    from mavcg.lab.farm.build_farm import build_farm, open_objects
    from mavcg.lab.farm.library_tasks import Refusal
    from mavcg.lab.farm.report import farm_json, show_farm
    from mavcg.lab.jobs.open_engine import open_engine
    from mavcg.lab.jobs.sources_digest import worker_digest

    limits = [build_limits(options.max_seconds, options.max_memory, request.model) for request in requests]
    seconds = options.max_seconds if options.max_seconds is not None else sum(limit.seconds for limit in limits)
    try:
        with (
            _folders({request.output.parent for request in requests}),
            open_engine(options.workers, len(requests) == 1, note, worker_digest, options.insecure) as engine,
            enforce_limits(ResourceLimits(seconds, limits[0].memory_bytes), f"{len(requests)} libraries") as progress,
        ):
            result = build_farm(requests, engine, open_objects(), progress)
    except KeyboardInterrupt:
        note("interrupted; compiled kernels are kept, and the same command continues with them")
        raise typer.Exit(_INTERRUPTED) from None
    if options.as_json:
        print_json(farm_json(result))
    else:
        show_farm(result, console())
    for request, outcome in zip(result.requests, result.results, strict=True):
        if isinstance(outcome, Refusal):
            note(f"{request.model} for {request.board.name if request.board else ''}: {outcome.reason}")
    if any(isinstance(outcome, Refusal) for outcome in result.results):
        raise typer.Exit(EXIT_BAD_INPUT)


@contextlib.contextmanager
def _folders(folders: set[Path]) -> Iterator[None]:
    """Make these folders, and at the end remove those of them that are still empty, as where a model is refused."""
    made: list[Path] = []
    try:
        for folder in sorted(folders):
            made += reversed([each for each in (folder, *folder.parents) if not each.exists()])
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise MavcgError(
                    f"-o {folder}: the folder cannot be created ({error.strerror}); name another folder"
                ) from None
        yield
    finally:
        for folder in reversed(made):  # the outer ones last
            with contextlib.suppress(OSError):
                folder.rmdir()
