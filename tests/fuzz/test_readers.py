"""Every reader of the product has a fuzz target, and docs/security.md names the targets of each kind of input."""

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.line_share import line_shares, readers_of
from fuzz.targets import NAMES

ROOT = Path(__file__).parents[2]
KNOWN = tomllib.loads((ROOT / "fuzz/readers.toml").read_text())
C_TARGETS = {path.stem for path in (ROOT / "fuzz/c").glob("*.c")}
PACKAGES = {"mavcg": "mavcg", **{name: f"mavcg.{name}" for name in ("kernels", "passes", "runtime", "profiles")}}
READER = re.compile(r"^def (?:read|load|parse|open|inspect|unpack|decode)_", re.MULTILINE)
FROM_OUTSIDE = re.compile(r"(str \| )?(os\.PathLike\[str\]|Path|str|bytes|Any|Iterable\[str\]|BinaryIO)( \| .*)?")


def readers() -> Iterator[str]:
    """Public functions with a reader's name whose first argument is a path, text or bytes: module:name."""
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            if not READER.search(text):
                continue
            module = ".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts])
            for node in ast.parse(text).body:
                if isinstance(node, ast.FunctionDef) and READER.match(f"def {node.name}") and node.args.args:
                    annotation = node.args.args[0].annotation
                    if annotation and FROM_OUTSIDE.fullmatch(ast.unparse(annotation)):
                        yield f"{module}:{node.name}"


def named() -> list[str]:
    return [name for table in ("targets", "others") for names in KNOWN[table].values() for name in names]


def test_every_reader_has_a_target_or_a_reason() -> None:
    found = set(readers())
    assert len(found) > 90
    lacking = sorted(found - set(named()))
    assert not lacking, f"readers without a target in fuzz/readers.toml: {', '.join(lacking)}"


def test_names_are_of_things_that_there_are_once() -> None:
    assert len(named()) == len(set(named()))
    for name in named():
        module, _, attribute = name.partition(":")
        path = ROOT / f"{module.removeprefix('mavcg.').replace('.', '/')}.py"
        path = path if path.is_file() else ROOT / f"{module.replace('.', '/')}.py"
        assert re.search(rf"^(def|class) {attribute}\b", path.read_text(), re.MULTILINE), name


def test_every_target_has_readers_and_instruments_their_modules() -> None:
    assert set(KNOWN["targets"]) == set(NAMES) and set(KNOWN["c"]) == C_TARGETS
    for target in NAMES:
        packages = importlib.import_module(f"fuzz.targets.{target}").PACKAGES
        for module in readers_of(target):
            assert any(f"{module}.".startswith(f"{package}.") for package in packages), (target, module)
    assert all((ROOT / path).is_file() for paths in KNOWN["c"].values() for path in paths)


def test_the_page_names_each_target() -> None:
    page = (ROOT / "docs/security.md").read_text()
    rows = page.split("## What is not trusted", 1)[1].split("\n\n", 3)[2].splitlines()
    assert [cell.strip() for cell in rows[0].split("|")[1:-1]] == ["input", "what is done about it", "fuzz targets"]
    listed = {target for row in rows[2:] for target in re.findall(r"`(\w+)`", row.split("|")[3])}
    assert listed == set(NAMES) | C_TARGETS


@pytest.mark.parametrize(("target", "least"), [("memory_instance", 0.5), ("fleet_file", 0.25), ("build_file", 0.5)])
def test_lines_are_counted(target: str, least: float) -> None:
    """The committed corpus alone gets past the door; an empty file does not."""
    corpus = [path.read_bytes() for path in (ROOT / "fuzz/corpus" / target).iterdir()]
    (reached, lines), (at_the_door, same) = (
        map(sum, zip(*line_shares(target, inputs, readers_of(target)).values(), strict=True))
        for inputs in (corpus, [b"= ?"])
    )
    assert lines == same and reached > least * lines and at_the_door < reached / 2
