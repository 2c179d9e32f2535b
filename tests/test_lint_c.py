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


def test_without_the_tools_it_says_so_and_passes(tmp_path: Path) -> None:
    for name in ("bash", "git", "grep", "dirname"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    for what, tool in (("format", "clang-format"), ("tidy", "clang-tidy")):
        done = lint(what, PATH=str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert done.stderr == (f"lint: no {tool} 14: C is not checked by it (Debian: apt-get install {tool})\n")


def test_c_of_another_format_is_refused(tmp_path: Path) -> None:
    if "lint: no" in lint("format").stderr:
        pytest.skip("clang-format 14 is not installed")
    (tmp_path / "runtime").mkdir()
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    shutil.copy(ROOT / ".clang-format", tmp_path)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for text, status in (("int f(void) { return 0; }\n", 0), ("int f( void ) {return 0;}\n", 1)):
        (tmp_path / "runtime/f.c").write_text(text)
        subprocess.run(["git", "-C", str(tmp_path), "add", "."], check=True)
        assert bool(lint("format", cwd=tmp_path).returncode) == bool(status)
