"""`pytest --core` and `make test-core`: every test but those of the tenants of scripts/floors.toml."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.floors import ROOT, tenant_of_test, tenants

TESTS = ROOT / "tests"


def test_every_file_but_those_of_tenants_is_of_the_core() -> None:
    files = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    of_tenants = {file for file in files if re.match(r"(mavcg|bench)/(accelerators|lab|apps)/", file)}
    assert len(of_tenants) > 100

    assert {file for file in files if tenant_of_test(TESTS / file)} == of_tenants
    assert tenants() == {"accelerators", "lab", "apps"}


@pytest.mark.parametrize("path", [Path("/elsewhere/tests/mavcg/lab"), ROOT / "mavcg/lab", TESTS, TESTS / "mavcg"])
def test_what_is_no_folder_of_a_tenants_tests(path: Path) -> None:
    assert not tenant_of_test(path)


def test_pytest_leaves_them_out() -> None:
    """On two folders that take a second: one of a tenant whole, and one of the core."""
    command = [sys.executable, "-m", "pytest", "--core", "--co", "-qq", "tests/mavcg/apps", "tests/mavcg/hardware"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    found = {line.partition(":")[0] for line in done.stdout.splitlines() if line.startswith("tests/")}
    assert found == {path.relative_to(ROOT).as_posix() for path in TESTS.glob("mavcg/hardware/test_*.py")}


def test_make_runs_that_selection() -> None:
    recipe = subprocess.run(["make", "-n", "test-core"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert re.search(r"pytest --core .*-m \"not long\"", recipe)
