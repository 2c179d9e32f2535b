"""The Mach-O reader, on objects that an assembler made of known text."""

from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from mavcg.objects import inspection, macho
from mavcg.toolchain.zig import run_zig

# Three functions of 12, 8 and 4 bytes, 16 bytes of constants, 64 of zeros that no file holds, one name from elsewhere.
TEXT = """
\t.section __TEXT,__text,regular,pure_instructions
\t.globl _three
_three: nop
\tnop
\tret
_two: bl _elsewhere
\tret
\t.globl "_one.cortex-a55"
"_one.cortex-a55": ret
\t.section __TEXT,__const
\t.quad 1, 2
\t.zerofill __DATA,__bss,_zeros,64,3
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("macho")
    source = folder / "known.s"
    source.write_text(TEXT + macho.note_assembly({"first": 1}) + macho.note_assembly({"second": [2, "\u00e9"]}))
    run_zig("cc", ["-target", "aarch64-macos", "-c", str(source), "-o", str(folder / "known.o")], "assembling")
    return folder / "known.o"


def test_sizes(made: Path) -> None:
    assert macho.is_macho(made)
    assert [macho.symbol_bytes(made, name) for name in ("three", "two", "one.cortex-a55", "absent")] == [12, 8, 4, 0]
    assert macho.loaded_bytes(made) == 12 + 8 + 4 + 16


def test_names_from_elsewhere(made: Path) -> None:
    assert macho.undefined_symbols(made) == ["elsewhere"]


def test_notes_come_back(made: Path) -> None:
    assert macho.notes(made) == [{"first": 1}, {"second": [2, "\u00e9"]}]


def test_a_truncated_file_is_an_error(made: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.o"
    short.write_bytes(made.read_bytes()[:100])

    with pytest.raises(MavcgError, match="damaged Mach-O"):
        macho.symbol_bytes(short, "three")


def test_other_files_are_not_macho(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"\x7fELF")

    assert not macho.is_macho(other)
    assert not macho.is_macho(tmp_path / "absent")


def test_damage_anywhere_is_named_by_every_door(made: Path, tmp_path: Path) -> None:
    """Of headers and load commands; what the commands point to is checked where it is read."""
    good, path = made.read_bytes(), tmp_path / "damaged.o"
    doors = (inspection.loaded_bytes, inspection.imports_of, inspection.notes, inspection.inspect_library)
    refused = 0
    for at in range(4, 400):
        path.write_bytes(good[:at] + b"\xfe" + good[at + 1 :])
        for door in doors:
            try:
                door(path)
            except MavcgError as error:
                refused += 1
                assert "\n" not in str(error)
    assert refused > 100
