"""Chooses the versions of a module's functions: equal ones are shared, useless ones dropped, code growth is limited."""

from collections.abc import Mapping, Sequence

from mavcg.hardware.core import Core
from mavcg.hardware.feature_levels import ALL_LEVELS
from mavcg.program.unmodelled_versions import drop_without_instructions
from mavcg.program.version_choice import (
    FunctionChoice,
    Gains,
    Sizes,
    VersionLimits,
    drop_levels_with_cores,
    drop_unmodelled_levels,
    drop_useless,
    own_first,
    share_equal,
    without_idle_levels,
)
from mavcg.program.version_failures import failing_alone
from mavcg.program.version_growth import GrowthLimit, versions_worth
from mavcg.program.version_model import drop_by_model
from mavcg.program.version_sharing import share_nearly_equal
from mavcg.program.version_values import CompiledVersion

# Elf64_Rela: each address in a dispatcher's tables is relocated at load.
RELOCATION_BYTES = 24
DISPATCHER_POINTERS = 3


def distinct_versions(bodies: Sequence[CompiledVersion]) -> list[CompiledVersion]:
    """Return the versions without those whose function and key an earlier one has, cores before feature levels."""
    first: dict[tuple[str, str], CompiledVersion] = {}
    for body in own_first(bodies):
        first.setdefault((body.function, body.key), body)
    return list(first.values())


def choose_versions(
    compiled: Sequence[CompiledVersion],
    sizes: Mapping[str, Sizes],
    gains: Gains,
    limits: VersionLimits,
    cores: Sequence[Core],
    needs: Mapping[tuple[str, str], Sequence[str]],
) -> list[FunctionChoice]:
    """Choose each function's versions: share equal ones, drop those that are measured or predicted to gain nothing.

    sizes: by symbol of the version. needs: extensions that each version's own instructions need. Raises:
    FunctionFailures if the choice for a function fails.
    """
    by_name = {core.name: core for core in cores}
    choices = []
    for function in dict.fromkeys(body.function for body in compiled):
        bodies = tuple(body for body in compiled if body.function == function)
        first = {body.key: body for body in reversed(own_first(bodies))}
        by_symbol = {body.symbol: sizes[first[body.key].symbol] for body in bodies}
        tunings = {body.label: body.tuning for body in bodies if body.tuning}
        with failing_alone(function, "the choice of its versions"):
            choice = without_idle_levels(share_equal(bodies, by_symbol), by_name, needs)
            choice = drop_useless(choice, gains, limits.min_gain)
            choice = drop_by_model(choice, tunings, by_name, gains, limits.by_model)
            choice = drop_levels_with_cores(choice)
            choice = choice if limits.levels == ALL_LEVELS else drop_unmodelled_levels(choice)
            if limits.by_model and limits.levels != ALL_LEVELS:
                choice = drop_without_instructions(choice, by_name, needs)
            choices.append(share_nearly_equal(choice, compiled, by_name, gains) if limits.by_model else choice)
    return choices


def growth_limit(
    bodies: Sequence[CompiledVersion],
    choices: Sequence[FunctionChoice],
    sizes: Mapping[str, Sizes],
    shares: Mapping[str, float],
    gains: Gains,
    single_bytes: int,
    limits: VersionLimits,
) -> GrowthLimit | None:
    """Return the bound on a file's code growth, or None without one. shares: function -> share of the run time."""
    if limits.max_growth is None:
        return None
    loaded = {(body.function, body.label): sizes[body.symbol] for body in distinct_versions(bodies)}
    cores = len({body.label for body in bodies}) - 1
    # A dispatcher: two entries of code, a table, its relocations; 160 bytes of code were counted on both architectures.
    cost = 160 + (cores + 2) * (8 + 8 + RELOCATION_BYTES) + DISPATCHER_POINTERS * (8 + RELOCATION_BYTES)
    worth = versions_worth(choices, shares, gains)
    return GrowthLimit(limits.max_growth, single_bytes, loaded, worth, cost, limits.free_bytes)
