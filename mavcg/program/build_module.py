"""Builds one module of the input, of IR or assembly: its object without versions, and its objects with them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.hardware.feature_levels import ALL_LEVELS
from mavcg.objects.inspection import loaded_bytes
from mavcg.passes.asm.transforms.remove_definitions import defined_symbols
from mavcg.program.build_values import BuildRequest, Progress
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.level_versions import with_next_levels
from mavcg.program.objects import ModuleObjects, ObjectOptions, build_objects, compile_plain
from mavcg.program.sources.to_ir import IrModule, compile_to_ir, refuse_foreign_openmp
from mavcg.program.version_failures import FunctionFailures, VersionFailures
from mavcg.program.version_growth import allowed_growth
from mavcg.program.version_needs import VersionNeeds
from mavcg.program.version_values import VersionedModule, VersionOptions
from mavcg.program.versions import make_versions
from mavcg.runtime.coreset import CoreSet

if TYPE_CHECKING:
    from mavcg.program.asm_module import AsmModule


def build_module(
    module: IrModule,
    hot: Sequence[HotSymbol],
    core_set: CoreSet,
    request: BuildRequest,
    folder: Path,
    progress: Progress,
) -> ModuleObjects:
    """Build a module of IR: its object without versions, and one with versions and dispatchers of its hot functions.

    A function of which a version does not assemble is refused, and the module is built again without its versions.
    Raises: MavcgError for IR that does not compile.
    """
    names = [symbol.name for symbol in hot]
    if request.own:  # a function that its compiler inlined everywhere is not in the object: versions inline it, too
        present = defined_symbols(request.own.text)
        names = [name for name in names if name in present]
    elif module.foreign_openmp:  # all of the object would be clang's
        refuse_foreign_openmp(module, request.units[0].compiler[0])
    source = module.source.name

    def step() -> None:
        progress(f"compiling versions of {source}")

    if request.own:
        plain = request.own.plain
    elif request.plain:
        plain = request.plain
    else:
        plain = compile_plain(module.text, source, module.opt_level, request.target, folder, request.code_flags)
        step()
    options = VersionOptions(
        request.cores,
        request.target,
        request.workers,
        request.per_core_rounding,
        request.tuning,
        not module.foreign_openmp,
        request.lto is not None,
        allowed_growth(request.limits, loaded_bytes(plain)),
        request.limits.levels == ALL_LEVELS,
        request.code,
    )

    def next_levels(versions: VersionedModule, needs: VersionNeeds) -> VersionedModule:
        return with_next_levels(versions, needs, options, request.limits.levels, step)

    failures = VersionFailures()
    while True:
        versions = make_versions(
            module.text,
            source,
            module.opt_level,
            [name for name in names if name not in failures.reasons],
            options,
            step,
        )
        failed = {**failures.reasons, **{name: versions.refused[name] for name in versions.unplaced}}
        placed = _with_source_lines(failed, module, request) if failed else {}
        versions = replace(versions, refused={**versions.refused, **placed})
        try:
            module_objects = build_objects(
                plain,
                versions,
                module.opt_level,
                _object_options(request, core_set, folder, hot),
                request.code_flags,
                request.own,
                next_levels,
                step,
            )
            break
        except FunctionFailures as error:
            failures.reasons |= error.reasons
            failures.add_hosts(versions.hot.module, names)
            if not failures.reasons.keys() & set(versions.hot.hot):
                raise
    if module_objects.whole:
        refuse_foreign_openmp(module, request.units[0].compiler[0])
    if request.lto is not None and not module_objects.ir_texts:
        return replace(module_objects, ir_texts=(module.text,))
    return module_objects


def build_assembly(
    module: "AsmModule",
    hot: Sequence[HotSymbol],
    core_set: CoreSet,
    request: BuildRequest,
    folder: Path,
    progress: Progress,
) -> ModuleObjects:
    """Build a file of assembly, with versions and dispatchers of its hot functions in its text."""
    from mavcg.program.asm_objects import build_asm_objects

    def step() -> None:
        progress(f"tuning {module.source}")

    options = _object_options(request, core_set, folder, hot)
    return build_asm_objects(module, [symbol.name for symbol in hot], request.tuning, options, step)


def _object_options(request: BuildRequest, core_set: CoreSet, folder: Path, hot: Sequence[HotSymbol]) -> ObjectOptions:
    shares = {symbol.name: symbol.share for symbol in hot}
    return ObjectOptions(
        core_set, request.target, folder, request.limits, request.gains, shares, request.workers, request.code
    )


def _with_source_lines(reasons: Mapping[str, str], module: IrModule, request: BuildRequest) -> dict[str, str]:
    """Return function -> its reason after "FILE:LINE: ", where the front end tells the line of its definition.

    IR without debug information is made anew from its source, with lines.
    """
    from mavcg.passes.ir.source_lines import line_of_function

    text = module.text
    unit = next((unit for unit in request.units if unit.source == module.source), None)
    if "!DISubprogram(" not in text and unit is not None:
        text = compile_to_ir(unit, request.target, request.compiler, keep_debug=True).text
    places = {name: line_of_function(text, name) for name in reasons}
    return {name: f"{places[name]}: {reason}" if places[name] else reason for name, reason in reasons.items()}
