"""The rounds of `mavcg auto`, with steps that only write down what they were told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mavcg.program.auto_rounds import (
    AutoResult,
    BuiltLibrary,
    DroppedVersion,
    MeasuredGains,
    RoundLimits,
    VersionGain,
    run_rounds,
)
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.version_choice import MIN_GAIN, Gain, Gains

LIBRARY = Path("lib.so")
At = tuple[str, str]


@dataclass
class Told:
    """Steps by tables. shares: of each profile, the last one again for all after it. true_gain: what measuring finds;
    None: nothing can be run. slower: what the model would drop. lost: functions that the input does not hold."""

    shares: Sequence[Mapping[str, float]]
    true_gain: Mapping[At, float] | None = None
    slower: frozenset[At] = frozenset()
    lost: frozenset[str] = frozenset()
    cores: tuple[str, ...] = ("a55", "a76")
    threshold: float = 0.05
    log: list[str] = field(default_factory=list)

    def profile(self, library: Path | None) -> Sequence[HotSymbol]:
        number = sum(line.startswith("profile") for line in self.log)
        self.log.append(f"profile {library}")
        shares = self.shares[min(number, len(self.shares) - 1)]
        over = [HotSymbol(name, share=share, named_by_user=False) for name, share in shares.items()]
        return sorted((hot for hot in over if hot.share > self.threshold), key=lambda hot: -hot.share)

    def build(self, hot: Sequence[HotSymbol], gains: Gains, keep_slower: bool) -> BuiltLibrary:
        names = [symbol.given_name for symbol in hot if symbol.given_name not in self.lost]
        self.log.append(f"build {' '.join(names)}{' keeping' if keep_slower else ''}")
        made, dropped = [], []
        for at in ((name, core) for name in names for core in self.cores):
            made.append(VersionGain(*at, None, "model: 1 to 2"))
            if at in gains and gains[at].fraction < MIN_GAIN:
                dropped.append(DroppedVersion(*at, f"{gains[at].fraction:+.0%} ({gains[at].how})"))
            elif at in self.slower and at not in gains and not keep_slower:
                dropped.append(DroppedVersion(*at, "slower (model)"))
        gone = {(each.function, each.core) for each in dropped}
        versions = tuple(version for version in made if (version.function, version.core) not in gone)
        left = {symbol.given_name: "not in the input" for symbol in hot if symbol.given_name in self.lost}
        return BuiltLibrary(LIBRARY, versions, tuple(dropped), left, useless=self.slower - gone)

    def measure(self, built: BuiltLibrary) -> MeasuredGains | None:
        self.log.append("measure")
        if self.true_gain is None:
            return None
        there = {(version.function, version.core) for version in built.versions}
        return MeasuredGains(
            {at: Gain(gain, "measured") for at, gain in self.true_gain.items() if at in there},
            {at: "12 samples" for at in there - self.true_gain.keys() if at[1] == "a55"},
            ("a note",),
        )


def go(steps: Told, rounds: int = 20, per_round: int | None = None) -> AutoResult:
    return run_rounds(steps, RoundLimits(MIN_GAIN, rounds, per_round))


def test_the_next_function_over_the_threshold_until_nothing_is_left() -> None:
    """g grows over the threshold when f has become faster; h never does."""
    f, g = ("f", "a55"), ("g", "a55")
    steps = Told([{"f": 0.9, "g": 0.04, "h": 0.01}, {"f": 0.6, "g": 0.3, "h": 0.04}], {f: 0.5, g: 0.2})

    found = go(steps)

    assert [done.functions for done in found.rounds] == [("f",), ("g",)]
    assert found.rounds[0].shares == {"f": 0.9} and found.rounds[1].shares == {"g": 0.3}
    assert (found.library, found.waiting, found.is_measured) == (LIBRARY, (), True)
    assert steps.log == [
        "profile None",
        "build f keeping",
        "measure",
        "profile lib.so",
        "build f g keeping",
        "measure",
        "profile lib.so",
    ]


def test_a_version_that_does_not_help_is_dropped_and_its_function_is_not_taken_up_again() -> None:
    steps = Told([{"f": 0.9}], {("f", "a55"): 0.3, ("f", "a76"): -0.02})

    (done,) = go(steps).rounds

    assert done.dropped == (DroppedVersion("f", "a76", "-2% (measured)"),)
    assert [(v.core, v.gain, v.how) for v in done.versions] == [("a55", 0.3, "measured"), ("a76", -0.02, "measured")]
    assert steps.log[-2:] == ["build f", "profile lib.so"] and done.notes == ("a note",)


def test_what_was_measured_once_stays_dropped_in_later_builds() -> None:
    steps = Told([{"f": 0.9}, {"f": 0.5, "g": 0.4}], {("f", "a55"): 0.0, ("g", "a55"): 0.5})
    found = go(steps)
    assert [each.core for each in found.rounds[0].dropped] == ["a55"]
    assert not found.rounds[1].dropped and len(found.rounds) == 2


def test_where_nothing_can_run_the_model_drops() -> None:
    steps = Told([{"f": 0.9}], None, frozenset({("f", "a55")}))

    found = go(steps)

    assert not found.is_measured and found.rounds[0].dropped == (DroppedVersion("f", "a55", "slower (model)"),)
    assert [version.how for version in found.rounds[0].versions] == ["not measured; model: 1 to 2"] * 2
    assert steps.log == ["profile None", "build f keeping", "measure", "build f", "profile lib.so"]


def test_a_measurement_overrules_the_model_and_a_core_that_is_not_here_is_left_to_it() -> None:
    both = frozenset({("f", "a55"), ("f", "a76")})
    (done,) = go(Told([{"f": 0.9}], {("f", "a55"): 0.4}, both)).rounds

    assert done.dropped == (DroppedVersion("f", "a76", "slower (model)"),)
    assert {v.core: v.how for v in done.versions} == {
        "a55": "measured",
        "a76": "not measured: not on this machine; model: 1 to 2",
    }


def test_a_version_with_too_few_samples_is_kept_and_says_so() -> None:
    (done,) = go(Told([{"f": 0.9}], {("f", "a76"): 0.1})).rounds
    assert {v.core: v.gain for v in done.versions} == {"a55": None, "a76": 0.1}
    assert next(v.how for v in done.versions if v.core == "a55").startswith("not measured: 12 samples")


def test_functions_that_are_not_in_the_input_are_said_once_and_built_no_more() -> None:
    steps = Told([{"main": 0.6, "f": 0.3}, {"main": 0.7, "f": 0.2, "g": 0.06}], {}, lost=frozenset({"main"}))

    found = go(steps)

    assert found.rounds[0].left == {"main": "not in the input"} and not found.rounds[1].left
    assert "build f g keeping" in steps.log and found.waiting == ()


def test_one_function_a_round_and_a_limit_of_rounds() -> None:
    shares = {"f": 0.5, "g": 0.3, "h": 0.1}
    assert [done.functions for done in go(Told([shares], {}), per_round=1).rounds] == [("f",), ("g",), ("h",)]

    limited = go(Told([shares], {}), rounds=2, per_round=1)
    assert len(limited.rounds) == 2 and limited.waiting == ("h",)


def test_a_program_without_hot_functions_needs_no_library() -> None:
    steps = Told([{"f": 0.01}])
    found = go(steps)
    assert (found.rounds, found.library, steps.log) == ((), None, ["profile None"])
