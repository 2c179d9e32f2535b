"""Imports only go down: by the floors that ARCHITECTURE.md lists, and never in a circle; its map has every room."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("kernels", "passes", "profiles", "runtime")  # in mavcg/ by links: they are walked where they are
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
# Of a line of floors: names, with those of a folder in braces; arrows between those above one another.
TOKEN = re.compile(r"(?P<prefix>[\w/]+/)\{|(?P<name>[\w/*]+)|(?P<arrow>->)|(?P<end>\})|[\s,;]+|\([^)]*\)")


@cache
def modules() -> dict[str, Path]:
    """Every module of the package, as it is imported."""
    found = {}
    for part in ("mavcg", *PARTS):
        for path in (ROOT / part).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name if part == "mavcg" else f"mavcg.{name}"] = path
    return found


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """What each module imports of the package, inside of its functions too."""
    return {name: frozenset(imported(path)) - {name} for name, path in modules().items()}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "mavcg":
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if inside in modules() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "mavcg")


def floor_lines() -> Iterator[str]:
    """The indented lines between the page's words on floors and its next chapter; a line may go on in the next."""
    text = PAGE.split("Floors, from the ground up", 1)[1].split("\n## ", 1)[0]
    for line in re.sub(r"->\n +", "-> ", text).split("\n"):
        if line.startswith("    "):
            yield line.split(":")[0]


@cache
def floors() -> Mapping[str, int]:
    """Modules, and folders that stand for all of theirs, by the number of their floor."""
    found: dict[str, int] = {}
    numbers = count()
    for line in floor_lines():
        number, prefixes, at = next(numbers), [""], 0
        while at < len(line):
            token = TOKEN.match(line, at)
            assert token, f"floors are not written as names, commas, braces and arrows: {line[at:]}"
            at = token.end()
            if token["prefix"]:
                prefixes.append(prefixes[-1] + token["prefix"])
            elif token["end"]:
                prefixes.pop()
            elif token["arrow"]:
                number = next(numbers)
            elif token["name"]:
                place = f"mavcg.{prefixes[-1]}{token['name']}".replace("/", ".").removesuffix(".*")
                assert place in modules(), f"{place} has a floor and is not there"
                found[place] = number
    return found


def floor_of(module: str) -> int | None:
    """Its own, or that of the nearest folder around it that has one."""
    while module not in floors() and "." in module:
        module = module.rpartition(".")[0]
    return floors().get(module)


def test_imports_go_down() -> None:
    up = [
        f"{module} (floor {high}) imports {below} (floor {low})"
        for module, found in imports().items()
        for below in found
        if (high := floor_of(module)) is not None and (low := floor_of(below)) is not None and low > high
    ]

    assert not up


def test_imports_make_no_circle() -> None:
    circle: list[str] = []
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        circle = error.args[1]

    assert not circle, " -> ".join(circle)


def test_a_module_beside_no_other_has_a_floor() -> None:
    alone = {name for name in modules() if name.count(".") == 1 and modules()[name].name != "__init__.py"}

    assert alone - set(floors()) == {"mavcg.warm"}  # a command of its own, which nothing imports


def test_the_map_has_every_room() -> None:
    rooms = {path.parent.relative_to(ROOT).as_posix() for path in modules().values()} | {"tests", "bench", "examples"}
    drawn = PAGE.split("## The map", 1)[1].split("Floors, from", 1)[0]

    missing = {room for room in rooms if not re.search(rf"\b{room}/|\b{room.rpartition('/')[2]}/", drawn)}
    assert missing <= {"passes"}, missing  # its three are there
