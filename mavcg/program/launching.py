"""Makes the object of one compiler command of a user's build, with versions of its hot functions (`mavcg launch`).

The build's own compiler runs first, unchanged. If its object defines a hot function, the object is made again with
versions; if that fails, the compiler's object stays, and the reason is reported.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.whole_file import put_in_place
from mavcg.program.buildfile import FILE_NAME, BuildFile, read_build_file
from mavcg.program.cold_launch import nearest, write_note
from mavcg.program.depfile import add_dependencies, add_to_preprocessed, dependency_file
from mavcg.program.launch_log import log_versions
from mavcg.program.project_commands import PROFILING
from mavcg.text.terminal import say

if TYPE_CHECKING:
    from mavcg.program.hot_symbols import HotSymbol
    from mavcg.program.lto import Lto
    from mavcg.program.sources.compile_commands import CompileUnit
    from mavcg.program.sources.to_assembly import PlainAssembly
    from mavcg.toolchain.target import Target

_CODE_FLAGS = re.compile(
    r"-f(no-)?(function-sections|data-sections|pic|PIC|pie|PIE|plt|asynchronous-unwind-tables|unwind-tables)$"
    r"|-mcmodel=|-ftls-model=|-mno-red-zone$"
)
# ccache sets it for the compilers that it runs (ccache manual, CCACHE_DISABLE).
UNDER_CCACHE = "CCACHE_DISABLE"


@dataclass(frozen=True)
class LaunchOptions:
    """Options of `mavcg launch`.

    Args:
        config: path of the mavcg.toml; None for the nearest one above the source.
        strict: True to fail the build if an object should have versions and has none.
        max_growth: bound on the growth of each file's code, in percent; None for that of the mavcg.toml.
    """

    config: Path | None
    strict: bool = False
    max_growth: float | None = None


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
    if made is None or made.unit.output is None:
        return None
    inode = made.unit.output.stat().st_ino
    try:
        return OnceResult(0, _version_object_of(made.unit, options, made.own))
    finally:
        if made.keeps_object(inode):
            run_compiler(made.command)


def version_object(command: Sequence[str], options: LaunchOptions) -> str | None:
    """Make the object of a finished compiler command again with versions, if it defines a hot function.

    Returns: a message about the result; None if there is nothing to version.
    Raises: MavcgError if versions should have been made and could not; the compiler's object then stays.
    """
    from mavcg.program.sources.compile_commands import CompileUnit, read_command

    _name_foreign(command, options)
    unit = read_command(command, Path.cwd())
    if isinstance(unit, CompileUnit):
        return _version_object_of(unit, options)
    from mavcg.program.unversioned_outputs import several_units

    if units := several_units(command, Path.cwd()):
        return _version_several(units, options)
    if os.environ.get(UNDER_CCACHE):
        _add_for_ccache(command, options)
    if options.config is not None:
        _name_unversioned(command, options.config)
    return None


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
    return _version_unit(unit, file, config.parent, once)


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


def _name_unversioned(command: Sequence[str], config: Path) -> None:
    """Raise MavcgError for a command that compiles hot functions but does not make an object of one source."""
    from mavcg.program.hot_functions import match_names
    from mavcg.program.unversioned_outputs import why_unversioned

    for output in why_unversioned(command, Path.cwd()):
        hot = hot_of(read_build_file(config), config.parent)
        symbols = match_names(hot, _functions_in(output.output)) if output.is_text else _hot_in(output.output, hot)
        if symbols:
            names = ", ".join(symbol.given_name for symbol in symbols[:3])
            raise MavcgError(f"{output.output.name}: {names}: {output.reason}")


def _name_foreign(command: Sequence[str], options: LaunchOptions) -> None:
    """Raise MavcgError for a command that compiles another language, if its code may need versions, or if strict."""
    from mavcg.program.foreign_compilers import foreign_command

    foreign = foreign_command(command, Path.cwd())
    if foreign is None:
        return
    hot: Sequence[HotSymbol] | None = None  # of the output; None where that is not known
    config = options.config or find_config((Path.cwd() / foreign.source).parent)
    if config is not None and foreign.output is not None and foreign.output.is_file():
        with suppress(MavcgError):  # an archive, or no ELF file
            hot = _hot_in(foreign.output, hot_of(read_build_file(config), config.parent))
    if hot == () or hot == []:
        if not options.strict:
            return
        told = "it has no hot function, but --strict allows only what mavcg could version; leave out `mavcg launch`"
    elif hot:
        told = f"{', '.join(symbol.given_name for symbol in hot[:3])} cannot have versions"
    else:
        told = "whether it has hot functions is not known; leave out `mavcg launch`"
    raise MavcgError(
        f"{foreign.compiler}: {foreign.source} is {foreign.language}, and versions are made of C and C++: {told}; "
        "LLVM IR of it can be given to `mavcg build --ir`"
    )


def _functions_in(assembly: Path) -> list[str]:
    from mavcg.passes.asm.transforms.remove_definitions import defined_symbols
    from mavcg.program.profiling.demangle import base_symbol

    text = assembly.read_text(encoding="utf-8", errors="surrogateescape")
    functions = (name for name, symbol in defined_symbols(text).items() if symbol.kind == "function")
    return list(dict.fromkeys(map(base_symbol, functions)))


def _hot_in(binary: Path, hot: "Sequence[HotSymbol]") -> "Sequence[HotSymbol]":
    """Return the hot functions that an object or program defines."""
    from mavcg.objects.elf import function_symbols
    from mavcg.program.hot_functions import match_names
    from mavcg.program.profiling.demangle import base_symbol

    names = list(dict.fromkeys(base_symbol(name) for name, _ in function_symbols(binary)))
    return match_names(hot, names)


def _hot_in_bitcode(bitcode: Path, hot: "Sequence[HotSymbol]") -> "Sequence[HotSymbol]":
    """Return the hot functions that a file of LLVM bitcode defines."""
    from mavcg.passes.ir.module_text import parse_module
    from mavcg.program.hot_functions import match_names
    from mavcg.program.profiling.demangle import base_symbol
    from mavcg.program.sources.load_ir import load_ir

    names = parse_module(load_ir(bitcode).text).definitions()
    return match_names(hot, list(dict.fromkeys(map(base_symbol, names))))


def _version_unit(
    unit: "CompileUnit", file: BuildFile, folder: Path, once: "PlainAssembly | None" = None
) -> str | None:
    from mavcg.program.hot_symbols import may_define
    from mavcg.program.lto import is_bitcode, lto_of

    assert unit.output is not None
    hot = hot_of(file, folder)
    lto = lto_of(unit.flags)
    if lto is None:
        symbols = _hot_in(unit.output, hot) if may_define(unit.output, hot) else ()
    elif is_bitcode(unit.output):
        symbols = _hot_in_bitcode(unit.output, hot)
        if symbols:
            from mavcg.program.bitcode import refuse_older_llvm

            refuse_older_llvm(unit.compiler)
    else:
        raise MavcgError(
            f"{unit.output.name}: GCC's -flto leaves code generation to its own linker plugin, and versions are made "
            "before it; leave it out for files with hot functions, or add -ffat-lto-objects"
        )
    return _build(unit, file, folder, hot, [symbol.name for symbol in symbols], lto, once) if symbols else None


def _build(
    unit: "CompileUnit",
    file: BuildFile,
    folder: Path,
    hot: "Sequence[HotSymbol]",
    names: Sequence[str],
    lto: "Lto | None",
    once: "PlainAssembly | None",
) -> str | None:
    from mavcg.program.build_values import BuildRequest
    from mavcg.program.compiler_object import own_assembly, own_notes, rounding_as_gcc
    from mavcg.program.program import build_program
    from mavcg.program.report import build_line
    from mavcg.program.request import runtime_kind, settings
    from mavcg.toolchain.codegen import open_code

    assert unit.output is not None
    target = target_of_unit(unit)
    chosen = settings(file, folder)
    if chosen.cores and chosen.cores[0].arch != target.arch:
        return None  # a tool that runs during the build, for this machine
    request = BuildRequest(
        output=unit.output,
        target=target,
        cores=chosen.cores,
        hot=tuple(replace(symbol, named_by_user=False) for symbol in hot),
        units=(rounding_as_gcc(unit),),
        compiler=chosen.compiler,
        limits=chosen.limits,
        gains=chosen.gains,
        per_core_rounding=chosen.per_core_rounding,
        tuning=chosen.tuning,
        runtime=runtime_kind(file, target),
        code_flags=("-fPIC", *(flag for flag in unit.flags if _CODE_FLAGS.match(flag))),
        keep_debug=any(re.match(r"-g[\dg]?$|-gdwarf", flag) and flag != "-g0" for flag in unit.flags),
        workers=1,  # the build starts as many compilers as it needs
        lto=lto,
        code=open_code(),
    )
    with scratch_folder(".mavcg-", unit.output.resolve().parent) as scratch:
        versioned_object = Path(scratch) / unit.output.name
        own, why_whole = (None, "") if lto else own_assembly(unit, names, Path(scratch), once)
        result = build_program(replace(request, output=versioned_object, own=own))
        if any(module.dispatched for module in result.modules):
            put_in_place(versioned_object, unit.output.resolve())
            log_versions(unit.output, [choice.function for module in result.modules for choice in module.choices])
            notes = [*result.notes, *own_notes(result, unit, own, why_whole)]
            return build_line(result, [f"note: {note}" for note in notes])
    if not any(module.choices for module in result.modules):
        raise MavcgError(build_line(result).replace(":\n", ": ", 1).replace("\n", "; "))
    return build_line(result, ["the compiler's own object stays"])


def target_of_unit(unit: "CompileUnit") -> "Target":
    """Return the target that the build's compiler compiles for.

    Raises: MavcgError where it compiles for another architecture than AArch64 and x86-64.
    """
    from mavcg.program.sources.headers import is_zig, machine_of
    from mavcg.toolchain.target import Target, default_target, host_target, parse_target

    if is_zig(unit.compiler):  # zig has no -dumpmachine; without -target it compiles for this machine
        machine = _zig_target(unit.flags)
        with suppress(MavcgError):
            return parse_target(machine) if machine else host_target()
    else:
        machine = machine_of(unit.compiler, unit.flags) or machine_of(unit.compiler)
    arch = {"arm64": "aarch64", "amd64": "x86_64"}.get(machine.partition("-")[0], machine.partition("-")[0])
    systems = (("android", "linux-android"), ("musl", "linux-musl"), ("apple", "macos"), ("darwin", "macos"))
    system = next((name for part, name in systems if part in machine), "linux-gnu")
    if arch not in ("aarch64", "x86_64"):
        machine = machine or "an unknown machine"
        raise MavcgError(f"{unit.compiler[0]}: compiles for {machine}; versions are made for AArch64 and x86-64 only")
    if system != "linux-gnu":
        return Target(arch, system)
    return host_target() if host_target().arch == arch else default_target(arch)


def _zig_target(flags: Sequence[str]) -> str:
    """Return the value of -target or --target=; "" for none."""
    from mavcg.program.sources.arguments import words

    target = ""
    for word in words(flags):
        if word.name in ("-target", "--target"):
            target = word.value
        elif word.name.startswith(("--target=", "-target=")):
            target = word.name.partition("=")[2]
    return "" if target.startswith("native") else target


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
