"""Words and orders that reports of versions share: short names, where a version runs, what its model says."""

from collections.abc import Mapping, Sequence
from os.path import commonprefix
from typing import Any

from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.cpu_list import cpus_text
from mavcg.program.build_values import BuildResult
from mavcg.program.objects import ModuleObjects
from mavcg.program.version_choice import FunctionChoice, VersionChoice

_NAME_COLUMNS = 44
_AROUND = 12  # characters shown at both ends of a name, and around what differs from another name


def hottest_first(result: BuildResult) -> list[tuple[ModuleObjects, FunctionChoice]]:
    """Return the versioned functions with their modules, the hottest first."""
    order = {symbol.name: number for number, symbol in enumerate(result.hot)}
    pairs = [(module, choice) for module in result.modules for choice in module.choices]
    return sorted(pairs, key=lambda pair: order.get(pair[1].function, len(order)))


def shown_versions(module: ModuleObjects, choice: FunctionChoice) -> list[VersionChoice]:
    """Return generic, then each core's versions in the order in which they are tried, each core's dropped ones last."""
    tried = choice.tried_versions(module.labels)
    others = [k for k in choice.versions if k.dropped and k not in tried]
    cores = list(dict.fromkeys(version.core_type for version in choice.versions))
    return sorted([*tried, *others], key=lambda version: cores.index(version.core_type))


def runs_on(label: str, cores: Sequence[Core], board: Board | None) -> str:
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
