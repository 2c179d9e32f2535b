"""Read the floors that ARCHITECTURE.md lists, and the imports of all modules, for the test and for the picture."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("kernels", "passes", "profiles", "runtime")  # linked into mavcg/; walked where they are
# Tokens of a line of floors: names, with those of a folder in braces; arrows between those above one another.
_TOKEN = re.compile(r"(?P<prefix>[\w/]+/)\{|(?P<name>[\w/*]+)|(?P<arrow>->)|(?P<end>\})|[\s,;]+|\([^)]*\)")


@cache
def modules() -> Mapping[str, Path]:
    """Return the file of each module of the package, by the dotted name it is imported as."""
    files = {}
    for part in ("mavcg", *PARTS):
        for path in (ROOT / part).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            files[name if part == "mavcg" else f"mavcg.{name}"] = path
    return files


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return the modules of the package that each module imports, inside of its functions too."""
    return {name: frozenset(_imported_modules(path)) - {name} for name, path in modules().items()}


def _imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "mavcg":
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if inside in modules() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "mavcg")


def floor_lines(page: str) -> Iterator[str]:
    """Yield the indented lines between the page's words on floors and its next chapter, continuations joined."""
    text = page.split("Floors, from the ground up", 1)[1].split("\n## ", 1)[0]
    for line in re.sub(r"->\n +", "-> ", text).split("\n"):
        if line.startswith("    "):
            yield line.split(":")[0]


@cache
def floors() -> Mapping[str, int]:
    """Return the floor's number of each module, or of a folder that stands for all of its modules.

    Raises: ValueError for a line that is not written as names, commas, braces and arrows, or a name without a module.
    """
    by_module: dict[str, int] = {}
    numbers = count()
    for line in floor_lines((ROOT / "ARCHITECTURE.md").read_text()):
        number, prefixes, at = next(numbers), [""], 0
        while at < len(line):
            token = _TOKEN.match(line, at)
            if token is None:
                raise ValueError(f"floors are written as names, commas, braces and arrows; found: {line[at:]}")
            at = token.end()
            if token["prefix"]:
                prefixes.append(prefixes[-1] + token["prefix"])
            elif token["end"]:
                prefixes.pop()
            elif token["arrow"]:
                number = next(numbers)
            elif token["name"]:
                module = f"mavcg.{prefixes[-1]}{token['name']}".replace("/", ".").removesuffix(".*")
                if module not in modules():
                    raise ValueError(f"{module} has a floor and does not exist; correct ARCHITECTURE.md")
                by_module[module] = number
    return by_module


def floor_of(module: str) -> int | None:
    """Return the module's own floor, or that of the nearest folder around it that has one."""
    while module not in floors() and "." in module:
        module = module.rpartition(".")[0]
    return floors().get(module)
