"""Reads which instruction set extensions the machine code of an object file needs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mavcg.objects import elf, macho
from mavcg.objects.a64_extensions import a64_extensions

_EXECUTABLE = 0x4  # SHF_EXECINSTR
_INSTRUCTIONS = 0x80000000 | 0x400  # S_ATTR_PURE_INSTRUCTIONS, S_ATTR_SOME_INSTRUCTIONS
_MAPPING = re.compile(r"\$([dx])(\.|$)")  # where data and code begin: ELF for the Arm 64-bit Architecture, 5.5


def code_extensions(path: Path) -> frozenset[str]:
    """Return LLVM's names of the extensions beyond Armv8.0-A that an object's code needs.

    For x86-64 there are none here: its versions need all that the compiler was allowed to use.
    Raises: MavcgError for a file that is neither ELF nor Mach-O.
    """
    if macho.is_macho(path):
        data = b"".join(s.data for s in macho.sections(path) if s.flags & _INSTRUCTIONS)
        return a64_extensions(data) if macho.is_arm(path) else frozenset()
    if elf.architecture(path) != "aarch64":
        return frozenset()
    return a64_extensions(b"".join(code for _, code in _code_sections(elf.open_elf(path))))


def function_extensions(path: Path) -> dict[str, frozenset[str]]:
    """Return function -> extensions that its code needs, for the functions that an ELF object defines; as above."""
    if elf.architecture(path) != "aarch64":
        return {name: frozenset() for name, _ in elf.function_symbols(path)}
    file = elf.open_elf(path)
    sections = dict(_code_sections(file))
    return {
        symbol.name: a64_extensions(
            sections[symbol["st_shndx"]][symbol["st_value"] : symbol["st_value"] + symbol["st_size"]]
        )
        for symbol in _symbols(file)
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] in sections
    }


def _code_sections(file: Any) -> Iterator[tuple[int, bytes]]:
    """Yield (index, contents) of each executable section, with zeros, which are no instruction, in place of data."""
    marks: dict[int, list[tuple[int, bool]]] = {}
    for symbol in _symbols(file):
        if match := _MAPPING.match(symbol.name):
            marks.setdefault(symbol["st_shndx"], []).append((symbol["st_value"], match[1] == "d"))
    for index, section in enumerate(file.iter_sections()):
        if section["sh_flags"] & _EXECUTABLE and section["sh_type"] != "SHT_NOBITS":
            code = bytearray(section.data())
            own = sorted(marks.get(index, []))
            ends = [*(start for start, _ in own[1:]), len(code)]
            for (start, is_data), end in zip(own, ends, strict=False):
                if is_data:
                    code[start:end] = bytes(end - start)
            yield index, bytes(code[: len(code) // 4 * 4])


def _symbols(file: Any) -> Iterator[Any]:
    table = file.get_section_by_name(".symtab")
    return iter(()) if table is None else table.iter_symbols()
