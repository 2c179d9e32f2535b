"""Files and folders that only this user can write to."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.assembly.schedule_store import KeptSchedules
from mavcg.choose.algorithms.costs.database_file import default_path, open_db
from mavcg.errors import MavcgError
from mavcg.files.own_file import is_own_file, read_own_file, write_own_file
from mavcg.files.store import EntryStore
from mavcg.passes.asm.isa.op import Schedule
from tests.mavcg.files.spoiled import SPOILED

SCHEDULE = Schedule(3, (0, 1, 2), "heuristic", True)
DIGEST = "ab" * 32


@pytest.mark.parametrize("spoil", SPOILED)
def test_a_file_that_others_could_have_written_is_not_read(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_own_file(path, b"mine")
    assert read_own_file(path) == b"mine" and is_own_file(path) and stat.S_IMODE(path.stat().st_mode) == 0o600
    spoil(path)
    assert read_own_file(path) is None and not is_own_file(path)


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"untouched")
    (tmp_path / "file").symlink_to(tmp_path / "victim")
    write_own_file(tmp_path / "file", b"new")

    assert read_own_file(tmp_path / "file") == b"new" and (tmp_path / "victim").read_bytes() == b"untouched"


def use_schedules(folder: Path) -> object:
    """Store and read a schedule."""
    KeptSchedules(EntryStore(folder)).put("key", SCHEDULE)
    return KeptSchedules(EntryStore(folder)).get("key")


def use_objects(folder: Path) -> object:
    """Store and read an object."""
    EntryStore(folder).put(DIGEST, b"object")
    return EntryStore(folder).get(DIGEST)


@pytest.mark.parametrize("use", [use_schedules, use_objects])
def test_caches_of_schedules_and_objects(
    use: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They keep what this user alone could have written; in a folder of another user nothing is read or left."""
    kept = use(tmp_path / "kept")
    assert kept in (SCHEDULE, b"object")
    (path,) = (tmp_path / "kept").iterdir()
    path.chmod(0o666)
    only_read = KeptSchedules(EntryStore(tmp_path / "kept")).get("key") or EntryStore(tmp_path / "kept").get(DIGEST)
    assert only_read is None and use(tmp_path / "kept") == kept

    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert use(tmp_path / "kept") is None
    (tmp_path / "other").mkdir()
    assert use(tmp_path / "other") is None and not list((tmp_path / "other").iterdir())


def test_a_database_of_costs_of_somebody_else_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"MAVCG_CACHE": str(tmp_path)}
    path = default_path(environment)
    open_db(path).close()
    assert default_path(environment) == path
    path.chmod(0o666)
    with pytest.raises(MavcgError, match="costs.sqlite: somebody else can write to it"):
        default_path(environment)
    path.chmod(0o644)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(MavcgError, match="name a file of your own by --db FILE"):
        default_path(environment)
