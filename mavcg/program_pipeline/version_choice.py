"""Chooses the versions of a function: shares equal machine code, drops versions with little gain, limits code growth.

Source: uarch-codegen paper, chapter 3.2.3 ("removes the versions that do not exhibit performance improvement"), and
chapter 4.2 (3.66 % code growth for six clones), which `--max-growth` limits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.assembly.tuning import VersionTuning
from mavcg.hardware.core import GENERIC, Core
from mavcg.program_pipeline.versions import CompiledVersion

MIN_GAIN = 0.01  # minimum known gain over generic, as a fraction, for which a version is worth its bytes


@dataclass(frozen=True)
class Gain:
    """Time that a version saves over the generic version on its own core, as a fraction: 0.11 is 11 % less time.

    Args:
        how: how the figure was obtained, as text: measured or modelled.
    """

    fraction: float
    how: str


Gains = Mapping[tuple[str, str], Gain]  # (function, core) -> gain


@dataclass(frozen=True)
class VersionLimits:
    """Limits on the versions of a function.

    Args:
        min_gain: versions with a known gain below this fraction are dropped.
        max_growth: limit on code growth, in percent of the single-version build; None for no limit.
        drop_slower: True to drop versions that are slower than generic by more than the error of the core's model.
    """

    min_gain: float = MIN_GAIN
    max_growth: float | None = None
    drop_slower: bool = True


@dataclass(frozen=True)
class SlowerVersion:
    """A version that is slower than generic by the model of its core, and the verdict.

    Args:
        generic, own: operations per cycle of the main loop, in `unit` per cycle.
        error: error of the core's model, as a fraction; None if unknown.
        is_dropped: True if the version is dropped.
        why: the figures and the verdict, as text.
        is_over_error: True if the model alone would drop it.
    """

    generic: float
    own: float
    unit: str
    error: float | None
    is_dropped: bool
    why: str
    is_over_error: bool = False

    @property
    def more_time(self) -> float:
        """Additional time of the version relative to generic, as a fraction: 0.14 for 14 % more."""
        return self.generic / self.own - 1


@dataclass(frozen=True)
class VersionChoice:
    """The code that a core runs.

    Args:
        label: the version: "generic" or the core's name.
        body: label of the version whose code it runs: its own, one with equal code, or "generic" if it is dropped.
        bytes: size of the function's code in that version.
        dropped: the reason why the version is not used; "" if it is used.
        slower: the model's verdict if the version is slower than generic by it.
    """

    label: str
    body: str
    bytes: int
    dropped: str = ""
    slower: SlowerVersion | None = None

    @property
    def shares_body_with(self) -> str | None:
        """Label of the version whose equal machine code it runs; None if it runs its own."""
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
    for body in bodies:
        first.setdefault(body.key, body)
    versions = tuple(VersionChoice(b.label, first[b.key].label, sizes[first[b.key].symbol].code) for b in bodies)
    return FunctionChoice(bodies[0].function, versions)


def drop_useless(choice: FunctionChoice, gains: Gains, min_gain: float) -> FunctionChoice:
    """Drop versions whose known gain over generic is below `min_gain`; their cores run generic."""

    def decide(version: VersionChoice) -> VersionChoice:
        gain = gains.get((choice.function, version.label))
        if version.body == GENERIC or gain is None or gain.fraction >= min_gain:
            return version
        reason = f"{gain.fraction:+.1%} over generic ({gain.how}), under the required {min_gain:.1%}"
        return _to_generic(choice, version, reason)

    return replace(choice, versions=tuple(decide(k) for k in choice.versions))


def drop_slower(
    choice: FunctionChoice,
    tunings: Mapping[str, VersionTuning],
    cores: Mapping[str, Core],
    gains: Gains,
    dropping: bool = True,
) -> FunctionChoice:
    """Drop versions that are slower than generic by more than the error of the core's model.

    Args:
        tunings: core -> the modelled performance.
        gains: measured gains, which override the model.
        dropping: False to keep all versions and only record the slower ones.
    """

    def decide(version: VersionChoice) -> VersionChoice:
        tuning = tunings.get(version.label)
        if version.body == GENERIC or tuning is None or not tuning.generic or not tuning.own:
            return version
        if tuning.own >= tuning.generic:
            return version
        error = cores[version.label].model_error
        measured = gains.get((choice.function, version.label))
        slower = _slower(tuning, error, measured, dropping)
        version = replace(version, slower=slower)
        return _to_generic(choice, version, slower.why) if slower.is_dropped else version

    return replace(choice, versions=tuple(decide(version) for version in choice.versions))


def _slower(tuning: VersionTuning, error: float | None, measured: Gain | None, dropping: bool) -> SlowerVersion:
    """Return the verdict on a version that is slower than generic by the model."""
    assert tuning.generic and tuning.own
    more = tuning.generic / tuning.own - 1
    figures = (
        f"{tuning.own:.2f} {tuning.unit}/cycle where generic has {tuning.generic:.2f}, {more:.1%} more time (model)"
    )
    is_dropped = False
    if measured is not None:
        verdict = f"overruled: {measured.fraction:+.1%} ({measured.how})"
    elif error is None:
        verdict = "the model's error on this core is not known: nothing is dropped by it"
    elif not tuning.is_hottest:
        verdict = "the model cannot time a loop that is hotter: nothing is dropped by it"
    elif more <= error:
        verdict = f"within the model's error of {error:.1%}"
    elif not dropping:
        verdict = f"over the model's error of {error:.1%}, kept as requested"
    else:
        verdict, is_dropped = f"over the model's error of {error:.1%}", True
    over = error is not None and tuning.is_hottest and more > error
    return SlowerVersion(tuning.generic, tuning.own, tuning.unit, error, is_dropped, f"{figures}, {verdict}", over)


@dataclass(frozen=True)
class GrowthLimit:
    """A limit on code growth, and the figures that it needs.

    Args:
        max_growth: in percent of single_bytes.
        single_bytes: loaded bytes of the single-version build.
        sizes: by (function, label).
        worth: (function, core) -> share of the run time times gain, in any unit.
        dispatcher_bytes: size of the dispatcher of a function with more than one version.
    """

    max_growth: float
    single_bytes: int
    sizes: Mapping[tuple[str, str], Sizes]
    worth: Mapping[tuple[str, str], float]
    dispatcher_bytes: int

    @property
    def allowed_bytes(self) -> float:
        """Bytes that versions and dispatchers may add."""
        return self.max_growth * self.single_bytes / 100

    def added_bytes(self, choices: Sequence[FunctionChoice]) -> int:
        """Return the bytes that these choices are expected to add."""
        bodies = sum(self.sizes[c.function, body].loaded for c in choices for body in c.bodies if body != GENERIC)
        return bodies + self.dispatcher_bytes * sum(not choice.is_single for choice in choices)


def drop_for_growth(
    choices: Sequence[FunctionChoice], limit: GrowthLimit, allowed_bytes: float | None = None
) -> list[FunctionChoice]:
    """Drop versions, those of least worth per byte first, until the others are expected to add no more than allowed.

    Args:
        allowed_bytes: a lower limit, if linking showed that more was added than expected; None for the limit's own.
    """
    allowed = limit.allowed_bytes if allowed_bytes is None else allowed_bytes
    current = list(choices)
    while limit.added_bytes(current) > allowed:
        candidates = [(i, body) for i, c in enumerate(current) for body in c.bodies if body != GENERIC]
        if not candidates:
            break

        def value(candidate: tuple[int, str]) -> float:
            choice, body = current[candidate[0]], candidate[1]
            gained = sum(limit.worth.get((choice.function, k.label), 0.0) for k in choice.versions if k.body == body)
            return gained / max(1, limit.sizes[choice.function, body].loaded)

        index, body = min(candidates, key=value)
        bytes_ = limit.sizes[current[index].function, body].loaded
        reason = f"its {bytes_} bytes would exceed --max-growth {limit.max_growth:g} %"
        current[index] = _drop_body(current[index], body, reason)
    return current


def _drop_body(choice: FunctionChoice, body: str, reason: str) -> FunctionChoice:
    return replace(
        choice, versions=tuple(_to_generic(choice, k, reason) if k.body == body else k for k in choice.versions)
    )


def _to_generic(choice: FunctionChoice, version: VersionChoice, reason: str) -> VersionChoice:
    return replace(version, body=GENERIC, bytes=choice.versions[0].bytes, dropped=reason)
