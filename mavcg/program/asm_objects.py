"""Builds hand-written assembly: its hot functions get a version per core and a dispatcher, in one object.

The versions are in the text of the file (asm_object_writer.py), so that data is not duplicated. A function that cannot
be copied, or that no machine pass changes, stays as it is.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mavcg.assembly.tuning import tune_versions
from mavcg.assembly.tuning_options import Tuning, has_machine_passes
from mavcg.assembly.version_tuning import TuningFailure, TuningJob
from mavcg.errors import CannotRun, ToolError
from mavcg.hardware.core import GENERIC, Core
from mavcg.objects.code_extensions import function_extensions
from mavcg.objects.inspection import loaded_bytes, note_assembly, symbol_bytes
from mavcg.passes.asm.analysis.blocks import functions_of
from mavcg.passes.asm.isa.source import Statement, parse_source
from mavcg.passes.asm.transforms.function_copies import function_extent, why_no_copy
from mavcg.program.asm_module import AsmModule
from mavcg.program.asm_object_writer import AsmObjectWriter, named_function
from mavcg.program.choose_versions import (
    DISPATCHER_POINTERS,
    RELOCATION_BYTES,
    choose_versions,
    distinct_versions,
    growth_limit,
)
from mavcg.program.objects import ModuleObjects, ObjectOptions
from mavcg.program.version_choice import FunctionChoice, Gains, Sizes, VersionLimits
from mavcg.program.version_failures import first_error
from mavcg.program.version_growth import drop_for_growth
from mavcg.program.version_needs import VersionNeeds, set_for
from mavcg.program.version_values import CompiledVersion
from mavcg.toolchain.codegen import assemble


def build_asm_objects(
    module: AsmModule,
    hot: Sequence[str],
    tuning: Tuning,
    options: ObjectOptions,
    progress: Callable[[], None] = lambda: None,
) -> ModuleObjects:
    """Build an assembly file as one object, with versions and dispatchers of its hot functions.

    hot: linkage names. Raises: ToolError for text that does not assemble.
    """
    core_set, target, folder = options.core_set, options.target, options.folder
    tag = hashlib.sha256(f"{module.source}\0{module.text}".encode(errors="surrogateescape")).hexdigest()[:8]
    plain = folder / f"{Path(module.source).stem}-{tag}.single.o"
    assemble(module.text, plain, target, str(module.unit.source), module.unit.folders)
    progress()
    requested = [name for name in hot if name in module.function_names]
    refused = {name: reason for name in requested if (reason := _why_not(module, name, core_set.cores, tuning))}
    functions = [name for name in requested if name not in refused]
    bodies, stretches, failed = _bodies(module, functions, core_set.cores, tuning, options.workers, progress)
    refused |= failed | _unchanged_functions(bodies)
    bodies = [body for body in bodies if body.function not in refused]
    by_label = {(body.function, body.label): body for body in bodies}
    writer = AsmObjectWriter(module, core_set, target, plain.with_name(f"{plain.stem}.versions.o"), by_label, stretches)
    choices: list[FunctionChoice] = []
    needs: VersionNeeds = {}
    if bodies and (why_none := _assembly_failures(writer, bodies)):
        refused |= why_none
        bodies = [body for body in bodies if body.function not in refused]
    if bodies:
        choices, needs = _choose_used(
            writer, bodies, options.limits, options.gains, options.shares, loaded_bytes(plain)
        )
    dispatched = sum(not choice.is_single for choice in choices)
    objects = (writer.write(choices, needs),) if dispatched else (plain,)
    added = RELOCATION_BYTES * (core_set.version_count + DISPATCHER_POINTERS) * dispatched
    core_sets = dict.fromkeys(set_for(choice, core_set, needs) for choice in choices if not choice.is_single)
    module_objects = ModuleObjects(
        module.source,
        (plain,),
        objects,
        tuple(choices),
        refused,
        frozenset(),
        loaded_bytes(plain),
        loaded_bytes(objects[0]) + added,
        tuple(core_sets),
        tunings={(body.function, body.label): body.tuning for body in bodies if body.tuning},
        needs=needs,
        labels=core_set.names,
    )
    if not requested:
        return module_objects
    note = plain.with_name(f"{plain.stem}.note.o")
    assemble(note_assembly(module_objects.summary, target), note, target, f"the note of {module.source}")
    return replace(module_objects, objects=(*module_objects.objects, note), single=(plain, note))


def _why_not(module: AsmModule, name: str, cores: Sequence[Core], tuning: Tuning) -> str:
    if module.why:
        return module.why
    if not tuning.on:
        return "its versions would differ by the machine passes alone, and these are off (--tune off)"
    if not any(has_machine_passes(core) for core in cores):
        return f"no machine pass is for {', '.join(core.name for core in cores) or 'no core'}"
    return why_no_copy(module.statements, named_function(module.functions, name))


def _bodies(
    module: AsmModule,
    functions: Sequence[str],
    cores: Sequence[Core],
    tuning: Tuning,
    workers: int,
    progress: Callable[[], None],
) -> tuple[list[CompiledVersion], dict[str, tuple[Statement, ...]], dict[str, str]]:
    """Return each function's generic version (unchanged) and tuned versions; symbol of a version -> its statements; and
    function whose tuning failed -> why.

    A version's assembly is the function's part of the file's text.
    """
    jobs = {
        (name, core.name): TuningJob(core, module.text, name, module.text, name, only=name)
        for name in functions
        for core in cores
        if has_machine_passes(core)
    }
    done = dict(zip(jobs, tune_versions(list(jobs.values()), workers, progress, tuning.solver_seconds), strict=True))
    failed = {
        name: f"the machine passes for its {label} version fail: {result.message}"
        for (name, label), result in done.items()
        if isinstance(result, TuningFailure)
    }
    tuned = {at: result for at, result in done.items() if not isinstance(result, TuningFailure)}
    bodies: list[CompiledVersion] = []
    stretches: dict[str, tuple[Statement, ...]] = {}
    for name in (name for name in functions if name not in failed):
        for label in (GENERIC, *(core.name for core in cores)):
            text, account = tuned.get((name, label), (module.text, None))
            stretch = _stretch(text, name)
            asm = "".join(s.text for s in stretch)
            key = hashlib.sha256(asm.encode(errors="surrogateescape")).hexdigest()
            if account:  # there is no compiler directive: the text is hand-written
                account = replace(account, directive=None)
            body = CompiledVersion(name, label, f"{name}.{label}", asm, key, frozenset(), account)
            bodies.append(body)
            stretches[body.symbol] = stretch
    return bodies, stretches, failed


def _stretch(text: str, name: str) -> tuple[Statement, ...]:
    """Return a function's statements in a file's text."""
    statements = parse_source(text)
    inside = function_extent(statements, named_function(functions_of(statements), name))
    return statements[inside.start : inside.stop]


def _assembly_failures(writer: AsmObjectWriter, bodies: Sequence[CompiledVersion]) -> dict[str, str]:
    """Return function whose versions do not assemble -> the assembler's message.

    Each function is assembled alone if they do not assemble together.
    """
    labels = {
        name: [b.label for b in distinct_versions(bodies) if b.function == name]
        for name in {b.function for b in bodies}
    }
    try:
        writer.assemble_versions(labels, ())
        return {}
    except ToolError:
        pass
    refused = {}
    for name, own in sorted(labels.items()):
        try:
            writer.assemble_versions({name: own}, ())
        except CannotRun:
            raise
        except ToolError as error:
            refused[name] = f"its versions do not assemble: {first_error(error)}"
    return refused


def _unchanged_functions(bodies: Sequence[CompiledVersion]) -> dict[str, str]:
    """Return function that no machine pass changed for any core -> the reason that the passes gave."""
    unchanged = {}
    for name in dict.fromkeys(body.function for body in bodies):
        own = [body for body in bodies if body.function == name]
        if len({body.key for body in own}) == 1:
            reports = [report for body in own if body.tuning for report in body.tuning.functions]
            reasons = [r.unchanged_because for r in reports]
            reasons += [loop.unchanged_because for r in reports for loop in r.loops]
            why = next(filter(None, reasons), "no loop of one block, and no better order of its instructions")
            unchanged[name] = f"the machine passes find nothing better for any of the cores: {why}"
    return unchanged


def _choose_used(
    writer: AsmObjectWriter,
    bodies: Sequence[CompiledVersion],
    limits: VersionLimits,
    gains: Gains,
    shares: Mapping[str, float],
    single_bytes: int,
) -> tuple[list[FunctionChoice], VersionNeeds]:
    """Choose the versions to use, by their sizes in an object with all versions; and return what each version needs.

    The base of a version is what the function itself needs, as it was written.
    """
    everything = {
        body.function: [b for b in distinct_versions(bodies) if b.function == body.function] for body in bodies
    }
    path = writer.assemble_versions({name: [b.label for b in own] for name, own in everything.items()}, ())
    code = {body.symbol: symbol_bytes(path, body.symbol) for body in distinct_versions(bodies)}
    sizes = {symbol: Sizes(size, size) for symbol, size in code.items()}
    choices = choose_versions(bodies, sizes, gains, limits, writer.core_set.cores, {})
    limit = growth_limit(bodies, choices, sizes, shares, gains, single_bytes, limits)
    found = {name: needs for name, needs in function_extensions(path).items() if needs is not None}  # of AArch64: all
    symbols = {(body.function, body.key): body.symbol for body in reversed(bodies)}
    needs = {
        (body.function, body.label): tuple(
            sorted(found[symbols[body.function, body.key]] - found[writer.bodies[body.function, GENERIC].symbol])
        )
        for body in bodies
    }
    return drop_for_growth(choices, limit) if limit else choices, needs
