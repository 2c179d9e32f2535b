"""Makes a module's versions: which functions get them, what they share, their assembly; equal ones are found.

This is the first half of the build of a module, where everything is text (version_values.py); mavcg.program.objects
then makes object files.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mavcg.errors import fault_text
from mavcg.passes.ir.hot_module import HotModule
from mavcg.passes.ir.module_text import ModuleText, parse_module
from mavcg.passes.ir.refuse import outlined_regions, why_foreign, why_not
from mavcg.program.compile_versions import compile_versions
from mavcg.program.version_failures import VersionFailures, parse_error
from mavcg.program.version_jobs import VersionJobs
from mavcg.program.version_values import VersionedModule, VersionOptions, key_by_callees, module_tag
from mavcg.toolchain.codegen import CodegenJob, Failure, IrError, canonical, compile_all


def code_level(program_level: str | None) -> str:
    """Return the -O level for versions: the program's own, but at least 2, in debug builds too."""
    return program_level if program_level in ("2", "3", "s", "z") else "3" if program_level in ("fast", None) else "2"


def make_versions(
    text: str,
    source: str,
    program_level: str | None,
    requested: Sequence[str],
    options: VersionOptions,
    progress: Callable[[], None] = lambda: None,
) -> VersionedModule:
    """Compile the generic version and one version per core of each requested function that the module defines.

    text: the module's IR, not yet optimised. requested: linkage names; names that the module does not define are
    ignored. A function of which a version cannot be made is refused; the others keep theirs.
    Raises: MavcgError if the IR does not parse.
    """
    cores, target, workers = options.levels, options.target, options.workers
    try:
        module = parse_module(canonical(text))
    except IrError as error:
        raise parse_error(source, error) from error
    defined, refused = _functions_to_version(module, requested, target.arch, options.openmp)
    hot = HotModule(module, frozenset(name for name in defined if name not in refused), module_tag(source, text))
    version_jobs = VersionJobs(hot, target, code_level(program_level), options.per_core_rounding, options.code)

    functions = [name for name in defined if name in hot.hot]
    failures = VersionFailures()
    once = _optimise_once(version_jobs, functions, workers, progress, failures)
    versions_of = {name: (None, *cores) for name in functions if name not in failures.reasons}
    jobs, bodies = compile_versions(version_jobs, versions_of, once, {}, options, failures, progress)
    if failures.reasons:  # what failed is refused, and the others must not call versions that it does not have
        failures.add_hosts(module, functions)
        left = [name for name in requested if name not in failures.reasons]
        again = make_versions(text, source, program_level, left, options, progress)
        unplaced = frozenset(failures.reasons.keys() - failures.placed) | again.unplaced
        return replace(again, refused={**refused, **failures.reasons, **again.refused}, unplaced=unplaced)
    keyed = key_by_callees(hot, bodies)
    versions = VersionedModule(hot, source, version_jobs.opt_level, keyed, refused, once, cores)
    if not options.in_bitcode:
        return versions
    return replace(versions, ir={(b.function, b.label): jobs[b.function, b.label].text for b in bodies})


def _optimise_once(
    version_jobs: VersionJobs,
    functions: Sequence[str],
    workers: int,
    progress: Callable[[], None],
    failures: VersionFailures,
) -> dict[str, str]:
    """Optimise functions once, for all cores, whose rounding would otherwise differ between cores.

    Returns: function -> optimised IR, of those that do round differently.
    """
    what = "the code that its versions share"
    jobs: dict[str, CodegenJob] = {}
    once: dict[str, str] = {}
    for name in functions:
        with failures.refusing(name, what):
            if version_jobs.may_round_differently(name):
                jobs[name] = version_jobs.optimise_once_job(name)
    optimised = dict(zip(jobs, compile_all(list(jobs.values()), workers, progress, version_jobs.code), strict=True))
    for name, result in optimised.items():
        if isinstance(result, Failure):
            failures.add_failure(name, what, result, jobs[name])
            continue
        with failures.refusing(name, what):
            if version_jobs.rounds_differently(name, result):
                once[name] = result
    return once


def _functions_to_version(
    module: ModuleText, requested: Sequence[str], arch: str, openmp: bool
) -> tuple[list[str], dict[str, str]]:
    """Return the requested functions that the module defines, with their OpenMP regions; and refused ones -> reason."""
    named = [name for name in dict.fromkeys(requested) if name in module.entities and _has_body(module, name)]
    defined = list(dict.fromkeys([*named, *(region for name in named for region in outlined_regions(module, name))]))
    refused = {name: reason for name in named if not openmp and (reason := why_foreign(module, name))}
    if refused:
        regions = {region for name in refused for region in outlined_regions(module, name)}
        defined = [name for name in defined if name in named or name not in regions]
    refused |= {name: reason for name in defined if (reason := _why_not(module, name, arch))}
    return defined, refused


def _why_not(module: ModuleText, name: str, arch: str) -> str | None:
    try:
        return why_not(module, name, arch)
    except Exception as error:
        return f"its IR cannot be examined, {fault_text(error)}"


def _has_body(module: ModuleText, name: str) -> bool:
    entity = module.entities[name]
    return entity.kind == "alias" or (entity.kind == "define" and module.linkage(name) != "available_externally")
