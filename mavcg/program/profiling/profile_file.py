"""Reads and writes a profile as one JSON file, which can be copied from the board to the building machine."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from mavcg.errors import ProfileError
from mavcg.files.decode import json_document
from mavcg.files.whole_file import write_whole
from mavcg.program.profiling.profile import Profile
from mavcg.program.profiling.sample_table import COLUMNS, Key, sample_frame

FORMAT = "mavcg-profile"
VERSION = 1
_AGAIN = "make the file again with mavcg profile -o"


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
    document = json_document(text, location, _AGAIN, ProfileError).of_format(FORMAT, VERSION)
    file = document.decode(_ProfileFile)
    rows: dict[Key, list[float]] = {}
    for sample in file.samples:
        sums = rows.setdefault((sample.symbol, sample.object, sample.cpu, sample.core), [0.0, 0.0])
        sums[0] += sample.samples
        sums[1] += sample.records or 0
    if not 0 < sum(value[0] for value in rows.values()) < math.inf:
        raise document.fault("samples", "they sum to nothing")
    offsets: dict[tuple[str, str], dict[int, float]] = {}
    for entry in file.offsets:
        by_offset = offsets.setdefault((entry.symbol, entry.object), {})
        by_offset.update((int(at), count) for at, count in entry.samples.items())
    frame = sample_frame(rows, file.kind)
    return Profile(frame, file.kind, file.event, file.command, file.board, file.notes, offsets)


_Count = Annotated[float, Meta(ge=0, lt=1e30, description="a count")]


@dataclass(frozen=True)
class _Sample:
    symbol: str
    object: str
    samples: _Count
    cpu: Annotated[int, Meta(ge=0, lt=1 << 20, description="a CPU number or null")] | None = None
    core: str | None = None
    records: Annotated[int, Meta(ge=0, lt=1 << 53, description="a count or null")] | None = None


@dataclass(frozen=True)
class _Offsets:
    symbol: str
    object: str
    samples: Mapping[Annotated[str, Meta(pattern="^[0-9]{1,19}$", description="an offset")], _Count]


@dataclass(frozen=True)
class _ProfileFile:
    """The form of a profile's file; those of older versions have no offsets."""

    kind: Literal["samples", "instructions"]
    event: str
    command: str
    board: str
    samples: Annotated[tuple[_Sample, ...], Meta(min_length=1, description="a list of samples")]
    notes: tuple[str, ...] = ()
    offsets: tuple[_Offsets, ...] = ()
