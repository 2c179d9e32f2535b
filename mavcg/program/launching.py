"""Makes the object of one compiler command of a user's build, with versions of its hot functions (`mavcg launch`).

The build's own compiler runs first, unchanged. If its object defines a hot function, the object is made again with
versions (launched_object.py); if that fails, the compiler's object stays, and the reason is reported. Most files of a
build have no hot function: what only those with one need is imported where it is used.
"""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError
from mavcg.program.buildfile import FILE_NAME, BuildFile, read_build_file
from mavcg.program.cold_launch import UNDER_CCACHE, nearest, write_note
from mavcg.program.depfile import add_dependencies, add_to_preprocessed, dependency_file
from mavcg.program.project_commands import PROFILING
from mavcg.text.terminal import say, shown_lines

if TYPE_CHECKING:
    from mavcg.program.hot_symbols import HotSymbol
    from mavcg.program.launched_object import BuiltObject
    from mavcg.program.sources.compile_commands import CompileUnit
    from mavcg.program.sources.to_assembly import PlainAssembly


@dataclass(frozen=True)
class LaunchOptions:
    """Options of `mavcg launch`.

    Args:
        config: path of the mavcg.toml; None for the nearest one above the source.
        strict: True to fail the build if an object should have versions and has none.
        max_growth: bound on the growth of each file's code, in percent; None for that of the mavcg.toml.
        key: of the object in the cache of kept_object.py; "" if it is not to be kept.
    """

    config: Path | None
    strict: bool = False
    max_growth: float | None = None
    key: str = ""


@dataclass(frozen=True)
class OnceResult:
    """The result of a command whose source was compiled once.

    status: its exit status. message: about versions; None if there are none.
    """

    status: int
    message: str | None = None


def find_config(folder: Path) -> Path | None:
    """Return the mavcg.toml of this folder or the nearest one above it."""
    path = nearest(str(folder))
    return Path(path) if path else None


def run_compiler(command: Sequence[str], quietly: bool = False) -> int:
    """Run the build's own compiler; return its exit status. quietly: True to leave out its messages."""
    try:
        status = subprocess.run(command, stderr=subprocess.DEVNULL if quietly else None).returncode
        return status if status >= 0 else 128 - status  # killed by a signal: the status that shells return
    except OSError as error:
        say(f"launch: {command[0]}: cannot be run ({error.strerror}); name the compiler")
        return 127


def version_at_once(command: Sequence[str], options: LaunchOptions, names: Sequence[bytes]) -> "OnceResult | None":
    """Compile a command's source once, and make its object with versions; None if the command must run itself.

    names: words of which the object contains one if it defines a hot function. The object of a file that gets no
    versions is made by the command itself, without its messages, which were shown.
    """
    from mavcg.program.one_compilation import NotAtOnce, compile_once

    try:
        made = compile_once(command, Path.cwd(), names, run_compiler)
    except NotAtOnce as failed:  # the command itself decides, and an error is told once
        status = run_compiler(command, quietly=True) if failed.shown else run_compiler([*command, "-w"])
        return OnceResult(status, None if status else version_object(command, options))
    except OSError:  # no process, or no room, for what comes before the compiler
        return None
    if made is None or made.unit.output is None:
        return None
    inode = made.unit.output.stat().st_ino
    message, failure = None, None
    try:
        message = _version_object_of(made.unit, options, made.own)
    except Exception as error:
        failure = error
    if made.keeps_object(inode) and (status := run_compiler(made.command)):
        return OnceResult(status)
    if failure:
        raise failure
    return OnceResult(0, message)


def version_object(command: Sequence[str], options: LaunchOptions) -> str | None:
    """Make the object of a finished compiler command again with versions, if it defines a hot function.

    Returns: a message about the result; None if there is nothing to version.
    Raises: MavcgError if versions should have been made and could not; the compiler's object then stays.
    """
    from mavcg.program.sources.compile_commands import CompileUnit, read_command

    _refuse_foreign(command, options)
    unit = read_command(command, Path.cwd())
    if isinstance(unit, CompileUnit):
        return _version_object_of(unit, options)
    from mavcg.program.unversioned_outputs import refuse_unversioned, several_units, why_unversioned

    if units := several_units(command, Path.cwd()):
        return _version_several(units, options)
    if os.environ.get(UNDER_CCACHE):
        _add_for_ccache(command, options)
    outputs = why_unversioned(command, Path.cwd())
    if options.config is not None and outputs:
        file = read_build_file(options.config)
        leave_note(options.config, file)
        for output in outputs:
            refuse_unversioned(output, hot_of(file, options.config.parent))
    return None


def _refuse_foreign(command: Sequence[str], options: LaunchOptions) -> None:
    """Raise MavcgError for a command that compiles another language, if its code may need versions, or if strict."""
    from mavcg.program.foreign_compilers import foreign_command, refuse_foreign

    foreign = foreign_command(command, Path.cwd())
    if foreign is None:
        return
    hot: Sequence[HotSymbol] | None = None  # of the output; None where that is not known
    config = options.config or find_config((Path.cwd() / foreign.source).parent)
    if config is not None and foreign.output is not None and foreign.output.is_file():
        from mavcg.program.hot_functions import hot_in_object

        with suppress(MavcgError):  # an archive, or no ELF file
            hot = hot_in_object(foreign.output, hot_of(read_build_file(config), config.parent))
    refuse_foreign(foreign, hot, options.strict)


