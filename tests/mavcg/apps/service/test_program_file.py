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
