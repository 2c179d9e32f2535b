"""The tables of sections and symbols of ELF files are those that pyelftools reads; damaged files are named."""

import _struct
import contextlib
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis.strategies import binary, integers

from mavcg.errors import MavcgError
from mavcg.objects.elf import function_symbols, loaded_bytes, read_elf
from mavcg.toolchain.codegen import assemble
from mavcg.toolchain.target import parse_target

LIBRARY = Path(_struct.__file__)
SOURCE = """
    .text
    .globl f
    .type f, {sign}function
f:  ret
    .size f, . - f
    .section .rodata.x, "a", {sign}progbits
    .word 1, 2
    .bss
    .zero 100
"""


@pytest.fixture(params=["aarch64-linux-gnu", "x86_64-linux-gnu", "library"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "library":
        return LIBRARY
    target = parse_target(request.param)
    assemble(SOURCE.format(sign="%"), tmp_path / "f.o", target, "f")
    return tmp_path / "f.o"


def test_the_tables_are_those_of_pyelftools(file: Path) -> None:
    with file.open("rb") as opened, read_elf(file) as tables:
        expected = ELFFile(opened)
        assert tables is not None
        sections = list(expected.iter_sections())
        assert [(s.name, s.flags, s.address, s.offset, s.size, s.link, s.align) for s in tables.sections] == [
            (s.name, *(s[f"sh_{key}"] for key in ("flags", "addr", "offset", "size", "link", "addralign")))
            for s in sections
        ]
        assert [tables.contents(s) for s in tables.sections] == [
            b"" if s["sh_type"] == "SHT_NOBITS" else s.data() for s in sections
        ]
        table: Any = expected.get_section_by_name(".symtab")
        entries = [] if table is None else list(table.iter_symbols())
        assert [(s.name, s.value, s.size) for s in tables.symbols()] == [
            (e.name, e["st_value"], e["st_size"]) for e in entries
        ]
        functions = [
            (e.name, e["st_size"])
            for e in entries
            if e["st_info"]["type"] == "STT_FUNC" and e["st_shndx"] != "SHN_UNDEF"
        ]
    assert list(function_symbols(file)) == functions


@given(length=integers(0, 4000), noise=binary(max_size=64), at=integers(4, 4000))
def test_damaged_files_are_named(tmp_path_factory: pytest.TempPathFactory, length: int, noise: bytes, at: int) -> None:
    content = LIBRARY.read_bytes()
    path = tmp_path_factory.mktemp("damaged") / "x.so"
    path.write_bytes((content[:at] + noise + content[at + len(noise) :])[: len(content) - length])
    with contextlib.suppress(MavcgError):
        assert loaded_bytes(path) >= 0
        assert list(function_symbols(path)) is not None
