"""Chooses the versions of a function: shares equal machine code, drops versions whose known gain is small.

Source: uarch-codegen paper, chapter 3.2.3 ("removes the versions that do not exhibit performance improvement").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.feature_levels import MODELLED_LEVELS
from mavcg.program.version_values import CompiledVersion, FailedLevel

MIN_GAIN = 0.01  # minimum known gain over generic, as a fraction, for which a version is worth its bytes


@dataclass(frozen=True)
class Gain:
    """Time that a version saves over the generic version on its own core, as a fraction: 0.11 is 11 % less time.

    Args:
        how: how the figure was obtained, as text: measured or modelled.
        noise: gain that chance alone may show, as a fraction; 0.0 if that is not known.
        before, after: time of a run as generic and as the version, in units of `event`; None if it was not measured.
    """

    fraction: float
    how: str
    noise: float = 0.0
    before: float | None = None
    after: float | None = None
    event: str = ""

    def helps(self, min_gain: float) -> bool:
        """True if the gain is at least `min_gain`, as a fraction, and more than its noise."""
        return self.fraction >= min_gain and self.fraction > self.noise

    def why_useless(self, min_gain: float) -> str:
        """Return the reason why a version with this gain is dropped."""
        under = f"under the required {min_gain:.1%}"
        return under if self.fraction < min_gain else f"within the noise of {self.noise:.1%}"


Gains = Mapping[tuple[str, str], Gain]  # (function, core) -> gain


@dataclass(frozen=True)
class VersionLimits:
    """Limits on the versions of a function.

    Args:
        min_gain: versions with a known gain below this fraction, or within its noise, are dropped.
        max_growth: limit on the code growth of a file, in percent of its single-version build; None for no limit.
        free_bytes: bytes that versions of a file may add whatever max_growth says.
        by_model: True to drop versions that the core's model says to gain nothing over generic.
        levels: the feature levels of a core that get versions, beside its own: one of LEVELS.
    """

    min_gain: float = MIN_GAIN
    max_growth: float | None = None
    free_bytes: int = 0
    by_model: bool = True
    levels: str = MODELLED_LEVELS


@dataclass(frozen=True)
class ModelVerdict:
    """The verdict of a core's model about a version, in comparison with generic (version_model.py).

    Args:
        generic, own: work per cycle of the main loop, in `unit` per cycle.
        error: error of the core's model, as a fraction.
        is_assumed: True if that error is not known from published figures.
        would_drop: True if the model alone would drop the version.
        is_dropped: True if the version is dropped.
        why: the figures and the verdict, as text.
    """

    generic: float
    own: float
    unit: str
    error: float
    is_assumed: bool
    would_drop: bool
    is_dropped: bool
    why: str

    @property
    def is_slower(self) -> bool:
        """True if the version takes more time than generic."""
        return self.own < self.generic

    @property
    def more_time(self) -> float:
        """Additional time of the version relative to generic, as a fraction: 0.14 for 14 % more."""
        return self.generic / self.own - 1

    @property
    def gain(self) -> float:
        """Time that the version saves over generic, as a fraction."""
        return 1 - self.generic / self.own


@dataclass(frozen=True)
class VersionChoice:
    """The code that a core runs.

    Args:
        label: the version: "generic", the core's name, or that of a feature level of the core.
        level_of: the core, for the version of a feature level; "" else.
        body: label of the version whose code it runs: its own, one with equal code, or "generic" if it is dropped.
        bytes: size of the function's code in that version.
        dropped: the reason why the version is not used; "" if it is used.
        verdict: what the core's model says about it; None if it can time no loop of both versions.
        gain: its measured gain; None if it was not measured.
        nearly_equal: the reason why it runs another core's code that is not equal to its own; "" if it does not.
    """

    label: str
    body: str
    bytes: int
    dropped: str = ""
    verdict: ModelVerdict | None = None
    nearly_equal: str = ""
    level_of: str = ""
    gain: Gain | None = None

    @property
    def core_type(self) -> str:
        """The core that runs it; "generic" for the generic version."""
        return self.level_of or self.label

    @property
    def shares_body_with(self) -> str | None:
        """Label of the version whose machine code it runs; None if it runs its own."""
        return self.body if self.body != self.label and not self.dropped else None


@dataclass(frozen=True)
class Sizes:
    """Sizes of one version, in bytes.

    Args:
        code: of the function itself.
        loaded: all bytes that its object file adds to the program.
    """

    code: int
    loaded: int


@dataclass(frozen=True)
class FunctionChoice:
    """The versions of one function, generic first."""

    function: str
    versions: tuple[VersionChoice, ...]

    @property
    def bodies(self) -> tuple[str, ...]:
        """Labels of the versions that are linked, without duplicates."""
        return tuple(dict.fromkeys(k.body for k in self.versions))

    def tried_versions(self, labels: Sequence[str]) -> tuple[VersionChoice, ...]:
        """Return generic, then the versions that the selector tries, in the order of these labels, if any are given.

        A feature level is tried if it has code of its own, or of a version that its core does not try by itself.
        """
        place = {label: number for number, label in enumerate(labels)}
        ordered = sorted(self.versions[1:], key=lambda version: place.get(version.label, 0))
        own = {(version.label, version.body) for version in ordered if not version.level_of}
        taken = [self.versions[0]]
        for version in ordered:
            known = own | {(k.level_of, k.body) for k in taken}
            if not version.level_of or (version.body != GENERIC and (version.level_of, version.body) not in known):
                taken.append(version)
        return tuple(taken)

    def aliases(self, body: str) -> list[str]:
        """Return the labels of versions that are not linked and whose callers get this body in their place.

        A version that its own core dropped, and another one runs, is linked: its callers get it.
        """
        return [k.label for k in self.versions if k.body == body and k.label not in self.bodies]

    @property
    def is_single(self) -> bool:
        """True if all cores run the same version, so that no dispatcher is needed."""
        return len(self.bodies) == 1


def share_equal(bodies: Sequence[CompiledVersion], sizes: Mapping[str, Sizes]) -> FunctionChoice:
    """Return a choice in which each version runs the code of the first version with equal machine code.

    Args:
        sizes: by symbol of the version.
    """
    first: dict[str, CompiledVersion] = {}
    for body in own_first(bodies):
        first.setdefault(body.key, body)
    versions = tuple(
        VersionChoice(b.label, first[b.key].label, sizes[first[b.key].symbol].code, level_of=b.level_of) for b in bodies
    )
    return FunctionChoice(bodies[0].function, versions)


def own_first(bodies: Sequence[CompiledVersion]) -> list[CompiledVersion]:
    """Return generic and the cores' own versions, then those of feature levels, each in the given order."""
    return sorted(bodies, key=lambda body: body.level_of != "")


