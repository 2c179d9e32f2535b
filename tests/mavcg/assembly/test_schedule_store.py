"""Schedules, tuned versions and checks that are kept: of these passes alone, and as they were."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.assembly.schedule_store import KeptSchedules, fingerprint, open_schedules
from mavcg.files.store import EntryStore
from mavcg.passes.asm.isa.op import Schedule
from tests.conftest import examples

SCHEDULE = Schedule(17, (0, 1, 1, 4, 16, 20), "heuristic", False)


@given(
    interval=st.integers(1, 10_000),
    cycles=st.lists(st.integers(0, 100_000), max_size=40),
    by=st.sampled_from(["heuristic", "cp-sat"]),
    optimal=st.booleans(),
    key=st.text(),
)
@settings(max_examples=examples(40, 5))
def test_what_was_put_is_got(
    tmp_path_factory: pytest.TempPathFactory, interval: int, cycles: list[int], by: str, optimal: bool, key: str
) -> None:
    store = EntryStore(tmp_path_factory.mktemp("store"))
    schedule = Schedule(interval, tuple(cycles), by, optimal)
    KeptSchedules(store).put(key, schedule)

    assert KeptSchedules(store).get(key) == schedule
    assert KeptSchedules(store).get(key + "x") is None


def test_a_changed_figure_is_not_believed(tmp_path: Path) -> None:
    """One cycle earlier is a schedule too, but one whose code is wrong."""
    kept = KeptSchedules(EntryStore(tmp_path))
    kept.put("key", SCHEDULE)
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()
    assert b"4, 16" in before
    path.write_bytes(before.replace(b"4, 16", b"3, 16"))

    assert kept.get("key") is None


@pytest.mark.parametrize("document", [[], {}, {"interval": 1}, {"interval": "1", "cycles": [], "by": "", "optimal": 1}])
def test_what_is_no_schedule_is_absent(tmp_path: Path, document: object) -> None:
    store = EntryStore(tmp_path)
    store.write("key", document)

    assert KeptSchedules(store).get("key") is None


def test_other_passes_have_other_schedules(tmp_path: Path) -> None:
    store = open_schedules({"MAVCG_CACHE": str(tmp_path)})

    assert store.folder == tmp_path / "schedules" / fingerprint()
