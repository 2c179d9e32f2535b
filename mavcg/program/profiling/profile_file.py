"""Reads and writes a profile as one JSON file, which can be copied from the board to the building machine."""

import json
import math
from pathlib import Path
from typing import Any

from mavcg.errors import ProfileError
from mavcg.files.whole_file import write_whole
from mavcg.program.profiling.profile import Profile
from mavcg.program.profiling.sample_table import COLUMNS, Key, Offsets, sample_frame

FORMAT = "mavcg-profile"
VERSION = 1
KINDS = ("samples", "instructions")


def save_profile(profile: Profile, path: Path) -> None:
    """Write a profile as one JSON file, atomically. Raises: MavcgError if it cannot be written."""
    import pandas as pd

    def plain(value: Any) -> Any:
        return None if pd.isna(value) else value

    rows = zip(*(profile.frame[column] for column in COLUMNS), strict=True)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "kind": profile.kind,
        "event": profile.event,
        "command": profile.command,
        "board": profile.board,
        "notes": list(profile.notes),
        "samples": [{c: plain(v) for c, v in zip(COLUMNS, row, strict=True)} for row in rows],
        "offsets": [
            {
                "symbol": symbol,
                "object": object_,
                "samples": {str(at): count for at, count in sorted(by_offset.items())},
            }
            for (symbol, object_), by_offset in profile.offsets.items()
        ],
    }
    write_whole(path, json.dumps(document, indent=1, default=int) + "\n")


def parse_profile(text: str, location: str) -> Profile:
    """Parse the text of a profile's file. Raises: ProfileError with the faulty entry."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileError(
            f"{location}: not a whole JSON file ({error}); make it again with mavcg profile -o"
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ProfileError(f"{location}: JSON, but its format is not {FORMAT}; make a profile with mavcg profile -o")
    if document.get("version") != VERSION:
        raise ProfileError(
            f"{location}: profile version {document.get('version')!r}, this mavcg reads {VERSION}; make it again"
        )
    kind = _text(document, "kind", location)
    if kind not in KINDS:
        raise ProfileError(f"{location}: kind is {kind!r}; it is one of {', '.join(KINDS)}; make the file again")
    samples, notes = document.get("samples"), document.get("notes", [])
    if not isinstance(samples, list) or not samples:
        raise ProfileError(f"{location}: samples is empty or not a list; make the file again with mavcg profile -o")
    if not isinstance(notes, list):
        raise ProfileError(f"{location}: notes is not a list; make the file again with mavcg profile -o")
    rows: dict[Key, list[float]] = {}
    for at, entry in enumerate(samples):
        key, counted = _row(entry, f"{location}: samples[{at}]")
        sums = rows.setdefault(key, [0.0, 0.0])
        sums[0] += counted[0]
        sums[1] += counted[1]
    if not 0 < sum(value[0] for value in rows.values()) < math.inf:
        raise ProfileError(f"{location}: the samples sum to nothing; make the file again with mavcg profile -o")
    return Profile(
        sample_frame(rows, kind),
        kind,
        _text(document, "event", location),
        _text(document, "command", location),
        _text(document, "board", location),
        tuple(clean_text(str(note)) for note in notes),
        _offsets(document.get("offsets", []), location),
    )


def _offsets(entries: Any, location: str) -> Offsets:
    """Parse the offsets of samples in functions; profiles of older versions have none."""
    if not isinstance(entries, list):
        raise ProfileError(f"{location}: offsets is not a list; make the file again with mavcg profile -o")
    by_function: dict[tuple[str, str], dict[int, float]] = {}
    for number, entry in enumerate(entries):
        here = f"{location}: offsets[{number}]"
        samples = entry.get("samples") if isinstance(entry, dict) else None
        if not isinstance(samples, dict):
            raise ProfileError(f"{here}: has no samples by offset; make the file again with mavcg profile -o")
        by_offset = by_function.setdefault((_text(entry, "symbol", here), _text(entry, "object", here)), {})
        for at, count in samples.items():
            good = at.isascii() and at.isdigit() and len(at) < 20 and not isinstance(count, bool)
            if not good or not isinstance(count, int | float) or not 0 <= count < 1e30:
                raise ProfileError(f"{here}: {at!r}: {count!r} is not a count at an offset; make the file again")
            by_offset[int(at)] = float(count)
    return by_function


def _row(entry: Any, location: str) -> tuple[Key, tuple[float, float]]:
    if not isinstance(entry, dict):
        raise ProfileError(f"{location}: is not an object; make the file again with mavcg profile -o")
    cpu, core = entry.get("cpu"), entry.get("core")
    samples, records = entry.get("samples"), entry.get("records")
    if cpu is not None and not _is_count(cpu, 1 << 20):
        raise ProfileError(f"{location}: cpu is {cpu!r}, not a CPU number or null; make the file again")
    if core is not None and not isinstance(core, str):
        raise ProfileError(f"{location}: core is {core!r}, not a name or null; make the file again")
    if isinstance(samples, bool) or not isinstance(samples, int | float) or not 0 <= samples < 1e30:
        raise ProfileError(f"{location}: samples is {samples!r}, not a count; make the file again")
    if records is not None and not _is_count(records, 1 << 53):
        raise ProfileError(f"{location}: records is {records!r}, not a count or null; make the file again")
    key = (
        _text(entry, "symbol", location),
        _text(entry, "object", location),
        cpu,
        clean_text(core) if core is not None else None,
    )
    return key, (float(samples), float(records or 0))


def _is_count(value: Any, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit


def _text(entry: dict[str, Any], name: str, location: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str):
        raise ProfileError(f"{location}: {name} is {value!r}, not a text; make the file again with mavcg profile -o")
    return clean_text(value)


def clean_text(text: str) -> str:
    """Return text that can be encoded as UTF-8: JSON may contain lone surrogates, which are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
