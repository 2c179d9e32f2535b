"""docs/tutorial.md, followed to the letter in an empty folder: its commands run and print what it says."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import zig_cache

pytest.importorskip("onnx")
PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Blocks of code of the page in their order: language and text."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    folder = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    caches = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "ZIG_GLOBAL_CACHE_DIR": zig_cache()}
    environment = {**os.environ, **caches, "PATH": folder, "COLUMNS": "200"}
    printed, compared = "", 0
    for language, text in blocks(PAGE.read_text()):
        if language == "python":
            (tmp_path / "make_conv.py").write_text(text)
        elif language == "sh":
            done = subprocess.run(text, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            printed = done.stdout + done.stderr
        else:
            for line in text.splitlines():
                assert line in printed, f"the page says: {line}\nprinted:\n{printed}"
                compared += 1

    assert compared >= 10
