"""Read the floors of floors.toml and the imports of all modules, for tests, measures and the picture of the rooms."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("kernels", "passes", "profiles", "runtime")  # linked into mavcg/; walked where they are
TOOLS = ("bench", "fuzz", "scripts")  # beside the product, which imports none of them


@dataclass(frozen=True)
class Floor:
    """A floor: its folders, and whether they may import one another.

    apart: its folders are tenants, which import no other but its `shared` packages; these import no tenant, their own
    neither, but for one another. doors: folders that may import all.
    """

    name: str
    folders: tuple[str, ...]
    apart: bool = False
    shared: tuple[str, ...] = ()
    doors: tuple[str, ...] = ()

    def shares(self, module: str) -> bool:
        """Return True if a module is in a shared package."""
        inside = module.removeprefix("mavcg.")
        return any(inside == name or inside.startswith(f"{name}.") for name in self.shared)


@cache
def floors() -> tuple[Floor, ...]:
    """Return the floors, from the ground up."""
    read = tomllib.loads((ROOT / "scripts" / "floors.toml").read_text())["floor"]
    return tuple(
        Floor(
            entry["name"],
            tuple(entry["folders"]),
            entry.get("apart", False),
            tuple(entry.get("shared", ())),
            tuple(entry.get("doors", ())),
        )
        for entry in read
    )


@cache
def modules() -> Mapping[str, Path]:
    """Return the file of each module of the package, by the dotted name it is imported as."""
    return _modules_in(("mavcg",), "") | _modules_in(PARTS, "mavcg.")


@cache
def modules_of_tools() -> Mapping[str, Path]:
    """Return the file of each module of bench/, fuzz/ and scripts/, by its dotted name."""
    return _modules_in(TOOLS, "")


def _modules_in(folders: Sequence[str], package: str) -> dict[str, Path]:
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    return {f"{package}{name}": path for name, path in zip(names, paths, strict=True)}


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a module, which callers share and must not change."""
    return ast.parse(path.read_text())


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return the modules of the package that each module imports, inside of its functions too."""
    return imports_among(modules())


def imports_among(known: Mapping[str, Path]) -> dict[str, frozenset[str]]:
    """Return those of the known modules that each of them imports, inside of its functions too."""
    return {
        name: frozenset(found for node in ast.walk(tree_of(path)) for found in _named_modules(node, known)) - {name}
        for name, path in known.items()
    }


def _named_modules(node: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield the known modules that an import statement names; nothing for any other node."""
    if isinstance(node, ast.ImportFrom) and node.module:
        inside = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name if name in known else node.module for name in inside if {name, node.module} & known.keys())
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)


def folder_of(module: str) -> str:
    """Return the folder, or module, right below the package that a module lies in; "" for the package itself."""
    return module.partition(".")[2].partition(".")[0]


def wrong_imports() -> Iterator[str]:
    """Yield a sentence for each import that goes up, to another tenant, or from what tenants share to one of them."""
    height = {folder: i for i, floor in enumerate(floors()) for folder in floor.folders}
    for module, imported in imports().items():
        here = folder_of(module)
        for below in imported:
            there = folder_of(below)
            if not here or not there:
                continue
            if here == there:
                floor = floors()[height[here]]
                if floor.shares(module) and not floor.shares(below):
                    yield f"{module} imports {below}, of a tenant"
                continue
            if height[there] > height[here]:
                yield f"{module} imports {below}, which is above it"
            floor = floors()[height[here]]
            if floor.apart and height[there] == height[here] and here not in floor.doors and not floor.shares(below):
                yield f"{module} imports {below}, of another tenant"


def tenants() -> frozenset[str]:
    """Return the folders that import no other folder of their floor: not the doors to them."""
    return frozenset(folder for floor in floors() if floor.apart for folder in floor.folders) - {
        door for floor in floors() for door in floor.doors
    }


def tenant_of_test(path: Path) -> str:
    """Return the tenant whose tests a file or folder of tests/ holds; "" for the core's, and what is not in tests/."""
    parts = path.relative_to(ROOT).parts if path.is_relative_to(ROOT) else ()
    owner = parts[2] if len(parts) > 2 and parts[0] == "tests" else ""
    return owner if owner in tenants() else ""


def arrows() -> Mapping[tuple[str, str], int]:
    """Return the pairs of folders of which the first imports the second, each with its number of imports."""
    pairs = ((folder_of(module), folder_of(below)) for module, found in imports().items() for below in found)
    return Counter((a, b) for a, b in pairs if a and b and a != b)


def deepest_chain() -> tuple[str, ...]:
    """Return the longest chain of imports, from the top down, of those that are made while a module is loaded."""
    loaded = {name: set(_loaded_modules(path)) - {name} for name, path in modules().items()}
    longest: dict[str, tuple[str, ...]] = {}
    for name in TopologicalSorter(loaded).static_order():
        below = max((longest[other] for other in sorted(loaded.get(name, ()))), key=len, default=())
        longest[name] = (name, *below)
    return max(longest.values(), key=len)


def _loaded_modules(path: Path) -> Iterator[str]:
    """Yield the modules that a module imports outside of functions, but for those that only type checkers see."""
    later = {
        id(inner)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree_of(path)):
        if id(node) not in later:
            yield from _named_modules(node, modules())
