"""Print the report of `mavcg tune-asm` as JSON and as a table."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.console.output import console

if TYPE_CHECKING:
    from mavcg.assembly.asm_source import AsmSource
    from mavcg.assembly.checking import FunctionCheck
    from mavcg.passes.asm.tune import Tuned
    from mavcg.passes.asm.tuning_reports import FunctionReport, LoopReport


def is_changed(report: "FunctionReport") -> bool:
    """True if a function differs from its input."""
    return bool(report.blocks or report.splits) or any(loop.scheduled_by != "kept" for loop in report.loops)


def tuning_json(
    asm: "AsmSource", tuned: "Tuned", core: str, output: Path | None, checks: "Mapping[str, FunctionCheck]"
) -> dict[str, Any]:
    """Return the document of `mavcg tune-asm --json`; scripts rely on its keys."""
    return {
        "core": core,
        "cycles_are": "predicted by a model",
        "input": asm.file,
        "output": str(output) if output else None,
        "preprocessed": asm.preprocessed,
        "expanded": asm.expanded,
        "functions": [
            {
                "name": report.name,
                "kept": report.unchanged_because,
                "changed": is_changed(report),
                "blocks": report.blocks,
                "splits": report.splits,
                "states_checked": checks[report.name].states if report.name in checks else None,
                **_check_json(checks.get(report.name)),
                "loops": [_loop_json(loop, asm.line(loop.line)) for loop in report.loops],
            }
            for report in tuned.functions
        ],
    }


def _loop_json(loop: "LoopReport", line: int) -> dict[str, Any]:
    """Return a loop's entry in the document of --json."""
    return {
        "label": loop.label,
        "line": line,
        "cycles_before": loop.cycles_before,
        "cycles_after": loop.cycles_after,
        "instructions_before": loop.instructions_before,
        "instructions_after": loop.instructions_after,
        "splits": loop.splits,
        "unpaired": loop.unpaired,
        "scheduled_by": loop.scheduled_by,
        "initiation_interval": loop.initiation_interval,
        "unrolled": loop.unrolled,
        "rerolled": loop.rerolled,
        "stages": loop.stages,
        "kept": loop.unchanged_because,
        "against_model": loop.against_model,
    }


def _check_json(check: "FunctionCheck | None") -> dict[str, Any]:
    if check is None:  # no --check, or the function is unchanged
        return {"checked": None, "states": 0, "undecided": 0, "instructions_run_percent": None}
    percent = round(100 * check.coverage, 1)
    return {
        "checked": check.word,
        "states": check.states,
        "undecided": check.undecided,
        "instructions_run_percent": percent,
    }


def _check_line(name: str, check: "FunctionCheck") -> str:
    if not check.states:
        return f"{name}: NOT checked: undecided from all {check.undecided} states: {check.why}"
    line = (
        f"{name}: checked by execution: the same from {check.states} states, in which {check.coverage:.0%} of its "
        "instructions ran"
    )
    if check.undecided:
        line += f"; {check.undecided} undecided ({check.why}): describe its arguments with --args"
    return line


def show_tuning(asm: "AsmSource", tuned: "Tuned", core: str, checks: "Mapping[str, FunctionCheck]") -> None:
    """Print a table of the loops before and after, then what else was done in each function."""
    from rich.table import Table

    out = console()
    title = f"{asm.file} for {core}: cycles per iteration by the model of the core (predicted, not measured)"
    table = Table("function", "loop", title=title)
    for heading in ("before", "after", "instr.", "splits", "unpaired", "interval"):
        table.add_column(heading, justify="right")
    table.add_column("scheduled by")
    for report in tuned.functions:
        name = report.name
        for loop in report.loops:
            interval = "" if loop.initiation_interval is None else f"{loop.initiation_interval:g}"
            if loop.unrolled > 1:
                interval += f" for {loop.unrolled}"
            table.add_row(
                name,
                f"{loop.label} (line {asm.line(loop.line)})",
                _cycles(loop.cycles_before),
                _cycles(loop.cycles_after),
                f"{loop.instructions_before} -> {loop.instructions_after}",
                str(loop.splits),
                str(loop.unpaired),
                interval,
                loop.scheduled_by + (f": {loop.unchanged_because}" if loop.unchanged_because else ""),
            )
            name = ""
    if table.row_count:
        out.print(table)
    for report in tuned.functions:
        if report.blocks or report.splits:
            out.print(
                f"{report.name}: outside of these loops {report.blocks} segments were reordered, and "
                f"{report.splits} loads split"
            )
        elif report.unchanged_because:
            out.print(f"{report.name}: kept: {report.unchanged_because}")
        elif not report.loops:
            out.print(f"{report.name}: kept: no loop of one basic block, and no better order of its instructions")
        if report.name in checks:
            out.print(_check_line(report.name, checks[report.name]))


def _cycles(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}"
