"""Reads mavcg.toml: the settings of `mavcg profile` and `mavcg build` without arguments.

[profile] has the command to profile, [build] a program's library, each [[model]] a model's library. A key means the
same as the option of its name. Paths are relative to the file's folder, in which commands run too.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from mavcg.errors import MavcgError
from mavcg.files.decode import Document, read_toml
from mavcg.files.file_types import value_text
from mavcg.program.cold_launch import FILE_NAME as FILE_NAME
from mavcg.text.safe_text import c_identifier

PROFILE_NAME = "mavcg-profile.json"  # file of the profile unless the mavcg.toml names another one


@dataclass(frozen=True)
class ProfileTable:
    """The [profile] table of mavcg.toml.

    Args:
        command: program to profile and its arguments.
        build: a command to run before it.
        board: the board that the profile is recorded on; None for this machine.
        output: file to write the profile to; None for build.profile, else PROFILE_NAME.
        recorder: "perf" or "callgrind".
        frequency: samples per second.
        event: perf's event.
    """

    command: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    board: str | None = None
    output: str | None = None
    recorder: str | None = None
    frequency: int | None = None
    event: str | None = None


@dataclass(frozen=True)
class BuildFile:
    """The [build] table of mavcg.toml. Paths are as written, relative to the file; `sources` may have glob patterns.

    Args:
        cores, board: cores that get versions, by name or as the cores of a board.
        hot: names of hot functions. profile: a file of `mavcg profile -o`. threshold: percent of the run time.
        max_seconds, max_memory: limits on the build.
        min_gain, max_growth: in percent.
        versions: feature levels of a core that get versions: "one", "modelled" or "all".
        keep_slower: True to keep versions that gain nothing by the model of a core.
        flags: compiler flags for `sources`.
        only_hot: True to build only the files of compile_commands that define hot functions.
        query_driver: globs of compilers in compile_commands that may be run.
        tune: effort of the machine passes in the search for schedules: "off", "fast" or "best".
        command: a build whose compiler is `mavcg launch`, run instead of compiling `sources`.
    """

    output: str | None = None
    sources: tuple[str, ...] = ()
    ir: tuple[str, ...] = ()
    compile_commands: str | None = None
    command: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    compiler: str | None = None
    hot: tuple[str, ...] = ()
    profile: str | None = None
    threshold: float | None = None
    max_functions: int | None = None
    cores: tuple[str, ...] = ()
    board: str | None = None
    target: str | None = None
    max_seconds: float | None = None
    max_memory: int | str | None = None
    measurements: str | None = None
    min_gain: float | None = None
    max_growth: float | None = None
    rounding: str | None = None
    versions: str | None = None
    tune: str | None = None
    only_hot: bool | None = None
    keep_slower: bool | None = None
    query_driver: tuple[str, ...] = ()
    # Options of the link, documented in mavcg.objects.link_options.LinkOptions. runtime: "small", "static" or "shared".
    link_options: tuple[str, ...] = ()
    version_script: str | None = None
    libraries: tuple[str, ...] = ()
    library_dirs: tuple[str, ...] = ()
    soname: str | None = None
    strip: bool | None = None
    runtime: str | None = None


@dataclass(frozen=True)
class ModelTable:
    """A [[model]] table of mavcg.toml: a model's file and the options of `mavcg build MODEL`.

    Args:
        output: None for lib<stem of file>.so.
        shapes: "NAME=1x3x224x224". states: "INPUT=OUTPUT" of tensors that stay in a context between runs.
        threads: a number or "auto".
        max_size, max_arena: bytes or a text such as "4MB".
        precision: "f32", "f16", "bf16" or "auto". calibrate: a folder of inputs, or "seed:N".
        depth_first: "auto", "on" or "off".
        db: a file of costs.
        max_seconds, max_memory: limits on the build.
        weights: file of a Caffe network's weights. stored_weights: "f16" or "bf16".
        partial: True to build the subgraphs that can be built. also: file of the ONNX model that calls them. min_share:
            minimum share of the multiply-accumulates that a subgraph has, in percent.
        ignore_declared_shapes: True to take a file whose declared shapes its operators contradict.
        versions: feature levels of a core that get versions: "one", "modelled" or "all".
    """

    file: str
    output: str | None = None
    board: str | None = None
    cores: tuple[str, ...] = ()
    target: str | None = None
    shapes: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    threads: int | str | None = None
    tune: str | None = None
    max_error: float | None = None
    precision: str | None = None
    calibrate: str | None = None
    stored_weights: str | None = None
    strategy: str | None = None
    db: str | None = None
    max_workspace: int | None = None
    max_size: int | str | None = None
    max_arena: int | str | None = None
    depth_first: str | None = None
    max_seconds: float | None = None
    max_memory: int | str | None = None
    strip: bool | None = None
    weights: str | None = None
    partial: bool | None = None
    also: str | None = None
    min_share: float | None = None
    ignore_declared_shapes: bool | None = None
    versions: str | None = None


@dataclass(frozen=True)
class ProjectFile:
    """A whole mavcg.toml; None for a missing table. [build] and [[model]] have the boards that they inherit."""

    path: Path
    profile: ProfileTable | None = None
    build: BuildFile | None = None
    models: tuple[ModelTable, ...] = ()

    @property
    def folder(self) -> Path:
        """The file's folder, for relative paths and commands."""
        return self.path.parent

    @property
    def profile_name(self) -> str:
        """Path of the profile that `mavcg profile` writes, relative to the folder."""
        of_profile = self.profile.output if self.profile else None
        return of_profile or (self.build.profile if self.build else None) or PROFILE_NAME


