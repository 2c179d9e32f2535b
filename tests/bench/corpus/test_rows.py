"""Rows of the corpus: the record has those of all runs, and a run replaces only what it tried."""

import json
import multiprocessing
from pathlib import Path

import pytest

import bench.record
from bench import records
from bench.corpus.__main__ import add_row, known_rows, write_rows
from bench.corpus.rows import EQUAL, Row, merged, rows_of
from bench.records import RESULTS
from mavcg.errors import MavcgError

WHOLE = Row("a", "1.0+ds", "gcc", EQUAL, 2, 100, 150, 1.5, 3.0, 0.93, EQUAL, 140, "2026-11-29", "0123abcd")
BARE = Row("b", "", "zig", "not tried: needs cmake", date="2026-11-30", commit="4567cdef")


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the corpus' record in a folder without one."""
    monkeypatch.setattr(bench.record, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(bench.record, "ROWS", tmp_path / "rows")
    monkeypatch.setattr("bench.rows.ROWS", tmp_path / "rows")
    monkeypatch.setattr("bench.corpus.__main__.ROWS", tmp_path / "rows")
    return tmp_path / "results/corpus.json"


def test_rows_are_read_from_the_record_as_they_were_written(record: Path) -> None:
    rows = merged({}, [BARE, WHOLE])

    assert write_rows(rows, set()) == record
    assert list(rows_of(records.read(record)).values()) == [WHOLE, BARE]


def test_a_run_replaces_rows_of_what_it_tried_alone(record: Path) -> None:
    write_rows(merged({}, [WHOLE, BARE]), set())
    (record.parents[1] / "rows/corpus.json").unlink()  # another machine
    again = Row("a", "1.0+ds", "gcc", "check: status 1", date="2026-11-30", commit="4567cdef")

    rows, tried = known_rows(record)
    write_rows(merged(rows, [again]), tried | {("a", "gcc")})

    assert tried == set() and list(rows.values()) == [WHOLE, BARE]
    assert list(known_rows(record)[0].values()) == [again, BARE] and known_rows(record)[1] == {("a", "gcc")}
    assert (records.read(record).date, records.read(record).commit) == ("2026-11-30 00:00 UTC", "4567cdef")


def test_runs_at_the_same_time_keep_the_rows_of_each_other(record: Path) -> None:
    write_rows(merged({}, [WHOLE]), set())
    added = [Row(f"p{number}", "1.0", "gcc", EQUAL, date="2026-12-01", commit="89abef01") for number in range(8)]

    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.starmap(add_row, [(row, record) for row in added], chunksize=1)

    rows, tried = known_rows(record)
    assert list(rows.values()) == [WHOLE, *added] and tried == {(row.package, row.way) for row in added}


def test_the_record_of_a_later_commit_stands_before_rows_of_this_machine(record: Path) -> None:
    write_rows(merged({}, [WHOLE]), {("a", "gcc")})
    kept = (record.parents[1] / "rows/corpus.json").read_text()
    later = Row("a", "1.1", "gcc", EQUAL, date="2026-12-01", commit="89abef01")
    write_rows(merged({}, [later]), set())
    (record.parents[1] / "rows/corpus.json").write_text(kept)

    assert known_rows(record)[0]["a", "gcc"] == later


def test_what_could_not_be_tried_replaces_nothing() -> None:
    absent = Row("a", "", "gcc", "not tried: needs cmake", date="2026-11-30", commit="4567cdef")

    assert merged(merged({}, [WHOLE]), [absent])["a", "gcc"] == WHOLE


def test_a_record_of_other_columns_is_refused(record: Path) -> None:
    write_rows(merged({}, [WHOLE]), set())
    record.write_text(json.dumps(json.loads(record.read_text()) | {"parts": ["No table."]}))

    with pytest.raises(MavcgError, match="no table has the columns package, compiler, .* mend the record"):
        known_rows(record)


def test_the_records_own_rows_say_when_and_of_what_they_are() -> None:
    for row in rows_of(records.read(RESULTS / "corpus.json")).values():
        assert row.date and row.commit and row.verdict, row
