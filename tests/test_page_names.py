"""Pages name what is there: files, modules and what they define, commands and their options."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePath

import pytest
from typer.main import get_command

from mavcg.cli.app import make_app

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("README.md", "ARCHITECTURE.md", "docs/*.md", "docs/design/*.md", "bench/README.md")
    for path in ROOT.glob(pattern)
)
PARTS = ("mavcg", "passes", "kernels", "profiles", "runtime", "bench", "examples", "tests", "docs", "scripts")
# Paths from the root; and Python's files, which pages also name among neighbours: `source.py, syntax.py`.
PATH = re.compile(
    rf"(?<![\w./*<-])((?:{'|'.join(PARTS)})/(?:[\w.*/-]|\{{[\w.,* -]+\}})*+|[\w/{{}},*-]+\.py)(?![\w/*<-])"
)
KEYS = {"mavcg.threads", "mavcg.model_face"}  # a key of ONNX Runtime's sessions, a package of Android's
USERS = {"report_sample.py", "make_conv.py"}  # files of the reader's
DOTTED = re.compile(rf"(?<![\w./-])((?:{'|'.join(PARTS[:6])})(?:\.\w+)+)(?![\w/-])")


@cache
def files() -> frozenset[str]:
    """Every file and folder of the repository."""
    paths = {path for part in PARTS for path in (ROOT / part).rglob("*") if "__pycache__" not in path.parts}
    return frozenset(str(path.relative_to(ROOT)) for path in (*paths, *ROOT.iterdir()))


def spelled_out(name: str) -> list[str]:
    """`a/{b,c}.py` -> [`a/b.py`, `a/c.py`]."""
    braces = re.search(r"\{([^{}]*)\}", name)
    if braces is None:
        return [name]
    return [one for choice in braces[1].split(",") for one in spelled_out(name.replace(braces[0], choice.strip(), 1))]


@cache
def ends() -> frozenset[str]:
    """The ends of all paths: pages name files among neighbours."""
    return frozenset("/".join(path.split("/")[at:]) for path in files() for at in range(path.count("/") + 1))


@cache
def is_file(name: str) -> bool:
    name = re.sub("^mavcg/(?=passes/|kernels/|runtime/|profiles/)", "", name).rstrip("/.")
    if "*" in name:
        return any(PurePath(path).match(name) for path in files())
    known = files() if name.partition("/")[0] in PARTS else ends() | USERS
    return name in known or f"{name}.py" in known


def is_defined(name: str) -> bool:
    """Whether mavcg.a.b.c is a module, or something that one defines."""
    words = re.sub(r"^mavcg\.(?=(passes|kernels|runtime|profiles)\.)", "", name).split(".")
    for count in range(len(words), 0, -1):
        path = ROOT.joinpath(*words[:count])
        module = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        if module.is_file():
            return count == len(words) or words[count] in defined_by(module)
    return ROOT.joinpath(*words).is_dir()


@cache
def defined_by(module: Path) -> set[str]:
    tree = ast.parse(module.read_text())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assigned = {
        n.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for n in ast.walk(node)
        if isinstance(n, ast.Name)
    }
    imported = {a.asname or a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names}
    return names | assigned | imported


def code(text: str) -> Iterator[str]:
    """What is in backticks, and the lines of blocks of code; a line that ends in a backslash with the next."""
    text = text.replace("\\\n", " ")
    yield from re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
    yield from (line for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S) for line in block.splitlines())
    yield from re.findall(r"^ {4}(.*)$", text, re.M)


@cache
def options() -> dict[str, set[str]]:
    """The options of every verb; of one with verbs of its own (accel), of all of these."""
    group = get_command(make_app())
    return {
        name: {
            option
            for one in (verb, *getattr(verb, "commands", {}).values())
            for parameter in one.params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for name, verb in group.commands.items()  # type: ignore[attr-defined]
    }


def faults(page: str) -> list[str]:
    """What a page's text names and is not there."""
    missing: list[str] = []
    for text in code(page):
        missing += [n for name in PATH.findall(text) for n in spelled_out(name) if not is_file(n)]
        dotted = [name for name in DOTTED.findall(text) if name not in KEYS]
        missing += [name for name in dotted if not is_file(name) and not is_defined(name)]
        for verb, words in re.findall(r"(?:^|[ (])mavcg ([a-z][a-z-]*)((?: .*)?)$", text):
            if verb not in options():
                missing.append(f"mavcg {verb}")
            elif verb != "launch":  # whose words are a compiler's
                given = re.findall(r"(?<=\s)--?[a-z][a-z-]*", re.split(r" -- | [#|;&]| mavcg ", words)[0])
                missing += [f"mavcg {verb} {o}" for o in given if o not in options()[verb] | {"-h", "--help"}]
    return missing


