"""Writes what people read of a build: tables of `mavcg build` and `mavcg inspect`, a line for the log of a build."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mavcg.assembly.version_tuning import VersionTuning
from mavcg.hardware.board import Board
from mavcg.objects.inspection import Inspection
from mavcg.program.build_values import BuildResult
from mavcg.program.objects import ModuleObjects
from mavcg.program.profiling.demangle import demangle
from mavcg.program.report_words import hottest_first, runs_on, shorten, shown_versions, tuning_line
from mavcg.program.unmodelled_versions import is_unknown, unmodelled_remark
from mavcg.program.version_choice import FunctionChoice, VersionChoice
from mavcg.text.safe_text import printable_line

if TYPE_CHECKING:
    from rich.console import Console

_LINE_COLUMNS = 240  # longer lines for the log of a build are divided


def build_line(result: BuildResult, more: Sequence[str] = ()) -> str:
    """Describe the result for the log of the user's build: in one line, or in a line for each part if it is long.

    more: further parts, such as notes.
    """
    parts = []
    for module in result.modules:
        names = [demangle(name) for name in (*(choice.function for choice in module.choices), *module.refused)]
        for choice in module.choices:
            bodies = "one version for all" if choice.is_single else ", ".join(choice.bodies)
            parts.append(f"{shorten(demangle(choice.function), names)} ({bodies})")
            parts += [f"without {v.label}: {v.dropped}" for v in choice.versions if v.dropped and not v.level_of]
        parts += [f"{shorten(demangle(name), names)} left as it was: {why}" for name, why in module.refused.items()]
    cost = [growth_line(result)] if any(module.choices for module in result.modules) else []
    return lines_of(result.output.name, [*parts, *cost, *more])


def lines_of(head: str, parts: Sequence[str]) -> str:
    """Return `head: part; part` if that is short, else the head and a line for each part; no name begins a line."""
    line = printable_line(f"{head}: {'; '.join(parts)}")
    if len(line) <= _LINE_COLUMNS or len(parts) < 2:
        return line
    return "\n".join([printable_line(f"{head}:"), *map(printable_line, parts)])


def growth_line(result: BuildResult) -> str:
    """Describe what versions cost: growth of the input's code, and processor time of the build."""
    single, multi = result.module_bytes
    percent = 100 * (multi - single) / max(1, single)
    return f"growth {percent:.0f} % ({single} to {multi} bytes, {result.cpu_seconds:.1f} s of CPU time)"


def show_build(result: BuildResult, board: Board | None, console: "Console") -> None:
    """Print a table of functions and versions, with reasons, sizes and CPUs."""
    from rich.table import Table

    table = Table(title=f"{result.output} for {result.target.zig_name}", title_justify="left", box=None, pad_edge=False)
    for name, justify in (
        ("function", "left"),
        ("version", "left"),
        ("bytes", "right"),
        ("runs on", "left"),
        ("", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    why = {symbol.name: symbol.why for symbol in result.hot}
    names = [demangle(n) for m in result.modules for n in (*(c.function for c in m.choices), *m.refused)]
    for module, choice in hottest_first(result):
        _add_function(table, choice, why.get(choice.function, ""), result, board, module, names)
    for module in result.modules:
        for name, reason in module.refused.items():
            table.add_row(shorten(demangle(name), names), "as it was", "", "every core", f"refused: {reason}")
    console.print(table)
    console.print(
        f"\ncode growth {result.growth_percent:.2f} % over the single-version build (counted: versions, dispatchers, "
        f"{result.runtime_bytes} bytes of run-time selector, of {result.total_bytes} bytes in all); "
        f"built in {result.seconds:.1f} s, {result.cpu_seconds:.1f} s of CPU time"
    )
    if any(tuning.unit for module in result.modules for tuning in module.tunings.values()):
        console.print(
            "main loop: the hottest, by the nesting of loops and trip counts in the code; its figures are of models of "
            "the cores, not measured"
        )
    if result.target.arch == "x86_64" and any(
        is_unknown(version) for module in result.modules for c in module.choices for version in c.versions
    ):
        console.print(
            "x86-64 cores have no model: their versions stay for instructions that generic's code may not have; "
            "`mavcg auto -- ./app args` measures them on this machine, and drops those that do not help"
        )
    for symbol in result.not_found:
        console.print(f"not in the input, left as it is: {shorten(symbol.given_name)} ({symbol.why})")
    for text in result.notes:
        console.print(f"note: {text}")


def _add_function(
    table: Any,
    choice: FunctionChoice,
    why: str,
    result: BuildResult,
    board: Board | None,
    module: ModuleObjects,
    names: Sequence[str],
) -> None:
    first = shorten(demangle(choice.function), names)
    details = ", ".join(filter(None, [why, module.source]))
    for number, version in enumerate(shown_versions(module, choice)):
        name = first if number == 0 else (details if number == 1 else "")
        where = runs_on(version.core_type, result.cores, board)
        tuning = module.tunings.get((choice.function, version.label))
        remark = _remark(version, choice, tuning) or unmodelled_remark(
            version, module.needs.get((choice.function, version.body), ())
        )
        table.add_row(name, version.label, str(version.bytes), where, remark)
    if len(choice.versions) == 1:
        table.add_row(details)


def _remark(version: VersionChoice, choice: FunctionChoice, tuning: VersionTuning | None) -> str:
    if version.dropped:
        return f"dropped, runs generic: {version.dropped}"
    if version.nearly_equal:
        return f"runs the version of {version.body}: {version.nearly_equal}"
    if version.shares_body_with:
        return f"same machine code as {version.shares_body_with}: shared"
    if choice.is_single and version.label == "generic":
        return "one version for all: called directly"
    if version.verdict and version.verdict.is_slower:
        return f"slower than generic: {version.verdict.why}"
    return tuning_line(tuning.as_json()) if tuning else ""


def show_inspection(inspection: Inspection, console: "Console") -> None:
    """Print a library's dispatchers, versions, sizes, code growth, and imported libraries and symbols."""
    from rich.table import Table

    table = Table(title=str(inspection.path), title_justify="left", box=None, pad_edge=False)
    table.add_column("function")
    table.add_column("version")
    table.add_column("bytes", justify="right")
    table.add_column("extensions")
    table.add_column("")
    names = [demangle(function["name"]) for function in inspection.functions]
    for function in inspection.functions:
        name = shorten(demangle(function["name"]), names)
        for number, version in enumerate(function["versions"]):
            shared = version["shares_body_with"]
            table.add_row(
                name if number == 0 else "",
                version.get("version", version["core"]),
                str(version["bytes"]),
                " ".join(version.get("extensions", ())) + (" (assumed)" if version.get("extensions_assumed") else ""),
                f"same code as {shared}" if shared else tuning_line(version["model"]) if version.get("model") else "",
            )
        for dropped in function["dropped"]:
            table.add_row("", dropped.get("version", dropped["core"]), "", "", f"dropped: {dropped['why']}")
    console.print(table)
    for name, why in inspection.refused.items():
        console.print(f"refused: {shorten(demangle(name), [*names, *map(demangle, inspection.refused)])}: {why}")
    console.print(
        f"\ncode growth {inspection.growth_percent:.2f} % over the single-version build; {inspection.loaded_bytes} "
        f"bytes loaded, {inspection.runtime_bytes} of them the run-time selector (counted)"
    )
    console.print(f"needs {', '.join(inspection.libraries) or 'no library'}: {_symbols(inspection.needed)}")
    console.print(f"branch protection: {', '.join(inspection.protection) or 'none'}")


def _symbols(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "no symbols"
