"""Finds the extensions that each version's machine code needs, and the core set whose table checks them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mavcg.hardware.core import GENERIC, Core
from mavcg.objects.code_extensions import code_extensions
from mavcg.passes.ir.attributes import base_features, features_of
from mavcg.program.version_choice import FunctionChoice
from mavcg.program.version_failures import failing_alone
from mavcg.program.versions import VersionedModule
from mavcg.runtime.build import x86_extensions
from mavcg.runtime.coreset import CoreSet
from mavcg.toolchain.target import Target

VersionNeeds = Mapping[tuple[str, str], tuple[str, ...]]  # (function, label) -> extensions beyond the base, sorted


def version_needs(
    module: VersionedModule, paths: Mapping[str, Path], target: Target, cores: Sequence[Core]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the extensions that each version needs beyond its base: read from its instructions.

    The base is what the function was compiled for, by the build's flags and its own target attribute: the program
    itself may use that wherever it runs. On x86-64 a version needs all beyond it that the compiler was allowed to use
    for the core: a version that is equal to another needs no more than both. paths: symbol of a version -> its object,
    for the first of equal versions. Of bitcode, whose code a link generates later, a version needs all beyond the base
    that its attributes allow.
    Raises: FunctionFailures if the instructions of a function's version cannot be read.
    """
    if module.ir and target.arch == "aarch64":
        return {at: module.allowed.get(at, ()) for at in module.ir}
    found: dict[tuple[str, str], frozenset[str]] = {}
    if target.arch == "x86_64":
        allowed = {core.name: x86_extensions(core.llvm_cpu, core.llvm_features) for core in cores}
        for body in module.bodies:
            own = allowed.get(body.label, frozenset())
            found[body.function, body.key] = found.get((body.function, body.key), own) & own
    else:
        for body in module.bodies:
            if body.symbol in paths:
                with failing_alone(body.function, f"reading the instructions of its {body.label} version"):
                    found[body.function, body.key] = code_extensions(paths[body.symbol])
    needs = {}
    for body in module.bodies:
        features = base_features(features_of(module.hot.attributes(body.function)), target.arch)
        base = {entry[1:] for entry in features if entry[0] == "+"}
        needs[body.function, body.label] = tuple(sorted(found[body.function, body.key] - base))
    return needs


def set_for(choice: FunctionChoice, core_set: CoreSet, needs: VersionNeeds) -> CoreSet:
    """Return the core set by which a function's versions are chosen: each core needs what the code that it runs needs.

    Functions whose versions need the same share a table. On x86-64 all do: a core's table checks all that its compiler
    may use.
    """
    if any(core.arch == "x86_64" for core in core_set.cores):
        return core_set
    return core_set.with_needs(
        {k.label: needs.get((choice.function, k.body), ()) for k in choice.versions if k.body != GENERIC}
    )
