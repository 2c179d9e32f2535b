"""Imports go down the floors of scripts/floors.toml and never in a cycle; tenants do not import one another."""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from scripts import floors as checked
from scripts.floors import Floor, floors, folder_of, imports_among, modules, modules_of_tools, wrong_imports


def test_imports_go_down() -> None:
    assert not list(wrong_imports())


def test_what_goes_up_or_to_another_tenant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        "mavcg.low": {"mavcg.high"},
        "mavcg.high": {"mavcg.low", "mavcg.beside.task"},
        "mavcg.beside.task": {"mavcg.high", "mavcg.high.jobs"},
        "mavcg.high.jobs": {"mavcg.low", "mavcg.high.jobs.run", "mavcg.high.task"},
        "mavcg.door": {"mavcg.high", "mavcg.beside.task", "mavcg.low"},
    }
    tenants = Floor("tenants", ("high", "beside", "door"), True, ("high.jobs",), ("door",))
    monkeypatch.setattr(checked, "imports", lambda: {name: frozenset(found) for name, found in made.items()})
    monkeypatch.setattr(checked, "floors", lambda: (Floor("ground", ("low",)), tenants))

    assert list(wrong_imports()) == [
        "mavcg.low imports mavcg.high, which is above it",
        "mavcg.high imports mavcg.beside.task, of another tenant",
        "mavcg.beside.task imports mavcg.high, of another tenant",
        "mavcg.high.jobs imports mavcg.high.task, of a tenant",
    ]


@pytest.mark.parametrize("known", [modules(), modules_of_tools()], ids=["product", "tools"])
def test_imports_make_no_cycle(known: Mapping[str, Path]) -> None:
    cycle: list[str] = []
    try:
        TopologicalSorter(imports_among(known)).prepare()
    except CycleError as error:
        cycle = error.args[1]

    assert not cycle, " -> ".join(cycle)


def test_every_folder_has_one_floor_and_every_floor_folders_that_are_there() -> None:
    listed = [folder for floor in floors() for folder in floor.folders]

    assert sorted(listed) == sorted({folder_of(name) for name in modules()} - {""})
