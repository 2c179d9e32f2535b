"""Code that is cached between runs is loaded again only where nobody else can have written it, as it was written."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.files import store
from mavcg.files.own_file import is_own_folder
from mavcg.files.store import kept_file
from mavcg.runtime import binding
from mavcg.runtime.coreset import CoreSet
from tests.conftest import zig_cache
from tests.mavcg.files.spoiled import SPOILED


@pytest.fixture
def make() -> Callable[[Path], None]:
    """Writes the library, and counts in `make.times` how often."""

    def write(path: Path) -> None:
        write.times += 1  # type: ignore[attr-defined]
        path.write_bytes(b"code")

    write.times = 0  # type: ignore[attr-defined]
    return write


def _replaced(path: Path) -> None:
    path.write_bytes(b"other code")


def _shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("suffix", [".so", ".o", ".ll"])
def test_a_file_is_made_once(tmp_path: Path, make: Callable[[Path], None], suffix: str) -> None:
    first = kept_file(tmp_path, f"x-1{suffix}", make)

    assert kept_file(tmp_path, f"x-1{suffix}", make) == first and make.times == 1  # type: ignore[attr-defined]
    assert kept_file(tmp_path, f"x-2{suffix}", make) != first
    assert stat.S_IMODE(first.stat().st_mode) == 0o700 and first.name.startswith("x-1-")


def test_a_file_whose_name_begins_alike_stays(tmp_path: Path, make: Callable[[Path], None]) -> None:
    longer = kept_file(tmp_path, "x-1-2.so", make)
    kept_file(tmp_path, "x-1.so", make)

    assert kept_file(tmp_path, "x-1-2.so", make) == longer and make.times == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("spoil", [_replaced, _shortened, *SPOILED])
def test_one_that_is_not_as_it_was_written_is_made_again(
    tmp_path: Path, make: Callable[[Path], None], spoil: Callable[[Path], None]
) -> None:
    spoil(kept_file(tmp_path, "x-1.so", make))

    again = kept_file(tmp_path, "x-1.so", make)
    assert make.times == 2 and again.read_bytes() == b"code"  # type: ignore[attr-defined]
    assert again.is_file() and not again.is_symlink() and stat.S_IMODE(again.stat().st_mode) == 0o700
    assert kept_file(tmp_path, "x-1.so", make) == again and make.times == 2  # type: ignore[attr-defined]


def test_one_of_another_user_is_made_again(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_file(tmp_path, "x-1.so", make)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    kept_file(tmp_path, "x-1.so", make)
    assert make.times == 2  # type: ignore[attr-defined]


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)

    assert is_own_folder(shared) and stat.S_IMODE(shared.stat().st_mode) == 0o755
    new = tmp_path / "new" / "folder"
    assert is_own_folder(new) and stat.S_IMODE(new.stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    assert not is_own_folder(tmp_path / "file") and not is_own_folder(tmp_path / "file" / "below")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not is_own_folder(shared)


def test_the_selector_is_never_loaded_from_a_folder_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled for this process then, and nothing is left in the folder."""
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", zig_cache())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mavcg").mkdir()
    monkeypatch.setattr(store, "is_own_folder", lambda folder: False)
    library = binding.load_detector.__wrapped__(binding.Candidates(CoreSet(())))

    assert library.mavcg_how_words(0) and list((tmp_path / "mavcg").iterdir()) == []
