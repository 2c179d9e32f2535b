"""scripts/fuzz_compiler.sh names the packages with libFuzzer where it cannot install them; no system is changed."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/fuzz_compiler.sh"
TOOLS = ("bash", "mktemp", "rm", "sed", "env")
ROOT = {"id": "echo 0"}  # so that no sudo is asked for


def said_with(folder: Path, stand_ins: dict[str, str]) -> str:
    """Return the script's text where only these commands and a few tools exist. Its status is 0: Python targets run."""
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name, body in stand_ins.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    command = [str(folder / "bash"), str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": str(folder)})
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("stand_ins", "reason"),
    [
        ({}, "no apt-get"),
        ({"apt-get": "exit 0", "id": "echo 1000"}, "no root"),
        ({"apt-get": "exit 100", **ROOT}, "apt-get update failed"),
        ({"apt-get": "exit 0", "apt-cache": "exit 100", **ROOT}, "apt-get knows no package clang"),
        (
            {"apt-get": '[ "$1" = update ]', "apt-cache": "echo '  Depends: clang-19'", **ROOT},
            "clang-19 libclang-rt-19-dev cannot be installed",
        ),
        # A clang that compiles, but has no libFuzzer, is none.
        ({"clang-14": "exit 1"}, "no apt-get"),
    ],
)
def test_the_packages_are_named(tmp_path: Path, stand_ins: dict[str, str], reason: str) -> None:
    said = said_with(tmp_path, stand_ins)
    assert said.splitlines()[-1].startswith(f"fuzz: {reason}: no C targets; install a clang with libFuzzer by hand")
    assert "libclang-rt-14-dev" in said


def test_a_clang_with_libfuzzer_needs_nothing(tmp_path: Path) -> None:
    assert said_with(tmp_path, {"clang-14": "exit 0"}) == ""
