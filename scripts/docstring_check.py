"""Check docstrings against the code: errors raised, arguments named, shapes and units; `make lint` runs it.

pydoclint parses the sections of NumPy, Google or Sphinx docstrings; here errors are a sentence, "Raises: X where ...",
and only arguments that need words are named.
"""

import ast
import builtins
import gc
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("mavcg", "passes", "kernels")
# Errors that users see, and those derived from them: docstrings of public functions name them.
USERS_ERROR = "MavcgError"
Definition = ast.FunctionDef | ast.AsyncFunctionDef
# Folders whose public functions state the shapes of arrays and the units of times and sizes.
SHAPE_FOLDERS = tuple(
    f"{folder}/"
    for folder in (
        "kernels",
        "mavcg/specs",
        "mavcg/memory",
        "mavcg/choose/algorithms",
        "mavcg/choose/predict",
        "mavcg/choose/tiles",
        "mavcg/accelerators/plans",
        "mavcg/cost",
    )
)
_ARRAY = re.compile(r"(?:\w+\.)?(?:Array|ndarray|NDArray\[.*\]|Costs|Integers)(?: \| None)?")
# [channels, rows]; "of this shape"; "broadcasts against": what a reader has an array's dimensions from.
_SHAPE = re.compile(r"\[[^\]]*\w[^\]]*\]|\bshapes?\b|\bbroadcast|\brank\b")
# Parameters that are a time, a size or a rate and whose names have no unit.
_UNITLESS = re.compile(r"(?:\w+_)?(?:time|latency|duration|capacity|bandwidth|frequency|clock|footprint)")
_UNIT = re.compile(r"\b(?:[nuµm]?s|seconds?|cycles?|bytes?|[KMG]B|[kMG]?Hz|GB/s|elements?|rows|nanoseconds|a cycle)\b")
# In place of an error: "Raises: as f", "Raises: what the steps raise".
_BY_REFERENCE = frozenset({"as", "what"})


@dataclass(frozen=True)
class Documented:
    """A function of a module. name: with its class's. is_public: neither has a leading underscore."""

    file: str
    name: str
    node: Definition
    is_public: bool

    @property
    def text(self) -> str:
        """The docstring on one line, "" without one."""
        return " ".join((ast.get_docstring(self.node) or "").split())

    @property
    def raised_classes(self) -> frozenset[str]:
        """Classes whose calls the body's own raise statements have; nested functions are left out."""
        errors = (node.exc for node in _own_nodes(self.node) if isinstance(node, ast.Raise))
        calls = (error.func if isinstance(error, ast.Call) else error for error in errors)
        return frozenset(_last_name(call) for call in calls if call is not None)

    @property
    def can_raise(self) -> bool:
        """False for a body that only returns names and constants, or has statements that no error can come from."""
        sources = ast.Call | ast.Raise | ast.Subscript | ast.Attribute | ast.BinOp | ast.For | ast.With | ast.Await
        return any(isinstance(node, sources) for node in _own_nodes(self.node))

    @property
    def is_declaration(self) -> bool:
        """True for a protocol's method: the docstring is the body."""
        return len(self.node.body) == 1

    @property
    def is_verb(self) -> bool:
        """True for a verb of the CLI: the docstring is its --help, and every error ends it with exit code 2."""
        arguments = ast.unparse(self.node.args)
        of_commands = self.file.startswith("mavcg/cli/") or "/commands/" in self.file
        if of_commands and self.node.name.startswith("run_"):  # see console/option_class.py
            return re.fullmatch(r"options: \w+Options", arguments) is not None
        return "typer." in arguments


def functions(sources: Mapping[str, str]) -> Iterator[Documented]:
    """Yield functions and methods of modules, given as source text by file; those inside functions are left out."""
    for file, source in sources.items():
        yield from _functions_of(file, _parse(source).body, "", True)


