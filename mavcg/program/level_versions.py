"""Makes versions for the feature levels of cores, for machines that hide an extension that a core's own version needs.

A level is made only where the version above it has an instruction that the level lacks, and, unless all are requested,
only where the core's model can time the function: a version of which nothing is known is not worth its bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.feature_levels import ALL_LEVELS, NO_LEVELS, lower_levels
from mavcg.program.version_failures import VersionFailures
from mavcg.program.version_jobs import VersionJobs
from mavcg.program.version_needs import VersionNeeds
from mavcg.program.versions import FailedLevel, VersionedModule, VersionOptions, compile_versions, key_by_callees
from mavcg.runtime.needs import usable_extensions


def with_next_levels(
    module: VersionedModule,
    needs: VersionNeeds,
    options: VersionOptions,
    levels: str,
    progress: Callable[[], None] = lambda: None,
) -> VersionedModule:
    """Return the module with versions for the next feature level of each core; the same module if none is left.

    Functions whose versions call each other get a level together: f.cortex-a55-base calls g.cortex-a55-base. Where one
    of them cannot be compiled for a level, all keep the versions that they have, and `failed_levels` says why.
    needs: what the instructions of each version need. levels: one of LEVELS.
    """
    if levels == NO_LEVELS or options.in_bitcode:
        return module
    requested: dict[str, list[Core | None]] = {}
    groups: list[tuple[frozenset[str], Core]] = []
    for core in options.cores:
        for group in _groups(module, core.name):
            is_requested = levels == ALL_LEVELS or any(_is_timed(module, name, core.name) for name in group)
            level = _next_level(module, group, core, needs) if is_requested else None
            if level:
                groups.append((group, level))
                for name in group:
                    requested.setdefault(name, []).append(level)
    if not requested:
        return module
    version_jobs = VersionJobs(module.hot, options.target, module.opt_level, options.per_core_rounding)
    generic = {body.function: body.asm for body in module.bodies if body.label == GENERIC}
    failures = VersionFailures()
    _, made = compile_versions(version_jobs, requested, module.once, generic, options, failures, progress)
    failed = tuple(
        FailedLevel(
            name,
            level.level_of,
            level.name,
            "; ".join(failures.reasons[k] for k in sorted(group & failures.reasons.keys())),
        )
        for group, level in groups
        if group & failures.reasons.keys()
        for name in sorted(group)
    )
    failing = {level.function for level in failed}
    made = tuple(body for body in made if body.function not in failing)
    added = {level.name: level for _, level in groups if any(body.label == level.name for body in made)}
    names = {core.name for core in module.cores} | added.keys()
    above = {core.level_of: core for core in module.cores if core in options.levels and core.level_of}
    ladders = [(above.get(core.name), core, *_levels_below(core)) for core in options.cores]
    cores = tuple(level for ladder in ladders for level in ladder if level and level.name in names)
    bodies = key_by_callees(module.hot, (*module.bodies, *made))
    return replace(module, bodies=bodies, cores=cores, failed_levels=(*module.failed_levels, *failed))


def _groups(module: VersionedModule, core: str) -> list[frozenset[str]]:
    """Return the functions that have a version for the core, in groups whose versions call each other."""
    import networkx  # takes long to import, and few builds have levels to make

    bodies = [body for body in module.bodies if body.label == core]
    calls: networkx.Graph[str] = networkx.Graph((body.function, name) for body in bodies for name in body.calls)
    calls.add_nodes_from(body.function for body in bodies)
    return [frozenset(group) for group in networkx.connected_components(calls)]


def _next_level(module: VersionedModule, group: frozenset[str], core: Core, needs: VersionNeeds) -> Core | None:
    """Return the richest level below those that a group has, which lacks an extension that the lowest of them needs.

    There is none where the last level of any core could not be made for the group.
    """
    if any(failed.function in group for failed in module.failed_levels):
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
