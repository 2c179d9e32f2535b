"""Imports go down the floors that ARCHITECTURE.md lists and never in a cycle; its map has every folder."""

import re
from graphlib import CycleError, TopologicalSorter

from scripts.floors import ROOT, floor_of, floors, imports, modules

PAGE = (ROOT / "ARCHITECTURE.md").read_text()


def test_imports_go_down() -> None:
    up = [
        f"{module} (floor {high}) imports {below} (floor {low})"
        for module, imported in imports().items()
        for below in imported
        if (high := floor_of(module)) is not None and (low := floor_of(below)) is not None and low > high
    ]

    assert not up


def test_imports_make_no_cycle() -> None:
    cycle: list[str] = []
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        cycle = error.args[1]

    assert not cycle, " -> ".join(cycle)


def test_a_module_beside_no_other_has_a_floor() -> None:
    alone = {name for name in modules() if name.count(".") == 1 and modules()[name].name != "__init__.py"}

    assert not alone - set(floors())


def test_the_map_has_every_room() -> None:
    rooms = {path.parent.relative_to(ROOT).as_posix() for path in modules().values()} | {"tests", "bench", "examples"}
    drawn = PAGE.split("## The map", 1)[1].split("Floors, from", 1)[0]

    missing = {room for room in rooms if not re.search(rf"\b{room}/|\b{room.rpartition('/')[2]}/", drawn)}
    assert missing <= {"passes"}, missing  # its three are there