def read_project(path: Path) -> ProjectFile:
    """Read a mavcg.toml.

    A [build] or [[model]] without cores and board inherits the board of [build], else of [profile].
    Raises: MavcgError with file, table and key for a value that cannot be used.
    """
    document = read_toml(path, "write one, or give options")._replace(remedy="correct it")
    tables = document.decode(_Tables)
    profile, build = tables.profile, tables.build
    for name, table in (("profile", profile), ("build", build)):
        _refuse_empty_commands(document, name, table)
    _refuse_zero_bytes(document, "", document.value)
    board = profile.board if profile else None
    if build and not (build.cores or build.board):
        build = replace(build, board=board)
    cores = build.cores if build else ()
    board = build.board if build else board
    inherited = [
        model if model.cores or model.board else replace(model, board=board, cores=() if board else cores)
        for model in tables.model
    ]
    return ProjectFile(path, profile, build, tuple(inherited))


@dataclass(frozen=True)
class _Tables:
    profile: Annotated[ProfileTable, Meta(description="a table", examples=["[profile]"])] | None = None
    build: Annotated[BuildFile, Meta(description="a table", examples=["[build]"])] | None = None
    model: Annotated[tuple[ModelTable, ...], Meta(description="a list of tables", examples=["[[model]]"])] = ()


def _refuse_empty_commands(document: Document, name: str, table: Any) -> None:
    for key in ("command", "build"):
        if table is not None and key in document.value[name] and not (getattr(table, key) and getattr(table, key)[0]):
            written = value_text(document.value[name][key])
            raise document.fault(f"{name}.{key}", f"{written} names no program", f'write {key} = ["./app", "arg"]')


def _refuse_zero_bytes(document: Document, at: str, value: Any) -> None:
    """Raise MavcgError for a text with a zero byte, which no file and no function can have in its name."""
    if isinstance(value, str) and "\0" in value:
        raise document.fault(at, f"{value_text(value)} holds a zero byte, which no name can")
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in parts:
        _refuse_zero_bytes(document, f"{at}[{key}]" if isinstance(key, int) else f"{at}.{key}".lstrip("."), below)


def read_build_file(path: Path) -> BuildFile:
    """Read the [build] table of a mavcg.toml, with the profile of `mavcg profile` if it names no hot functions.

    Raises: MavcgError with file and key for a value that cannot be used, and for a file without [build].
    """
    project = read_project(path)
    if project.build is None:
        raise MavcgError(f"{path}: has no [build] table; add it, with sources, hot and cores")
    return with_kept_profile(project.build, project)


def with_kept_profile(build: BuildFile, project: ProjectFile) -> BuildFile:
    """Return the table with the path of the project's profile if it names neither hot functions nor a profile.

    For a file without [profile], only if a profile exists at the default path.
    """
    if build.hot or build.profile:
        return build
    profile_name = project.profile_name
    return (
        replace(build, profile=profile_name) if project.profile or (project.folder / profile_name).is_file() else build
    )


def library_of_folder(folder: Path) -> str:
    """Return the library's file name for a [build] without output: lib<folder>.so."""
    name = c_identifier(folder.resolve().name, "program")
    return f"{name if name.startswith('lib') else f'lib{name}'}.so"
