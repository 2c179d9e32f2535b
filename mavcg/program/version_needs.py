"""Finds the extensions that each version's machine code needs, and the core set whose table checks them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mavcg.hardware.core import GENERIC, Core
from mavcg.objects.code_extensions import code_extensions
from mavcg.passes.ir.attributes import base_features, features_of
from mavcg.program.version_choice import FunctionChoice
from mavcg.program.version_failures import failing_alone
from mavcg.program.version_values import VersionedModule
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.needs import usable_extensions
from mavcg.toolchain.target import Target

VersionNeeds = Mapping[tuple[str, str], tuple[str, ...]]  # (function, label) -> extensions beyond the base, sorted


def version_needs(
    module: VersionedModule, paths: Mapping[str, Path], target: Target, cores: Sequence[Core]
) -> tuple[VersionNeeds, frozenset[tuple[str, str]]]:
    """Return the extensions that each version needs beyond its base, and the versions whose code is not understood.

    They are read from a version's instructions.

    The base is what the function was compiled for, by the build's flags and its own target attribute: the program
    itself may use that wherever it runs. paths: symbol of a version -> its object, for the first of equal versions. Of
    x86-64's code that is not all understood, a version needs all beyond the base that its compiler may use: of equal
    versions, what that of each one may. For bitcode the code is that of the version by itself; a link generates it
    anew with these extensions alone (VersionJobs.limited_to).
    Raises: FunctionFailures if the instructions of a function's version cannot be read.
    """
    by_key: dict[tuple[str, str], frozenset[str] | None] = {(b.function, b.key): None for b in module.bodies}
    for body in module.bodies:
        if body.symbol in paths:
            with failing_alone(body.function, f"reading the instructions of its {body.label} version"):
                by_key[body.function, body.key] = code_extensions(paths[body.symbol])
    further = {
        core.name: core.optional_extensions for core in cores if set(core.optional_extensions) & {*core.extensions}
    }
    allowed = _allowed_extensions(module, cores) if target.arch == "x86_64" else {}
    needs = {}
    for body in module.bodies:
        at = body.function, body.key
        found = by_key[at]
        if found is None:
            found = allowed[at]
        elif "sve" in found:
            # Instructions do not show which part of SVE they are of: all that the compiler may use is needed.
            found = found | frozenset(further.get(body.label, ()))
        elif "bmi" not in allowed.get(at, ("bmi",)):
            found = found - {"bmi"}  # `rep bsf`, which the compiler writes for processors with and without tzcnt
        needs[body.function, body.label] = tuple(sorted(found - _base_of(module, body.function, target)))
    unread = {at for at, found in by_key.items() if found is None and allowed[at]}
    return needs, frozenset((b.function, b.label) for b in module.bodies if (b.function, b.key) in unread)


def needs_with_callees(
    module: VersionedModule, needs: VersionNeeds, choices: Sequence[FunctionChoice], target: Target
) -> VersionNeeds:
    """Return what each version needs with the versions that it calls: f.cortex-a55 calls g.cortex-a55 by itself.

    choices: for each function, the code that stands behind the symbols of its versions.
    """
    code = {
        (choice.function, k.label): (choice.function, k.label if k.label in choice.bodies else k.body)
        for choice in choices
        for k in choice.versions
    }
    called = {(b.function, b.label): [code[name, b.label] for name in b.calls] for b in module.bodies}
    closed = {at: set(names) for at, names in needs.items()}
    waiting = [at for at, callees in called.items() if callees]
    while waiting:
        found = {at: set().union(*(closed[callee] for callee in called[at])) for at in waiting}
        more = {at: names - _base_of(module, at[0], target) - closed[at] for at, names in found.items()}
        waiting = waiting if any(more.values()) else []
        for at in waiting:
            closed[at] |= more[at]
    return {at: tuple(sorted(names)) for at, names in closed.items()}


def _base_of(module: VersionedModule, function: str, target: Target) -> frozenset[str]:
    """Return the extensions that a function was compiled with: it may use them wherever the program calls it."""
    features = base_features(features_of(module.hot.attributes(function)), target.arch)
    return frozenset(entry[1:] for entry in features if entry[0] == "+")


def _allowed_extensions(module: VersionedModule, cores: Sequence[Core]) -> dict[tuple[str, str], frozenset[str]]:
    """Return (function, key of its code) -> extensions of x86-64 that the compiler may use for all that run it."""
    by_label = {core.name: usable_extensions(core) for core in cores}
    allowed: dict[tuple[str, str], frozenset[str]] = {}
    for body in module.bodies:
        at, own = (body.function, body.key), by_label.get(body.label, frozenset())
        allowed[at] = allowed.get(at, own) & own
    return allowed


def set_for(choice: FunctionChoice, core_set: CoreSet, needs: VersionNeeds) -> CoreSet:
    """Return the core set by which a function's versions are chosen: each core needs what the code that it runs needs.

    core_set: of all cores and feature levels; levels that the function does not try are left out.
    Functions whose versions need the same share a table. On x86-64 almost every function has a mix of its own, so that
    a table checks more: AVX-512, and all the rest, each as a whole.
    """
    cores = {core.name: core for core in core_set.cores}
    tried = choice.tried_versions(core_set.names)[1:]
    core_set = replace(core_set, cores=tuple(cores[k.label] for k in tried))
    own = {k.label: needs.get((choice.function, k.body), ()) for k in tried if k.body != GENERIC}
    return core_set.with_needs({label: _checked_extensions(names, cores[label]) for label, names in own.items()})


def _checked_extensions(needs: Sequence[str], core: Core) -> Sequence[str]:
    """Return what the table checks for a core's version that needs these extensions."""
    if core.arch == "aarch64":
        return needs
    allowed = usable_extensions(core)
    kinds = {_is_avx512(name) for name in needs}
    return sorted({*needs, *(name for name in allowed if _is_avx512(name) in kinds)})


def _is_avx512(extension: str) -> bool:
    return extension.startswith("avx512")
