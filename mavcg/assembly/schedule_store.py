"""Caches schedules on disk, one small file each, named by a digest of its key.

A file that cannot be read, is damaged, or that somebody else could have written counts as absent and is rewritten; in
a folder that cannot be written, or that somebody else can write to, nothing is cached. This costs time, never
correctness.
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
from mavcg.files.own_file import read_own_file, write_own_file
from mavcg.files.own_folder import is_own_folder
from mavcg.passes.asm.isa.op import Schedule

VARIABLE = "MAVCG_CACHE"
OFF = ("off", "0", "no")


class DiskStore:
    """JSON documents, mainly schedules, in a folder; a loop_schedule.ScheduleStore that processes may share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> Schedule | None:
        """Return the schedule stored for this key; None if there is none or it is damaged."""
        document = self.read(key)
        try:
            if document is None:
                return None
            return Schedule(document["interval"], tuple(document["cycles"]), document["by"], document["optimal"])
        except (KeyError, TypeError):
            return None

    def put(self, key: str, schedule: Schedule) -> None:
        """Store a schedule."""
        self.write(key, {**asdict(schedule), "cycles": list(schedule.cycles)})

    def read(self, key: str) -> dict[str, Any] | None:
        """Return the document stored for this key; None if there is none or it is damaged."""
        content = read_own_file(self._path(key)) if is_own_folder(self.folder, make=False) else None
        try:
            return None if content is None else _parse_entry(key, content)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def write(self, key: str, document: Mapping[str, Any]) -> None:
        """Store a document in place of an older one; a full disk or missing permission is ignored."""
        if not is_own_folder(self.folder):
            return
        try:
            write_own_file(self._path(key), _write_entry(key, document))
        except OSError:
            return

    def _path(self, key: str) -> Path:
        # A key may have any characters; its digest is a valid file name.
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def open_store(environment: Mapping[str, str] | None = None) -> DiskStore | None:
    """Return the user's store; None if MAVCG_CACHE is "off" or there is no home folder.

    Its folder: MAVCG_CACHE, else XDG_CACHE_HOME/mavcg, else ~/.cache/mavcg; in it schedules/<the passes' fingerprint>.
    """
    environment = os.environ if environment is None else environment
    named = environment.get(VARIABLE, "")
    if named.lower() in OFF:
        return None
    base = environment.get("XDG_CACHE_HOME", "")
    home = environment.get("HOME", "")
    if named:
        root = Path(named)
    elif os.path.isabs(base):  # a relative path must be ignored: XDG Base Directory Specification
        root = Path(base) / "mavcg"
    elif os.path.isabs(home):
        root = Path(home) / ".cache" / "mavcg"
    else:
        return None
    return DiskStore(root / "schedules" / fingerprint())


@cache
def fingerprint() -> str:
    """Return a digest of the machine passes' code, so that changed passes do not use schedules of older ones."""
    sources = sorted(Path(str(mavcg.passes.asm.__file__)).parent.rglob("*.py"))
    digest = hashlib.sha256()
    for path in [*sources, Path(str(mavcg.hardware.timing.__file__))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _write_entry(key: str, content: Mapping[str, Any]) -> bytes:
    document = {**content, "key": key}
    return json.dumps({**document, "digest": _digest(document)}).encode() + b"\n"


def _parse_entry(key: str, content: bytes) -> dict[str, Any]:
    """Return the document of an entry. Raises: ValueError, KeyError or TypeError if `_write_entry` did not write it."""
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("not a document")
    digest = document.pop("digest")
    # A schedule with a changed digit would be wrong code, so that the digest has to match.
    if digest != _digest(document) or document["key"] != key:
        raise ValueError("a damaged file")
    return document


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
