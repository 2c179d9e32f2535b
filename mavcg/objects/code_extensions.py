"""Reads which instruction set extensions the machine code of an object file needs."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mavcg.objects import elf, macho
from mavcg.objects.a64_extensions import a64_extensions
from mavcg.objects.x86_extensions import x86_extensions

_EXECUTABLE = 0x4  # SHF_EXECINSTR
_INSTRUCTIONS = 0x80000000 | 0x400  # S_ATTR_PURE_INSTRUCTIONS, S_ATTR_SOME_INSTRUCTIONS
_MAPPING = re.compile(r"\$([dx])(\.|$)")  # where data and code begin: ELF for the Arm 64-bit Architecture, 5.5


def code_extensions(path: Path) -> frozenset[str] | None:
    """Return LLVM's names of the extensions beyond Armv8.0-A or x86-64 that an object's code needs.

    None where not all of it is understood (x86_extensions.py); AArch64's always is. Raises: MavcgError for a file that
    is neither ELF nor Mach-O.
    """
    if macho.is_macho(path):
        sections = [s.data for s in macho.sections(path) if s.flags & _INSTRUCTIONS]
        arm = macho.is_arm(path)
    else:
        arm = elf.architecture(path) == "aarch64"
        sections = [code for _, _, code in _code_sections(elf.open_elf(path), arm)]
    if arm:
        return a64_extensions(b"".join(sections))
    return _all_of([x86_extensions(code) for code in sections])


def function_extensions(path: Path) -> dict[str, frozenset[str] | None]:
    """Return function -> extensions that its code needs, for the functions that an ELF file defines; as above."""
    arm = elf.architecture(path) == "aarch64"
    file = elf.open_elf(path)
    sections = {index: (address, code) for index, address, code in _code_sections(file, arm)}
    code = {}
    for symbol in _symbols(file):
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] in sections:
            address, of_section = sections[symbol["st_shndx"]]
            start = symbol["st_value"] - address
            code[symbol.name] = of_section[start : start + symbol["st_size"]]
    if arm:
        return {name: a64_extensions(own) for name, own in code.items()}
    # Of a function without a size, which text may define, nothing is known.
    return {name: x86_extensions(own) if own else None for name, own in code.items()}


def _all_of(parts: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    known = [part for part in parts if part is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def _code_sections(file: Any, arm: bool) -> Iterator[tuple[int, int, bytes]]:
    """Yield (index, address, contents) of each executable section.

    On AArch64, where symbols mark data in code, zeros, which are no instruction, stand in its place.
    """
    marks: dict[int, list[tuple[int, bool]]] = {}
    for symbol in _symbols(file) if arm else ():
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
            yield index, section["sh_addr"], bytes(code[: len(code) // 4 * 4] if arm else code)


def _symbols(file: Any) -> Iterator[Any]:
    table = file.get_section_by_name(".symtab")
    return iter(()) if table is None else table.iter_symbols()
