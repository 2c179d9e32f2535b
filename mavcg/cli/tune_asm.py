"""The verb `mavcg tune-asm`: rewrite an assembly file to run faster on one core."""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mavcg.cli.tune_asm_options import TuneAsmOptions
from mavcg.cli.tune_asm_report import is_changed, show_tuning, tuning_json
from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, note, print_json
from mavcg.errors import MavcgError
from mavcg.profiles.core_timing import core_timing

if TYPE_CHECKING:
    from mavcg.assembly.argument_states import Arguments
    from mavcg.assembly.asm_source import AsmSource
    from mavcg.assembly.checking import FunctionCheck
    from mavcg.hardware.core import Core
    from mavcg.hardware.timing import Timing
    from mavcg.passes.asm.tune import Tuned

_EXIT_DIFFERENCE = 1


def run_tune_asm(options: TuneAsmOptions) -> None:
    """Rewrite assembly to run faster on one core.

    Loads are split, load pairs are replaced by single loads, and instructions are reordered, if the core's profile
    enables that and its model predicts a gain; other functions and loops stay as they are. Cycles are predicted, not
    measured. Schedules and what --check decides are kept in ~/.cache/mavcg (MAVCG_CACHE names another folder; off: keep
    none), so that a command that was interrupted goes on where it ended.

    \b
    mavcg tune-asm kernel.S --core cortex-a55 -o kernel.a55.S
    mavcg tune-asm kernel.S --core cortex-a55 --check --json
    mavcg tune-asm gemm.S --core cortex-a55 -o gemm.a55.S --check --args "gemm: buf:4096 buf:4096 ptrs:8x256 i:64 f:1.5"
    mavcg tune-asm kernel.S --core cortex-a53 -o kernel.a53.S --function gemm_8x8 --solver-seconds 20
    """
    from mavcg.assembly.argument_states import parse_arguments
    from mavcg.assembly.asm_source import read_asm_source
    from mavcg.files.whole_file import write_whole

    _check_options(options)
    described = parse_arguments(options.arguments or ())
    core, timing = core_timing(options.core, options.settings or ())
    asm = read_asm_source(options.source, options.defines or (), options.includes or ())
    requested = _named_functions(asm, options.function or (), "--function")
    _named_functions(asm, list(described), "--args")
    with Progress(lines=options.check) as progress:
        tuned = _tune(asm, core, timing, options.solver_seconds, requested, progress)
        checks = _check_functions(asm, tuned, described, progress) if options.check else {}
        if not options.unchecked_ok:
            undecided = {name: f"not decided by the check: {c.why}" for name, c in checks.items() if not c.states}
            tuned = tuned.without(undecided) if undecided else tuned
        progress("assembling the result")
        _assemble(tuned, options)
    if options.output is not None:
        write_whole(options.output, tuned.text.encode("utf-8", "surrogateescape"), "-o")
        _note_form(asm, options.output)
    _note_undecided(checks, options.unchecked_ok)
    if options.as_json:
        print_json(tuning_json(asm, tuned, options.core, options.output, checks))
    else:
        show_tuning(asm, tuned, options.core, checks)


tune_asm = command_of("tune_asm", TuneAsmOptions, run_tune_asm)


def _check_options(options: TuneAsmOptions) -> None:
    """Raise MavcgError, before any work, for a missing output, one that cannot be written, and options of --check."""
    if options.output is not None:
        _check_output(options.source, options.output)
    elif not options.check:
        raise MavcgError("tune-asm: no output is named; give -o OUT.S, or --check for a report only")
    if (options.arguments or options.unchecked_ok) and not options.check:
        option = "--args" if options.arguments else "--unchecked-ok"
        raise MavcgError(f"{option}: is only for --check; give --check too")


def _tune(
    asm: "AsmSource",
    core: "Core",
    timing: "Timing",
    solver_seconds: float,
    requested: frozenset[str],
    progress: Progress,
) -> "Tuned":
    """Run the machine passes on the requested functions; the result reports on these alone.

    solver_seconds: time of the exact solver for each loop.
    """
    from mavcg.assembly.schedule_store import KeptSchedules, open_schedules
    from mavcg.passes.asm.loop_schedule import SchedulingEffort
    from mavcg.passes.asm.tune import tune

    with asm.places_in_errors():
        tuned = tune(
            asm.text,
            timing,
            core.policy,
            SchedulingEffort(solver_seconds, KeptSchedules(open_schedules())),
            asm.file,
            lambda name: "" if name in requested else "not requested",
            lambda label: progress(f"scheduling {label}"),
        )
    return dataclasses.replace(tuned, functions=tuple(f for f in tuned.functions if f.name in requested))


