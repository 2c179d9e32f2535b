"""Repeats profiling, building, measuring and dropping versions until no function over the threshold is left.

Source: uarch-codegen paper, figure 3.2 and chapters 3.2.1 to 3.2.3: profile, clone for each microarchitecture, build,
profile each version on its core, remove those that do not help, go on to the next function over the threshold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.version_choice import Gain, Gains

MOST_ROUNDS = 20  # limit on the rounds; each round takes up the functions that are then over the threshold

Progress = Callable[[str], None]


@dataclass(frozen=True)
class VersionGain:
    """A version that the build made, with its gain.

    Args:
        gain: time saved over the generic version, as a fraction; None if it was not measured.
        how: how the gain was obtained, as text.
        measured: the gain with its noise and times; None if it was not measured.
    """

    function: str
    core: str
    gain: float | None
    how: str
    measured: Gain | None = None


@dataclass(frozen=True)
class DroppedVersion:
    """A version that is no longer in the library, and the reason."""

    function: str
    core: str
    why: str


@dataclass(frozen=True)
class BuiltLibrary:
    """The result of one build.

    Args:
        library: path of the library; None if there was nothing to version.
        versions: versions in the library (some share machine code), with the model's verdict.
        dropped: versions that the build left out because of a measurement or the model.
        left: given name of a function without versions -> the reason.
        useless: (function, core) of versions that were kept although the model would drop them.
        given_names: linkage name -> different name that the user or profile gave.
    """

    library: Path | None
    versions: tuple[VersionGain, ...] = ()
    dropped: tuple[DroppedVersion, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    useless: frozenset[tuple[str, str]] = frozenset()
    given_names: Mapping[str, str] = field(default_factory=dict)

    def is_of(self, function: str, names: Sequence[str]) -> bool:
        """True if the function with this linkage name was given by one of these names."""
        return self.given_names.get(function, function) in names


@dataclass(frozen=True)
class MeasuredGains:
    """Measured gains of versions.

    Args:
        gains: by (function, core).
        unknown: (function, core) -> the reason why no gain can be stated.
        notes: messages about the runs.
    """

    gains: Gains
    unknown: Mapping[tuple[str, str], str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class AutoSteps(Protocol):
    """The steps of a round that run programs and build libraries. Each may raise MavcgError."""

    def profile(self, library: Path | None) -> Sequence[HotSymbol]:
        """Run the program, with the library if there is one; return the functions over the threshold, hottest first.

        Samples of versions count for their function. The given name of each function is its unique linkage name.
        """

    def build(self, hot: Sequence[HotSymbol], gains: Gains, keep_slower: bool) -> BuiltLibrary:
        """Build the library with versions of these functions, except versions that are known not to help."""

    def measure(self, built: BuiltLibrary) -> MeasuredGains | None:
        """Measure the library's versions; return None if the library cannot run, so that the model decides."""


