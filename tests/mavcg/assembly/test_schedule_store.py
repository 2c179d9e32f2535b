"""Schedules on disk: found again, never garbage, never an error."""

import json
import multiprocessing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.assembly.schedule_store import DiskStore, fingerprint, open_store
from mavcg.passes.asm.isa.op import Schedule
from tests.conftest import examples

SCHEDULE = Schedule(17, (0, 1, 1, 4, 16, 20), "heuristic", False)


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.json")
    return path


@given(
    interval=st.integers(1, 10_000),
    cycles=st.lists(st.integers(0, 100_000), max_size=40),
    by=st.sampled_from(["heuristic", "cp-sat"]),
    optimal=st.booleans(),
    key=st.text(),
)
@settings(max_examples=examples(40, 10))
def test_what_was_put_is_got(
    tmp_path_factory: pytest.TempPathFactory, interval: int, cycles: list[int], by: str, optimal: bool, key: str
) -> None:
    folder = tmp_path_factory.mktemp("store")
    schedule = Schedule(interval, tuple(cycles), by, optimal)

    DiskStore(folder).put(key, schedule)

    assert DiskStore(folder).get(key) == schedule
    assert DiskStore(folder).get(key + "x") is None


@pytest.mark.parametrize("bytes_left", [0, 1, 20, 100, -1, -3])
def test_a_cut_file_is_absent_and_written_anew(tmp_path: Path, bytes_left: int) -> None:
    store = DiskStore(tmp_path)
    store.put("key", SCHEDULE)
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes()[: bytes_left - 1 if bytes_left < 0 else bytes_left])

    assert store.get("key") is None
    store.put("key", SCHEDULE)
    assert store.get("key") == SCHEDULE


def test_a_changed_figure_is_not_believed(tmp_path: Path) -> None:
    """One cycle earlier is a schedule too, but one whose code is wrong."""
    store = DiskStore(tmp_path)
    store.put("key", SCHEDULE)
    path = only_file(tmp_path)
    document = json.loads(path.read_text())
    document["cycles"][3] = 3
    path.write_text(json.dumps(document))

    assert store.get("key") is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", b'{"digest": 1}', b"\xff\x00", b"[" * 100_000])
def test_any_other_content_is_absent(tmp_path: Path, content: bytes) -> None:
    store = DiskStore(tmp_path)
    store.put("key", SCHEDULE)
    only_file(tmp_path).write_bytes(content)

    assert store.get("key") is None


def test_another_schedule_s_file_is_not_taken(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    store.put("one", SCHEDULE)
    path = only_file(tmp_path)
    content = path.read_bytes()
    path.unlink()
    store.put("two", Schedule(1, (0,), "cp-sat", True))
    only_file(tmp_path).write_bytes(content)

    assert store.get("two") is None


def test_a_folder_that_cannot_be_made_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = DiskStore(tmp_path / "file" / "schedules")

    store.put("key", SCHEDULE)

    assert store.get("key") is None


def test_no_temporary_file_stays(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    for number in range(5):
        store.put(str(number % 2), Schedule(number + 1, (0,), "heuristic"))

    assert len(list(tmp_path.iterdir())) == 2
    assert store.get("0") == Schedule(5, (0,), "heuristic")


def write_and_read(folder: Path, failures: "multiprocessing.Queue[str]", times: int) -> None:
    store = DiskStore(folder)
    for number in range(times):
        store.put("key", Schedule(number + 1, tuple(range(number * 20)), "heuristic"))
        found = store.get("key")
        if found is None or len(found.cycles) != (found.interval - 1) * 20:
            failures.put(str(found)[:80])


def test_two_processes_at_once_never_see_half_a_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    failures: multiprocessing.Queue[str] = context.Queue()
    workers = [context.Process(target=write_and_read, args=(tmp_path, failures, examples(150, 50))) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert [worker.exitcode for worker in workers] == [0, 0]
    assert failures.empty(), failures.get()
    assert len(list(tmp_path.iterdir())) == 1


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
    store = open_store(environment)

    assert store is not None
    assert store.folder == Path(folder) / "schedules" / fingerprint()


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "/h", "MAVCG_CACHE": "off"}])
def test_where_there_is_none(environment: dict[str, str]) -> None:
    assert open_store(environment) is None
