"""Schedules that were found once, kept on disk: one small file for each, named by what it was found for.

A file that cannot be read, is cut or garbled counts as absent and is written anew; a folder that cannot be written
means that nothing is kept. Both cost time, never correctness.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import mavcg.hardware.timing
import mavcg.passes.asm
from mavcg.files.whole_file import whole
from mavcg.passes.asm.isa.op import Schedule

VARIABLE = "MAVCG_CACHE"
OFF = ("off", "0", "no")


class DiskStore:
    """Documents in a folder, schedules above all: loop_tuning.ScheduleStore. Several processes may use one at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> Schedule | None:
        """Return the schedule kept for this key; None where there is none that can be trusted."""
        document = self.read(key)
        try:
            if document is None:
                return None
            return Schedule(document["interval"], tuple(document["cycles"]), document["by"], document["optimal"])
        except (KeyError, TypeError):
            return None

    def put(self, key: str, schedule: Schedule) -> None:
        """Keep a schedule."""
        self.write(key, {**asdict(schedule), "cycles": list(schedule.cycles)})

    def read(self, key: str) -> dict[str, Any] | None:
        """Return the document kept for this key; None where there is none that can be trusted."""
        try:
            return _parse_entry(key, self._path(key).read_bytes())
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def write(self, key: str, document: Mapping[str, Any]) -> None:
        """Store a document and replace an older one; a full disk or a folder without permission is no error."""
        try:
            path = self._path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole(path, durable=False) as made:
                made.write_bytes(_write_entry(key, document))
        except OSError:
            return

    def _path(self, key: str) -> Path:
        # The key as given may be anything; its digest is a file name everywhere.
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def open_store(environment: Mapping[str, str] | None = None) -> DiskStore | None:
    """Return the store of this user, or None where there is to be none: MAVCG_CACHE=off, or no home to put it in.

    The folder: MAVCG_CACHE, else XDG_CACHE_HOME/mavcg, else ~/.cache/mavcg; in it schedules/<the passes' fingerprint>.
    """
    environment = os.environ if environment is None else environment
    named = environment.get(VARIABLE, "")
    if named.lower() in OFF:
        return None
    base = environment.get("XDG_CACHE_HOME", "")
    home = environment.get("HOME", "")
    if named:
        root = Path(named)
    elif os.path.isabs(base):  # a relative one is to be ignored: XDG Base Directory Specification
        root = Path(base) / "mavcg"
    elif os.path.isabs(home):
        root = Path(home) / ".cache" / "mavcg"
    else:
        return None
    return DiskStore(root / "schedules" / fingerprint())


@cache
def fingerprint() -> str:
    """Return a digest of the code of the machine passes: other passes do not get the schedules that these found."""
    sources = sorted(Path(str(mavcg.passes.asm.__file__)).parent.rglob("*.py"))
    digest = hashlib.sha256()
    for path in [*sources, Path(str(mavcg.hardware.timing.__file__))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _write_entry(key: str, content: Mapping[str, Any]) -> bytes:
    document = {**content, "key": key}
    return json.dumps({**document, "digest": _digest(document)}).encode() + b"\n"


def _parse_entry(key: str, content: bytes) -> dict[str, Any]:
    """Return the schedule of an entry. Raises: ValueError, KeyError or TypeError for what `_written` did not write."""
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("no document")
    digest = document.pop("digest")
    # A schedule with one digit changed would be wrong code: only what was written is taken.
    if digest != _digest(document) or document["key"] != key:
        raise ValueError("a damaged file")
    return document


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