def error_bases(sources: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the names of the classes from which each class of the modules derives directly."""
    classes = (node for text in sources.values() for node in _classes(_parse(text).body))
    return {node.name: tuple(_last_name(base) for base in node.bases) for node in classes}


def faults(sources: Mapping[str, str]) -> list[str]:
    """Return what docstrings say wrongly or leave out, as `file:line name: what is wrong`."""
    bases = error_bases(sources)
    everything = list(functions(sources))
    by_name = {each.name: each for each in everything}
    return [
        f"{each.file}:{each.node.lineno} {each.name}: {wrong}"
        for each in everything
        for wrong in (
            *_unnamed_errors(each, bases, by_name),
            *_unfounded_errors(each, bases),
            *_unknown_arguments(each),
            *_unstated_shapes(each),
        )
    ]


def _unnamed_errors(
    each: Documented, bases: Mapping[str, Sequence[str]], by_name: Mapping[str, Documented]
) -> list[str]:
    """Return the users' errors that a public function raises itself and its docstring leaves out."""
    if not each.is_public or each.is_verb:
        return []
    text = each.text
    if (implemented := re.match(r"Implement `([\w.]+)`", text)) and implemented[1] in by_name:
        text += by_name[implemented[1]].text
    documented_names = (
        set(re.findall(r"\w+", text[match.start() :])) if (match := re.search(r"\bRaises?\b", text)) else set()
    )
    return [
        f"raises {error}; say when, as `Raises: {error} where ...`"
        for error in sorted(each.raised_classes)
        if USERS_ERROR in (chain := _ancestors(error, bases))
        and not chain & documented_names
        and not re.search(r"\bRaises: as ", text)
    ]


def _unfounded_errors(each: Documented, bases: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what follows "Raises:" and is no error, or belongs to a function that cannot raise."""
    wrong = [
        f"'Raises: {word}' names no class of errors"
        for word in re.findall(r"\bRaises: (\w+)", each.text)
        if word not in _BY_REFERENCE and "BaseException" not in _ancestors(word, bases)
    ]
    if "Raises:" in each.text and not each.is_declaration and not each.can_raise:
        wrong.append("says 'Raises:' and neither raises nor calls anything")
    return wrong


def _unknown_arguments(each: Documented) -> list[str]:
    """Return names that a sentence like "rows, columns: of the image" has beside a parameter and that are none."""
    arguments = each.node.args
    optional = (arguments.vararg, arguments.kwarg)
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *filter(None, optional))
    parameters = {argument.arg for argument in every}
    lists = (set(names.split(", ")) for names in re.findall(r"(?:^|[.;:] )([a-z_]+(?:, [a-z_]+)+): ", each.text))
    return [
        f"explains no parameter '{name}'"
        for names in lists
        if names & parameters
        for name in sorted(names - parameters)
    ]


def _unstated_shapes(each: Documented) -> list[str]:
    """Return the arrays whose shape, and the times, sizes and rates whose unit, a public function does not state.

    A method without a docstring implements a protocol's, which states them.
    """
    if not each.is_public or not each.text or not each.file.startswith(SHAPE_FOLDERS):
        return []
    arguments = each.node.args
    typed = {
        argument.arg: ast.unparse(argument.annotation)
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        if argument.annotation is not None
    }
    shapes = [
        f"'{name}' is an array; state its shape, as `{name}: [rows, columns]`"
        for name, kind in typed.items()
        if _ARRAY.fullmatch(kind) and not _SHAPE.search(each.text)
    ]
    return shapes + [
        f"'{name}' has no unit in its name; state it, as `{name}: in bytes`"
        for name, kind in typed.items()
        if kind in ("int", "float") and _UNITLESS.fullmatch(name) and not _UNIT.search(each.text)
    ]


def _ancestors(name: str, bases: Mapping[str, Sequence[str]]) -> set[str]:
    """Return a class's name and those of all that it derives from, the built-in ones too."""
    built_in = getattr(builtins, name, None)
    if name not in bases:
        return {base.__name__ for base in built_in.__mro__} if isinstance(built_in, type) else {name}
    return {name}.union(*(_ancestors(base, bases) for base in bases[name] if base != name))


@cache
def _parse(source: str) -> ast.Module:
    """Return a module's tree; parsing takes most of the check's time, and two passes need it."""
    return ast.parse(source)


def _classes(body: Sequence[ast.stmt]) -> Iterator[ast.ClassDef]:
    """Yield the classes of a module and those in them; those inside functions are left out."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node
            yield from _classes(node.body)


def _functions_of(file: str, body: Sequence[ast.stmt], prefix: str, is_public: bool) -> Iterator[Documented]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions_of(file, node.body, f"{node.name}.", is_public and not node.name.startswith("_"))
        elif isinstance(node, Definition):
            yield Documented(file, prefix + node.name, node, is_public and not node.name.startswith("_"))


def _own_nodes(function: Definition) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body without those of functions and classes in it."""
    nodes: list[ast.AST] = list(function.body)
    while nodes:
        node = nodes.pop()
        if not isinstance(node, Definition | ast.ClassDef | ast.Lambda):
            yield node
            nodes.extend(ast.iter_child_nodes(node))


def _last_name(expression: ast.expr) -> str:
    return ast.unparse(expression).split("[")[0].rpartition(".")[2]


def read_sources(root: Path, folders: Sequence[str] = FOLDERS) -> dict[str, str]:
    """Return the texts of the folders' Python files, by path from the root; a linked file counts once."""
    paths = {path.resolve() for folder in folders for path in (root / folder).rglob("*.py")}
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(paths)}


def main() -> int:
    """Print the faults; the exit code is 1 where there are any."""
    gc.disable()  # the trees of all modules stay to the end: looking through them takes half of the time
    wrong = faults(read_sources(ROOT))
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