@dataclass(frozen=True)
class Round:
    """The result of one round.

    Args:
        functions: new functions of this round, hottest first.
        shares: function -> its share of the round's profile, 0..1.
        versions, dropped: versions of all functions so far that are in the library, and that were dropped.
        left: function of this round without versions -> the reason.
        notes: messages about the runs.
    """

    functions: tuple[str, ...]
    shares: Mapping[str, float]
    versions: tuple[VersionGain, ...]
    dropped: tuple[DroppedVersion, ...]
    left: Mapping[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AutoResult:
    """The result of all rounds.

    Args:
        rounds: in order.
        library: path of the library; None if no function was over the threshold.
        waiting: functions over the threshold that no round took up, because of a limit.
        is_measured: True if versions were run; False if the model alone decided.
    """

    rounds: tuple[Round, ...]
    library: Path | None
    waiting: tuple[str, ...] = ()
    is_measured: bool = False


@dataclass(frozen=True)
class RoundLimits:
    """Limits on the rounds.

    Args:
        min_gain: as in version_choice.VersionLimits.
        rounds: maximum of rounds.
        per_round: maximum of functions that a round takes up; None for no limit.
        functions: maximum of functions in all rounds together; None for no limit.
    """

    min_gain: float
    rounds: int = MOST_ROUNDS
    per_round: int | None = None
    functions: int | None = None


def run_rounds(steps: AutoSteps, limits: RoundLimits, progress: Progress = lambda message: None) -> AutoResult:
    """Repeat rounds until every function over the threshold in the last profile has been versioned or refused.

    Errors of the steps are passed on.
    """
    taken: dict[str, HotSymbol] = {}
    left: dict[str, str] = {}
    gains: dict[tuple[str, str], Gain] = {}
    rounds: list[Round] = []
    library: Path | None = None
    is_measured, number_taken = False, 0
    while True:
        number = len(rounds) + 1
        progress(f"round {number}: profiling" + (f" with {library.name}" if library else ""))
        over = [hot for hot in steps.profile(library) if hot.given_name not in taken]
        if limits.functions is not None:
            over = over[: max(0, limits.functions - number_taken)]
        if not over or len(rounds) == limits.rounds:
            return AutoResult(tuple(rounds), library, tuple(hot.given_name for hot in over), is_measured)
        fresh = over[: limits.per_round]
        number_taken += len(fresh)
        taken |= {hot.given_name: hot for hot in fresh}
        names = tuple(hot.given_name for hot in fresh)
        progress(f"round {number}: building versions of {', '.join(names)}")
        built = steps.build(_buildable(taken, left), gains, True)
        left |= built.left
        measured: MeasuredGains | None = None
        if any(built.is_of(version.function, names) for version in built.versions):
            measured = steps.measure(built)
        if measured is not None:
            is_measured = True
            gains |= {at: gain for at, gain in measured.gains.items() if at not in gains}
        versions = tuple(
            _with_gain(version, gains, measured) for version in built.versions if built.is_of(version.function, names)
        )
        if _drops_more(built, gains, limits.min_gain):
            progress(f"round {number}: building without the versions that do not help")
            built = steps.build(_buildable(taken, left), gains, False)
        library = built.library or library
        # The library gives a function that was found by a similar name another name, under which the next profile lists
        # it.
        taken |= {
            name: taken[given_name]
            for name, given_name in built.given_names.items()
            if given_name in taken and name not in taken
        }
        shares = {hot.given_name: hot.share for hot in fresh}
        dropped = tuple(version for version in built.dropped if built.is_of(version.function, names))
        why = {name: left[name] for name in names if name in left}
        rounds.append(Round(names, shares, versions, dropped, why, measured.notes if measured else ()))


def _buildable(functions: Mapping[str, HotSymbol], left_out: Mapping[str, str]) -> list[HotSymbol]:
    return list(dict.fromkeys(hot for hot in functions.values() if hot.given_name not in left_out))


def _drops_more(built: BuiltLibrary, gains: Gains, min_gain: float) -> bool:
    """True if another build would drop a version that this one has: for its measured gain, or by the model alone."""
    versions = {(version.function, version.core) for version in built.versions} - {
        (version.function, version.core) for version in built.dropped
    }
    return any(
        (at in gains and not gains[at].helps(min_gain)) or (at not in gains and at in built.useless) for at in versions
    )


def _with_gain(version: VersionGain, gains: Gains, measured: MeasuredGains | None) -> VersionGain:
    """Return a version with its measured gain, or the reason why there is none; the model's verdict stays."""
    at = version.function, version.core
    if at in gains:
        return replace(version, gain=gains[at].fraction, how=gains[at].how, measured=gains[at])
    why = measured.unknown.get(at, "not on this machine") if measured is not None else ""
    return replace(
        version, how="; ".join(filter(None, [f"not measured: {why}" if why else "not measured", version.how]))
    )
