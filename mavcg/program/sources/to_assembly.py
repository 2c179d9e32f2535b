"""Compiles a C or C++ source to assembly by the program's own gcc, and assembles the text after changes."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import CannotRun, ToolError
from mavcg.program.sources.arguments import words
from mavcg.program.sources.command_line import TOOLCHAIN_OPTIONS
from mavcg.program.sources.compile_commands import CompileUnit
from mavcg.program.sources.dependencies import files_in_rule
from mavcg.program.sources.headers import is_zig
from mavcg.toolchain.kept_answers import kept_answer
from mavcg.toolchain.zig import run_tool

# Without these, gcc lets callers in the file rely on registers and stack alignment of a function's own code, which
# another definition of the function may not keep (GCC manual, -fipa-ra, -fipa-stack-alignment).
SEPARABLE = ("-fno-ipa-ra", "-fno-ipa-stack-alignment", "-fno-lto")
# Without these, callers may call specialised copies of a function (f.constprop.0, f.isra.0, f.part.0) instead of it.
NO_CLONES = ("-fno-ipa-cp", "-fno-ipa-sra", "-fno-partial-inlining", "-fno-ipa-icf")
DROPPED = frozenset(
    "-c --compile -S -o --output -M -MM -MD -MMD -MP -MG -MF -MT -MQ -MJ -aux-info -dumpbase -dumpdir -dumpbase-ext "
    "-fstack-usage -Werror -pedantic-errors".split()
)
DROPPED_STARTS = (
    "-save-temps",
    "--save-temps",
    "-fdump-",
    "-fopt-info",
    "-fcallgraph-info",
    "-flto",
    "-Wp,-M",
    "-ftime-report",
    "-Werror=",
)
# Options that name files after the output, or whose code refers to another file.
_BOUND = re.compile(
    r"-fprofile|-fauto-profile|-fbranch-probabilities|--?coverage|-ftest-coverage|-gsplit-dwarf|-masm=intel|-fplugin"
)


@dataclass(frozen=True)
class PlainAssembly:
    """The assembly of a source file by the program's own gcc.

    Args:
        assembler: the command that assembles it.
        directory: the folder that the commands run in.
        plain: the object that gcc made in the program's build.
        inlined: (callee, caller) pairs of functions that were inlined, as gcc prints them.
        inputs: absolute paths of the source and the headers that gcc read; () if not all are known.
    """

    text: str
    assembler: tuple[str, ...]
    directory: Path
    plain: Path
    inlined: tuple[tuple[str, str], ...] = ()
    inputs: tuple[str, ...] = ()

    def assemble(self, text: str, out: Path) -> None:
        """Assemble a changed text of this file. Raises: ToolError."""
        source = out.with_suffix(".s")
        source.write_text(text, encoding="utf-8", errors="surrogateescape")
        run_tool([*self.assembler, "-c", str(source), "-o", str(out)], f"assembling {self.plain.name}", self.directory)


@functools.lru_cache
def gcc_version(compiler: tuple[str, ...]) -> int:
    """Return a gcc's major version; 0 for another compiler, or one that does not take the query.

    Raises: CannotRun if it cannot be started: it may be gcc, whose code and rounding the object then has to have.
    """
    if is_zig(compiler):
        return 0
    try:
        macros = kept_answer([*compiler, "-E", "-dM", "-x", "c", "/dev/null"], "querying the compiler's macros")
    except CannotRun:
        raise
    except ToolError:
        return 0
    version = re.search(r"^#define __GNUC__ (\d+)$", macros, re.MULTILINE)
    return int(version[1]) if version and "__clang__" not in macros and "__INTEL_COMPILER" not in macros else 0


def why_bound(unit: CompileUnit) -> str | None:
    """Return the option that prevents compiling a file a second time to assembly, or None."""
    return next((flag for flag in unit.flags if _BOUND.match(flag)), None)


def compile_to_assembly(unit: CompileUnit, folder: Path, clones: bool) -> PlainAssembly:
    """Compile a unit to assembly by its own gcc, such that another object may define some of its functions.

    Args:
        folder: for intermediate files.
        clones: True if gcc may specialise copies of functions for some callers.
    Raises: ToolError when this gcc lacks an option.
    """
    command = [*unit.compiler, *_without_output(unit.flags), "-w", *assembly_options(folder, clones)]
    run_tool(command, f"{unit.source}: making its assembly", unit.directory)
    return read_assembly(unit, folder)


def assembly_options(folder: Path, clones: bool, depends: bool = True) -> list[str]:
    """Return the options with which gcc writes separable assembly, and what it inlined, for read_assembly.

    depends: True to write the names of the files that it reads, too.
    """
    report = f"-fopt-info-inline-optimized={folder / _REPORT}"
    read = ["-MD", "-MF", str(folder / _INPUTS)] if depends else []
    return [*SEPARABLE, *(() if clones else NO_CLONES), report, *read, "-S", "-o", str(folder / _ASSEMBLY)]


def read_assembly(unit: CompileUnit, folder: Path) -> PlainAssembly:
    """Return the assembly that gcc has written for a unit with assembly_options. Raises: OSError if it has not."""
    assert unit.output is not None
    report = folder / _REPORT
    text = (folder / _ASSEMBLY).read_text(encoding="utf-8", errors="surrogateescape")
    text = text.replace(str(report), _REPORT)  # debug information lists the options: objects would differ by run
    inlined = _INLINED.findall(report.read_text(errors="replace")) if report.is_file() else []
    pairs = tuple(dict.fromkeys((a, b) for a, b in inlined))
    inputs = files_in_rule(folder / _INPUTS, unit.directory)
    return PlainAssembly(text, _assembler(unit), unit.directory, unit.output, pairs, inputs)


_ASSEMBLY, _REPORT, _INPUTS = "plain.s", "inlined", "inputs"  # names of files
_INLINED = re.compile(r"[Ii]nlin\w+ (.+?)/\d+ into (.+?)/\d+", re.MULTILINE)


def _without_output(flags: Sequence[str]) -> list[str]:
    """Return the flags without those about output files, dependency files, LTO and errors."""
    selected: list[str] = []
    for word in words(flags):
        if word.name not in DROPPED and not word.name.startswith(DROPPED_STARTS):
            selected += word.text
    return selected


def _assembler(unit: CompileUnit) -> tuple[str, ...]:
    command = [*unit.compiler]
    for word in words(unit.flags):
        name = word.name.partition("=")[0]
        if name in TOOLCHAIN_OPTIONS or name in ("-B", "-Xassembler") or word.name.startswith(("-m", "-Wa,")):
            command += word.text
    return tuple(command)
