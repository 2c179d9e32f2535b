"""docs/security.md names tests that there are."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/security.md").read_text()


def test_every_hole_has_tests_that_there_are() -> None:
    holes = PAGE.split("## Holes that were found", 1)[1].split("\n\n", 2)[1].splitlines()[2:]
    assert len(holes) >= 15
    for line in holes:
        named = re.findall(r"`(tests/[\w/]+\.py)?(?:::(test_\w+))?`", line.split("|")[2])
        tests = [(file, name) for file, name in named if name]
        assert tests, line
        file = ""
        for other, name in tests:
            file = other or file
            tree = ast.parse((ROOT / file).read_text())
            assert name in {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}, (file, name)
