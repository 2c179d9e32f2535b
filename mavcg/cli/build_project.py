"""The verb `mavcg build` with a mavcg.toml: the program's library or its launched build, then every model's library."""

import re
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from mavcg.cli import build_model
from mavcg.cli.build_tables import calibration_in
from mavcg.console.output import console, note, print_json
from mavcg.console.resource_limits import ResourceLimits, build_limits, enforce_limits
from mavcg.errors import MavcgError
from mavcg.program.buildfile import (
    BuildFile,
    ModelTable,
    ProjectFile,
    library_of_folder,
    with_kept_profile,
)

if TYPE_CHECKING:
    from mavcg.hardware.board import Board
    from mavcg.model.model_request import ModelRequest
    from mavcg.model.partial.request import PartialRequest
    from mavcg.program.build_values import BuildRequest
    from mavcg.program.launched_build import LaunchedBuild


# The start of an error that names an option, to be replaced by the key of mavcg.toml that has the same meaning.
_OPTION = re.compile(r"(?:--(?P<long>[a-z-]+)|(?P<output>-o)(?= )|(?P<build>build)(?=: ))")
_KEYS = {
    "source": "sources",
    "flag": "flags",
    "shape": "shapes",
    "state": "states",
    "link_option": "link_options",
    "library": "libraries",
    "library_dir": "library_dirs",
}


@dataclass(frozen=True)
class ProjectRequest:
    """The builds that a mavcg.toml names, with all names resolved; at most one of program and launched is not None."""

    program: "tuple[BuildRequest, Board | None, ResourceLimits] | None"
    launched: "LaunchedBuild | None"
    models: "tuple[tuple[ModelRequest | PartialRequest, ResourceLimits], ...]"


def build_project(
    project: ProjectFile, options: BuildFile, of_models: ModelTable, jobs: int | None, as_json: bool
) -> None:
    """Build everything that a mavcg.toml names and report.

    Args:
        options, of_models: options of the command line, which override the file's tables; of_models.file is not used.
    Raises: MavcgError for bad input, before the first library is built.
    """
    request = make_project_request(project, options, of_models, jobs)
    document: dict[str, Any] = {}
    if request.program is not None:
        document |= build_and_report(*request.program, as_json)
    if request.launched is not None:
        document |= _build_launched(request.launched, as_json)
    models = [_build_model(*model, as_json) for model in request.models]
    if as_json:
        print_json({**document, "models": models})


def make_project_request(
    project: ProjectFile, options: BuildFile, of_models: ModelTable, jobs: int | None
) -> ProjectRequest:
    """Resolve every name of a mavcg.toml. Raises: MavcgError naming file, table and key, or the option."""
    from mavcg.program.request import merge

    build = merge(project.build or BuildFile(), options)
    has_sources = bool(build.sources or build.ir or build.compile_commands)
    if not (has_sources or build.command or project.models):
        raise MavcgError(
            f"{project.path}: there is nothing to build; add [build] with sources, ir, compile_commands or command, "
            "or [[model]] with file"
        )
    if has_sources and build.command:
        raise MavcgError(
            f"{project.path}: build.command builds the program itself, but sources are named too; leave one of the two "
            "out"
        )
    has_program = has_sources or bool(build.command)
    if of_models.output and not has_program and len(project.models) > 1:
        raise MavcgError(
            f"-o {of_models.output}: {project.path} names {len(project.models)} models; "
            "give each [[model]] a key `output`"
        )
    if of_models.also and len(project.models) > 1:
        raise MavcgError(
            f"--also {of_models.also}: {project.path} names {len(project.models)} models; "
            "give each [[model]] a key `also`"
        )
    if has_program:
        of_models = replace(of_models, output=None)
        build = with_kept_profile(build, project)
        _refuse_missing_profile(build, project)
    program = _program_request(build, project, options, jobs) if has_sources else None
    launched = _launched_build(build, project, options) if build.command else None
    models = tuple(
        _model_request(table, number, project, of_models, jobs) for number, table in enumerate(project.models)
    )
    return ProjectRequest(program, launched, models)


def _refuse_missing_profile(build: BuildFile, project: ProjectFile) -> None:
    """Raise MavcgError, with the command that makes the profile, if the build needs one and it is missing."""
    kept = project.folder / project.profile_name
    if build.hot or kept.is_file() or build.profile not in (None, project.profile_name):
        return
    has_command = project.profile and project.profile.command
    remedy = "run `mavcg profile`" if has_command else "add [profile] with command = [..] and run `mavcg profile`"
    raise MavcgError(
        f"{project.path}: no hot function is named: build.hot is not given, and there is no profile {kept}; "
        f"{remedy}, or name functions by hot"
    )


def _program_request(
    build: BuildFile, project: ProjectFile, options: BuildFile, jobs: int | None
) -> "tuple[BuildRequest, Board | None, ResourceLimits]":
    from mavcg.program.request import make_request

    build = replace(build, output=build.output or library_of_folder(project.folder))
    try:
        limits = build_limits(build.max_seconds, build.max_memory)
        return *make_request(build, project.folder, jobs), limits
    except MavcgError as error:
        raise _naming_keys(error, f"{project.path}: build", options) from error


