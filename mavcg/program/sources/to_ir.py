"""Compiles a C or C++ source to LLVM IR, before optimisation, with the program's own headers."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import MavcgError, ToolError
from mavcg.files.scratch import scratch_folder
from mavcg.program.sources.command_line import IrCommand, translate
from mavcg.program.sources.compile_commands import CompileUnit
from mavcg.program.sources.dependencies import files_in_rule
from mavcg.program.sources.headers import Headers, find_headers, is_zig, machine_matches, machine_of
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import protection_flags, run_tool, zig_command

# Messages of clang and zig about an option that they refuse; the group is the option or its beginning.
_REFUSED = tuple(
    re.compile(pattern)
    for pattern in (
        r"unknown argument:? '([^']+)'",
        r"unknown clang option: \"([^\"]+)\"",
        r"unknown [Cc]lang option: '([^']+)'",
        r"unsupported option '([^']+)'",
        r"option '([^']+)' (?:is )?not supported",
        r"unsupported argument '[^']*' to option '([^']+)'",
        r"invalid value '[^']*' in '([^']+)'",
        r"unsupported linker arg:? '?([^'\n]+)'?",
    )
)
MAX_RETRIES = 40  # clang may report refused options one at a time


@dataclass(frozen=True)
class Compiler:
    """The compiler that makes IR.

    Args:
        command: a clang, such as ("clang-19",) or the NDK's; None for ziglang's clang.
        headers: the compiler whose header folders are used, such as ("aarch64-linux-gnu-g++",); None for the program's
            own compiler.
    """

    command: tuple[str, ...] | None = None
    headers: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The compiler's name in notes."""
        return self.command[0] if self.command else "clang"


@dataclass(frozen=True)
class IrModule:
    """LLVM IR as text.

    Args:
        source: the file that it was compiled from.
        notes: messages about options that were left out.
        opt_level: the program's own -O level ("0", "1", "2", "3", "s", "z", "g", "fast"); None if unknown (--ir).
        inputs: absolute paths of the source and the headers that it includes; () if unknown (--ir).
        foreign_openmp: True if it has OpenMP regions, which call LLVM's library, but the program links gcc's.
    """

    text: str
    source: Path
    notes: tuple[str, ...] = ()
    opt_level: str | None = None
    foreign_openmp: bool = False
    inputs: tuple[str, ...] = ()


def compile_to_ir(
    unit: CompileUnit, target: Target, compiler: Compiler | None = None, keep_debug: bool = False
) -> IrModule:
    """Compile a unit to LLVM IR for a target, before any optimisation.

    Functions are not `optnone`, whatever the program's -O level; `target-features` has the program's extensions.
    Options that clang does not know are dropped, with a note.
    Raises: ToolError if the source does not compile or a compiler is missing; MavcgError for 32-bit code.
    """
    compiler = compiler or Compiler()
    command = translate(unit.flags, target, unit.language, keep_debug)
    action = f"{unit.source}: making LLVM IR for {target.zig_name}"
    if not unit.source.is_file():
        raise MavcgError(f"{unit.source}: is not there; build the program again, or correct its compile command")
    if not unit.directory.is_dir():
        raise MavcgError(f"{unit.source}: its compile directory {unit.directory} is not there; build the program again")
    clang, before, header_notes = _driver(unit, command, target, compiler)
    with scratch_folder("mavcg-") as folder:
        output, included = Path(folder, "unit.ll"), Path(folder, "unit.d")
        fixed = ["-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm", "-x", unit.language]
        fixed += [unit.source_as_written, "-o", str(output), "-MD", "-MF", str(included)]
        try:
            options = (*protection_flags(target), *command.options)  # the program's own options follow and override
            refused = _run_dropping_refused(clang, options, [*before, *fixed], unit.directory, action)
        except ToolError as error:  # a left-out option may be the cause
            raise ToolError("\n  note: ".join([str(error), *command.notes, *header_notes])) from error
        text = output.read_text(encoding="utf-8", errors="surrogateescape")
        inputs = files_in_rule(included, unit.directory)
    dropped = [f"{option}: {compiler.name} does not take it; left out" for option in refused]
    notes = (*command.notes, *header_notes, *dropped)
    return IrModule(text, unit.source, notes, command.opt_level, _has_foreign_openmp(text, unit), inputs)


def _driver(
    unit: CompileUnit, command: IrCommand, target: Target, compiler: Compiler
) -> tuple[list[str], list[str], tuple[str, ...]]:
    """Return the clang to run, its options for target and headers, and notes about them."""
    if compiler.command is None:
        clang = [*zig_command("clang"), f"--target={target.llvm_triple}"]
        headers = _headers(unit, command, target, compiler)
        # omp.h is in gcc's own folder, which otherwise only gcc can read: searched last, it provides only omp.h.
        last = headers.private if any(flag.startswith("-fopenmp") for flag in unit.flags) else ()
        options = [*headers.options, *(part for folder in last for part in ("-idirafter", folder))]
        return clang, options, headers.notes
    # A named clang has its own headers, and perhaps its own target (the NDK's drivers have the API level).
    chosen = list(command.toolchain)
    if not machine_matches(machine_of(compiler.command, command.toolchain), target):
        chosen = [f"--target={target.llvm_triple}"]
    if compiler.headers is None:
        return list(compiler.command), chosen, ()
    headers = _headers(unit, command, target, compiler)
    return list(compiler.command), [*chosen, *headers.options], headers.notes


def _headers(unit: CompileUnit, command: IrCommand, target: Target, compiler: Compiler) -> Headers:
    if compiler.headers is not None:
        return find_headers(compiler.headers, (), target, unit.is_cxx)
    first, *rest = unit.compiler
    if "/" in first:  # relative to where it runs
        first = str(unit.directory / first)
    return find_headers((first, *rest), command.toolchain, target, unit.is_cxx)


def _run_dropping_refused(
    clang: Sequence[str], options: Sequence[str], fixed: Sequence[str], directory: Path, action: str
) -> list[str]:
    """Run clang repeatedly, without the options that it refuses; return the refused options.

    fixed: arguments that are never dropped. action: for messages.
    """
    accepted, refused = list(options), list[str]()
    for _ in range(MAX_RETRIES):
        try:
            run_tool([*clang, *accepted, *fixed], action, directory)
            return refused
        except ToolError as error:
            named = _refused_options(str(error), accepted)
            if not named:
                raise
            refused += [option for option in accepted if option in named]
            accepted = [option for option in accepted if option not in named]
    raise ToolError(f"{action}: {len(refused)} options refused ({shlex.join(refused[:8])} ...); is this a clang?")


def _refused_options(message: str, options: Sequence[str]) -> set[str]:
    named = {name for pattern in _REFUSED for name in pattern.findall(message)}
    starts = tuple(name for name in named if name.endswith("="))
    return {o for o in options if o in named or (starts and o.startswith(starts))}


def _has_foreign_openmp(text: str, unit: CompileUnit) -> bool:
    # clang's OpenMP calls libomp (__kmpc_*); a program built by gcc links libgomp, which has no such symbols.
    return "@__kmpc_" in text and not (is_zig(unit.compiler) or "clang" in unit.compiler[0])


def refuse_foreign_openmp(module: IrModule, compiler: str) -> None:
    """Refuse a module whose OpenMP regions the program cannot run. Raises: MavcgError."""
    if module.foreign_openmp:
        raise MavcgError(
            f"{module.source}: has OpenMP regions, and {compiler} links gcc's OpenMP library, which clang's code "
            "cannot call; compile the file without -fopenmp, or build the program with clang"
        )
