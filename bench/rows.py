"""Rows that benches measured on this machine, in build/bench/, to go on from or to fit constants to."""

import json
from typing import Any

from bench.records import ROOT
from mavcg.errors import MavcgError

ROWS = ROOT / "build/bench"


def measured(name: str) -> dict[str, Any]:
    """Return what a bench measured on this machine before.

    Raises: MavcgError where it did not.
    """
    path = ROWS / f"{name}.json"
    if not path.is_file():
        module = next((ROOT / "bench").rglob(f"{name}.py"), ROOT / "bench" / f"{name}.py").relative_to(ROOT)
        command = f"python -m {'.'.join(module.with_suffix('').parts)}"
        raise MavcgError(f"{path}: there are no measured rows of {name} on this machine; run `{command}`")
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return known


def measured_or_none(name: str) -> dict[str, Any]:
    """Return what a bench measured on this machine before; empty where it did not."""
    return measured(name) if (ROWS / f"{name}.json").is_file() else {}
