"""Limits of programs and periods, in app.toml and in a library's note, and the notice beside programs."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mavcg.apps.application_file import read_application_file
from mavcg.apps.service import measured, program_entry
from mavcg.apps.service.measured import measure_times
from mavcg.apps.service.periodic_keys import Periodic
from mavcg.apps.service.periods_note import periodic_json, periodic_of_json
from mavcg.apps.service.program_entry import AcceleratedEntry, library_programs, programs_json
from mavcg.errors import MavcgError
from mavcg.runtime.service import PeriodicNetwork, ServedJob

PERIODIC = Periodic(1_000_000, 64_000_000, 1, False)


def write_application(folder: Path, deadline_ms: float) -> Path:
    (folder / "p.elf").touch()
    path = folder / "app.toml"
    path.write_text(
        '[[network]]\nname = "tracker"\nfile = "tracker.onnx"\nperiod_ms = 100\n'
        f'[[network]]\nname = "p"\nprogram = "p.elf"\nperiod_ms = 1\ndeadline_ms = {deadline_ms}\n'
    )
    (folder / "tracker.onnx").touch()
    return path


def test_a_program_has_at_most_64_jobs_under_way(tmp_path: Path) -> None:
    assert read_application_file(write_application(tmp_path, 64)).programs[0].slots == 64
    with pytest.raises(MavcgError, match=r"network\[1\]\.deadline_ms.*65 jobs .*at most 64 are"):
        read_application_file(write_application(tmp_path, 64.001))


def test_a_note_with_more_jobs_under_way_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "libapp.so"
    library.touch()
    entry = AcceleratedEntry("p", tmp_path / "p.elf", "npu", PERIODIC)
    many = replace(entry, periodic=replace(PERIODIC, deadline_ns=64_000_001))
    for own in (entry, many):
        note = {"programs": programs_json([own], library)}
        monkeypatch.setattr(program_entry, "application_of", lambda _, note=note: note)
        if own is entry:
            assert [each.slots for each in library_programs(library)] == [64]
        else:
            with pytest.raises(MavcgError, match=r"program 'p' has 65 jobs under way, above 64.*build it again"):
                library_programs(library)


@pytest.mark.parametrize(
    "wrong",
    [
        {"period_ms": 0},
        {"period_ms": -1},
        {"period_ms": 4e-7},
        {"period_ms": 1e30},
        {"deadline_ms": 0},
        {"deadline_ms": float("nan")},
        {"priority": -1},
        {"priority": 1_000_001},
    ],
)
def test_a_damaged_period_is_refused(wrong: dict[str, Any]) -> None:
    good = periodic_json(PERIODIC)
    assert periodic_of_json(good) == PERIODIC
    with pytest.raises(ValueError):
        periodic_of_json(good | wrong)


def test_notice_is_measured_without_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program's job that lasts as long as the service would leave no release of an idle CPU."""
    monkeypatch.setattr(measured, "random_inputs", lambda *_: [])

    class Application:
        def __getitem__(self, _: str) -> Any:
            return SimpleNamespace(run=lambda: None)

        def serve(
            self, networks: list[PeriodicNetwork], seconds: float, accelerated: tuple[Any, ...] = ()
        ) -> tuple[ServedJob, ...]:
            jobs = [ServedJob("a", n, False, 1000 * n, 1000 * n + 7, 1000 * n + 90 + n, 20, 0) for n in range(3)]
            if accelerated:
                jobs.append(ServedJob("p", 0, False, 0, 0, 10**9, 0, 0))
            return tuple(jobs)

    loaded: Any = Application()
    program: Any = object()
    for programs in ((), (program,)):
        times = measure_times(loaded, {"a": 1}, 0.1, programs)["a"]
        assert (times.runs, times.run_ns, times.section_ns, times.notice_ns) == (3, 85, 20, 7)
