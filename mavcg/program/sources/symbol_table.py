"""Finds the functions of given names in an ELF file's symbol table, fast enough for millions of symbols."""

import re
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

# Suffixes that compilers add to the name of a part or clone of a function: foo.constprop.0, foo.part.0.cold.
_SUFFIXED = rb"(?:\.\w+)*"
_ELF64_SYMBOL = struct.Struct("<IBBHQQ")  # st_name, st_info, st_other, st_shndx, st_value, st_size
_FUNCTIONS = (0, 2, 10)  # STT_NOTYPE (assembly), STT_FUNC, STT_GNU_IFUNC
_COLD = re.compile(r"\.cold(\.\d+)?$")


@dataclass(frozen=True)
class Definition:
    """A function that a file defines.

    Args:
        name: its name in the file, with suffixes.
        address, size: in bytes.
    """

    name: str
    address: int
    size: int


def definitions(elf: Any, symbols: Collection[str]) -> dict[str, list[Definition]]:
    """Return requested symbol -> functions of that name that a file defines.

    elf: a pyelftools ELFFile, 64-bit, little-endian. Parts and clones of a function are included (f.isra.0 for f); hot
    parts come before cold ones, larger before smaller. Static functions may have the same name.
    """
    defined: dict[str, set[Definition]] = {}
    for section in elf.iter_sections():
        if section["sh_type"] not in ("SHT_SYMTAB", "SHT_DYNSYM") or section["sh_entsize"] != _ELF64_SYMBOL.size:
            continue
        names = bytes(elf.get_section(section["sh_link"]).data())
        by_offset = _name_offsets(names, symbols)
        data = section.data()
        for name, info, _, index, value, size in _ELF64_SYMBOL.iter_unpack(data[: len(data) // 24 * 24]):
            if index and name in by_offset and info & 0xF in _FUNCTIONS:
                for symbol, full in by_offset[name]:
                    defined.setdefault(symbol, set()).add(Definition(full, value, size))
    return {symbol: sorted(all_, key=_rank) for symbol, all_ in defined.items()}


def _rank(definition: Definition) -> tuple[bool, int, int]:
    return bool(_COLD.search(definition.name)), -definition.size, definition.address


def _name_offsets(names: bytes, symbols: Collection[str]) -> dict[int, list[tuple[str, str]]]:
    """Return string table offset -> [(requested symbol, name there)].

    An offset has several entries if f and f.cold are both requested. A name may be the end of a longer name.
    """
    offsets: dict[int, list[tuple[str, str]]] = {}
    for symbol in symbols:
        pattern = re.compile(re.escape(symbol.encode(errors="surrogateescape")) + _SUFFIXED + rb"\0")
        for match in pattern.finditer(names):
            name = match[0][:-1].decode(errors="surrogateescape")
            offsets.setdefault(match.start(), []).append((symbol, name))
    return offsets
