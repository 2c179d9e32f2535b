"""Files of a small project, and what a build of it by `mavcg launch` has."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mavcg.objects.elf import function_symbols

EDGE_APP = Path(__file__).parents[4] / "examples/edge_app"
QUICK = "CXXFLAGS=-O1"  # as edge_app_objects, for the files of the example that are not hot
LAUNCH = [sys.executable, "-m", "mavcg.cli", "launch"]
COLD = "int cool(int x) { return x + 1; }\n"
DOT = "int dot(const short *a, const short *b, int n)"
HOT = DOT + " { int s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }\n"


def config(folder: Path, hot: str, cores: Sequence[str], more: str = "") -> None:
    names = ", ".join(f'"{core}"' for core in cores)
    (folder / "mavcg.toml").write_text(f'[build]\nhot = ["{hot}"]\ncores = [{names}]\nruntime = "static"\n{more}')


def launch(mavcg: Any, *words: str) -> Any:
    return mavcg("launch", *words)


def labels(binary: Path, function: str) -> set[str]:
    """The versions of a function that a binary holds."""
    return {
        name.removeprefix(f"{function}.") for name, _ in function_symbols(binary) if name.startswith(f"{function}.")
    }


def versions_run(stderr: str) -> dict[str, str]:
    words = [line.split() for line in stderr.splitlines() if line.startswith("mavcg: ")]
    return {w[1]: w[2] for w in words}


PROFILE = """\
app 1 [000] 1.0: 90 cycles: 10 dot+0x4 (/data/app)
app 1 [000] 1.1: 10 cycles: 10 cool+0x4 (/data/app)
"""
