"""Objects of data, beside those that the assembler makes of the same data."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import binary, sampled_from

from mavcg.objects.data_object import write_data_object
from mavcg.objects.elf import open_elf, property_note, protection
from mavcg.objects.library import link_shared
from mavcg.toolchain.codegen import assemble
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import run_zig
from tests.conftest import examples

TARGETS = ["x86_64-linux-gnu.2.17", "aarch64-linux-gnu.2.17", "aarch64-linux-android"]
PROTECTION = {"x86_64": ["IBT", "SHSTK"], "aarch64": ["BTI", "PAC", "GCS"]}


def assembled(content: bytes, section: str, align: int, arch: str) -> str:
    numbers = ", ".join(map(str, content))
    return (
        f'\t.section {section},"a",@progbits\n\t.balign {align}\n'
        f"\t.globl data\n\t.hidden data\n\t.type data,@object\ndata:\n\t.byte {numbers}\n\t.size data, .-data\n"
        '\t.section .note.GNU-stack,"",@progbits\n' + property_note(arch)
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("content", [b"\x01", bytes(range(256)) * 33], ids=["byte", "pages"])
def test_libraries_of_it_are_those_of_the_assembler(target: str, content: bytes, tmp_path: Path) -> None:
    known = parse_target(target)
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    write_data_object([content[:1], content[1:]], "data", ".numbers", 4096, known.arch, tmp_path / "ours" / "data.o")
    (tmp_path / "theirs" / "data.s").write_text(assembled(content, ".numbers", 4096, known.arch))
    arguments = [f"--target={known.arch}-{known.system}", "-c", "data.s", "-o", "data.o"]
    run_zig("clang", arguments, "assembling data", tmp_path / "theirs")
    made = []
    for folder in ("ours", "theirs"):
        code = "\t.globl pointer\n\t.data\n\t.balign 8\npointer:\n\t.quad data\n" + property_note(known.arch)
        assemble(code, tmp_path / folder / "code.o", known, "code")
        out = tmp_path / folder / "libdata.so"
        link_shared([tmp_path / folder / "data.o", tmp_path / folder / "code.o"], out, known)
        made.append(out)
    assert made[0].read_bytes() == made[1].read_bytes()
    assert protection(made[0]) == PROTECTION[known.arch]


@settings(max_examples=examples(30, 7))
@given(content=binary(max_size=300), align=sampled_from([1, 2, 64, 4096]), arch=sampled_from(["x86_64", "aarch64"]))
def test_the_symbol_has_the_bytes(
    content: bytes, align: int, arch: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("objects") / "data.o"
    write_data_object([np.frombuffer(content, np.uint8)], "data", ".numbers", align, arch, path)
    elf = open_elf(path)
    (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("data")
    section = elf.get_section(symbol["st_shndx"])

    assert (section.name, section["sh_addralign"], section["sh_offset"] % align) == (".numbers", align, 0)
    assert symbol["st_value"] == 0 and section.data()[: symbol["st_size"]] == content == section.data()
    assert (symbol["st_other"]["visibility"], symbol["st_info"]["bind"]) == ("STV_HIDDEN", "STB_GLOBAL")
    assert protection(path) == PROTECTION[arch]
    assert not elf.get_section_by_name(".note.GNU-stack")["sh_flags"]
