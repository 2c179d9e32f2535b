"""The C checks of `make lint`: they pass over what they cannot find, and refuse C of another format."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts/lint_c.sh"


def lint(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    script = cwd / "scripts/lint_c.sh"
    return subprocess.run(
        ["bash", str(script), *arguments], env=os.environ | environment, capture_output=True, text=True, timeout=100
    )


def repository(folder: Path) -> Path:
    """A repository with the script and its configuration; C goes to runtime/csrc and runtime/accel."""
    for name in ("scripts", "runtime/csrc", "runtime/accel"):
        (folder / name).mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "scripts")
    for name in (".clang-format", ".clang-tidy"):
        shutil.copy(ROOT / name, folder)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def test_without_the_tools_it_says_so_and_passes(tmp_path: Path) -> None:
    for name in ("bash", "git", "grep", "dirname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    for what, tool in (("format", "clang-format"), ("tidy", "clang-tidy"), ("analyze", "clang-tidy")):
        done = lint(what, PATH=str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert done.stderr == (f"lint: no {tool} 14: C is not checked by it (Debian: apt-get install {tool})\n")


def test_c_of_another_format_is_refused(tmp_path: Path) -> None:
    if "lint: no" in lint("format").stderr:
        pytest.skip("clang-format 14 is not installed")
    repository(tmp_path)
    for text, status in (("int f(void) { return 0; }\n", 0), ("int f( void ) {return 0;}\n", 1)):
        (tmp_path / "runtime/f.c").write_text(text)
        subprocess.run(["git", "-C", str(tmp_path), "add", "."], check=True)
        assert bool(lint("format", cwd=tmp_path).returncode) == bool(status)


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("int f(int x) { return x; }\n", []),
        ("int f(int x) { return x == x; }\n", ["tidy"]),
        ("int f(int x) { int *p = 0; return x ? *p : 0; }\n", ["analyze"]),
    ],
    ids=["sound", "redundant", "null pointer"],
)
def test_faults_in_c_are_refused(text: str, refuses: list[str], tmp_path: Path) -> None:
    """The analyzer's are refused by `make test-long`, the others by `make lint` already."""
    if "lint: no" in lint("tidy", cwd=repository(tmp_path)).stderr:
        pytest.skip("clang-tidy 14 is not installed")
    for folder in ("csrc", "accel"):
        (tmp_path / "runtime" / folder / "f.c").write_text(text)

    assert [what for what in ("tidy", "analyze") if lint(what, cwd=tmp_path).returncode] == refuses
