"""Shares nearly equal versions: a core runs another core's version if its own is faster by no more than the model errs.

The instructions of a shared version are ones that the core has: the other core has no extension that it lacks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mavcg.cost.model_error import model_error
from mavcg.errors import ProfileError
from mavcg.hardware.core import GENERIC, Core
from mavcg.program.version_choice import FunctionChoice, Gains, VersionChoice
from mavcg.program.version_values import CompiledVersion


def share_nearly_equal(
    choice: FunctionChoice, compiled: Sequence[CompiledVersion], cores: Mapping[str, Core], gains: Gains
) -> FunctionChoice:
    """Let cores run the version of another core that their models cannot tell from their own.

    The version that most cores can run is taken first, the smallest of those. Versions with a measured gain, or kept
    for a reason that the model does not see, stay, and so does a function that calls versions of others: its callees
    would be another core's too.

    Args:
        compiled: all versions of the module.
    """
    own = {body.label: body for body in compiled if body.function == choice.function}
    waiting = {
        version.label: version
        for version in choice.versions
        if version.body == version.label != GENERIC and _may_share(version, choice.function, gains)
    }
    if len(waiting) < 2 or any(own[label].calls for label in waiting):
        return choice
    shared: dict[str, VersionChoice] = {}
    while waiting:
        runs = {label: [n for n in waiting if _can_run(own[label], waiting[n], cores)] for label in waiting}
        label = max(waiting, key=lambda name: (len(runs[name]), -waiting[name].bytes))
        taken = waiting[label]
        for other in {label, *runs[label]}:
            if other != label:
                error = model_error(cores[other])
                why = f"its own is faster by less than {error} (model)"
                shared[other] = replace(waiting[other], body=label, bytes=taken.bytes, nearly_equal=why)
            del waiting[other]
    # Versions that had the code of one that now runs another's follow it.
    moved = {label: version.body for label, version in shared.items()}
    return replace(choice, versions=tuple(_follow(shared.get(v.label, v), moved, choice) for v in choice.versions))


def _follow(version: VersionChoice, moved: Mapping[str, str], choice: FunctionChoice) -> VersionChoice:
    body = moved.get(version.body)
    if body is None or version.nearly_equal:
        return version
    taken = next(v for v in choice.versions if v.label == body)
    return replace(version, body=body, bytes=taken.bytes, nearly_equal=f"as {version.body}, whose code it had")


def _may_share(version: VersionChoice, function: str, gains: Gains) -> bool:
    verdict = version.verdict
    return verdict is not None and verdict.gain > verdict.error and (function, version.label) not in gains


def _can_run(body: CompiledVersion, version: VersionChoice, cores: Mapping[str, Core]) -> bool:
    """True if a version's core has the instructions of `body`, and its model cannot tell it from its own."""
    core, verdict = cores[version.label], version.verdict
    if body.label == version.label:
        return True
    if verdict is None or not set(cores[body.label].extensions) <= set(core.extensions):
        return False
    from mavcg.assembly.tuning import modelled_rate

    try:
        rate = modelled_rate(core, body.asm, body.symbol, verdict.unit)
    except ProfileError:
        return False
    return rate is not None and rate >= verdict.own * (1 - model_error(core).fraction)
