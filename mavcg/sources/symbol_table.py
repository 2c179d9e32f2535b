"""Where an ELF file defines functions of given names, read fast: large programs have millions of symbols."""

import re
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

# What compilers add to the name of a piece or version of a function: foo.constprop.0, foo.part.0.cold, foo.llvm.123.
_SUFFIXED = rb"(?:\.\w+)*"
_ELF64_SYMBOL = struct.Struct("<IBBHQQ")  # st_name, st_info, st_other, st_shndx, st_value, st_size
_FUNCTIONS = (0, 2, 10)  # STT_NOTYPE (assembly), STT_FUNC, STT_GNU_IFUNC
_COLD = re.compile(r"\.cold(\.\d+)?$")


@dataclass(frozen=True)
class Definition:
    """One function of a file. name: as the file has it, with suffixes; address, size: bytes."""

    name: str
    address: int
    size: int


def definitions(elf: Any, symbols: Collection[str]) -> dict[str, list[Definition]]:
    """Functions that a file (a pyelftools ELFFile, 64-bit, little-endian) defines, by the asked name.

    A symbol is found under its own name and under those of its pieces and versions (f.isra.0 for f); hot pieces come
    before cold ones, larger before smaller. Several functions have the same name where they are static.
    """
    found: dict[str, set[Definition]] = {}
    for section in elf.iter_sections():
        if section["sh_type"] not in ("SHT_SYMTAB", "SHT_DYNSYM") or section["sh_entsize"] != _ELF64_SYMBOL.size:
            continue
        names = bytes(elf.get_section(section["sh_link"]).data())
        wanted = _name_offsets(names, symbols)
        data = section.data()
        for name, info, _, index, value, size in _ELF64_SYMBOL.iter_unpack(data[: len(data) // 24 * 24]):
            if index and name in wanted and info & 0xF in _FUNCTIONS:
                for asked, full in wanted[name]:
                    found.setdefault(asked, set()).add(Definition(full, value, size))
    return {asked: sorted(all_, key=_rank) for asked, all_ in found.items()}


def _rank(definition: Definition) -> tuple[bool, int, int]:
    return bool(_COLD.search(definition.name)), -definition.size, definition.address


def _name_offsets(names: bytes, symbols: Collection[str]) -> dict[int, list[tuple[str, str]]]:
    """String table offset -> (asked symbol, name there)s: f.cold may be asked for, and f too.

    A name may be the end of a longer one in the table.
    """
    found: dict[int, list[tuple[str, str]]] = {}
    for symbol in symbols:
        pattern = re.compile(re.escape(symbol.encode(errors="surrogateescape")) + _SUFFIXED + rb"\0")
        for match in pattern.finditer(names):
            name = match[0][:-1].decode(errors="surrogateescape")
            found.setdefault(match.start(), []).append((symbol, name))
    return found
