"""Digests of code without comments and docstrings: equal digests mean that the same code was measured.

A record of figures is about some modules and all that these import (bench/subjects.py says which). `code_of` hashes
them, folder by folder, so that a record can be held against the code of today.
"""

import ast
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("kernels", "passes", "profiles", "runtime")  # in mavcg/ by links: they are read where they are
# Eight hexadecimal digits tell two states of one folder apart; nobody forges a digest of their own code.
DIGITS = 8


@dataclass(frozen=True)
class Subject:
    """The code that a record's figures depend on.

    modules: names of Python modules; everything that they import, directly or not, counts too. files: patterns,
    relative to the root, of files that no import names: C, TOML, programs that are measured.
    """

    modules: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def code_of(subject: Subject, root: Path = ROOT) -> dict[str, str]:
    """Return the digest of the subject's files in each folder, by the folder's path from the root.

    Raises: FileNotFoundError for a module or pattern that matches nothing: the subject is out of date.
    """
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(files_of(subject, root)):
        name = path.relative_to(root)
        texts[name.parent.as_posix()].append(f"{name.as_posix()}\0{code_text(path)}\0")
    return {folder: hashlib.sha256("".join(parts).encode()).hexdigest()[:DIGITS] for folder, parts in texts.items()}


def files_of(subject: Subject, root: Path = ROOT) -> set[Path]:
    """Return the files whose code counts. Raises: FileNotFoundError for a module or pattern that matches nothing."""
    files = {_path(module, root) for module in closure(subject.modules, root)}
    for pattern in subject.files:
        matched = {path for path in root.glob(pattern) if path.is_file()}
        if not matched:
            raise FileNotFoundError(f"no file matches {pattern}; correct the record's entry in bench/subjects.py")
        files |= matched
    return files


def closure(modules: Iterable[str], root: Path = ROOT) -> set[str]:
    """Return the modules and everything of the package that they import, including imports inside functions."""
    reached: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += imported(_path(module, root), root)
    return reached


@cache
def imported(path: Path, root: Path = ROOT) -> tuple[str, ...]:
    """Return the names of the package's modules that a file imports."""
    return tuple(_imported(_outline(path.read_text(encoding="utf-8")).imports, root))


def _imported(imports: Iterable[ast.Import | ast.ImportFrom], root: Path) -> Iterator[str]:
    for node in imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "mavcg")
        elif node.module and node.module.split(".")[0] == "mavcg":
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if _find(inside, root) else node.module


def _path(module: str, root: Path) -> Path:
    path = _find(module, root)
    if path is None:
        raise FileNotFoundError(f"there is no module {module}; correct the record's entry in bench/subjects.py")
    return path


@cache
def _find(module: str, root: Path) -> Path | None:
    words = module.split(".")
    if len(words) > 1 and words[1] in PARTS:
        words = words[1:]
    path = root.joinpath(*words)
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


@cache
def code_text(path: Path) -> str:
    """Return a file's text without comments, docstrings and blank lines (Python, C and TOML); other files whole."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".py":
        text = _without(text, [*_comments(text), *_outline(text).docstrings])
    elif path.suffix in {".c", ".h"}:
        # A string that holds /* would be cut too: on both sides of a comparison alike.
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    elif path.suffix == ".toml":
        text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.split("\n") if line.strip())


Span = tuple[tuple[int, int], tuple[int, int]]


# Strings, in which # begins no comment, and comments, which are the group. By tokenize it takes 15 times as long.
_STRING_OR_COMMENT = re.compile(
    r'"""(?:[^\\]|\\.)*?"""' r"|'''(?:[^\\]|\\.)*?'''" r'|"(?:[^"\\\n]|\\.)*"' r"|'(?:[^'\\\n]|\\.)*'" r"|(#[^\n]*)",
    re.DOTALL,
)


def _comments(text: str) -> Iterator[Span]:
    """Yield the spans of a Python text's comments, as tokenize numbers lines and columns."""
    line, counted = 1, 0
    for match in _STRING_OR_COMMENT.finditer(text):
        if match[1] is not None:
            line += text.count("\n", counted, match.start())
            counted = match.start()
            column = counted - (text.rfind("\n", 0, counted) + 1)
            yield (line, column), (line, column + len(match[1]))


@dataclass(frozen=True)
class Outline:
    """Import statements of a Python file, and the spans of its docstrings."""

    imports: tuple[ast.Import | ast.ImportFrom, ...]
    docstrings: tuple[Span, ...]


@cache
def _outline(text: str) -> Outline:
    """Parse a file: once, since that takes most of the time, and without keeping its tree."""
    statements = list(_statements(ast.parse(text)))
    imports = tuple(node for node in statements if isinstance(node, ast.Import | ast.ImportFrom))
    return Outline(imports, tuple(_docstrings(text, statements)))


def _docstrings(text: str, statements: Iterable[ast.AST]) -> Iterator[Span]:
    lines = text.split("\n")
    for node in statements:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                # ast counts bytes, tokenize characters.
                last = first.end_lineno or first.lineno
                start = len(lines[first.lineno - 1].encode()[: first.col_offset].decode())
                end = len(lines[last - 1].encode()[: first.end_col_offset].decode())
                yield (first.lineno, start), (last, end)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the module and all statements, handlers and cases in it, but no expressions: one node in twelve."""
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        yield node
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            inside = getattr(node, name, ())
            nodes.extend(inside if isinstance(inside, list) else ())


def _without(text: str, spans: Sequence[Span]) -> str:
    lines = text.split("\n")
    for (first, start), (last, end) in sorted(spans, reverse=True):
        lines[first - 1 : last] = [lines[first - 1][:start] + lines[last - 1][end:]]
    return "\n".join(lines)


def changed(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the folders whose digests differ, sorted."""
    return sorted(folder for folder in {*then, *now} if then.get(folder) != now.get(folder))
