"""Another compiler for the C of libraries that mavcg builds in this process, as one with sanitizers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from mavcg.files.store import NOTHING_KEPT
from mavcg.runtime import unit_object

Compile: TypeAlias = Callable[[str, Sequence[str], str, Path | None], str]  # as run_zig


def compile_units_by(stand_in: Compile) -> None:
    """Have stand_in compile units of C in place of run_zig; no object is of the user's store, and none goes there."""

    def compile_one(tool: str, arguments: Sequence[str], action: str, cwd: Path | None = None) -> str:
        return stand_in(tool, arguments, action, cwd)

    unit_object.run_zig = compile_one  # type: ignore[attr-defined]
    unit_object.open_code = lambda: NOTHING_KEPT  # type: ignore[attr-defined]
