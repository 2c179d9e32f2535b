"""The file of measurements: what a gain is, what is kept of several boards, every way in which a file can be bad."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.program.measurements import (
    MIN_SAMPLES,
    Measurement,
    as_gain,
    load_measurements,
    merge_measurements,
    read_measurements,
    save_measurements,
)
from mavcg.program.version_choice import FunctionChoice, VersionChoice, drop_useless

ONE = Measurement(
    "gemm", "cortex-a55", "cycles", (100.0, 110.0, 90.0), (80.0, 88.0, 45.0), 900, 700, 0.5, "a board CPUs 0-3"
)


def test_gain_is_of_the_medians_and_spread_of_the_rounds() -> None:
    assert ONE.gain == pytest.approx(1 - 80 / 100)
    assert ONE.spread == pytest.approx((1 - 80 / 100, 1 - 45 / 90))


def test_one_wild_round_does_not_move_the_gain() -> None:
    wild = replace(ONE, generic=(100.0, 100.0, 100.0), own=(90.0, 9000.0, 90.0))
    assert wild.gain == pytest.approx(0.1)
    assert wild.spread == pytest.approx((-89.0, 0.1))


@pytest.mark.parametrize(
    "few",
    [
        replace(ONE, generic_samples=MIN_SAMPLES - 1),
        replace(ONE, own_samples=MIN_SAMPLES - 1),
        replace(ONE, generic=(0.0, 0.0, 90.0)),
    ],
)
def test_too_few_samples_state_no_gain(few: Measurement) -> None:
    assert few.too_few and few.gain is None and few.spread is None and as_gain(few) is None


def test_just_enough_samples_state_one() -> None:
    enough = replace(ONE, generic_samples=MIN_SAMPLES, own_samples=MIN_SAMPLES)
    assert enough.gain == pytest.approx(0.2)


def test_a_gain_says_that_it_was_measured_and_where() -> None:
    gain = as_gain(ONE)
    assert gain is not None and gain.fraction == pytest.approx(0.2)
    assert gain.how == "measured, 3 runs, +20.0% to +50.0%, a board CPUs 0-3"


def noisy(own: tuple[float, ...], samples: int = 10**8) -> Measurement:
    return replace(ONE, generic=(100.0,) * len(own), own=own, generic_samples=samples, own_samples=samples)


def test_noise_is_that_of_the_rounds_or_of_sampling() -> None:
    """Steady rounds have that of sampling alone; a function that takes all the time of a run has none of that."""
    steady = noisy((90.0,) * 5, samples=5000)
    assert steady.noise == pytest.approx(2 * 0.9 * (0.5 * 2 / 5000) ** 0.5)
    assert replace(steady, generic_share=1.0).noise == 0
    assert noisy((90.0, 90.0)).noise == pytest.approx(0, abs=1e-3)  # two rounds show no spread


@pytest.mark.long
@pytest.mark.parametrize("rounds", [3, 4, 5, 6, 7, 9, 11])
def test_equal_versions_are_seldom_kept(rounds: int) -> None:
    """Chance alone shows more than the noise in about one of 30 measurements of versions of one speed."""
    random = np.random.default_rng(rounds)
    quotients = 100 + 3 * random.standard_normal((2000, rounds))
    gains = [as_gain(noisy(tuple(own))) for own in quotients]
    assert 20 <= sum(gain is not None and gain.helps(0) for gain in gains) <= 90


def test_a_wild_round_does_not_hide_a_gain() -> None:
    wild = as_gain(noisy((80.0, 81.0, 79.0, 80.5, 900.0)))
    assert wild is not None and wild.helps(0.01) and wild.noise < 0.1


@pytest.mark.parametrize(
    ("gain", "is_kept"), [(0.05, False), (0.09, False), (0.2, True), (-0.2, False), (0.005, False)]
)
def test_a_gain_within_its_noise_is_none(gain: float, is_kept: bool) -> None:
    own = tuple(100 * (1 - gain) + change for change in (-8.0, -5.0, 0.0, 5.0, 8.0))
    measured = as_gain(noisy(own))
    assert measured is not None and measured.helps(0.01) == is_kept
    assert ("noise" in measured.why_useless(0.01)) == (gain >= 0.01)
    assert measured.before == 100 and measured.after == pytest.approx(100 * (1 - gain))


def test_file_is_read_back_as_it_was(tmp_path: Path) -> None:
    entries = (ONE, replace(ONE, core="cortex-a76", machine=""), replace(ONE, function="_Z4gemmIfEvPKT_"))
    save_measurements(entries, tmp_path / "g.json")
    assert load_measurements(tmp_path / "g.json") == entries
    assert list(tmp_path.iterdir()) == [tmp_path / "g.json"]


def test_build_reads_gains_of_what_was_measured_well(tmp_path: Path) -> None:
    save_measurements((ONE, replace(ONE, core="cortex-a76", own_samples=3)), tmp_path / "g.json")
    gains = read_measurements(tmp_path / "g.json")
    assert set(gains) == {("gemm", "cortex-a55")}
    assert gains["gemm", "cortex-a55"].fraction == pytest.approx(0.2)


@pytest.mark.parametrize(("min_gain", "body"), [(0.19, "cortex-a55"), (0.21, "generic")])
def test_a_version_under_the_threshold_is_dropped_with_the_figures(min_gain: float, body: str) -> None:
    choice = FunctionChoice(
        "gemm", (VersionChoice("generic", "generic", 10), VersionChoice("cortex-a55", "cortex-a55", 20))
    )
    gain = as_gain(ONE)
    assert gain is not None
    kept = drop_useless(choice, {("gemm", "cortex-a55"): gain}, min_gain).versions[1]
    assert kept.body == body
    assert ("+20.0% over generic (measured, 3 runs" in kept.dropped) == (body == "generic")


def test_merging_replaces_what_was_measured_again_and_keeps_the_rest() -> None:
    other_core, other_function = replace(ONE, core="cortex-a76"), replace(ONE, function="dw")
    again, empty = replace(ONE, own=(50.0, 50.0, 50.0)), replace(other_core, own_samples=0)
    kept = merge_measurements((ONE, other_core, other_function), (again, empty))
    assert set(kept) == {again, other_core, other_function}
    assert merge_measurements(kept, kept) == kept


def document(**changes: Any) -> dict[str, Any]:
    entry = {
        "function": "f",
        "core": "c",
        "machine": "",
        "event": "cycles",
        "generic": [2.0],
        "own": [1],
        "generic_samples": 500,
        "own_samples": 300,
        "generic_share": 0.5,
    }
    entry.update(changes)
    return {"format": "mavcg-measurements", "version": 1, "measurements": [entry]}


def test_a_file_written_by_hand_is_read(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(json.dumps(document()))
    assert read_measurements(tmp_path / "g.json")["f", "c"].fraction == 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"function": ""}, 'measurements[0].function: "" is not a text'),
        ({"core": 3}, "measurements[0].core: 3 is not a text"),
        ({"machine": None}, "measurements[0].machine: null is not a string"),
        ({"generic": []}, "measurements[0].generic: [] is not a list of times"),
        ({"own": "fast"}, 'measurements[0].own: "fast" is not a list of times'),
        ({"own": [1.0, 2.0]}, "measurements[0]: 1 generic times and 2 own ones"),
        ({"own": [True]}, "measurements[0].own[0]: true is not a number"),
        ({"own": [-1.0]}, "measurements[0].own[0]: -1.0 is not a number from 0"),
        ({"generic": [float("nan")]}, "not JSON (NaN is not a number)"),
        ({"generic": [10**400]}, "measurements[0].generic[0]: 1000"),
        ({"own_samples": 1.5}, "measurements[0].own_samples: 1.5 is not a count"),
        ({"generic_samples": -1}, "measurements[0].generic_samples: -1 is not a count"),
        ({"generic_share": 2}, "measurements[0].generic_share: 2 is not a number from 0 to 1"),
    ],
)
def test_each_bad_entry_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "g.json"
    path.write_text(json.dumps(document(**changes)))
    with pytest.raises(MavcgError) as told:
        read_measurements(path)
    assert str(told.value).startswith(f"{path}: {message}") and "; " in str(told.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "line 1, column 1: not JSON"),
        (b'{"format": "mavcg-meas', "line 1, column 12: not JSON"),
        (b"\xff\xfe", "cannot be read (not UTF-8 text, byte 0)"),
        (b"[" * 100_000, "not JSON (nested too deep)"),
        (b"[]", "its format is not mavcg-measurements"),
        (b'{"format": "mavcg-profile"}', "its format is not mavcg-measurements"),
        (b'{"format": "mavcg-measurements", "version": 2}', "version 2, and this mavcg reads 1"),
        (b'{"format": "mavcg-measurements", "version": 1}', "measurements: missing; give it as a list"),
        (b'{"format": "mavcg-measurements", "version": 1, "measurements": [7]}', "measurements[0]: 7 is not a table"),
    ],
)
def test_what_is_no_file_of_measurements_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "g.json").write_bytes(text)
    with pytest.raises(MavcgError, match="g.json") as told:
        read_measurements(tmp_path / "g.json")
    assert message in str(told.value)


def test_an_entry_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    twice = document()
    twice["measurements"] *= 2
    (tmp_path / "g.json").write_text(json.dumps(twice))
    with pytest.raises(MavcgError, match=r"measurements\[1\]: f on c occurs twice; keep one"):
        read_measurements(tmp_path / "g.json")


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="cannot be read .* give a file of mavcg measure -o"):
        read_measurements(tmp_path / "absent.json")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(changes=st.dictionaries(st.sampled_from(list(document()["measurements"][0])), _JSON))
def test_any_values_make_gains_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.json"
    path.write_text(json.dumps(document(**changes)))
    try:
        gains = read_measurements(path)
    except MavcgError as error:
        assert str(error).startswith(f"{path}: ")
    else:
        assert all(gain.fraction <= 1 for gain in gains.values())
