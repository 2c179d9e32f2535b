"""Limits the code growth of a file: drops the versions that gain least per byte until the others fit.

Source: uarch-codegen paper, chapter 4.2 (3.66 % code growth for six clones).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.hardware.core import GENERIC
from mavcg.program.version_choice import (
    MIN_GAIN,
    FunctionChoice,
    Gains,
    Sizes,
    VersionChoice,
    VersionLimits,
    to_generic,
)

# The bound without --max-growth: docs/measuring.md.
DEFAULT_MAX_GROWTH = 100.0  # percent of a file's own bytes
DEFAULT_FREE_BYTES = 16384  # that the versions of a file may add however small it is


def allowed_growth(limits: VersionLimits, single_bytes: int) -> float:
    """Return the bytes that the versions of a file may add to its `single_bytes`; infinity without a limit."""
    if limits.max_growth is None:
        return math.inf
    return max(limits.max_growth * single_bytes / 100, limits.free_bytes)


@dataclass(frozen=True)
class GrowthLimit:
    """A limit on code growth, and the figures that it needs.

    Args:
        max_growth: in percent of single_bytes.
        single_bytes: loaded bytes of the single-version build.
        sizes: by (function, label).
        worth: (function, core) -> share of the run time times gain, of versions_worth.
        dispatcher_bytes: size of the dispatcher of a function with more than one version.
        free_bytes: that may be added whatever max_growth says.
    """

    max_growth: float
    single_bytes: int
    sizes: Mapping[tuple[str, str], Sizes]
    worth: Mapping[tuple[str, str], float]
    dispatcher_bytes: int
    free_bytes: int = 0

    @property
    def allowed_bytes(self) -> float:
        """Bytes that versions and dispatchers may add."""
        return allowed_growth(VersionLimits(max_growth=self.max_growth, free_bytes=self.free_bytes), self.single_bytes)

    def added_bytes(self, choices: Sequence[FunctionChoice]) -> int:
        """Return the bytes that these choices are expected to add."""
        bodies = sum(self.sizes[c.function, body].loaded for c in choices for body in c.bodies if body != GENERIC)
        return bodies + self.dispatcher_bytes * sum(not choice.is_single for choice in choices)


def drop_for_growth(
    choices: Sequence[FunctionChoice], limit: GrowthLimit, allowed_bytes: float | None = None
) -> list[FunctionChoice]:
    """Drop versions, those that gain least per byte first, until the others are expected to add no more than allowed.

    Before them go those that only feature levels of cores run.

    Those of the dropped versions that then still fit come back, the ones that gain most per byte first.

    Args:
        allowed_bytes: a lower limit, if linking showed that more was added than expected; None for the limit's own.
    """
    allowed = limit.allowed_bytes if allowed_bytes is None else allowed_bytes
    current = list(choices)
    dropped: list[tuple[int, str]] = []
    while limit.added_bytes(current) > allowed:
        candidates = [(i, body) for i, c in enumerate(current) for body in c.bodies if body != GENERIC]
        if not candidates:
            break
        index, body = min(candidates, key=lambda at: _rank(current[at[0]], at[1], limit))
        current[index] = _drop_body(current[index], body, limit)
        dropped.append((index, body))
    for index, body in reversed(dropped):
        restored = _restore_body(current[index], choices[index], body)
        if limit.added_bytes([*current[:index], restored, *current[index + 1 :]]) <= allowed:
            current[index] = restored
    return current


def _rank(choice: FunctionChoice, body: str, limit: GrowthLimit) -> tuple[bool, float]:
    """Return what orders versions by worth: those for machines that hide an extension, which are few, go first."""
    is_own = any(k.body == body and not k.level_of for k in choice.versions)
    return is_own, _worth_per_byte(choice, body, limit)


def _worth_per_byte(choice: FunctionChoice, body: str, limit: GrowthLimit) -> float:
    gained = sum(limit.worth.get((choice.function, k.label), 0.0) for k in choice.versions if k.body == body)
    return gained / max(1, limit.sizes[choice.function, body].loaded)


def _drop_body(choice: FunctionChoice, body: str, limit: GrowthLimit) -> FunctionChoice:
    bytes_ = limit.sizes[choice.function, body].loaded
    reason = f"its {bytes_} bytes would exceed --max-growth {limit.max_growth:g} %"
    if bytes_ <= limit.allowed_bytes:
        reason += ", and gain least per byte"
    return replace(
        choice, versions=tuple(to_generic(choice, k, reason) if k.body == body else k for k in choice.versions)
    )


def _restore_body(choice: FunctionChoice, before: FunctionChoice, body: str) -> FunctionChoice:
    pairs = zip(choice.versions, before.versions, strict=True)
    return replace(choice, versions=tuple(was if was.body == body else now for now, was in pairs))


def versions_worth(
    choices: Sequence[FunctionChoice], shares: Mapping[str, float], gains: Gains
) -> dict[tuple[str, str], float]:
    """Return (function, core) -> what its version saves of the run time: the function's share times the gain.

    Args:
        shares: function -> its share of the run time, 0..1.
        gains: measured gains, which come before those of the models.
    """
    return {
        (choice.function, version.label): shares.get(choice.function, 0.0) * _gain(choice.function, version, gains)
        for choice in choices
        for version in choice.versions[1:]
    }


def _gain(function: str, version: VersionChoice, gains: Gains) -> float:
    """Return the gain of a version, measured or else modelled, as a fraction; MIN_GAIN where neither is known.

    A version that is kept although the model shows no gain counts with the error of the model.
    """
    measured = gains.get((function, version.label))
    if measured is not None:
        return max(0.0, measured.fraction)
    verdict = version.verdict
    return MIN_GAIN if verdict is None else max(verdict.gain, verdict.error)
