"""What a store was given is found again, by any process of this user; all else is absent and no error."""

import hashlib
import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.files.store import EntryStore, cache_root, code_folder, open_store
from tests.conftest import examples
from tests.mavcg.files.spoiled import SPOILED


def entry_name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


@given(key=st.text(), content=st.binary(max_size=200))
@settings(max_examples=examples(40, 5))
def test_what_was_put_is_got(tmp_path_factory: pytest.TempPathFactory, key: str, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("store")
    EntryStore(folder).put(key, content)

    assert EntryStore(folder).get(key) == content
    assert EntryStore(folder).get(key + "x") is None


@pytest.mark.parametrize("bytes_left", [0, 1, 20, 31, 32, -1, -3])
def test_a_cut_entry_is_absent_with_a_word(tmp_path: Path, bytes_left: int, capsys: pytest.CaptureFixture[str]) -> None:
    store = EntryStore(tmp_path)
    store.put("key", b"content")
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes()[:bytes_left])

    assert store.get("key") is None and store.get("key") is None
    assert capsys.readouterr().err == f"mavcg: {path}: is a damaged entry of the cache; it is made again\n"
    store.put("key", b"content")
    assert store.get("key") == b"content"


def test_an_entry_under_another_key_is_absent(tmp_path: Path) -> None:
    store = EntryStore(tmp_path)
    store.put("one", b"content")
    content = only_file(tmp_path).read_bytes()
    only_file(tmp_path).unlink()
    store.put("two", b"other")
    only_file(tmp_path).write_bytes(content)

    assert store.get("two") is None


@pytest.mark.parametrize("spoil", SPOILED)
def test_what_others_could_have_written_is_absent(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    store = EntryStore(tmp_path)
    store.put("key", b"content")
    spoil(only_file(tmp_path))

    assert store.get("key") is None
    store.put("key", b"content")
    assert store.get("key") == b"content"


def test_in_a_folder_of_another_user_nothing_is_read_or_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    EntryStore(tmp_path).put("key", b"content")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert EntryStore(tmp_path).get("key") is None
    (tmp_path / "new").mkdir()
    EntryStore(tmp_path / "new").put("key", b"content")
    EntryStore(tmp_path / "new").update("key", lambda before: b"content")
    assert not list((tmp_path / "new").iterdir())


def test_a_folder_that_cannot_be_made_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for store in (EntryStore(tmp_path / "file" / "below"), EntryStore(None)):
        store.put("key", b"content")
        store.update("key", lambda before: b"content")
        store.trim()

        assert store.get("key") is None and store.read("key", dict) is None


@dataclass(frozen=True)
class Point:
    x: int
    names: tuple[str, ...] = ()
    most: float = float("inf")


def test_values_are_of_their_type_or_absent(tmp_path: Path) -> None:
    store = EntryStore(tmp_path)
    store.write("key", Point(3, ("a",)))

    assert store.read("key", Point) == Point(3, ("a",))
    assert store.read("key", list) is None  # as written by another version
    store.write("key", {"x": "3"})
    assert store.read("key", Point) is None
    store.put("key", b"[" * 100_000)
    assert store.read("key", list) is None


def add_rows(folder: Path, name: str, times: int) -> None:
    store = EntryStore(folder)
    for number in range(times):
        store.merge("key", {f"{name}{number}": number})


def test_no_row_is_lost_when_two_processes_add_at_once(tmp_path: Path) -> None:
    times = examples(60, 4)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=add_rows, args=(tmp_path, name, times)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert [worker.exitcode for worker in workers] == [0, 0]
    rows = EntryStore(tmp_path).read("key", dict)
    assert rows == {f"{name}{number}": number for name in "ab" for number in range(times)}
    assert len(list(tmp_path.iterdir())) == 2  # the entry and the lock


def test_the_least_recently_used_entries_go_first_those_of_older_versions_too(tmp_path: Path) -> None:
    environment = {"MAVCG_CACHE": str(tmp_path)}
    old = open_store("plans", "1", environment)
    store = open_store("plans", "2", environment, most_bytes=3 * 132)
    for number, each in enumerate((old, old, store, store)):
        each.put(f"{number}", bytes(100))
    (tmp_path / "plans" / "notes.txt").write_bytes(bytes(1000))  # the user's own
    for number, each in enumerate((old, old, store, store)):
        os.utime(Path(each.folder or "", entry_name(f"{number}")), (number, number))
    assert old.get("0")  # used just now

    store.trim()

    assert [each.get(f"{number}") is not None for number, each in enumerate((old, old, store, store))] == [
        True,
        False,
        True,
        True,
    ]
    assert (tmp_path / "plans" / "notes.txt").exists()


def test_a_store_that_grows_is_trimmed_by_itself(tmp_path: Path) -> None:
    store = EntryStore(tmp_path, most_bytes=3 * 33)
    trimming = next(f"{number}" for number in range(5000) if entry_name(f"{number}").startswith("00"))
    for key in "abcdef":
        store.put(key, b"x")
    assert len(list(tmp_path.iterdir())) == 6
    store.put(trimming, b"x")

    assert len(list(tmp_path.iterdir())) == 3 and store.get(trimming) == b"x"


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HOME": "/home/u"}, "/home/u/.cache/mavcg"),
        ({"HOME": "/home/u", "XDG_CACHE_HOME": "/c"}, "/c/mavcg"),
        ({"HOME": "/home/u", "XDG_CACHE_HOME": "relative"}, "/home/u/.cache/mavcg"),
        ({"HOME": "/home/u", "XDG_CACHE_HOME": "/c", "MAVCG_CACHE": "/m"}, "/m"),
        ({"MAVCG_CACHE": "here"}, "here"),
    ],
)
def test_where_it_is(environment: dict[str, str], folder: str) -> None:
    assert cache_root(environment) == Path(folder)
    assert open_store("plans", "7", environment).folder == Path(folder) / "plans" / "7"


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "/h", "MAVCG_CACHE": "off"}])
def test_where_there_is_none(environment: dict[str, str]) -> None:
    assert cache_root(environment) is None and open_store("plans", "7", environment).folder is None


def test_compiled_helpers_are_kept_whatever_the_other_caches_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    monkeypatch.setenv("MAVCG_CACHE", "off")

    assert code_folder() == Path("/c/mavcg")
