"""Tables of facts are kept in the user's cache, as they were."""

from pathlib import Path

import pytest

from mavcg.profiles import schema

KEPT = 'a = [1, 2.5, inf, "x", true]\n[b."c.d"]\ne = { f = -3, g = 0xff }\n'


def test_a_table_is_parsed_once_for_all_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path))
    first = schema.toml_of(tmp_path, KEPT)
    schema.toml_of.cache_clear()
    monkeypatch.setattr("tomllib.loads", lambda text: pytest.fail("parsed again"))
    assert (
        schema.toml_of(tmp_path, KEPT)
        == first
        == {
            "a": [1, 2.5, float("inf"), "x", True],
            "b": {"c.d": {"e": {"f": -3, "g": 255}}},
        }
    )


@pytest.mark.parametrize("text", ["a = 1979-05-27", "a = nan", "a = " + "1" * 4000])
def test_what_json_does_not_hold_is_parsed_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path))
    tables = []
    for _ in range(2):
        schema.toml_of.cache_clear()
        tables.append(schema.toml_of(tmp_path, text))
    assert repr(tables[0]) == repr(tables[1])
