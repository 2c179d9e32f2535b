"""Rename tables of a core's file whose names have changed; old names are accepted for one release, with a note."""

from functools import cache
from pathlib import Path
from typing import Any

from mavcg.profiles.schema import refuse
from mavcg.text.terminal import say

RENAMED = {"apart": "no_dual_issue", "spaced": "issue_distance"}  # old -> present name


def with_present_names(path: Path, table: dict[str, Any]) -> dict[str, Any]:
    """Return a core's file with the present names of its tables; a note on stderr lists the old names, once.

    Raises: ProfileError for a table that occurs by both names.
    """
    for old, present in RENAMED.items():
        if old in table and present in table:
            raise refuse(
                path, old, f"is the old name of {present}, which the file has, too", f"move all to [[{present}]]"
            )
        if old in table:
            _say_renamed(path, old, present)
    return {RENAMED.get(name, name): value for name, value in table.items()}


@cache  # a file is read more than once
def _say_renamed(path: Path, old: str, present: str) -> None:
    say(f"{path}: [[{old}]] is called [[{present}]] now; the old name goes with the next release")
