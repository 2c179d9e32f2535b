"""Errors of packages that cannot be imported."""

import re
from pathlib import Path

import pytest

from mavcg.errors import MavcgError, ToolError, import_problem

ROOT = Path(__file__).parents[2]
ABSENT = "x needs y; pip install y"


@pytest.mark.parametrize(
    ("loader", "is_memory"),
    [
        ("lib.so: failed to map segment from shared object", True),
        ("libz.so.1: cannot allocate memory in static TLS block: Cannot allocate memory", True),
        ("No module named 'y'", False),
        ("lib.so: cannot open shared object file: No such file or directory", False),
    ],
)
def test_short_memory_is_not_a_missing_package(loader: str, is_memory: bool) -> None:
    for kind in (MavcgError, ToolError):
        error = import_problem(ImportError(loader), ABSENT, kind)
        assert type(error) is kind
        assert ("more memory is needed" in str(error) and loader in str(error)) if is_memory else str(error) == ABSENT


def test_everybody_who_misses_a_package_looks_at_the_loader_s_reason() -> None:
    """No import error is turned into "not installed" by itself; Dask's packages have no machine code of their own."""
    handlers = re.compile(r"except (?:ImportError|ModuleNotFoundError).*:\n((?: {8,}.*\n)+)")
    faults = []
    for part in ("mavcg", "passes", "kernels", "profiles", "runtime"):
        for path in (ROOT / part).rglob("*.py"):
            for body in handlers.findall(path.read_text()):
                if "raise" in body and "import_problem(" not in body and path.name != "dask_engine.py":
                    faults.append(str(path.relative_to(ROOT)))
    assert not faults
