"""Finds the extensions that each version's machine code needs, and the core set whose table checks them."""

from collections.abc import Mapping
from pathlib import Path

from mavcg.hardware.core import GENERIC
from mavcg.objects.code_extensions import code_extensions
from mavcg.passes.ir.attributes import base_features, features_of
from mavcg.program_pipeline.version_choice import FunctionChoice
from mavcg.program_pipeline.versions import VersionedModule
from mavcg.runtime.coreset import CoreSet

VersionNeeds = Mapping[tuple[str, str], tuple[str, ...]]  # (function, label) -> extensions beyond the base, sorted


def version_needs(
    module: VersionedModule, paths: Mapping[str, Path], arch: str
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the extensions that each version needs beyond its base: read from its instructions.

    The base is what the function was compiled for, by the build's flags and its own target attribute: the program
    itself may use that wherever it runs. paths: symbol of a version -> its object, for the first of equal versions.
    """
    first = {(body.function, body.key): body.symbol for body in reversed(module.bodies)}
    found = {symbol: code_extensions(path) for symbol, path in paths.items()}
    needs = {}
    for body in module.bodies:
        features = base_features(features_of(module.hot.attributes(body.function)), arch)
        base = {entry[1:] for entry in features if entry[0] == "+"}
        needs[body.function, body.label] = tuple(sorted(found[first[body.function, body.key]] - base))
    return needs


def set_for(choice: FunctionChoice, core_set: CoreSet, needs: VersionNeeds) -> CoreSet:
    """Return the core set by which a function's versions are chosen: each core needs what the code that it runs needs.

    Functions whose versions need the same share a table.
    """
    return core_set.with_needs(
        {k.label: needs.get((choice.function, k.body), ()) for k in choice.versions if k.body != GENERIC}
    )
