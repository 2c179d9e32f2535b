"""The profile file: what is saved is what is loaded, and a wrong entry is named."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import ProfileError
from mavcg.hardware.board import Board
from mavcg.program.profiling.load import load_profile
from mavcg.program.profiling.perf_script import read_perf_script
from mavcg.program.profiling.profile import Profile, on_board, profile_of
from mavcg.program.profiling.profile_file import parse_profile, save_profile
from mavcg.program.profiling.sample_table import Key, sample_frame
from tests.conftest import examples

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
ROWS = st.dictionaries(
    st.tuples(NAMES, NAMES, st.none() | st.integers(0, 300), st.none() | NAMES),
    st.tuples(st.integers(1, 10**15), st.integers(0, 10**6)).map(lambda pair: [float(pair[0]), float(pair[1])]),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(50, 6))
@given(ROWS, st.sampled_from(["samples", "instructions"]), NAMES)
def test_round_trip(tmp_path: Path, rows: dict[Any, list[float]], kind: str, text: str) -> None:
    profile = Profile(sample_frame(rows, kind), kind, "cycles", text, "exynos9820", (text, "two"))
    path = tmp_path / "app.profile.json"
    save_profile(profile, path)
    loaded = load_profile(path)
    pd.testing.assert_frame_equal(loaded.frame, profile.frame)
    assert (loaded.kind, loaded.event, loaded.command) == (kind, "cycles", text)
    assert (loaded.board, loaded.notes, loaded.total) == ("exynos9820", (text, "two"), profile.total)


def test_the_same_profile_writes_the_same_bytes(data: Path, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        save_profile(load_profile(data / "perf-script.txt"), tmp_path / name)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


GOOD: dict[str, Any] = {
    "format": "mavcg-profile",
    "version": 1,
    "kind": "samples",
    "event": "cycles",
    "command": "",
    "board": "",
    "notes": [],
    "samples": [{"symbol": "f", "object": "app", "cpu": 1, "core": None, "samples": 3.0, "records": 3}],
}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"format": "x"}, "its format is not mavcg-profile"),
        ({"version": 2}, "has version 2, and this mavcg reads 1"),
        ({"kind": "seconds"}, 'kind: "seconds" is not one of samples, instructions'),
        ({"event": 3}, "event: 3 is not a string"),
        ({"samples": []}, r"samples: \[\] is not a list of samples"),
        ({"samples": [3]}, r"samples\[0\]: 3 is not a table"),
        ({"cpu": -1}, r"samples\[0\].cpu: -1 is not a CPU number or null"),
        ({"cpu": True}, r"samples\[0\].cpu: true is not a CPU number or null"),
        ({"core": 7}, r"samples\[0\].core: 7 is not a string"),
        ({"samples_": float("nan")}, r"not JSON \(NaN is not a number\)"),
        ({"samples_": -1}, r"samples\[0\].samples: -1 is not a count"),
        ({"samples_": "many"}, r'samples\[0\].samples: "many" is not a count'),
        ({"samples_": 0}, "samples: they sum to nothing; make the file again"),
        ({"records": 1.5}, r"samples\[0\].records: 1.5 is not a count or null"),
        ({"symbol": None}, r"samples\[0\].symbol: null is not a string"),
    ],
)
def test_wrong_entries_are_named(change: dict[str, Any], error: str) -> None:
    ((name, value),) = change.items()
    document = json.loads(json.dumps(GOOD))
    if name in document:
        document[name] = value
    else:
        document["samples"][0][name.rstrip("_")] = value
    with pytest.raises(ProfileError, match=error):
        parse_profile(json.dumps(document), "p.json")


def test_truncated_json_and_half_a_surrogate_pair() -> None:
    with pytest.raises(ProfileError, match="p.json: line 1, column .*: not JSON"):
        parse_profile(json.dumps(GOOD)[:-5], "p.json")
    text = json.dumps(GOOD).replace('"f"', r'"\ud800"')
    assert list(parse_profile(text, "p.json").frame["symbol"]) == ["?"]


def test_board_maps_cpus_to_core_types(exynos: Board) -> None:
    rows: dict[Key, list[float]] = {("f", "app", cpu, None): [1.0, 1.0] for cpu in (0, 3, 4, 7)}
    rows["f", "app", None, "cortex-a73"] = [1.0, 1.0]
    profile = on_board(Profile(sample_frame(rows), "samples", "cycles"), exynos, "p")
    assert list(profile.frame["core"]) == ["cortex-a55", "cortex-a55", "cortex-a75", "exynos-m4", "cortex-a73"]
    assert profile.board == "exynos9820" and profile.notes == ()


def test_cpu_that_the_board_lacks(exynos: Board) -> None:
    profile = Profile(sample_frame({("f", "app", 8, None): [1.0, 1.0]}), "samples", "cycles")
    with pytest.raises(
        ProfileError, match=r"p: a sample on CPU 8, which board exynos9820 does not have \(0,1,2,3: cort"
    ):
        on_board(profile, exynos, "p")


def test_board_without_cpu_numbers_says_so(exynos: Board) -> None:
    profile = Profile(sample_frame({("f", "app", None, None): [1.0, 1.0]}), "samples", "cycles")
    assert "record with perf record --sample-cpu" in on_board(profile, exynos, "p").notes[0]


def test_places_of_samples_in_functions_are_kept(tmp_path: Path) -> None:
    lines = [f"app 1 [000] 1.0: 10 cycles: 40 f+{at} (/b/app)" for at in ("0x0", "0x1c", "0x1c")]
    profile = profile_of(read_perf_script([*lines, "app 1 [000] 1.0: 10 cycles: 40 g (/b/app)"]), None, "p")
    assert profile.offsets == {("f", "/b/app"): {0: 10.0, 0x1C: 20.0}}  # without an offset there is nothing to keep
    save_profile(profile, tmp_path / "p.json")
    assert load_profile(tmp_path / "p.json").offsets == profile.offsets


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        (7, "offsets: 7 is not a list"),
        ([7], r"offsets\[0\]: 7 is not a table"),
        ([{"symbol": "f", "object": "", "samples": {"-1": 3}}], '"-1" is not an offset'),
        ([{"symbol": "f", "object": "", "samples": {"1": "3"}}], r'offsets\[0\].samples.1: "3" is not a count'),
        ([{"symbol": 7, "object": "", "samples": {}}], "symbol: 7 is not a string"),
    ],
)
def test_faulty_places_are_refused(tmp_path: Path, offsets: object, words: str) -> None:
    save_profile(
        Profile(sample_frame({("f", "app", None, None): [1.0, 1.0]}), "samples", "cycles"), tmp_path / "p.json"
    )
    document = json.loads((tmp_path / "p.json").read_text()) | {"offsets": offsets}
    (tmp_path / "p.json").write_text(json.dumps(document))
    with pytest.raises(ProfileError, match=words):
        load_profile(tmp_path / "p.json")
