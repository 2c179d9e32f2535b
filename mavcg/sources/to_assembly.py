"""Compile one C or C++ source with its own gcc to assembly, and assemble such text."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import ToolError
from mavcg.sources.arguments import words
from mavcg.sources.command_line import TOOLCHAIN_OPTIONS
from mavcg.sources.compile_commands import CompileUnit
from mavcg.sources.headers import is_zig
from mavcg.toolchain.zig import run_tool

# Between a function and another definition of it in the same file: gcc lets callers count on the registers that its own
# code leaves alone, and on the stack alignment that it needs (GCC manual, -fipa-ra, -fipa-stack-alignment).
SEPARABLE = ("-fno-ipa-ra", "-fno-ipa-stack-alignment", "-fno-lto")
# Callers would call copies of a function that are made for them (f.constprop.0, f.isra.0, f.part.0) in its place.
NO_CLONES = ("-fno-ipa-cp", "-fno-ipa-sra", "-fno-partial-inlining", "-fno-ipa-icf")
_DROPPED = frozenset(
    "-c --compile -S -o --output -M -MM -MD -MMD -MP -MG -MF -MT -MQ -MJ -aux-info -dumpbase -dumpdir -dumpbase-ext "
    "-fstack-usage -Werror -pedantic-errors".split()
)
_DROPPED_STARTS = (
    "-save-temps", "--save-temps", "-fdump-", "-fopt-info", "-fcallgraph-info", "-flto", "-Wp,-M", "-ftime-report",
    "-Werror=",
)  # fmt: skip
# Whose files are named after the output, or whose code belongs to another file.
_BOUND = re.compile(
    r"-fprofile|-fauto-profile|-fbranch-probabilities|--?coverage|-ftest-coverage|-gsplit-dwarf|-masm=intel|-fplugin"
)


@dataclass(frozen=True)
class PlainAssembly:
    """A gcc's own assembly of a file.

    Args:
        assembler: the command that assembles such text.
        plain: the gcc's own object.
        inlined: pairs of functions, as gcc prints them: the first was inlined into the second.
    """

    text: str
    assembler: tuple[str, ...]
    directory: Path
    plain: Path
    inlined: tuple[tuple[str, str], ...] = ()

    def assemble(self, text: str, out: Path) -> None:
        """Assemble text of this file. Raises: ToolError."""
        source = out.with_suffix(".s")
        source.write_text(text, encoding="utf-8", errors="surrogateescape")
        run_tool([*self.assembler, "-c", str(source), "-o", str(out)], f"assembling {self.plain.name}", self.directory)


@functools.lru_cache
def gcc_version(compiler: tuple[str, ...]) -> int:
    """Return a gcc's major version; 0 for every other compiler, and for one that cannot be queried."""
    if is_zig(compiler):
        return 0
    try:
        macros = run_tool([*compiler, "-E", "-dM", "-x", "c", "/dev/null"], "querying the compiler's macros")
    except ToolError:
        return 0
    version = re.search(r"^#define __GNUC__ (\d+)$", macros, re.MULTILINE)
    return int(version[1]) if version and "__clang__" not in macros and "__INTEL_COMPILER" not in macros else 0


def why_bound(unit: CompileUnit) -> str | None:
    """Return the option for which a file's assembly cannot be made a second time, or None."""
    return next((flag for flag in unit.flags if _BOUND.match(flag)), None)


def compile_to_assembly(unit: CompileUnit, folder: Path, clones: bool) -> PlainAssembly:
    """Compile the unit to assembly by its own gcc, with functions that another object may define.

    Args:
        folder: for intermediate files.
        clones: True if gcc may make copies of functions for some of their callers.
    Raises: ToolError when this gcc lacks an option.
    """
    assert unit.output is not None
    made, report = folder / "plain.s", folder / "inlined"
    command = [*unit.compiler, *_meaning(unit.flags), *SEPARABLE, *(() if clones else NO_CLONES)]
    command += ["-w", f"-fopt-info-inline-optimized={report}", "-S", "-o", str(made)]
    run_tool(command, f"{unit.source}: making its assembly", unit.directory)
    text = made.read_text(encoding="utf-8", errors="surrogateescape")
    inlined = _INLINED.findall(report.read_text(errors="replace")) if report.is_file() else []
    pairs = tuple(dict.fromkeys((a, b) for a, b in inlined))
    return PlainAssembly(text, _assembler(unit), unit.directory, unit.output, pairs)


_INLINED = re.compile(r"[Ii]nlin\w+ (.+?)/\d+ into (.+?)/\d+", re.MULTILINE)


def _meaning(flags: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for word in words(flags):
        if word.name not in _DROPPED and not word.name.startswith(_DROPPED_STARTS):
            kept += word.text
    return kept


def _assembler(unit: CompileUnit) -> tuple[str, ...]:
    kept = [*unit.compiler]
    for word in words(unit.flags):
        name = word.name.partition("=")[0]
        if name in TOOLCHAIN_OPTIONS or name in ("-B", "-Xassembler") or word.name.startswith(("-m", "-Wa,")):
            kept += word.text
    return tuple(kept)
