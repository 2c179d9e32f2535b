"""Writes the reports of `mavcg build` and `mavcg inspect`, as tables and as JSON."""

from collections.abc import Mapping, Sequence
from os.path import commonprefix
from typing import TYPE_CHECKING, Any

from mavcg.assembly.version_tuning import VersionTuning
from mavcg.hardware.board import Board
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.cpu_list import cpus_text
from mavcg.objects.inspection import Inspection
from mavcg.program.objects import ModuleObjects
from mavcg.program.profiling.demangle import demangle
from mavcg.program.program import BuildResult
from mavcg.program.unmodelled_versions import is_unknown, unmodelled_remark
from mavcg.program.version_choice import FunctionChoice, VersionChoice
from mavcg.text.safe_text import printable_line

if TYPE_CHECKING:
    from rich.console import Console

_NAME_COLUMNS = 44
_AROUND = 12  # characters shown at both ends of a name, and around what differs from another name
_LINE_COLUMNS = 240  # longer lines for the log of a build are divided


def build_json(result: BuildResult, board: Board | None) -> dict[str, Any]:
    """Return the document of `mavcg build --json`; sizes are counted bytes."""
    return {
        "output": str(result.output),
        "target": result.target.zig_name,
        "cores": [core.name for core in result.cores],
        "functions": [_function_json(module, choice, result, board) for module, choice in _hottest_first(result)],
        "slower_by_model": _slower_json(result),
        "refused": [
            {"name": name, "source": module.source, "why": why}
            for module in result.modules
            for name, why in module.refused.items()
        ],
        "not_found": [symbol.given_name for symbol in result.not_found],
        "growth_percent": round(result.growth_percent, 3),
        "loaded_bytes": result.total_bytes,
        "runtime_bytes": result.runtime_bytes,
        "needed": list(result.needed_symbols),
        "libraries": list(result.needed_libraries),
        "notes": list(result.notes),
        "seconds": round(result.seconds, 3),
        "cpu_seconds": round(result.cpu_seconds, 3),
    }


def _slower_json(result: BuildResult) -> list[dict[str, Any]]:
    """Return the versions that are slower than generic by a core's model, dropped or kept, with the reason."""
    return [
        {
            "function": choice.function,
            "core": version.core_type,
            "version": version.label,
            "unit": f"{verdict.unit}/cycle",
            "generic": round(verdict.generic, 3),
            "own": round(verdict.own, 3),
            "more_time": round(verdict.more_time, 4),
            "model_error": None if verdict.is_assumed else verdict.error,
            "dropped": verdict.is_dropped,
            "why": verdict.why,
        }
        for _, choice in _hottest_first(result)
        for version in choice.versions
        if (verdict := version.verdict) and verdict.is_slower
    ]


def _hottest_first(result: BuildResult) -> list[tuple[ModuleObjects, FunctionChoice]]:
    order = {symbol.name: number for number, symbol in enumerate(result.hot)}
    pairs = [(module, choice) for module in result.modules for choice in module.choices]
    return sorted(pairs, key=lambda pair: order.get(pair[1].function, len(order)))


def _function_json(
    module: ModuleObjects, choice: FunctionChoice, result: BuildResult, board: Board | None
) -> dict[str, Any]:
    why = {symbol.name: symbol.why for symbol in result.hot}
    return {
        "name": choice.function,
        "demangled": demangle(choice.function),
        "source": module.source,
        "why": why.get(choice.function, ""),
        "dispatched": not choice.is_single,
        "arithmetic": "decided once (fast-math)" if choice.function in module.shared_optimisation else "exact",
        "versions": [
            {
                "core": version.core_type,
                "version": version.label,
                "bytes": version.bytes,
                "shares_body_with": version.shares_body_with,
                "dropped": version.dropped or None,
                **module.extensions_of(choice.function, version),
                "runs_on": _runs_on(version.core_type, result.cores, board),
            }
            | ({} if version.label == GENERIC else {"decided_by": _decided_by(version)})
            | _model(module.tunings.get((choice.function, version.label)))
            for version in _shown_versions(module, choice)
        ],
    }


