"""Records: what a bench's markdown becomes, and what is read again."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import records
from bench.records import MOST_LINES, RESULTS, record_of
from mavcg.errors import MavcgError
from tests.bench.made_records import HEAD, TEXT

CELL = st.text(st.characters(exclude_characters="|\n\\", exclude_categories=("C", "Z"))).map(str.strip)


def test_cells_are_found_by_the_first_cell_or_by_two_and_a_column_by_its_number() -> None:
    record = record_of("X", HEAD, TEXT)

    assert [record.cell(*where) for where in (("a55", "ms"), ("a55 / calls", "ms#2"), ("a* / l*", "m*#2"))] == [
        "1.5",
        "3.5",
        "2.5",
    ]
    assert record.parts[0] == "What it is." and record.parts[2] == "Why."
    assert (record.where, record.machine) == ("A, 2 CPUs, virtual", {"processor": "A", "cpus": "2", "virtual": "yes"})


@pytest.mark.parametrize("where", [("a53", "ms"), ("a55", "s"), ("a55", "ms#3")])
def test_a_cell_that_is_not_there_is_named(where: tuple[str, str]) -> None:
    with pytest.raises(MavcgError, match=r"record 'X': no cell .*; run `python -m bench.x` again"):
        record_of("X", HEAD, TEXT).cell(*where)


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=20))
def test_a_table_is_read_as_it_was_written(cells: list[tuple[str, str]]) -> None:
    table = records.RecordTable(("a", "b"), tuple(cells))
    record = record_of("X", HEAD, records.markdown(table))

    assert list(record.tables) == [table]


def test_a_file_is_read_as_it_was_written_with_a_line_for_each_row(tmp_path: Path) -> None:
    record = record_of("X", HEAD, TEXT)
    records.write(tmp_path / "x.json", record)

    assert records.read(tmp_path / "x.json") == record
    lines = (tmp_path / "x.json").read_text().splitlines()
    assert '["a55", "loops", "1.5", "2.5"],' in lines and len(lines) < 20


def test_a_record_has_at_most_150_lines() -> None:
    rows = [f"| {n} |" for n in range(MOST_LINES - 2)]
    fits = "\n".join(["| n |", "| --- |", *rows])
    assert sum(len(table.rows) for table in record_of("X", HEAD, fits).tables) == MOST_LINES - 2

    with pytest.raises(MavcgError, match="151 lines, a record has at most 150"):
        record_of("X", HEAD, fits + "\n| more |")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"parts": [1]}', '{"title": "X", "rows": []}'])
def test_another_file_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(MavcgError, match=r"x\.json: "):
        records.read(tmp_path / "x.json")


def test_the_records_of_the_repository_have_a_date_a_commit_and_a_machine_and_are_short() -> None:
    for path in RESULTS.glob("*.json"):
        record = records.read(path)
        assert record.date[:4] == "2026" and record.commit and record.machine["processor"], path.name
        assert len(path.read_text().splitlines()) <= MOST_LINES + 20, path.name
