"""Sizes, symbols and notes of ELF files, against binutils; damaged files are errors."""

import json
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.objects.elf import (
    exported_symbols,
    function_symbols,
    imports_of,
    loaded_bytes,
    note_assembly,
    notes,
    symbol_bytes,
    undefined_symbols,
)
from mavcg.toolchain.zig import run_tool, run_zig

SOURCE = """
extern int outside(int); extern int also __attribute__((weak));
static int counter; int data[5] = {1, 2}; const char text[] = "constant"; int zeros[100];
__attribute__((visibility("hidden"))) int hidden(int x) { return x * 3; }
static __attribute__((noinline)) int local(int x) { return x + counter++; }
__attribute__((weak)) int weak(int x) { return local(x) + hidden(x); }
int visible(int x) { return outside(x) + (&also ? also : 0) + weak(x); }
"""
TARGET = "aarch64-linux-musl"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a.o and lib.so of SOURCE with two notes."""
    folder = tmp_path_factory.mktemp("elf")
    (folder / "a.c").write_text(SOURCE)
    for number, value in enumerate([{"name": "one", "list": [1, 2, "ü\udce9"]}, {"two": "x" * 1001}]):
        (folder / f"note{number}.s").write_text(note_assembly(value))
    flags = ["-target", TARGET, "-g0", "-O1", "-fno-sanitize=all", "-fPIC", "-nostdlib"]
    run_zig("cc", [*flags, "-c", "a.c", "-o", "a.o"], "compiling", folder)
    run_zig("cc", [*flags, "-shared", "a.o", "note0.s", "note1.s", "-o", "lib.so"], "linking", folder)
    run_zig("cc", [*flags, "-shared", "-s", "a.o", "note0.s", "note1.s", "-o", "stripped.so"], "linking", folder)
    return folder


def test_symbols(made: Path) -> None:
    sizes = dict(function_symbols(made / "a.o"))
    assert sizes.keys() == {"hidden", "local", "weak", "visible"}
    assert all(size % 4 == 0 and size > 0 for size in sizes.values())
    assert symbol_bytes(made / "a.o", "hidden") == sizes["hidden"] and symbol_bytes(made / "a.o", "nowhere") == 0
    assert undefined_symbols(made / "a.o") == ["also", "outside"]
    assert exported_symbols(made / "a.o") == {"data", "text", "zeros", "visible", "weak"}
    assert imports_of(made / "lib.so") == ([], ["also", "outside"])


@pytest.mark.skipif(not shutil.which("objdump"), reason="objdump is not installed")
@pytest.mark.parametrize("name", ["a.o", "lib.so"])
def test_loaded_bytes_are_what_objdump_calls_contents_to_load(made: Path, name: str) -> None:
    lines = run_tool(["objdump", "-hw", str(made / name)], "reading headers").splitlines()
    sections = [line.split() for line in lines if "ALLOC" in line and "CONTENTS" in line]
    assert loaded_bytes(made / name) == sum(int(s[2], 16) for s in sections if s[1] != ".note.mavcg")
    assert loaded_bytes(made / name) < 400 * 4 + 1024  # zeros take no bytes of the file


def test_notes_come_back_in_order_and_survive_strip(made: Path) -> None:
    expected = [{"name": "one", "list": [1, 2, "ü\udce9"]}, {"two": "x" * 1001}]
    assert notes(made / "lib.so") == expected
    assert notes(made / "a.o") == []
    assert notes(made / "stripped.so") == expected
    assert loaded_bytes(made / "stripped.so") == loaded_bytes(made / "lib.so")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=20), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_a_note_holds_its_document_byte_by_byte(value: object) -> None:
    text = note_assembly(value)
    listed = text[text.index(".byte ") + 6 :].split("\n")[0]
    data = bytes(int(byte) for byte in listed.split(", "))
    assert json.loads(data) == value
    assert f".long {len(data)}\n" in text


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not an object", b"\x7fELF" + b"\xff" * 200], ids=repr)
def test_what_is_no_elf_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.so"
    path.write_bytes(content)
    for read in (loaded_bytes, undefined_symbols, exported_symbols, imports_of, notes):
        with pytest.raises(MavcgError, match=r"odd\.so"):
            read(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="No such file"):
        notes(tmp_path / "missing.so")


def test_damaged_files_are_errors_or_read_but_never_a_traceback(made: Path, tmp_path: Path) -> None:
    """Cut anywhere, or with bytes changed."""
    whole = (made / "lib.so").read_bytes()
    path = tmp_path / "damaged.so"
    chance = random.Random(7)
    for number in range(300):
        data = bytearray(whole)
        if number % 3 == 0:
            data = data[: chance.randrange(len(data))]
        else:
            where = range(len(data)) if number % 3 == 1 else range(64)
            for _ in range(8):
                data[chance.choice(where)] = chance.randrange(256)
        path.write_bytes(data)
        for read in (loaded_bytes, imports_of, notes, lambda p: symbol_bytes(p, "weak"), exported_symbols):
            try:
                read(path)
            except MavcgError as error:
                assert str(path) in str(error)
