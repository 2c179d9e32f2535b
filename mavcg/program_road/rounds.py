"""Rounds of profiling, building, measuring and dropping, until no function over the threshold is left.

Source: uarch-codegen paper, figure 3.2 and chapters 3.2.1 to 3.2.3: profile, clone for each microarchitecture, build,
profile each version on its core, remove those that do not help, go on to the next function over the threshold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from mavcg.program_road.choosing import Gain, Gains
from mavcg.program_road.hot import HotSymbol

MOST_ROUNDS = 20  # a program with more hot functions one below the other than this has no hot functions

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Version:
    """A version that the build made. gain: over generic, a fraction; None where nobody measured it. how: in words."""

    function: str
    core: str
    gain: float | None
    how: str


@dataclass(frozen=True)
class Dropped:
    """A version that the library does not hold any more, and why."""

    function: str
    core: str
    why: str


@dataclass(frozen=True)
class Built:
    """What one build made.

    library: None where there was nothing to version. versions: those that have code of their own or share it, with what
    the model says of them. dropped: those that the build left out by measurement or model. left: functions that got no
    versions -> why, by the names that they were asked by. slower: (function, core) of versions that were kept although
    the model would drop them. asked: linkage name -> the name by which it was asked, where that is another one.
    """

    library: Path | None
    versions: tuple[Version, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    slower: frozenset[tuple[str, str]] = frozenset()
    asked: Mapping[str, str] = field(default_factory=dict)

    def is_of(self, function: str, names: Sequence[str]) -> bool:
        """Whether a linkage name is that of a function that was asked for by one of these names."""
        return self.asked.get(function, function) in names


@dataclass(frozen=True)
class MeasuredGains:
    """gains: by (function, core). unknown: (function, core) -> why no gain can be stated. notes: about the runs."""

    gains: Gains
    unknown: Mapping[tuple[str, str], str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Steps(Protocol):
    """What a round does to the world: run programs, build libraries. Every step may raise MavcgError."""

    def profile(self, library: Path | None) -> Sequence[HotSymbol]:
        """Run the program, with the library where there is one; the functions over the threshold, hottest first.

        Versions count to the function that they are of. asked: the linkage name, by which functions are told apart.
        """

    def build(self, hot: Sequence[HotSymbol], gains: Gains, keep_slower: bool) -> Built:
        """Build the library with versions of these functions; what is known not to help is dropped."""

    def measure(self, built: Built) -> MeasuredGains | None:
        """Measure the library's versions; None where nothing can be run for it, so that the model has the last word."""


@dataclass(frozen=True)
class Round:
    """functions: taken up in this round, hottest first, with their shares of its profile. left: those of them that
    got no versions -> why."""

    functions: tuple[str, ...]
    shares: Mapping[str, float]
    versions: tuple[Version, ...]
    dropped: tuple[Dropped, ...]
    left: Mapping[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """rounds: in order. library: None where no function was over the threshold. waiting: functions over the threshold
    that no round took up, because the rounds were limited. is_measured: whether versions were run, not only
    modelled."""

    rounds: tuple[Round, ...]
    library: Path | None
    waiting: tuple[str, ...] = ()
    is_measured: bool = False


@dataclass(frozen=True)
class Limits:
    """min_gain: as choosing.Limits. rounds: at most. per_round: functions that a round takes up; None: all over the
    threshold. functions: in all rounds together; None: no limit."""

    min_gain: float
    rounds: int = MOST_ROUNDS
    per_round: int | None = None
    functions: int | None = None


def run_rounds(steps: Steps, limits: Limits, progress: Progress = lambda message: None) -> Outcome:
    """Go round until a profile shows no function over the threshold that was not taken up before.

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
        over = [hot for hot in steps.profile(library) if hot.asked not in taken]
        if limits.functions is not None:
            over = over[: max(0, limits.functions - number_taken)]
        if not over or len(rounds) == limits.rounds:
            return Outcome(tuple(rounds), library, tuple(hot.asked for hot in over), is_measured)
        fresh = over[: limits.per_round]
        number_taken += len(fresh)
        taken |= {hot.asked: hot for hot in fresh}
        names = tuple(hot.asked for hot in fresh)
        progress(f"round {number}: building versions of {', '.join(names)}")
        built = steps.build(_buildable(taken, left), gains, True)
        left |= built.left
        measured: MeasuredGains | None = None
        if any(built.is_of(version.function, names) for version in built.versions):
            measured = steps.measure(built)
        if measured is not None:
            is_measured = True
            gains |= {at: gain for at, gain in measured.gains.items() if at not in gains}
        made = tuple(
            _said(version, gains, measured) for version in built.versions if built.is_of(version.function, names)
        )
        if _drops_more(built, gains, limits.min_gain):
            progress(f"round {number}: building without the versions that do not help")
            built = steps.build(_buildable(taken, left), gains, False)
        library = built.library or library
        # In the next profile a function that was found by a name like its own has the name that the library gave it.
        taken |= {name: taken[asked] for name, asked in built.asked.items() if asked in taken and name not in taken}
        shares = {hot.asked: hot.share for hot in fresh}
        dropped = tuple(each for each in built.dropped if built.is_of(each.function, names))
        why = {name: left[name] for name in names if name in left}
        rounds.append(Round(names, shares, made, dropped, why, measured.notes if measured else ()))


def _buildable(taken: Mapping[str, HotSymbol], left: Mapping[str, str]) -> list[HotSymbol]:
    return list(dict.fromkeys(hot for hot in taken.values() if hot.asked not in left))


def _drops_more(built: Built, gains: Gains, min_gain: float) -> bool:
    """Whether another build would drop what this one kept: for a measured gain, or on the model's word alone."""
    kept = {(version.function, version.core) for version in built.versions} - {
        (each.function, each.core) for each in built.dropped
    }
    return any(
        (at in gains and gains[at].fraction < min_gain) or (at not in gains and at in built.slower) for at in kept
    )


def _said(version: Version, gains: Gains, measured: MeasuredGains | None) -> Version:
    """A version with its measured gain, or why there is none, beside what the model says."""
    at = version.function, version.core
    if at in gains:
        return replace(version, gain=gains[at].fraction, how=gains[at].how)
    why = measured.unknown.get(at, "not on this machine") if measured is not None else ""
    return replace(
        version, how="; ".join(filter(None, [f"not measured: {why}" if why else "not measured", version.how]))
    )
