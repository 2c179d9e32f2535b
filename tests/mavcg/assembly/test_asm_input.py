"""Which code a name means, in assembly and in built files."""

from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.assembly.asm_input import read_asm_input, version_symbol
from mavcg.errors import MavcgError
from mavcg.profiles.load import load_core
from mavcg.toolchain.zig import run_zig

A55, A75 = load_core("cortex-a55"), load_core("cortex-a75")
NAMES = (
    "f",
    "f.slow",
    "f.generic",
    "f.cortex-a55",
    "f.cortex-a75",
    "g.0f1e.cortex-a55",
    "g.0f1e.generic",
    "plain",
    "ff",
)


@pytest.mark.parametrize(
    ("name", "core", "symbol"),
    [
        ("f", "cortex-a55", "f.cortex-a55"),
        ("f", "cortex-a75", "f.cortex-a75"),
        ("f", "exynos-m4", "f.generic"),
        ("g", "cortex-a55", "g.0f1e.cortex-a55"),
        ("g", "exynos-m4", "g.0f1e.generic"),
        ("plain", "cortex-a55", "plain"),
        ("f.cortex-a75", "cortex-a55", "f.cortex-a75"),
        ("f.slow", "cortex-a55", "f.slow"),
    ],
)
def test_a_function_s_name_means_the_version_that_the_core_runs(name: str, core: str, symbol: str) -> None:
    without_stand_ins = replace(load_core(core), stand_ins=())

    assert version_symbol(name, without_stand_ins, NAMES, "lib.so") == symbol


def test_a_stand_in_s_version_comes_before_the_generic_one() -> None:
    core = replace(A75, stand_ins=("cortex-a76", "cortex-a73"))
    names = ["f.generic", "f.cortex-a73"]

    assert version_symbol("f", core, names, "lib.so") == "f.cortex-a73"


def test_two_static_functions_of_one_name() -> None:
    names = ["s.0a.cortex-a55", "s.1b.cortex-a55"]

    with pytest.raises(MavcgError, match=r"lib.so: s: several .*s\.0a\.cortex-a55, s\.1b\.cortex-a55"):
        version_symbol("s", A55, names, "lib.so")
    assert version_symbol("s.1b", A55, names, "lib.so") == "s.1b.cortex-a55"


def test_an_unknown_name_gets_its_neighbours() -> None:
    with pytest.raises(MavcgError, match=r"no function is named plane; did you mean plain"):
        version_symbol("plane", A55, NAMES, "lib.so")


def function(name: str, count: int) -> str:
    body = "\tnop\n" * count + "\tret\n"
    return f'\t.globl "{name}"\n\t.type "{name}", %function\n"{name}":\n{body}\t.size "{name}", .-"{name}"\n'


@pytest.fixture
def library(tmp_path: Path) -> Path:
    text = "\t.text\n" + "".join(function(name, at + 1) for at, name in enumerate(NAMES))
    (tmp_path / "k.s").write_text(text)
    out = tmp_path / "k.so"
    words = ["-target", "aarch64-linux-gnu.2.17", "-shared", "-nostdlib", str(tmp_path / "k.s"), "-o", str(out)]
    run_zig("cc", words, "building a test's library")
    return out


def test_the_version_s_code_is_read(library: Path) -> None:
    (found,) = read_asm_input(library, A75, ["f"]).functions

    assert found.name == "f.cortex-a75"
    assert sum(len(block.lines) for block in found.blocks) == NAMES.index("f.cortex-a75") + 2


def test_all_functions_are_those_that_the_core_runs(library: Path) -> None:
    names = [found.name for found in read_asm_input(library, A55).functions]

    assert sorted(names) == sorted(["f.cortex-a55", "f.slow", "g.0f1e.cortex-a55", "plain", "ff"])


def test_lines_of_a_binary_have_addresses(library: Path) -> None:
    code = read_asm_input(library, A55, ["plain"])

    addresses = list(code.addresses.values())
    assert addresses == list(range(addresses[0], addresses[0] + 4 * (NAMES.index("plain") + 2), 4))


def test_assembly_is_read_as_such(tmp_path: Path) -> None:
    (tmp_path / "k.s").write_text("\t.text\n" + function("f", 1) + function("g", 1))

    code = read_asm_input(tmp_path / "k.s", A55, ["g"])
    assert [f.name for f in code.functions] == ["g"] and not code.addresses
    with pytest.raises(MavcgError, match="no function is named h; did you mean|it holds f, g"):
        read_asm_input(tmp_path / "k.s", A55, ["h"])


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"!<arch>\nx", "an archive"),
        (b"\xcf\xfa\xed\xfe\0\0\0\0", "a Mach-O file"),
        (b"MZ\x90\0", "a Windows program"),
        (b"BC\xc0\xde\0\0", "LLVM bitcode"),
        (b"\0\1\2\3", "is not text"),
        (b"\x7fELF\2\1\1", "damaged ELF"),
        (b"", "holds no function"),
        (b"hello, world\n", ":1:6: unknown token"),
    ],
)
def test_other_files_are_errors(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "file.s"
    path.write_bytes(content)

    with pytest.raises(MavcgError, match=what) as error:
        read_asm_input(path, A55, ["f"])
    assert str(error.value).startswith(f"{path}:")
