"""Programs beside the package import names that are there: types are checked in the package and the tests alone."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("bench", "examples", "fuzz", "scripts")


def imports_of(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield (file, name) for each name that a module takes from a file of the repository."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            parts = Path(*node.module.split("."))
            for base in (path.parent / parts, ROOT / parts):
                source = next((f for f in (base.with_suffix(".py"), base / "__init__.py") if f.is_file()), None)
                if source is not None:
                    yield from ((source, alias.name) for alias in node.names)
                    break


@cache
def defined_names(source: Path) -> frozenset[str]:
    """Return the names that a module defines or imports, at any depth, and the modules of its folder."""
    names = {f.stem for f in source.parent.glob("*.py")} | {f.name for f in source.parent.iterdir() if f.is_dir()}
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return frozenset(names)


@pytest.mark.parametrize("folder", FOLDERS)
def test_imported_names_exist(folder: str) -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {source.relative_to(ROOT)} has no {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for source, name in imports_of(path)
        if name != "*" and name not in defined_names(source)
    ]
    assert missing == []