@pytest.mark.parametrize("page", PAGES)
def test_what_pages_name_is_there(page: str) -> None:
    assert faults((ROOT / page).read_text()) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`kernels/gemm/tile.py` `part_loops.py` `runtime/{build,coreset}` `runtime/csrc/engine_*.c` `docs/`", []),
        ("`mavcg.kernels.registry.emit` `mavcg.passes` `bench.all` `python -m mavcg.toolchain.zig native`", []),
        ("`mavcg build net.onnx --board b -o x.so` `mavcg launch gcc --any` `mavcg profile -- ./app --any`", []),
        ("```sh\nmavcg build net.onnx \\\n  --gone b\n```\n", ["mavcg build --gone"]),
        ("`kernels/gone.py` `gone.py` `{emit,gone_too}.py`", ["kernels/gone.py", "gone.py", "gone_too.py"]),
        ("`runtime/csrc/gone_*.c` `gone/` `mavcg/kernels/gone/`", ["runtime/csrc/gone_*.c", "mavcg/kernels/gone/"]),
        ("`mavcg.kernels.registry.gone` `bench.gone`", ["mavcg.kernels.registry.gone", "bench.gone"]),
        ("    mavcg gone x\n", ["mavcg gone"]),
    ],
)
def test_what_is_not_there_is_found(text: str, missing: list[str]) -> None:
    assert faults(text) == missing


# In ARCHITECTURE.md: `module.function`, and names that are no words: CamelCase, or with an underscore.
FUNCTION = re.compile(r"(?<![\w./<-])(?:([a-z_]\w*)\.)?([A-Za-z]\w*)(?![\w./*-])")


@cache
def names_of_modules() -> dict[str, set[str]]:
    """The names that modules define, by the module's file without .py."""
    found: dict[str, set[str]] = {}
    for part in PARTS[:5]:
        for path in (ROOT / part).rglob("*.py"):
            found.setdefault(path.stem, set()).update(defined_by(path))
    return found


def functions_gone(text: str) -> list[str]:
    """What a page calls a function or a class and no module defines; C and environment names are left out."""
    everywhere = set().union(*names_of_modules().values()) | set(names_of_modules())
    sources = "".join(path.read_text() for path in (ROOT / "runtime" / "csrc").iterdir() if path.is_file())
    gone = []
    for word in re.findall(r"(?<!`)`([\w.]+)`(?!`)", text):
        found = FUNCTION.fullmatch(word)
        if found is None or word.endswith((".py", ".c", ".h", ".md", ".toml")):
            continue
        module, name = found[1], found[2]
        if module in names_of_modules():
            if name not in names_of_modules()[module]:
                gone.append(word)
        elif module is None and (re.search(r"[a-z][A-Z]", name) or ("_" in name and name != name.upper())):
            if name not in everywhere | {"NAME_run"} and name not in sources:
                gone.append(word)
    return gone


def test_the_architecture_names_no_function_that_is_gone() -> None:
    assert functions_gone((ROOT / "ARCHITECTURE.md").read_text()) == []
    assert functions_gone("see `program.burn_program`, `PlanOfNothing` and `mavcg_select`") == [
        "program.burn_program",
        "PlanOfNothing",
    ]


FOLDERS_WITH_DOCSTRINGS = sorted(
    str(path.relative_to(ROOT)) for part in PARTS[:5] for path in (ROOT / part).rglob("__init__.py")
)


@pytest.mark.parametrize("file", FOLDERS_WITH_DOCSTRINGS)
def test_what_a_folder_says_of_its_files_is_there(file: str) -> None:
    document = ast.get_docstring(ast.parse((ROOT / file).read_text())) or ""
    named = re.findall(r"(?<![\w/*-])((?:[\w*-]+/)*[\w*-]+\.(?:py|c|h|md))(?!\w)", document)

    assert [name for name in named if not is_file(name)] == []
