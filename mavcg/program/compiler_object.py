"""Decides what `mavcg launch` keeps of the build's own gcc: its code of cold functions, and its rounding rule."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.errors import CannotRun, ToolError
from mavcg.objects.elf import function_symbols
from mavcg.passes.asm.transforms.remove_definitions import defined_symbols
from mavcg.program.profiling.demangle import base_symbol, demangle
from mavcg.program.sources.compile_commands import CompileUnit
from mavcg.program.sources.to_assembly import PlainAssembly, compile_to_assembly, gcc_version, why_bound

if TYPE_CHECKING:
    from mavcg.program.build_values import BuildResult

_CONTRACT_ON = 14  # the first gcc in which -ffp-contract=on does not mean off (GCC 14 release notes)


def own_assembly(
    unit: CompileUnit, hot: Sequence[str], folder: Path, once: PlainAssembly | None = None
) -> tuple[PlainAssembly | None, str]:
    """Return (gcc's assembly of the unit, for adding versions, ""), or (None, the reason why it cannot be used).

    Args:
        hot: linkage names of the functions that get versions.
        folder: for intermediate files.
        once: the assembly of the unit, if it was compiled to assembly before, with specialised copies.
    Raises: CannotRun if the unit's compiler cannot be started.
    """
    assert unit.output is not None
    if not gcc_version(unit.compiler):
        return None, "its compiler is not gcc"
    if flag := why_bound(unit):
        return None, f"{flag} binds a file's code to its output"
    hot = [name for name in hot if "._omp_fn" not in name]  # gcc's outlined OpenMP regions, which stay gcc's
    names = [name for name, _ in function_symbols(unit.output) if "._omp_fn" not in name]
    cloned = any(base_symbol(name) in hot and name not in hot and not name.endswith(".cold") for name in names)
    try:
        own = once if once and not cloned else compile_to_assembly(unit, folder, clones=not cloned)
    except CannotRun:
        raise
    except ToolError as error:
        return None, str(error)
    present = defined_symbols(own.text)
    absent = next((name for name in hot if name not in present), None)
    return (None, f"gcc has {demangle(absent)} only as copies for its callers") if absent else (own, "")


def _qualified_name(name: str) -> str:
    """Return a function's qualified name, from `int nn::dot<T>(T*) [with T = int]`; C's names are themselves."""
    match = re.search(r"([\w:~]+)(?:<.*>)?\(", name)
    return match[1] if match else name


def contraction(unit: CompileUnit) -> str:
    """Return gcc's rule for fusing products and sums in a unit: "off", "on" (in an expression) or "fast" (anywhere).

    Source: GCC manual, -ffp-contract; the default is off in ISO C, fast elsewhere.
    """
    values = [flag.partition("=")[2] for flag in unit.flags if flag.startswith("-ffp-contract=")]
    if values:
        return "off" if values[-1] == "on" and gcc_version(unit.compiler) < _CONTRACT_ON else values[-1]
    standards = [flag for flag in unit.flags if re.match(r"--?std=|-ansi$", flag)]
    is_iso = bool(standards) and bool(re.match(r"--?std=(c|iso)|-ansi$", standards[-1]))
    return "off" if is_iso and not unit.is_cxx and not _is_fast_math(unit) else "fast"


def _is_fast_math(unit: CompileUnit) -> bool:
    return any(flag in ("-ffast-math", "-Ofast", "-funsafe-math-optimizations") for flag in unit.flags)


def rounding_as_gcc(unit: CompileUnit) -> CompileUnit:
    """Return the unit with gcc's contraction rule as an option, if clang has the same rule."""
    if not gcc_version(unit.compiler) or contraction(unit) != "off":
        return unit
    return replace(unit, arguments=(*unit.arguments, "-ffp-contract=off"))


def own_notes(result: "BuildResult", unit: CompileUnit, compiled: PlainAssembly | None, why_whole: str) -> list[str]:
    """Return notes about possible differences in the last bit between the object and that of the build's compiler."""
    dispatched = [c.function for module in result.modules for c in module.choices if not c.is_single]
    why = why_whole or next((module.whole for module in result.modules if module.whole), "")
    notes: list[str] = []
    if not gcc_version(unit.compiler):
        return notes  # clang also compiles the cold functions
    if why:
        notes.append(f"cold functions of this file are made by clang, too, not by {unit.compiler[0]}: {why}")
    elif compiled:
        notes += [
            f"gcc inlined {demangle(name)} into {', '.join(into)}: that copy stays gcc's"
            for name in dispatched
            if (
                into := sorted(
                    {
                        _qualified_name(b)
                        for a, b in compiled.inlined
                        if _qualified_name(a) == _qualified_name(demangle(name))
                    }
                )
            )
        ]
    sums = {f: fused for module in result.modules for f, fused in module.sums_products.items() if f in dispatched}
    fused = [demangle(f) for f, has_instruction in sums.items() if has_instruction]
    if _is_fast_math(unit) and sums:
        notes.append(
            f"{', '.join(map(demangle, sums))}: fast-math lets gcc and clang round differently in the last bits"
        )
    elif fused and contraction(unit) == "fast":
        notes.append(
            f"{', '.join(fused)}: gcc fuses products and sums over statements (-ffp-contract=fast), versions within an "
            "expression: last bits may differ from gcc's; with -ffp-contract=off they do not"
        )
    return notes