def _decided_by(version: VersionChoice) -> str:
    """Return what says that a version gains, or does not: "measurement", "model", or "nothing"."""
    return "measurement" if version.gain else "model" if version.verdict else "nothing"


def _shown_versions(module: ModuleObjects, choice: FunctionChoice) -> list[VersionChoice]:
    """Return generic, then each core's versions in the order in which they are tried, each core's dropped ones last."""
    tried = choice.tried_versions(module.labels)
    others = [k for k in choice.versions if k.dropped and k not in tried]
    cores = list(dict.fromkeys(version.core_type for version in choice.versions))
    return sorted([*tried, *others], key=lambda version: cores.index(version.core_type))


def _model(tuning: VersionTuning | None) -> dict[str, Any]:
    return {"model": tuning.as_json()} if tuning else {}


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


def _runs_on(label: str, cores: Sequence[Core], board: Board | None) -> str:
    """Describe where a version runs: the board's CPUs of its core type, or how the core is identified."""
    if label == "generic":
        other_clusters = [c for c in board.clusters if c.core not in {core.name for core in cores}] if board else []
        return "any other core" if not other_clusters else f"any other core: {_cpus(other_clusters)}"
    if board:
        return _cpus([cluster for cluster in board.clusters if cluster.core == label]) or "no core of this board"
    core = next(core for core in cores if core.name == label)
    parts = [f"MIDR {m.implementer:#04x}/{m.part:#05x}" + _variants(m.variant_min, m.variant_max) for m in core.midr]
    return ", ".join(parts[:2]) or core.description


def _variants(low: int, high: int) -> str:
    return (
        ""
        if (low, high) == (0, 15)
        else f" r{low}"
        if low == high
        else f" r{low}+"
        if high == 15
        else f" r{low}-r{high}"
    )


def _cpus(clusters: Sequence[Any]) -> str:
    return cpus_text(cpu for cluster in clusters for cpu in cluster.cpus)


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
    for module, choice in _hottest_first(result):
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
    for number, version in enumerate(_shown_versions(module, choice)):
        name = first if number == 0 else (details if number == 1 else "")
        where = _runs_on(version.core_type, result.cores, board)
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


def tuning_line(model: Mapping[str, Any]) -> str:
    """Describe the modelled gain of LLVM's code for the core, and of the machine passes."""
    if model["unit"] is None:
        changed = model["loops_tuned"] + model["blocks_tuned"]
        return f"{model['loops_tuned']} of {model['loops']} loops rescheduled" if changed else ""
    steps = [("generic", model["generic"]), ("-mcpu", model["directive"]), ("split+schedule", model["tuned"])]
    figures = ", ".join(f"{name} {figure:.2f}" for name, figure in steps if figure is not None)
    return f"{model['unit']} of its main loop, model: {figures}"


def shorten(name: str, among: Sequence[str] = ()) -> str:
    """Shorten a long C++ name in its middle.

    among: all names of the report. Where another of them would read the same, such as a second instance of a template,
    the part that differs is shown too.
    """
    if len(name) <= _NAME_COLUMNS:
        return name
    alike = [other for other in among if _ends(other) == _ends(name)]
    if len({name, *alike}) == 1:
        return _ends(name)
    first = len(commonprefix([name, *alike]))
    last = min(len(commonprefix([other[::-1] for other in (name, *alike)])), min(map(len, (name, *alike))) - first)
    differing = name[max(0, first - _AROUND) : len(name) - max(0, last - _AROUND)]
    text = f"{name[:_AROUND]}...{differing}...{name[-_AROUND:]}"
    return text if len(text) < len(name) else name


def _ends(name: str) -> str:
    half = (_NAME_COLUMNS - 3) // 2
    return name if len(name) <= _NAME_COLUMNS else f"{name[:half]}...{name[-half:]}"


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