def _add_for_ccache(command: Sequence[str], options: LaunchOptions) -> None:
    from mavcg.program.unversioned_outputs import preprocessed_source

    source = preprocessed_source(command, Path.cwd())
    config = options.config or (find_config(source.source.parent) if source else None)
    if source and config:
        add_to_preprocessed(source.output, str(source.source), _files_of(config, read_build_file(config)))


def _files_of(config: Path, file: BuildFile) -> list[Path]:
    """Return the files that versions depend on in addition to the source."""
    return [config, *(config.parent / name for name in (file.profile, file.measurements) if name)]


def _version_object_of(unit: "CompileUnit", options: LaunchOptions, once: "PlainAssembly | None" = None) -> str | None:
    if unit.output is None or not unit.output.is_file():
        return None
    config = options.config or find_config(unit.source.parent)  # by the source: the build folder may be anywhere
    if config is None:
        raise MavcgError(
            f"{FILE_NAME}: not found in {Path.cwd()}, {unit.source.parent} or the folders above, and "
            "MAVCG_CONFIG is not set; write one that names hot functions (hot or profile) and cores"
        )
    file = read_build_file(config)
    if options.max_growth is not None:
        file = replace(file, max_growth=options.max_growth)
    depends = dependency_file(unit)
    if depends is not None:
        add_dependencies(depends, _files_of(config, file))
    leave_note(config, file)
    built = _version_unit(unit, file, config.parent, once)
    if built is not None and built.inputs and options.key:
        _keep(options.key, unit, config, file, built)
    return built.message if built else None


def _keep(key: str, unit: "CompileUnit", config: Path, file: BuildFile, built: "BuiltObject") -> None:
    """Keep an object with versions for the next command that would make it."""
    from mavcg.program.kept_object import keep_object
    from mavcg.program.made_with import files_of_mavcg, programs

    assert unit.output is not None
    own = [str(path.absolute()) for path in _files_of(config, file)]
    made_with = [*own, *programs(unit.compiler, (file.compiler or "").split()), *files_of_mavcg()]
    of_this_machine = file.board == "host" or any(flag.startswith("-m") and "=native" in flag for flag in unit.flags)
    keep_object(key, str(unit.output), shown_lines(built.kept_message), built.inputs, made_with, of_this_machine)


def leave_note(config: Path, file: BuildFile) -> None:
    """Leave what the short way of later commands needs to know (cold_launch.py)."""
    from mavcg.program.hot_symbols import certain_words

    profile = str((config.parent / file.profile).absolute()) if file.profile else ""
    with suppress(MavcgError):  # a profile that cannot be read: the long way says so
        words = certain_words(hot_of(file, config.parent))
        write_note(str(config), profile, [str(path.absolute()) for path in _files_of(config, file)], words)


def _version_several(units: "Sequence[CompileUnit]", options: LaunchOptions) -> str | None:
    """Make each object of a command again with versions; a failure of one does not stop the others."""
    lines: list[str] = []
    failed: list[str] = []
    for unit in units:
        try:
            line = _version_object_of(unit, options)
        except MavcgError as error:
            failed.append(str(error))
        else:
            lines += [line] if line else []
    if failed:
        raise MavcgError("; ".join(failed + [f"with versions: {line}" for line in lines]).replace("\n", "; "))
    return "\n".join(lines) or None


def _version_unit(
    unit: "CompileUnit", file: BuildFile, folder: Path, once: "PlainAssembly | None" = None
) -> "BuiltObject | None":
    """Make a unit's object again with versions, if it defines a hot function."""
    from mavcg.program.hot_symbols import may_define
    from mavcg.program.lto import is_bitcode, lto_of

    assert unit.output is not None
    hot = hot_of(file, folder)
    lto = lto_of(unit.flags)
    if lto is None:
        if not may_define(unit.output, hot):
            return None
        from mavcg.program.hot_functions import hot_in_object

        symbols = hot_in_object(unit.output, hot)
    elif is_bitcode(unit.output):
        from mavcg.program.hot_functions import hot_in_bitcode

        symbols = hot_in_bitcode(unit.output, hot)
        if symbols:
            from mavcg.program.bitcode import refuse_older_llvm

            refuse_older_llvm(unit.compiler)
    else:
        raise MavcgError(
            f"{unit.output.name}: GCC's -flto leaves code generation to its own linker plugin, and versions are made "
            "before it; leave it out for files with hot functions, or add -ffat-lto-objects"
        )
    if not symbols:
        return None
    from mavcg.program.launched_object import build_object

    return build_object(unit, file, folder, hot, [symbol.name for symbol in symbols], lto, once)


def hot_of(file: BuildFile, folder: Path) -> "tuple[HotSymbol, ...]":
    """Return the hot functions of a build file.

    The ranking of a profile is cached on disk, because the launcher needs it for every file of a build.
    Raises: MavcgError for a profile that cannot be read.
    """
    from mavcg.files.store import open_store
    from mavcg.program.hot_symbols import HotSymbol, parse_hot

    named = tuple(symbol for text in file.hot for symbol in parse_hot(text))
    if not file.profile:
        return named
    path = folder / file.profile
    try:
        state = path.stat()
    except OSError as error:
        if os.environ.get(PROFILING):  # `mavcg profile` builds the program before it records the profile
            return named
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); make it by `mavcg profile -o`") from error
    key = f"{path.resolve()} {state.st_mtime_ns} {state.st_size} {file.threshold} {file.max_functions}"
    store = open_store("hot")
    ranked = store.read(key, tuple[HotSymbol, ...])
    if ranked is None:
        from mavcg.program.request import profile_hot

        ranked = profile_hot(path, file.threshold, file.max_functions)
        store.write(key, ranked)
    return named + ranked
