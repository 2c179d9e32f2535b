"""Abbreviations in the sources of a core's facts: [sources] spells them out once for a file."""

import re
from pathlib import Path
from typing import Any

from mavcg.profiles import schema
from mavcg.profiles.schema import refuse

ABBREVIATION = re.compile(r"[A-Z][A-Z0-9]{1,3}")
ABBREVIATED = re.compile(rf"(?:(?<=; )|(?<=\()|^){ABBREVIATION.pattern}(?=[:;,)]|$)")


def spell_out_sources(path: Path, table: dict[str, Any]) -> dict[str, Any]:
    """Return the file's tables with the abbreviations of [sources] written out, and without that table.

    `source = "GL; SL: page 34 (IB: 2)"` may use them: at the start, and after a semicolon or a bracket.

    Raises: ProfileError for an abbreviation that [sources] lacks.
    """
    short = table.get("sources", {})
    if not isinstance(short, dict):
        raise refuse(path, "sources", "not a table", 'write [sources] and below it lines such as GL = "..."')
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
