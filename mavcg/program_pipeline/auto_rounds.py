"""Repeat profiling, building, measuring and dropping until no function over the threshold is left.

Source: uarch-codegen paper, figure 3.2 and chapters 3.2.1 to 3.2.3: profile, clone for each microarchitecture, build,
profile each version on its core, remove those that do not help, go on to the next function over the threshold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from mavcg.program_pipeline.hot_functions import HotSymbol
from mavcg.program_pipeline.version_choice import Gain, Gains

MOST_ROUNDS = 20  # a program with more hot functions one below the other than this has no hot functions

Progress = Callable[[str], None]


@dataclass(frozen=True)
class VersionGain:
    """A version that the build made, with its gain.

    Args:
        gain: time saved over the generic version, as a fraction; None where it was not measured.
        how: the source of the gain, as text.
    """

    function: str
    core: str
    gain: float | None
    how: str


@dataclass(frozen=True)
class DroppedVersion:
    """A version that the library does not hold any more, and the reason."""

    function: str
    core: str
    why: str


@dataclass(frozen=True)
class BuiltLibrary:
    """The result of one build.

    Args:
        library: path of the library; None where there was nothing to version.
        versions: versions that have or share machine code, with the model's verdict on them.
        dropped: versions that the build left out because of a measurement or of the model.
        left: functions without versions, by their given names -> the reason.
        slower: (function, core) of versions that were kept although the model would drop them.
        given_names: linkage name -> the name that the user or profile gave, where the two differ.
    """

    library: Path | None
    versions: tuple[VersionGain, ...] = ()
    dropped: tuple[DroppedVersion, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    slower: frozenset[tuple[str, str]] = frozenset()
    given_names: Mapping[str, str] = field(default_factory=dict)

    def is_of(self, function: str, names: Sequence[str]) -> bool:
        """True if a linkage name belongs to a function that was given by one of these names."""
        return self.given_names.get(function, function) in names


@dataclass(frozen=True)
class MeasuredGains:
    """Gains of versions, as measured.

    Args:
        gains: by (function, core).
        unknown: (function, core) -> why no gain can be stated.
        notes: remarks about the runs.
    """

    gains: Gains
    unknown: Mapping[tuple[str, str], str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class AutoSteps(Protocol):
    """The effects of a round: running programs and building libraries. Every step may raise MavcgError."""

    def profile(self, library: Path | None) -> Sequence[HotSymbol]:
        """Run the program, with the library if there is one, and return functions over the threshold, hottest first.

        Samples of versions count to their function. The given name of each function is its unique linkage name.
        """

    def build(self, hot: Sequence[HotSymbol], gains: Gains, keep_slower: bool) -> BuiltLibrary:
        """Build the library with versions of these functions, without versions that are known not to help."""

    def measure(self, built: BuiltLibrary) -> MeasuredGains | None:
        """Measure the library's versions; None where the library cannot run, so that the model decides."""


@dataclass(frozen=True)
class Round:
    """The result of one round.

    Args:
        functions: functions that this round took up, hottest first.
        shares: their shares of the round's profile, 0..1.
        left: those of them that got no versions -> the reason.
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
        library: path of the library; None where no function was over the threshold.
        waiting: functions over the threshold that no round took up, because the number of rounds is limited.
        is_measured: True if versions were run, False if the model alone decided.
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
        rounds: rounds at most.
        per_round: functions that a round takes up at most; None for all over the threshold.
        functions: functions in all rounds together; None for no limit.
    """

    min_gain: float
    rounds: int = MOST_ROUNDS
    per_round: int | None = None
    functions: int | None = None


def run_rounds(steps: AutoSteps, limits: RoundLimits, progress: Progress = lambda message: None) -> AutoResult:
    """Repeat rounds until a profile shows no function over the threshold that was not taken up before.

    Raises: what the steps raise.
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
        # In the next profile a function that was found by a name like its own has the name that the library gave it.
        taken |= {
            name: taken[given_name]
            for name, given_name in built.given_names.items()
            if given_name in taken and name not in taken
        }
        shares = {hot.given_name: hot.share for hot in fresh}
        dropped = tuple(each for each in built.dropped if built.is_of(each.function, names))
        why = {name: left[name] for name in names if name in left}
        rounds.append(Round(names, shares, versions, dropped, why, measured.notes if measured else ()))


def _buildable(functions: Mapping[str, HotSymbol], left: Mapping[str, str]) -> list[HotSymbol]:
    return list(dict.fromkeys(hot for hot in functions.values() if hot.given_name not in left))


def _drops_more(built: BuiltLibrary, gains: Gains, min_gain: float) -> bool:
    """True if another build would drop a version that this one has: for its measured gain, or by the model alone."""
    versions = {(version.function, version.core) for version in built.versions} - {
        (each.function, each.core) for each in built.dropped
    }
    return any(
        (at in gains and gains[at].fraction < min_gain) or (at not in gains and at in built.slower) for at in versions
    )


def _with_gain(version: VersionGain, gains: Gains, measured: MeasuredGains | None) -> VersionGain:
    """Return a version with its measured gain, or the reason why there is none, beside the model's verdict."""
    at = version.function, version.core
    if at in gains:
        return replace(version, gain=gains[at].fraction, how=gains[at].how)
    why = measured.unknown.get(at, "not on this machine") if measured is not None else ""
    return replace(
        version, how="; ".join(filter(None, [f"not measured: {why}" if why else "not measured", version.how]))
    )