def _assemble(tuned: "Tuned", options: TuneAsmOptions) -> None:
    """Assemble the new text, to find faults before it is written. Raises: MavcgError."""
    from mavcg.assembly.asm_source import AsmSource, assemble

    result = AsmSource(tuned.text, str(options.output or f"the tuned {options.source}"))
    assemble(result, [f"-I{folder}" for folder in (*(options.includes or ()), options.source.parent)])


def _note_undecided(checks: "Mapping[str, FunctionCheck]", unchecked_ok: bool) -> None:
    """Print a note on each function that the check could not decide on, and what became of it."""
    consequence = "taken unchecked" if unchecked_ok else "left as it was; describe its arguments with --args"
    for name, check in checks.items():
        if not check.states:
            note(f"--check: {name} is not decided ({check.why}): {consequence}")


def _note_form(asm: "AsmSource", output: Path) -> None:
    """Print a note if the output is not the input's text with some code replaced."""
    if asm.expanded:
        note(f"{output}: has the macros of {asm.file} expanded, and line numbers count the expanded text")
    elif asm.preprocessed:
        note(f"{output}: is preprocessed: the includes and #defines of {asm.file} are expanded in it")


def _check_output(source: Path, output: Path) -> None:
    """Raise MavcgError, before any work, for a path that cannot take the result."""
    if str(output).startswith(("/dev/", "/proc/")):
        raise MavcgError(f"-o {output}: is not a file's path; name a file")
    if output.exists():
        if source.exists() and output.samefile(source):
            raise MavcgError(f"-o {output}: is the input itself, which tuning for other cores needs; name another file")
        if not output.is_file():
            raise MavcgError(f"-o {output}: is not a file that can be replaced; name a file")
    elif not output.parent.is_dir():
        raise MavcgError(f"-o {output}: there is no folder {output.parent}; make it or name another file")


def _named_functions(asm: "AsmSource", names: Sequence[str], option: str) -> frozenset[str]:
    """Return the functions that an option names, or all if it names none. option: its name, for errors.

    Raises: MavcgError for a file without functions, and for unknown names.
    """
    from mavcg.passes.asm.analysis.blocks import functions_of
    from mavcg.passes.asm.isa.source import parse_source

    with asm.places_in_errors():
        present = [f.name for f in functions_of(parse_source(asm.text, asm.file), asm.file)]
    if not present:
        raise MavcgError(f"{asm.file}: has no function; give its label a `.type NAME, %function` or a `.globl NAME`")
    for name in names:
        if name not in present:
            near = difflib.get_close_matches(name, present, n=3, cutoff=0.4)
            hint = f"did you mean {', '.join(near)}?" if near else f"it has {', '.join(present[:8])}"
            raise MavcgError(f"{option} {name}: {asm.file} has no such function; {hint}")
    return frozenset(names or present)


def _check_functions(
    asm: "AsmSource", tuned: "Tuned", described: "Mapping[str, Sequence[Arguments]]", progress: Progress
) -> "dict[str, FunctionCheck]":
    """Check each changed function in an emulator. Exits with status 1 if results differ, which is a fault of a pass.

    described: arguments of functions, by name. Returns: the results by function.
    """
    changed = [report.name for report in tuned.functions if is_changed(report)]
    if not changed:
        return {}
    from mavcg.assembly.checking import check_functions
    from mavcg.assembly.schedule_store import open_schedules

    checks = check_functions(asm.text, tuned.text, changed, described, asm.file, progress, open_schedules())
    for check in checks.values():
        if check.difference:
            remedy = f"this is a fault of mavcg; nothing was written; please report it with {asm.file}"
            note(f"--check: {check.difference}: {remedy}")
            raise typer.Exit(_EXIT_DIFFERENCE)
    return checks