def without_idle_levels(
    choice: FunctionChoice, cores: Mapping[str, Core], needs: Mapping[tuple[str, str], Sequence[str]]
) -> FunctionChoice:
    """Let cores run their own version in place of one for a level above it that uses nothing of that level."""
    own = {k.label: k for k in choice.versions if not k.level_of}

    def decide(version: VersionChoice) -> VersionChoice:
        further = cores[version.label].optional_extensions if version.level_of else ()
        above = set(further) & set(cores[version.label].extensions) if further else set()
        if not above or above & set(needs.get((choice.function, version.body), ())):
            return version
        return replace(version, body=own[version.level_of].body, bytes=own[version.level_of].bytes)

    return replace(choice, versions=tuple(decide(k) for k in choice.versions))


def drop_unmodelled_levels(choice: FunctionChoice) -> FunctionChoice:
    """Drop versions of feature levels that no model can compare with generic: nothing says that they gain."""

    def decide(version: VersionChoice) -> VersionChoice:
        if not version.level_of or version.body == GENERIC or version.verdict:
            return version
        return to_generic(choice, version, "the model cannot time it; --versions all keeps it")

    return replace(choice, versions=tuple(decide(k) for k in choice.versions))


def with_failed_levels(choice: FunctionChoice, failed: Sequence[FailedLevel]) -> FunctionChoice:
    """Return the choice with the feature levels for which its function has no version, as dropped versions."""
    own = [level for level in failed if level.function == choice.function]
    size = choice.versions[0].bytes
    dropped = (VersionChoice(level.level, GENERIC, size, level.reason, level_of=level.core) for level in own)
    return replace(choice, versions=(*choice.versions, *dropped))


def drop_levels_with_cores(choice: FunctionChoice) -> FunctionChoice:
    """Drop versions of feature levels that have the code of their core's own version, where that is dropped."""
    dropped = {k.label: k.dropped for k in choice.versions if k.dropped}

    def decide(version: VersionChoice) -> VersionChoice:
        shares = version.level_of and version.body == version.level_of and version.body in dropped
        return to_generic(choice, version, dropped[version.body]) if shares else version

    return replace(choice, versions=tuple(decide(k) for k in choice.versions))


def drop_useless(choice: FunctionChoice, gains: Gains, min_gain: float) -> FunctionChoice:
    """Drop versions whose known gain over generic is below `min_gain`, or within its noise; their cores run generic."""

    def decide(version: VersionChoice) -> VersionChoice:
        gain = gains.get((choice.function, version.label))
        if version.body == GENERIC or gain is None:
            return version
        version = replace(version, gain=gain)
        if gain.helps(min_gain):
            return version
        reason = f"{gain.fraction:+.1%} over generic ({gain.how}), {gain.why_useless(min_gain)}"
        return to_generic(choice, version, reason)

    return replace(choice, versions=tuple(decide(k) for k in choice.versions))


def to_generic(choice: FunctionChoice, version: VersionChoice, reason: str) -> VersionChoice:
    """Return the version dropped for this reason: its core runs the generic version."""
    return replace(version, body=GENERIC, bytes=choice.versions[0].bytes, dropped=reason)
