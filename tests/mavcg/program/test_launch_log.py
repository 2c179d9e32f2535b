"""The log of a launched build: whole lines from compilers that run side by side, nothing where nobody reads it."""

import os
import threading
from pathlib import Path

import pytest

from mavcg.program.launch_log import VARIABLE, log_versions, read_log


def test_every_object_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv(VARIABLE, str(log))
    monkeypatch.chdir(tmp_path)
    writers = [threading.Thread(target=log_versions, args=(Path(f"{n}.o"), ["f", "g" * 200])) for n in range(40)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = read_log(log)
    assert {line.object for line in lines} == {str(tmp_path / f"{n}.o") for n in range(40)}
    assert all(line.functions == ("f", "g" * 200) for line in lines)


def test_without_a_reader_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    log_versions(tmp_path / "a.o", ["f"])
    monkeypatch.setenv(VARIABLE, str(tmp_path / "absent"))  # the build that read it is over
    log_versions(tmp_path / "a.o", ["f"])
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_not_utf_8_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv(VARIABLE, str(log))
    unit = tmp_path / os.fsdecode(b"caf\xe9.o")
    log_versions(unit, ["f"])
    assert [entry.object for entry in read_log(log)] == [str(unit)]
