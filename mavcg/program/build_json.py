"""Makes the document of mavcg build --json."""

from typing import Any

from mavcg.assembly.version_tuning import VersionTuning
from mavcg.hardware.board import Board
from mavcg.hardware.core import GENERIC
from mavcg.program.build_values import BuildResult
from mavcg.program.objects import ModuleObjects
from mavcg.program.profiling.demangle import demangle
from mavcg.program.report_words import hottest_first, runs_on, shown_versions
from mavcg.program.version_choice import FunctionChoice, VersionChoice


def build_json(result: BuildResult, board: Board | None) -> dict[str, Any]:
    """Return the document of `mavcg build --json`; sizes are counted bytes."""
    return {
        "output": str(result.output),
        "target": result.target.zig_name,
        "cores": [core.name for core in result.cores],
        "functions": [_function_json(module, choice, result, board) for module, choice in hottest_first(result)],
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
        for _, choice in hottest_first(result)
        for version in choice.versions
        if (verdict := version.verdict) and verdict.is_slower
    ]


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
                "runs_on": runs_on(version.core_type, result.cores, board),
            }
            | ({} if version.label == GENERIC else {"decided_by": _decided_by(version)})
            | _model(module.tunings.get((choice.function, version.label)))
            for version in shown_versions(module, choice)
        ],
    }


def _decided_by(version: VersionChoice) -> str:
    """Return what says that a version gains, or does not: "measurement", "model", or "nothing"."""
    return "measurement" if version.gain else "model" if version.verdict else "nothing"


def _model(tuning: VersionTuning | None) -> dict[str, Any]:
    return {"model": tuning.as_json()} if tuning else {}
