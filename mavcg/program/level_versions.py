"""Makes versions for the feature levels of cores, for machines that hide an extension that a core's own version needs.

A level is made only where the version above it has an instruction that the level lacks, and, unless all are requested,
only where the core's model can time the function: a version of which nothing is known is not worth its bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.feature_levels import ALL_LEVELS, NO_LEVELS, lower_levels
from mavcg.program.compile_versions import compile_versions
from mavcg.program.version_failures import VersionFailures
from mavcg.program.version_jobs import VersionJobs
from mavcg.program.version_needs import VersionNeeds
from mavcg.program.version_values import (
    CompiledVersion,
    FailedLevel,
    VersionedModule,
    VersionOptions,
    key_by_callees,
)
from mavcg.runtime.needs import usable_extensions


@dataclass(frozen=True)
class GroupLevel:
    """A feature level for functions whose versions call each other, which get it together."""

    functions: frozenset[str]
    level: Core


def with_next_levels(
    module: VersionedModule,
    needs: VersionNeeds,
    options: VersionOptions,
    levels: str,
    progress: Callable[[], None] = lambda: None,
) -> VersionedModule:
    """Return the module with versions for the next feature level of each core; the same module if none is left.

    Functions whose versions call each other get a level together: f.cortex-a55-base calls g.cortex-a55-base. Where one
    of them cannot be compiled for a level, all keep the versions that they have for its core, and `failed_levels` says
    why. needs: what the instructions of each version need. levels: one of LEVELS.
    """
    if levels == NO_LEVELS or options.in_bitcode:
        return module
    made: list[CompiledVersion] = []
    failed: list[FailedLevel] = []
    for core in options.cores:
        groups = _next_groups(module, core, needs, levels)
        if groups:
            bodies, of_core = _compile_groups(module, groups, options, progress)
            made += bodies
            failed += of_core
    if not made and not failed:
        return module
    return replace(
        module,
        bodies=key_by_callees(module.hot, (*module.bodies, *made)),
        cores=_cores_with(module, made, options),
        failed_levels=(*module.failed_levels, *failed),
    )


def _next_groups(module: VersionedModule, core: Core, needs: VersionNeeds, levels: str) -> list[GroupLevel]:
    """Return the groups of functions that get a further level of a core."""
    groups = []
    for functions in _groups(module, core.name):
        if levels == ALL_LEVELS or any(_is_timed(module, name, core.name) for name in functions):
            level = _next_level(module, functions, core, needs)
            groups += [GroupLevel(functions, level)] if level else []
    return groups


def _compile_groups(
    module: VersionedModule, groups: Sequence[GroupLevel], options: VersionOptions, progress: Callable[[], None]
) -> tuple[list[CompiledVersion], list[FailedLevel]]:
    """Compile the versions of groups for levels of one core; return those of whole groups, and what failed."""
    requested: dict[str, list[Core | None]] = {name: [group.level] for group in groups for name in group.functions}
    version_jobs = VersionJobs(module.hot, options.target, module.opt_level, options.per_core_rounding, options.code)
    generic = {body.function: body.asm for body in module.bodies if body.label == GENERIC}
    failures = VersionFailures()
    _, made = compile_versions(version_jobs, requested, module.once, generic, options, failures, progress)
    failed = [
        FailedLevel(name, group.level.level_of, group.level.name, "; ".join(failures.reasons[k] for k in sorted(why)))
        for group in groups
        if (why := group.functions & failures.reasons.keys())
        for name in sorted(group.functions)
    ]
    failing = {level.function for level in failed}
    return [body for body in made if body.function not in failing], failed


def _cores_with(module: VersionedModule, made: Sequence[CompiledVersion], options: VersionOptions) -> tuple[Core, ...]:
    """Return the module's cores and levels with those of new versions, in the order in which they are tried."""
    names = {core.name for core in module.cores} | {body.label for body in made}
    above = {core.level_of: core for core in module.cores if core in options.levels and core.level_of}
    ladders = [(above.get(core.name), core, *_levels_below(core)) for core in options.cores]
    return tuple(level for ladder in ladders for level in ladder if level and level.name in names)


def _groups(module: VersionedModule, core: str) -> list[frozenset[str]]:
    """Return the functions that have a version for the core, in groups whose versions call each other."""
    bodies = [body for body in module.bodies if body.label == core]
    group_of = {body.function: frozenset({body.function}) for body in bodies}
    for body in bodies:
        joined = frozenset[str]().union(group_of[body.function], *(group_of.get(name, {name}) for name in body.calls))
        group_of.update(dict.fromkeys(joined, joined))
    calling_first = [*(body.function for body in bodies if body.calls), *(body.function for body in bodies)]
    return list(dict.fromkeys(group_of[name] for name in calling_first))


def _next_level(module: VersionedModule, group: frozenset[str], core: Core, needs: VersionNeeds) -> Core | None:
    """Return the richest level below those that a group has, which lacks an extension that the lowest of them needs.

    There is none where the last level of this core could not be made for the group.
    """
    if any(failed.function in group and failed.core == core.name for failed in module.failed_levels):
        return None
    function = min(group)
    have = {body.label for body in module.bodies if body.function == function}
    ladder = [core, *_levels_below(core)]
    lowest = max(number for number, level in enumerate(ladder) if level.name in have)
    needed = {extension for name in group for extension in needs[name, ladder[lowest].name]}
    return next((level for level in ladder[lowest + 1 :] if needed - usable_extensions(level)), None)


def _levels_below(core: Core) -> Sequence[Core]:
    return lower_levels(core, usable_extensions(core))


def _is_timed(module: VersionedModule, function: str, label: str) -> bool:
    """True if the core's model can compare the version with generic."""
    body = next(body for body in module.bodies if (body.function, body.label) == (function, label))
    return body.tuning is not None and bool(body.tuning.generic and body.tuning.own)