def _launched_build(build: BuildFile, project: ProjectFile, options: BuildFile) -> "LaunchedBuild":
    from mavcg.program.launched_build import make_launched_build

    given = [field.name for field in fields(BuildFile) if getattr(options, field.name) not in (None, ())]
    if given:
        raise MavcgError(
            f"build: {', '.join(given)} given as an option, but build.command of {project.path} runs compilers that "
            "read that file alone; write the setting there"
        )
    try:
        return make_launched_build(build, project)
    except MavcgError as error:
        raise _naming_keys(error, f"{project.path}: build", BuildFile()) from error


def _model_request(
    table: ModelTable, number: int, project: ProjectFile, options: ModelTable, jobs: int | None
) -> "tuple[ModelRequest | PartialRequest, ResourceLimits]":
    from mavcg.model.partial.request import make_partial_request
    from mavcg.model.request import (
        ModelOptions,
        SelectionOptions,
        identifier,
        make_model_request,
        parse_threads,
        without_declared_shapes,
    )
    from mavcg.program.request import merge

    location = f"{project.path}: model[{number}]"
    folder, table = project.folder, merge(table, replace(options, file=table.file))
    file = folder / table.file
    if not file.is_file():
        raise MavcgError(f"{location}.file = {table.file!r}: does not exist; name an ONNX, TFLite or prototxt file")
    if table.max_workspace is not None and table.max_workspace < 0:
        raise MavcgError(f"{location}.max_workspace = {table.max_workspace}: is not a number of bytes; give 0 or more")
    output = folder / (table.output or f"lib{identifier(file.stem)}.so")
    db = folder / table.db if table.db else None
    weights = folder / table.weights if table.weights else None
    max_size = str(table.max_size) if table.max_size is not None else None
    max_arena = str(table.max_arena) if table.max_arena is not None else None
    board, cores, _ = build_model.assume_machine(table.board, table.cores, table.target)
    selection = SelectionOptions(table.strategy, db, table.max_workspace, max_size, max_arena, table.depth_first)
    try:
        threads = parse_threads(str(table.threads) if table.threads is not None else None)
        request, _ = make_model_request(
            file,
            str(output),
            ModelOptions(
                board=board,
                cores=cores,
                target=table.target,
                shapes=table.shapes,
                states=table.states,
                threads=threads,
                jobs=jobs,
                tune=table.tune,
                max_error=table.max_error,
                precision=table.precision,
                calibrate=calibration_in(folder, table.calibrate),
                versions=table.versions,
                weights=weights,
                stored_weights=table.stored_weights,
                several=True,
                bounded=True,
            ),
            selection,
        )
        request = without_declared_shapes(request, bool(table.ignore_declared_shapes))
        request = replace(request, strip=bool(table.strip))
        limits = build_limits(table.max_seconds, table.max_memory, file)
        also = folder / table.also if table.also else None
        partial = make_partial_request(request, bool(table.partial), also, table.min_share)
    except MavcgError as error:
        raise _naming_keys(error, location, options) from error
    return partial or request, limits


def _build_model(request: "ModelRequest | PartialRequest", limits: ResourceLimits, as_json: bool) -> dict[str, Any]:
    """Build a model's library, or that of its subgraphs. Returns: the JSON document, or {} after a report on stdout."""
    from mavcg.model.partial.request import PartialRequest

    if isinstance(request, PartialRequest):
        return build_model.build_partial_and_report(request, limits, as_json)
    return build_model.build_and_report(request, limits, as_json)


def _naming_keys(error: MavcgError, location: str, options: BuildFile | ModelTable) -> MavcgError:
    """Return the error with the table's key in place of the option that it names, unless that option was given."""
    text = str(error)
    match = _OPTION.match(text)
    if match is None:
        return error
    if match["build"]:
        return type(error)(f"{location}{text[match.end() :]}")
    name = "output" if match["output"] else match["long"].replace("-", "_")
    key = _KEYS.get(name, name)
    if getattr(options, key, None) not in (None, ()):
        return error
    return type(error)(f"{location}.{key}{text[match.end() :]}")


def _build_launched(build: "LaunchedBuild", as_json: bool) -> dict[str, Any]:
    from mavcg.program.launched_build import run_launched_build

    lines = run_launched_build(build, stdout=2 if as_json else None)
    if not lines:
        note(
            f"{build.location}: no object got versions: is `mavcg launch` the build's compiler launcher, and were "
            "objects with hot functions compiled anew (make -B, cmake --clean-first)?"
        )
    elif not as_json:
        console().print(f"{len(lines)} objects got versions by {build.location}")
    return {"launched": {"command": list(build.command), "objects": [asdict(line) for line in lines]}}


def build_and_report(
    request: "BuildRequest", board: "Board | None", limits: ResourceLimits, as_json: bool
) -> dict[str, Any]:
    """Build the library and print its table. Raises: MavcgError, with nothing written.

    Returns: the JSON document, or {} after a table on stdout.
    """
    from mavcg.program.build_json import build_json
    from mavcg.program.program import build_program
    from mavcg.program.report import show_build

    with enforce_limits(limits, str(request.output)) as progress:
        result = build_program(request, progress)
    if as_json:
        return build_json(result, board)
    show_build(result, board, console())
    return {}
