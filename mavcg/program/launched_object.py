"""Makes the object of one unit of a user's build with versions, in place of the compiler's (`mavcg launch`)."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.whole_file import put_in_place
from mavcg.program.build_values import BuildRequest
from mavcg.program.buildfile import BuildFile
from mavcg.program.compiler_object import own_assembly, own_notes, rounding_as_gcc
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.launch_log import log_versions
from mavcg.program.lto import Lto
from mavcg.program.program import build_program
from mavcg.program.report import build_line
from mavcg.program.request import runtime_kind, settings
from mavcg.program.sources.arguments import words
from mavcg.program.sources.compile_commands import CompileUnit
from mavcg.program.sources.headers import is_zig, machine_of
from mavcg.program.sources.to_assembly import PlainAssembly
from mavcg.toolchain.codegen import open_code
from mavcg.toolchain.target import Target, default_target, host_target, parse_target

_CODE_FLAGS = re.compile(
    r"-f(no-)?(function-sections|data-sections|pic|PIC|pie|PIE|plt|asynchronous-unwind-tables|unwind-tables)$"
    r"|-mcmodel=|-ftls-model=|-mno-red-zone$"
)
# Options that do not say for which machine a compiler compiles, and what such ones begin with.
_NO_MACHINE = (
    "-c",
    "--compile",
    "-o",
    "--output",
    "-x",
    "-w",
    "-pipe",
    "-include",
    "-isystem",
    "-iquote",
    "-idirafter",
)
_NO_MACHINE_STARTS = ("-D", "-U", "-I", "-M", "-W", "-O", "-g", "-f", "-std=")


@dataclass(frozen=True)
class BuiltObject:
    """The result of building a unit with versions.

    message: about versions. inputs: absolute paths of the sources and headers of an object with versions; () if there
    is none, or not all of them are known.
    """

    message: str
    inputs: tuple[str, ...] = ()

    @property
    def kept_message(self) -> str:
        """The message for an object that is found in the cache."""
        return re.sub(r"[\d.]+ s of CPU time", "from the cache", self.message)


def build_object(
    unit: CompileUnit,
    file: BuildFile,
    folder: Path,
    hot: Sequence[HotSymbol],
    names: Sequence[str],
    lto: Lto | None,
    once: PlainAssembly | None,
) -> BuiltObject | None:
    """Build a unit with versions, and put the object in place of the compiler's if a function has a dispatcher.

    names: linkage names of the hot functions that the compiler's object defines. once: assembly by the unit's own
    compiler, if it was compiled once.
    Returns: None for a unit of another architecture than the cores'.
    Raises: MavcgError if no function can have versions.
    """
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
        plain = None if lto else unit.output.resolve()  # sizes of bitcode say nothing of its code's
        result = build_program(replace(request, output=versioned_object, own=own, plain=plain))
        if any(module.dispatched for module in result.modules):
            put_in_place(versioned_object, unit.output.resolve())
            log_versions(unit.output, [choice.function for module in result.modules for choice in module.choices])
            notes = [*result.notes, *own_notes(result, unit, own, why_whole)]
            inputs = result.inputs if own is None else (*result.inputs, *own.inputs) if own.inputs else ()
            return BuiltObject(build_line(result, [f"note: {note}" for note in notes]), inputs)
    if not any(module.choices for module in result.modules):
        raise MavcgError(build_line(result).replace(":\n", ": ", 1).replace("\n", "; "))
    return BuiltObject(build_line(result, ["the compiler's own object stays"]))


def target_of_unit(unit: CompileUnit) -> Target:
    """Return the target that the build's compiler compiles for.

    Raises: MavcgError where it compiles for another architecture than AArch64 and x86-64.
    """
    if is_zig(unit.compiler):  # zig has no -dumpmachine; without -target it compiles for this machine
        machine = _zig_target(unit.flags)
        with suppress(MavcgError):
            return parse_target(machine) if machine else host_target()
    else:
        machine = machine_of(unit.compiler, _machine_options(unit.flags)) or machine_of(unit.compiler)
    arch = {"arm64": "aarch64", "amd64": "x86_64"}.get(machine.partition("-")[0], machine.partition("-")[0])
    systems = (("android", "linux-android"), ("musl", "linux-musl"), ("apple", "macos"), ("darwin", "macos"))
    system = next((name for part, name in systems if part in machine), "linux-gnu")
    if arch not in ("aarch64", "x86_64"):
        machine = machine or "an unknown machine"
        raise MavcgError(f"{unit.compiler[0]}: compiles for {machine}; versions are made for AArch64 and x86-64 only")
    if system != "linux-gnu":
        return Target(arch, system)
    return host_target() if host_target().arch == arch else default_target(arch)


def _machine_options(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the options that may say for which machine a compiler compiles: those that are the same for all files."""
    kept = [word for word in words(flags) if word.name and word.name not in _NO_MACHINE]
    return tuple(part for word in kept if not word.name.startswith(_NO_MACHINE_STARTS) for part in word.text)


def _zig_target(flags: Sequence[str]) -> str:
    """Return the value of -target or --target=; "" for none."""
    target = ""
    for word in words(flags):
        if word.name in ("-target", "--target"):
            target = word.value
        elif word.name.startswith(("--target=", "-target=")):
            target = word.name.partition("=")[2]
    return "" if target.startswith("native") else target
