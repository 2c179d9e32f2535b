"""The verb `mavcg tune-asm`: make an assembly file faster for one core."""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.cli.core_timing import SET_HELP, core_timing
from mavcg.cli.output import Progress, console, note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.assembly.argument_states import Arguments
    from mavcg.assembly.asm_source import AsmSource
    from mavcg.assembly.checking import FunctionCheck
    from mavcg.passes.asm.loop_tuning import LoopReport
    from mavcg.passes.asm.tune import FunctionReport, Tuned

_EXIT_DIFFERENCE = 1


def tune_asm(
    source: Annotated[Path, typer.Argument(metavar="IN.S", help="AArch64 assembly, as people or compilers write it.")],
    core: Annotated[str, typer.Option(metavar="CORE", help="The core to make it fast on; `mavcg cores` lists them.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT.S", help="File for the new text; optional with --check."),
    ] = None,
    function: Annotated[
        list[str] | None, typer.Option(metavar="F", help="Only this function; may be repeated.")
    ] = None,
    solver_seconds: Annotated[
        float, typer.Option(metavar="S", min=0, help="The exact solver's time for each loop; 0: only the heuristic.")
    ] = 8.0,
    check: Annotated[
        bool, typer.Option("--check", help="Run every changed function in an emulator, before and after: mavcg[check].")
    ] = False,
    arguments: Annotated[
        list[str] | None,
        typer.Option("--args", metavar="'F: ARGS'", help="With --check: F's arguments, such as 'F: buf:4096 i:64'."),
    ] = None,
    unchecked_ok: Annotated[
        bool,
        typer.Option(
            "--unchecked-ok", help="With --check: also write functions that it cannot decide, which are named."
        ),
    ] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="A->B=N", help=SET_HELP)] = None,
    defines: Annotated[
        list[str] | None, typer.Option("-D", metavar="NAME[=V]", help="Define a macro for the preprocessor.")
    ] = None,
    includes: Annotated[
        list[Path] | None, typer.Option("-I", metavar="DIR", help="Include folder of the preprocessor.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Rewrite assembly to run faster on one core.

    Loads are split, pairs parted, instructions reordered as far as the core's profile enables it and its model finds
    it better; other functions and loops stay as they are. Cycles are the model's, not measured.
    Schedules are kept in ~/.cache/mavcg (MAVCG_CACHE names another folder; off: none).

    \b
    mavcg tune-asm kernel.S --core cortex-a55 -o kernel.a55.S
    mavcg tune-asm kernel.S --core cortex-a55 --check --json
    mavcg tune-asm gemm.S --core cortex-a55 -o gemm.a55.S --check --args "gemm: buf:4096 buf:4096 ptrs:8x256 i:64 f:1.5"
    mavcg tune-asm kernel.S --core cortex-a53 -o kernel.a53.S --function gemm_8x8 --solver-seconds 20
    """
    from mavcg.assembly.argument_states import parse_arguments
    from mavcg.assembly.asm_source import AsmSource, assemble, read_asm_source
    from mavcg.assembly.schedule_store import open_store
    from mavcg.files.whole_file import write_whole
    from mavcg.passes.asm.loop_schedule import SchedulingEffort
    from mavcg.passes.asm.tune import tune

    if output is not None:
        _check_output(source, output)
    elif not check:
        raise MavcgError("tune-asm: no output is named; give -o OUT.S, or --check to see what would be done")
    if (arguments or unchecked_ok) and not check:
        raise MavcgError(f"{'--args' if arguments else '--unchecked-ok'}: says how to check; give --check too")
    described = parse_arguments(arguments or ())
    kind, timing = core_timing(core, settings or ())
    asm = read_asm_source(source, defines or (), includes or ())
    requested = _named_functions(asm, function or (), "--function")
    _named_functions(asm, list(described), "--args")
    with Progress() as progress:
        with asm.places_in_errors():
            tuned = tune(
                asm.text,
                timing,
                kind.policy,
                SchedulingEffort(solver_seconds, open_store()),
                asm.file,
                lambda name: "" if name in requested else "not requested",
                lambda label: progress(f"scheduling {label}"),
            )
        tuned = dataclasses.replace(tuned, functions=tuple(f for f in tuned.functions if f.name in requested))
        checks = _check_functions(asm, tuned, described, progress) if check else {}
        if not unchecked_ok:
            undecided = {name: f"not decided by the check: {c.why}" for name, c in checks.items() if not c.states}
            tuned = tuned.without(undecided) if undecided else tuned
        progress("assembling the result")
        made = AsmSource(tuned.text, str(output or f"the tuned {source}"))
        assemble(made, [f"-I{folder}" for folder in (*(includes or ()), source.parent)])
    if output is not None:
        write_whole(output, tuned.text.encode("utf-8", "surrogateescape"), "-o")
        _note_form(asm, output)
    for name, found in checks.items():
        if not found.states:
            done = "taken unchecked" if unchecked_ok else "left as it was; describe its arguments with --args"
            note(f"--check: {name} is not decided ({found.why}): {done}")
    if as_json:
        print_json(_json(asm, tuned, core, output, checks))
    else:
        _show(asm, tuned, core, checks)


def _note_form(asm: "AsmSource", output: Path) -> None:
    """Print a note if the output is not the input's text with some code replaced."""
    if asm.expanded:
        note(f"{output}: is the expanded text: the macros of {asm.file} stand written out in it; lines are counted so")
    elif asm.preprocessed:
        note(f"{output}: is the preprocessed text: what {asm.file} includes and defines is written out in it")


def _check_output(source: Path, output: Path) -> None:
    """Refuse paths that cannot take the result, before any work."""
    if str(output).startswith(("/dev/", "/proc/")):
        raise MavcgError(f"-o {output}: is not a file's path; name a file")
    if output.exists():
        if source.exists() and output.samefile(source):
            raise MavcgError(f"-o {output}: is the input itself, which other cores yet want; name another file")
        if not output.is_file():
            raise MavcgError(f"-o {output}: cannot be replaced by a file; name a file")
    elif not output.parent.is_dir():
        raise MavcgError(f"-o {output}: there is no folder {output.parent}; make it or name another file")


def _named_functions(asm: "AsmSource", names: Sequence[str], option: str) -> frozenset[str]:
    """Return the functions that an option names, or all. Raises: MavcgError for none in the file and for unknown
    names.
    """
    from mavcg.passes.asm.analysis.blocks import functions_of
    from mavcg.passes.asm.isa.source import parse_source

    with asm.places_in_errors():
        present = [f.name for f in functions_of(parse_source(asm.text, asm.file), asm.file)]
    if not present:
        raise MavcgError(f"{asm.file}: holds no function; give its label a `.type NAME, %function` or a `.globl NAME`")
    for name in names:
        if name not in present:
            near = difflib.get_close_matches(name, present, n=3, cutoff=0.4)
            hint = f"did you mean {', '.join(near)}?" if near else f"it holds {', '.join(present[:8])}"
            raise MavcgError(f"{option} {name}: {asm.file} has no such function; {hint}")
    return frozenset(names or present)


def is_changed(report: "FunctionReport") -> bool:
    """True if a function differs from its input."""
    return bool(report.blocks or report.splits) or any(loop.scheduled_by != "kept" for loop in report.loops)


def _check_functions(
    asm: "AsmSource", tuned: "Tuned", described: "Mapping[str, Sequence[Arguments]]", progress: Progress
) -> "dict[str, FunctionCheck]":
    """Return the results of the check of each changed function. Exits with status 1 at a difference: a fault of a
    pass.
    """
    changed = [report.name for report in tuned.functions if is_changed(report)]
    if not changed:
        return {}
    from mavcg.assembly.checking import check_functions

    found = check_functions(asm.text, tuned.text, changed, described, asm.file, progress)
    for check in found.values():
        if check.difference:
            remedy = f"a fault of mavcg's; nothing was written; please report it with {asm.file}"
            note(f"--check: {check.difference}: {remedy}")
            raise typer.Exit(_EXIT_DIFFERENCE)
    return found


def _json(
    asm: "AsmSource", tuned: "Tuned", core: str, output: Path | None, checks: "Mapping[str, FunctionCheck]"
) -> dict[str, Any]:
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
    """Return a loop's entry in --json; scripts rely on its keys."""
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
    if check is None:  # not requested, or nothing changed that could differ
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


def _show(asm: "AsmSource", tuned: "Tuned", core: str, checks: "Mapping[str, FunctionCheck]") -> None:
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
            out.print(f"{report.name}: {report.blocks} stretches outside of these loops reordered,"
                      f" {report.splits} loads split there")  # fmt: skip
        elif report.unchanged_because:
            out.print(f"{report.name}: kept: {report.unchanged_because}")
        elif not report.loops:
            out.print(f"{report.name}: kept: no loop of one block, and no better order of its instructions")
        if report.name in checks:
            out.print(_check_line(report.name, checks[report.name]))


def _cycles(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}"
