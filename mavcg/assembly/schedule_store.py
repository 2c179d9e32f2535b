"""The user's store of schedules, of tuned versions and of checks, for the machine passes as they are now."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mavcg.hardware.timing
import mavcg.passes.asm
from mavcg.files.store import EntryStore, open_store
from mavcg.passes.asm.isa.op import Schedule


@dataclass(frozen=True)
class KeptSchedules:
    """Schedules in a store, as a loop_schedule.ScheduleStore that processes may share."""

    store: EntryStore

    def get(self, key: str) -> Schedule | None:
        """Return the schedule stored for this key; None if there is none."""
        return self.store.read(key, Schedule)

    def put(self, key: str, schedule: Schedule) -> None:
        """Store a schedule."""
        self.store.write(key, schedule)


def open_schedules(environment: Mapping[str, str] | None = None) -> EntryStore:
    """Return the store schedules/<the passes' fingerprint> in the user's cache."""
    return open_store("schedules", fingerprint(), environment)


@cache
def fingerprint() -> str:
    """Return a digest of the machine passes' code, so that changed passes do not use schedules of older ones."""
    sources = sorted(Path(str(mavcg.passes.asm.__file__)).parent.rglob("*.py"))
    digest = hashlib.sha256()
    for path in [*sources, Path(str(mavcg.hardware.timing.__file__))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
