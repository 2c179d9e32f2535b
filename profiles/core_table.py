"""Read a core's file as the tables that readers expect: sources spelled out, tables by their present names.

[sources] spells abbreviations of sources out once for a file. Old names of tables are accepted for one release, with a
note.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

from mavcg.profiles import schema
from mavcg.profiles.schema import refuse
from mavcg.text.terminal import say

ABBREVIATION = re.compile(r"[A-Z][A-Z0-9]{1,3}")
ABBREVIATED = re.compile(rf"(?:(?<=; )|(?<=\()|^){ABBREVIATION.pattern}(?=[:;,)]|$)")
RENAMED = {"apart": "no_dual_issue", "spaced": "issue_distance"}  # old -> present name


def core_table(path: Path, text: str) -> dict[str, Any]:
    """Return the table of a core's file. path: for errors. Raises: ProfileError as the functions below."""
    table = schema.toml_of(path, text)
    schema.check_name(path, table)
    return with_present_names(path, spell_out_sources(path, table))


def spell_out_sources(path: Path, table: dict[str, Any]) -> dict[str, Any]:
    """Return the file's tables with the abbreviations of [sources] written out, and without that table.

    `source = "GL; SL: page 34 (IB: 2)"` may use them: at the start, and after a semicolon or a bracket.

    Raises: ProfileError for an abbreviation that [sources] lacks.
    """
    remedy = 'write [sources] and below it lines such as GL = "..."'
    short = schema.table_of(path, table.get("sources", {}), "sources", remedy)
    for key in short:
        if not ABBREVIATION.fullmatch(key):
            raise refuse(path, f"sources.{key}", "is not an abbreviation", "use two to four capitals and digits")
        schema.text(path, short, key)

    def spell_out(value: Any, key_path: str) -> Any:
        if isinstance(value, dict):
            return {
                key: whole(below, f"{key_path}.{key}")
                if key == "source" and isinstance(below, str)
                else spell_out(below, f"{key_path}.{key}" if key_path else key)
                for key, below in value.items()
            }
        return (
            [spell_out(item, f"{key_path}[{i}]") for i, item in enumerate(value)] if isinstance(value, list) else value
        )

    def whole(source: str, key_path: str) -> str:
        for piece in source.split("; "):
            if ABBREVIATION.fullmatch(piece) and piece not in short:
                known = ", ".join(short) or "none"
                raise refuse(
                    path, key_path.lstrip("."), f"{piece} is not in [sources], which has {known}", "add it there"
                )
        return ABBREVIATED.sub(lambda match: str(short.get(match[0], match[0])), source)

    result: dict[str, Any] = spell_out({key: value for key, value in table.items() if key != "sources"}, "")
    return result


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
