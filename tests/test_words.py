"""Names have none of the words that docs/glossary.md rules out; docstrings begin with what the thing is or does."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("mavcg", "kernels", "passes", "runtime", "profiles", "bench", "scripts", "examples", "fuzz")
# First words of docstrings that announce a clause where a reader looks for what the thing is or does.
OPENINGS = frozenset(
    "Of What Which How Whether Where Who When Those That Whose By In As So If At For From To With On".split()
)
# Words with another meaning that is the field's own, by the files where they have it.
ALLOWED = {
    "way": ("mavcg/cost_model/", "mavcg/hosts/"),  # ways of a set-associative cache
    "ways": ("mavcg/cost_model/", "mavcg/hosts/"),
    "circle": ("mavcg/drawing/",),  # SVG's element
    "grain": ("runtime/loading.py",),  # a field of the public C struct
    "turns": ("mavcg/selection/costs/",),  # a column of the cost database
}


@cache
def ruled_out() -> frozenset[str]:
    """The single words of the glossary's last column."""
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    words = [word.strip() for line in lines if line.startswith("| ") for word in line.split("|")[3].split(",")]
    return frozenset(word for word in words if re.fullmatch(r"[a-z]+", word)) - {"not"}


def files() -> list[str]:
    """Python files of the folders, by their path from the root; links into mavcg/ are left out."""
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return sorted({path.resolve().relative_to(ROOT).as_posix() for path in paths})


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that a module defines: functions, classes, parameters, fields and constants, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.lineno, node.target.id


def words_of(name: str) -> list[str]:
    """`chunkOf_rows` -> [chunk, of, rows]."""
    return re.findall(r"[a-z]+", re.sub(r"([A-Z])", r"_\1", name).lower())


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Docstrings with the lines of what they describe."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


@pytest.mark.parametrize("folder", FOLDERS[:5])
def test_names_are_the_glossarys(folder: str) -> None:
    faults = [
        f"{file}:{line} {name}: '{word}' is ruled out by docs/glossary.md"
        for file in files()
        if file.startswith(f"{folder}/")
        for line, name in names(ast.parse((ROOT / file).read_text()))
        for word in words_of(name)
        if word in ruled_out() and not file.startswith(ALLOWED.get(word, ("-",)))
    ]

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_begin_with_what_the_thing_is_or_does(folder: str) -> None:
    faults = [
        f"{file}:{line} {text.splitlines()[0]}"
        for file in files()
        if file.startswith(f"{folder}/")
        for line, text in docstrings(ast.parse((ROOT / file).read_text()))
        if re.match(r"\w*", text)[0] in OPENINGS  # type: ignore[index]
    ]

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("folder", FOLDERS)
def test_documented_arguments_exist(folder: str) -> None:
    """A section "Args" names parameters of the function; it need not name all."""
    faults = []
    for file in files():
        if file.startswith(f"{folder}/"):
            for node in ast.walk(ast.parse((ROOT / file).read_text())):
                if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)) and "\nArgs:\n" in text:
                    section = re.split(r"\n(?=\S)", text.split("\nArgs:\n")[1])[0]
                    named = {
                        name for line in re.findall(r"^    ([\w, *]+):", section, re.M) for name in line.split(", ")
                    }
                    everything = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg)
                    parameters = {arg.arg for arg in everything if arg is not None}
                    faults += [f"{file}:{node.lineno} {name}" for name in sorted(named - parameters)]

    assert not faults, "\n".join(faults)


def test_classes_have_names_of_their_own() -> None:
    by_name: dict[str, list[str]] = {}
    for file in files():
        if not file.startswith(("bench/", "fuzz/", "examples/", "scripts/")):
            for node in ast.parse((ROOT / file).read_text()).body:
                if isinstance(node, ast.ClassDef):
                    by_name.setdefault(node.name, []).append(file)
    shared = {name: places for name, places in by_name.items() if len(places) > 1}

    assert not shared, shared
