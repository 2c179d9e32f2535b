"""The README's first example, to the letter: five lines in a fresh folder, then two words without arguments."""

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mavcg.objects.elf import function_symbols
from tests.mavcg.cli.smooth_program import APP, FILTER

SECTION = "## A program, from profile to library"
README = (Path(__file__).parents[3] / "README.md").read_text()


def first_example() -> tuple[str, str]:
    """The README's first mavcg.toml, and the first command line after it."""
    section = README.split(f"{SECTION}\n")[1].split("\n## ")[0]
    text, after = re.split(r"^```toml\n(.*?)^```$", section, maxsplit=1, flags=re.M | re.S)[1:]
    line = re.search(r"^    (.*)$", after, re.M)
    assert line is not None
    return text, line[1]


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_a_fresh_folder_five_lines_and_two_words(here: Path, perf: str, known_host: None, shell: Any) -> None:
    (here / "src").mkdir()
    (here / "src" / "filter.c").write_text(FILTER)
    (here / "app.c").write_text(APP)
    subprocess.run(["gcc", "-O2", "app.c", "src/filter.c", "-o", "app"], check=True)
    toml, line = first_example()
    assert len(toml.splitlines()) == 5 and line == "mavcg profile && mavcg build"
    (here / "mavcg.toml").write_text(toml)

    done = shell(line)

    assert done.returncode == 0, done.stderr
    assert "mavcg: wrote mavcg-profile.json\n" in done.stderr
    profile = json.loads((here / "mavcg-profile.json").read_text())
    assert profile["command"] == "./app" and any(row["symbol"] == "smooth" for row in profile["samples"])
    library = here / f"lib{here.name}.so"
    versions = {name for name, _ in function_symbols(library) if name.startswith("smooth.")}
    assert "smooth.generic" in versions and len(versions) >= 2
    values = (ctypes.c_float * 40)(*(float(i % 7) for i in range(40)))
    results = (ctypes.c_float * 40)()
    ctypes.CDLL(str(library)).smooth(values, results, 40)
    right = [0.25 * values[i - 1] + 0.5 * values[i] + 0.25 * values[i + 1] for i in range(1, 39)]
    assert list(results)[1:39] == right  # quarters of small whole numbers: exact in any order
