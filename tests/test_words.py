"""Names have none of the words that docs/glossary.md rules out; docstrings begin with what the thing is or does."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("mavcg", "kernels", "passes", "runtime", "profiles", "bench", "scripts", "examples", "fuzz")
# First words of docstrings that announce a clause where a reader looks for what the thing is or does.
OPENINGS = frozenset(
    "Of What Which How Whether Where Who When Those That Whose By In As So If At For From To With On".split()
)
# Past participles without -ed that functions were named, and words with -ed that are none.
PARTICIPLES = frozenset(
    "begun built chosen drawn done found given gone held hidden kept known laid lent lost made said seen sent shown "
    "taken taught thought told understood withdrawn written".split()
)
NO_PARTICIPLES = frozenset("bleed embed exceed feed need proceed red seed speed succeed unsupported".split())
# Words of a private vocabulary; docstrings say request, need, state, report, chunk, cycle.
NOT_IN_PROSE = frozenset(
    "ask asks asked asking wanted wants told said played claim claims claimed circle circles".split()
)
# Words with another meaning that is the field's own, by the files where they have it.
ALLOWED = {
    "way": ("mavcg/cost/", "mavcg/hosts/"),  # ways of a set-associative cache
    "ways": ("mavcg/cost/", "mavcg/hosts/", "mavcg/lab/simulate/"),
    "circle": ("mavcg/drawing/",),  # SVG's element
    "grain": ("runtime/loading.py",),  # a field of the public C struct
    "turns": ("mavcg/choose/algorithms/costs/",),  # a column of the cost database
}


@cache
def ruled_out() -> frozenset[str]:
    """The single words of the glossary's last column."""
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    words = [word.strip() for line in lines if line.startswith("| ") for word in line.split("|")[3].split(",")]
    return frozenset(word for word in words if re.fullmatch(r"[a-z]+", word)) - {"not"}


@cache
def files() -> list[str]:
    """Python files of the folders, by their path from the root; links into mavcg/ are left out."""
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return sorted({path.resolve().relative_to(ROOT).as_posix() for path in paths})


@dataclass(frozen=True)
class Definitions:
    """What a module defines.

    names: functions, classes, parameters, fields and constants, with their lines. docstrings: with the lines of what
    they describe. documented: the functions whose docstring has a section "Args". classes: names at module level.
    """

    names: tuple[tuple[int, str], ...]
    docstrings: tuple[tuple[int, str], ...]
    documented: tuple[ast.FunctionDef, ...]
    classes: tuple[str, ...]
    functions: tuple[tuple[int, str], ...]


@cache
def definitions(file: str) -> Definitions:
    """Read a module once for all tests: its whole tree would fill the memory."""
    tree = ast.parse((ROOT / file).read_text())
    names: list[tuple[int, str]] = []
    docstrings: list[tuple[int, str]] = []
    documented = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append((node.lineno, node.name))
        elif isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append((node.lineno, node.target.id))
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and (text := ast.get_docstring(node)):
            docstrings.append((getattr(node, "lineno", 1), text))
            if isinstance(node, ast.FunctionDef) and "\nArgs:\n" in text:
                documented.append(node)
    functions = tuple(
        (node.lineno, node.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and not _is_boolean_property(node)
    )
    classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return Definitions(tuple(names), tuple(docstrings), tuple(documented), classes, functions)


def _is_boolean_property(node: ast.FunctionDef) -> bool:
    decorators = {decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)}
    returns = node.returns.id if isinstance(node.returns, ast.Name) else ""
    return bool(decorators & {"property", "cached_property"}) and returns == "bool"


def definitions_of(folder: str) -> Iterator[tuple[str, Definitions]]:
    """The modules of a folder, and what they define."""
    return ((file, definitions(file)) for file in files() if file.startswith(f"{folder}/"))


def words_of(name: str) -> list[str]:
    """`chunkOf_rows` -> [chunk, of, rows]."""
    return re.findall(r"[a-z]+", re.sub(r"([A-Z])", r"_\1", name).lower())


@pytest.mark.parametrize("folder", FOLDERS[:5])
def test_names_are_the_glossarys(folder: str) -> None:
    faults = [
        f"{file}:{line} {name}: '{word}' is ruled out by docs/glossary.md"
        for file, module in definitions_of(folder)
        for line, name in module.names
        for word in words_of(name)
        if word in ruled_out() and not file.startswith(ALLOWED.get(word, ("-",)))
    ]

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder != "bench"])
def test_functions_are_verbs_or_what_they_return(folder: str) -> None:
    """No function has a past participle alone as its name: `sort_edges` or `sorted_edges`, not `sorted`."""
    faults = [
        f"{file}:{line} {name}"
        for file, module in definitions_of(folder)
        for line, name in module.functions
        if (word := name.strip("_")) in PARTICIPLES or (re.fullmatch(r"[a-z]+ed", word) and word not in NO_PARTICIPLES)
    ]

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_begin_with_what_the_thing_is_or_does(folder: str) -> None:
    faults = [
        f"{file}:{line} {text.splitlines()[0]}"
        for file, module in definitions_of(folder)
        for line, text in module.docstrings
        if re.match(r"\w*", text)[0] in OPENINGS  # type: ignore[index]
    ]

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("folder", FOLDERS[:5])
def test_docstrings_use_plain_words(folder: str) -> None:
    faults = [
        f"{file}:{line} '{word}': {text.splitlines()[0]}"
        for file, module in definitions_of(folder)
        for line, text in module.docstrings
        for word in re.findall(r"[a-z]+", text.lower())
        if word in NOT_IN_PROSE and not file.startswith(ALLOWED.get(word, ("-",)))
    ]

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("folder", FOLDERS)
def test_documented_arguments_exist(folder: str) -> None:
    """A section "Args" names parameters of the function; it need not name all."""
    faults = []
    for file, module in definitions_of(folder):
        for node in module.documented:
            section = re.split(r"\n(?=\S)", (ast.get_docstring(node) or "").split("\nArgs:\n")[1])[0]
            named = {name for line in re.findall(r"^    ([\w, *]+):", section, re.M) for name in line.split(", ")}
            everything = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg)
            parameters = {arg.arg for arg in everything if arg is not None}
            faults += [f"{file}:{node.lineno} {name}" for name in sorted(named - parameters)]

    assert not faults, "\n".join(faults)


def test_classes_have_names_of_their_own() -> None:
    by_name: dict[str, list[str]] = {}
    for file in files():
        if not file.startswith(("bench/", "fuzz/", "examples/", "scripts/")):
            for name in definitions(file).classes:
                by_name.setdefault(name, []).append(file)
    shared = {name: places for name, places in by_name.items() if len(places) > 1}

    assert not shared, shared
