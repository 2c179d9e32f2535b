"""Facts of a program's file that plans and simulations need: its segments' simulated times, and its memory."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.apps.service.program_entry import AcceleratedEntry
from mavcg.apps.service.served_programs import PartTimes
from mavcg.errors import MavcgError
from mavcg.objects.elf import open_elf
from mavcg.objects.inspection import model_of, note_errors

_WORD = 8  # bytes of a number in section .timing: the frequency in kHz, then each segment's cycles
_NS_OF_KHZ = 1_000_000
_SIZES = {"code_bytes": ".text", "parameters_bytes": ".parameters", "features_bytes": ".features"}


@dataclass(frozen=True)
class ProgramFile:
    """Facts of a program's file (docs/accelerator-isa.md, "Files").

    segments_ns: time of each segment on the accelerator. code_bytes, parameters_bytes: DDR memory of the accelerator,
    once for all jobs. features_bytes: the same, for each job under way. libraries: files of the CPU parts.
    """

    segments_ns: tuple[int, ...]
    code_bytes: int
    parameters_bytes: int
    features_bytes: int
    libraries: tuple[Path, ...]


def read_program_file(path: Path) -> ProgramFile:
    """Return the facts of a program's file. Raises: MavcgError for a file that is none, for one without times, and
    for one with a part's library elsewhere than beside it."""
    with note_errors(path):
        elf = open_elf(path)
        sections = {name: elf.get_section_by_name(name) for name in (*_SIZES.values(), ".timing", ".cpu")}
        missing = [name for name, section in sections.items() if section is None]
        if missing:
            raise MavcgError(
                f"{path}: no section {missing[0]}; it is no program of this mavcg accel build; build it again"
            )
        timing, listed = sections[".timing"].data(), sections[".cpu"].data().decode().splitlines()
        if elsewhere := [name for name in listed if "/" in name]:
            raise MavcgError(
                f"{path}: section .cpu: {elsewhere[0]!r} is not the name of a file beside the program; build it again"
            )
        khz, *cycles = struct.unpack(f"<{len(timing) // _WORD}Q", timing)
        if not khz or not all(cycles) or not cycles:
            raise MavcgError(f"{path}: has no simulated times; build it again")
        sizes = {key: int(sections[name]["sh_size"]) for key, name in _SIZES.items()}
    segments = tuple(-(-own * _NS_OF_KHZ // khz) for own in cycles)
    return ProgramFile(segments, **sizes, libraries=tuple(path.parent / name for name in listed))


def given_times(entries: Sequence[AcceleratedEntry]) -> dict[str, PartTimes]:
    """Return the times of programs by name: of their parts as app.toml has them, of their segments as simulated.

    Raises: MavcgError for a program whose parts have no times, or another number of them.
    """
    times = {}
    for entry in entries:
        segments = read_program_file(entry.program).segments_ns
        if len(entry.parts_ns) != len(segments) + 1:
            given = f"{len(entry.parts_ns)} times" if entry.parts_ns else "missing"
            raise MavcgError(
                f"network '{entry.name}': parts_ms: {given}; give the worst-case time of each of the program's "
                f"{len(segments) + 1} parts on the processor, such as worst_parts_ms of mavcg app serve --json"
            )
        times[entry.name] = PartTimes(0, entry.parts_ns, segments)
    return times


def programs_memory_json(entries: Sequence[AcceleratedEntry]) -> list[dict[str, Any]]:
    """Return the memory of programs for the document of `app plan`: on the accelerator, and of the CPU's parts.

    Features of the accelerator and the arenas of parts are those of all jobs that may be under way.
    Raises: MavcgError for a part's library that is missing.
    """
    rows = []
    for entry in entries:
        program, notes = read_program_file(entry.program), list[dict[str, Any]]()
        for library in program.libraries:
            note = model_of(library)
            if note is None:
                raise MavcgError(f"{library}: is not a model library of mavcg; build {entry.program.name} again")
            notes.append(note)
        rows.append(
            {
                "name": entry.name,
                "accelerator": entry.accelerator,
                "jobs": entry.slots,
                "segments_ms": [ns / 1e6 for ns in program.segments_ns],
                "code_bytes": program.code_bytes,
                "parameters_bytes": program.parameters_bytes,
                "features_bytes": entry.slots * program.features_bytes,
                "parts_arena_bytes": entry.slots * sum(int(note["arena_bytes"]) for note in notes),
                "parts_weights_bytes": sum(int(note["weight_bytes"]) for note in notes),
            }
        )
    return rows
