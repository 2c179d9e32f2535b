"""Explorations whose disk is full, or that are killed: a clear error, nothing lost, and the same command goes on."""

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mavcg.accelerators.explore.spaces import WIDE, space_of
from tests.mavcg.file_limit import files_of_at_most

PROGRAM = "from mavcg.cli import main; main()"


def rows_of(path: Path) -> dict[str, list[Any]]:
    """All rows of a database, sorted; it has to be whole."""
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: sorted(database.execute(f"SELECT * FROM {table}")) for table in tables}


def words_of(folder: Path, database: str) -> list[str]:
    space_of(folder, WIDE)
    space = str(folder / "space.toml")
    return ["explore", "alexnet", "--space", space, "--workers", "0", "--no-prune", "--json", "-o", database]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("limit", [4096, 20_000, 100_000])
def test_a_full_disk(mavcg: Any, tmp_path: Path, limit: int) -> None:
    path = tmp_path / "small.sqlite"
    words = words_of(tmp_path, str(path))
    with files_of_at_most(limit):
        done = mavcg(*words)
    assert done.status == 2 and done.stdout == "", done.stderr
    assert f"{path}: cannot be used as a database of explorations (the disk takes no more); make room" in done.stderr
    kept = len(rows_of(path).get("tilings", []))

    again = mavcg(*words)
    assert again.status == 0, again.stderr
    assert mavcg(*words_of(tmp_path, str(tmp_path / "whole.sqlite"))).status == 0
    whole = rows_of(tmp_path / "whole.sqlite")
    assert rows_of(path) == whole and (0 < kept < len(whole["tilings"])) == (limit == 100_000)


@pytest.mark.long
def test_a_killed_exploration_goes_on(mavcg: Any, tmp_path: Path) -> None:
    path = tmp_path / "killed.sqlite"
    words = words_of(tmp_path, str(path))
    started = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], stdout=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while not path.exists() or not rows_of(path).get("tilings"):
        assert started.poll() is None and time.monotonic() < until
        time.sleep(0.005)
    started.send_signal(signal.SIGKILL)
    started.wait()
    kept = len(rows_of(path)["tilings"])

    assert mavcg(*words).status == 0
    assert mavcg(*words_of(tmp_path, str(tmp_path / "whole.sqlite"))).status == 0
    whole = rows_of(tmp_path / "whole.sqlite")
    assert 0 < kept < len(whole["tilings"]) and rows_of(path) == whole
