"""Facts of a program's file, read without the accelerator's code, beside the program that it was written from."""

from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.accelerators.image.elf_file import write_elf
from mavcg.apps.service.periodic_keys import Periodic
from mavcg.apps.service.program_entry import AcceleratedEntry
from mavcg.apps.service.program_file import given_times, programs_memory_json, read_program_file
from mavcg.apps.service.served_programs import program_tasks
from mavcg.errors import MavcgError
from tests.mavcg.accelerators.compiled import random_program

MS = 1_000_000


def written(path: Path, cycles: int = 700) -> int:
    """Write a random program with CPU nodes in between, whose segments take so many cycles; return their number."""
    made = random_program(4, mixed=True)
    assert made is not None
    segments = tuple(replace(segment, cycles=cycles) for segment in made[2].segments)
    program = replace(made[2], segments=segments, target=replace(made[1], frequency_mhz=300.0))
    write_elf(program, path)
    facts = read_program_file(path) if cycles else None
    assert facts is None or (facts.features_bytes, facts.parameters_bytes, facts.code_bytes, facts.libraries) == (
        program.feature_bytes,
        len(program.parameters),
        4 * sum(one.form.words for one in program.instructions),
        (),
    )
    return len(segments)


def write_listing(path: Path, listed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a program whose section .cpu has these bytes, which the writer of files would refuse or not make."""
    made = random_program(4, mixed=True)
    assert made is not None
    monkeypatch.setattr("mavcg.accelerators.image.elf_file._cpu_lines", lambda program: listed)
    segments = tuple(replace(segment, cycles=1) for segment in made[2].segments)
    write_elf(replace(made[2], segments=segments), path)


def entry(path: Path, *parts_ns: int) -> AcceleratedEntry:
    return AcceleratedEntry("p", path, "npu", Periodic(2 * MS, 5 * MS, 1, False), parts_ns)


def test_segments_and_parts_become_stages(tmp_path: Path) -> None:
    path = tmp_path / "p.elf"
    count = written(path)
    assert count > 1
    own = entry(path, *range(1000, 1000 * (count + 2), 1000))

    (task,) = program_tasks([own], given_times([own]), 0, 0.5, "cluster 0")

    assert [stage.total_ns for stage in task.stages[1::2]] == [2334] * count  # 700 cycles at 300 MHz, rounded up
    assert [stage.total_ns for stage in task.stages[::2]] == [1500 * number for number in range(1, count + 2)]
    (row,) = programs_memory_json([own])
    assert row["features_bytes"] == 3 * read_program_file(path).features_bytes  # jobs within a deadline
    assert row["parts_arena_bytes"] == 0 and row["segments_ms"] == [0.002334] * count


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.elf"
    count = written(path)
    for parts, given in (((), "missing"), ((5,), "1 times")):
        with pytest.raises(MavcgError, match=rf"network 'p': parts_ms: {given}; give .* program's {count + 1} parts"):
            given_times([entry(path, *parts)])
    written(path, cycles=0)
    with pytest.raises(MavcgError, match=r"p\.elf: has no simulated times; build it again"):
        read_program_file(path)
    path.write_bytes(b"\x7fELF" + bytes(60))
    with pytest.raises(MavcgError, match=r"p\.elf: a damaged ELF file"):
        read_program_file(path)


@pytest.mark.parametrize(("listed", "libraries"), [(b"a b.so\nc.so\n", ("a b.so", "c.so")), (b"", ())])
def test_libraries_are_one_on_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bytes, libraries: tuple[str, ...]
) -> None:
    write_listing(tmp_path / "p.elf", listed, monkeypatch)
    assert read_program_file(tmp_path / "p.elf").libraries == tuple(tmp_path / name for name in libraries)


@pytest.mark.parametrize("name", ["/etc/host name.so", "../p.so", "parts/p.so"])
def test_a_library_elsewhere_than_beside_the_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_listing(tmp_path / "p.elf", f"{name}\n".encode(), monkeypatch)
    with pytest.raises(MavcgError, match=rf"p\.elf: section \.cpu: '{name}' is not the name of a file beside the"):
        read_program_file(tmp_path / "p.elf")
