"""Networks of a service that an accelerator computes in segments: in app.toml, and in the library's note."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from mavcg.apps.service.periodic_keys import Periodic
from mavcg.apps.service.periods_note import periodic_json, periodic_of_json
from mavcg.errors import MavcgError
from mavcg.files.decode import Document
from mavcg.files.file_types import value_text
from mavcg.objects.inspection import application_of, note_errors

_KEYS = ("name", "program", "accelerator", "period_ms", "deadline_ms", "priority", "parts_ms")
MOST_SLOTS = 64  # jobs of a program that may be under way at a time; each has buffers of its own
_ANY = "accelerator"  # name of the accelerator of programs that name none


@dataclass(frozen=True)
class AcceleratedEntry:
    """A [[network]] of app.toml with a program in place of a file.

    program: file of `mavcg accel build`, with the libraries of its CPU parts beside it. accelerator: name; programs of
    the same accelerator share it. periodic: its parts are never preempted. parts_ns: worst-case times of its parts on
    the processor, without the margin, which plans and simulations need; () if they are not given.
    """

    name: str
    program: Path
    accelerator: str
    periodic: Periodic
    parts_ns: tuple[int, ...] = ()

    @property
    def slots(self) -> int:
        """Return the jobs that may be under way at a time: as many as are released before the first one's deadline."""
        return -(-self.periodic.deadline_ns // self.periodic.period_ns)


def program_entry(
    document: Document, folder: Path, number: int, written: Any, periodic: Periodic | None
) -> AcceleratedEntry:
    """Return the entry of a network with a program. written: the dataclass of its keys. folder: of app.toml.

    Raises: MavcgError for a key of networks with files, a program that does not exist, no period, or a deadline before
    which more than MOST_SLOTS jobs are released.
    """

    def fault(key: str, wrong: str, remedy: str) -> MavcgError:
        return document.fault(f"network[{number}].{key}", wrong, remedy)

    for key in fields(written):
        default = key.default if key.default_factory is MISSING else key.default_factory()
        if key.name not in _KEYS and getattr(written, key.name) != default:
            raise fault(key.name, "is there with a program", f"of a program, give only {', '.join(_KEYS)}")
    program = folder / written.program
    if not os.path.isfile(program):
        raise fault("program", f"{value_text(written.program)} does not exist", "make it by `mavcg accel build`")
    if periodic is None:
        raise fault("period_ms", "missing", "programs run as a service; give every network a period")
    parts = tuple(round(ms * 1e6) for ms in written.parts_ms)
    entry = AcceleratedEntry(written.name, program, written.accelerator or _ANY, periodic, parts)
    if entry.slots > MOST_SLOTS:
        raise fault(
            "deadline_ms",
            f"{entry.slots} jobs are released before the first one's deadline",
            f"give a longer period or a shorter deadline, so that at most {MOST_SLOTS} are",
        )
    return entry


def programs_json(programs: Sequence[AcceleratedEntry], library: Path) -> list[dict[str, Any]]:
    """Return the programs as the library's note has them; their files relative to its folder."""
    folder = library.absolute().parent
    return [
        {
            "name": own.name,
            "program": os.path.relpath(own.program.absolute(), folder),
            "accelerator": own.accelerator,
            "periodic": periodic_json(own.periodic),
        }
        for own in programs
    ]


def library_programs(library: Path) -> tuple[AcceleratedEntry, ...]:
    """Return the programs that a library is served with. Raises: MavcgError for a damaged note."""
    with note_errors(library):
        described: Mapping[str, Any] = application_of(library) or {}
        entries = tuple(
            AcceleratedEntry(
                str(own["name"]),
                library.parent / str(own["program"]),
                str(own["accelerator"]),
                periodic_of_json(own["periodic"]),
            )
            for own in described.get("programs", ())
        )
        for entry in entries:
            if entry.slots > MOST_SLOTS:
                raise ValueError(f"program '{entry.name}' has {entry.slots} jobs under way, above {MOST_SLOTS}")
        return entries
