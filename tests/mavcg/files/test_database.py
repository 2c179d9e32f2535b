"""Files of tables: only those of their kind are opened, earlier versions upgraded, writes are whole or nothing."""

import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from mavcg.files.database import MEMORY, Database, DatabaseKind

KIND = DatabaseKind("a file of birds", 0x6D617601, 2, ("CREATE TABLE IF NOT EXISTS birds (name TEXT PRIMARY KEY)",))


def named(database: Database) -> list[str]:
    return [name for (name,) in database.rows("SELECT name FROM birds ORDER BY name")]


def put(database: Database, *names: str) -> None:
    with database.transaction() as connection:
        connection.executemany("INSERT INTO birds VALUES (?)", [(name,) for name in names])


@pytest.mark.parametrize("kept", [True, False])
def test_rows_are_kept_in_a_file_or_in_memory(tmp_path: Path, kept: bool) -> None:
    path = tmp_path / "birds" if kept else MEMORY
    with Database(path, KIND) as database:
        put(database, "owl", "wren")
        assert named(database) == ["owl", "wren"]
    with Database(path, KIND) as database:
        assert named(database) == (["owl", "wren"] if kept else [])


def test_a_transaction_is_whole_or_nothing(tmp_path: Path) -> None:
    with Database(tmp_path / "birds", KIND) as database:
        put(database, "owl")
        with pytest.raises(MavcgError, match="birds: cannot be used as a file of birds .UNIQUE.*; delete it, or name"):
            put(database, "wren", "owl")
        assert named(database) == ["owl"]


def test_files_of_another_kind_or_version_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database" * 100)
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE mine (x)")
    with Database(tmp_path / "birds", KIND):
        pass
    newer = DatabaseKind(KIND.title, KIND.application_id, 3, KIND.tables)
    for path, kind, words in (
        ("text", KIND, "cannot be used as a file of birds .file is not a database"),
        ("other", KIND, "is another application's database; name another file"),
        ("birds", newer, "has version 2, but this mavcg writes version 3; name another file"),
        ("no/birds", KIND, "unable to open database file"),
    ):
        before = (tmp_path / path).read_bytes() if (tmp_path / path).exists() else b""
        with pytest.raises(MavcgError, match=words):
            Database(tmp_path / path, kind)
        assert (tmp_path / path).exists() == bool(before)
        assert not before or (tmp_path / path).read_bytes() == before


def test_a_file_of_an_earlier_version_becomes_this_ones(tmp_path: Path) -> None:
    with Database(tmp_path / "birds", KIND) as database:
        put(database, "owl")
    upgrade = {2: "ALTER TABLE birds ADD COLUMN weight INTEGER NOT NULL DEFAULT 7"}
    for _ in range(2):
        with Database(tmp_path / "birds", DatabaseKind(KIND.title, KIND.application_id, 3, (), upgrade)) as database:
            assert database.rows("SELECT * FROM birds") == [("owl", 7)]


def test_a_full_disk_is_said_with_what_to_do(tmp_path: Path) -> None:
    with Database(tmp_path / "birds", KIND) as database:
        put(database, "owl")
        database.rows("PRAGMA max_page_count = 5")
        with pytest.raises(MavcgError, match="the disk is full.*make room, or name another file; what is in the file"):
            put(database, *(f"{number}" * 200 for number in range(200)))
        assert named(database) == ["owl"]


def add_birds(path: Path, name: str) -> None:
    with Database(path, KIND) as database:
        for number in range(20):
            put(database, f"{name}{number}")


def test_two_processes_make_the_file_and_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=add_birds, args=(tmp_path / "birds", name)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert [worker.exitcode for worker in workers] == [0, 0]
    with Database(tmp_path / "birds", KIND) as database:
        assert len(named(database)) == 40
