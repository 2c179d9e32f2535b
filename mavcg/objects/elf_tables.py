"""Reads the section and symbol tables of 64-bit little-endian ELF files, all that versions of a program are in.

pyelftools builds its parsers anew for each file, some 5 ms, and a build opens an object of each version several times.
Source: System V ABI, chapters 4 and 5 (ELF-64: "ELF-64 Object File Format", version 1.5).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
CLASS_64_LITTLE = b"\x7fELF\x02\x01"
NOBITS, SYMTAB, DYNAMIC, DYNSYM = 8, 2, 6, 11  # SHT_NOBITS, ..
FUNCTION, UNDEFINED = 2, 0  # STT_FUNC, SHN_UNDEF
_EXTENDED = 0xFFFF  # SHN_XINDEX: the value is in the first section's header


@dataclass(frozen=True)
class ElfSection:
    """A section header. kind: sh_type. link: index of a linked section. align: in bytes."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    align: int


@dataclass(frozen=True)
class ElfSymbol:
    """An entry of a symbol table. kind: STT_FUNC and others. section: index of the section that defines it."""

    name: str
    kind: int
    section: int
    value: int
    size: int


@dataclass(frozen=True)
class ElfTables:
    """An open ELF file with its section headers. machine: e_machine."""

    file: BinaryIO
    machine: int
    sections: tuple[ElfSection, ...]

    def contents(self, section: ElfSection) -> bytes:
        """Return a section's bytes; b"" if the file has none of it."""
        return b"" if section.kind == NOBITS else _read(self.file, section.offset, section.size)

    def symbols(self) -> Iterator[ElfSymbol]:
        """Yield the entries of the symbol tables. Raises: ValueError or others, as read_tables does."""
        for section in self.sections:
            if section.kind != SYMTAB:
                continue
            names = self.contents(self.sections[section.link])
            table = self.contents(section)
            for name, info, _, index, value, size in SYMBOL.iter_unpack(
                table[: len(table) // SYMBOL.size * SYMBOL.size]
            ):
                yield ElfSymbol(_name_at(names, name), info & 0xF, index, value, size)


def read_tables(file: BinaryIO) -> ElfTables | None:
    """Read the section headers of an open file; None for an ELF file of another class or byte order.

    Raises: ValueError, struct.error or IndexError for a damaged file.
    """
    head = _read(file, 0, len(CLASS_64_LITTLE))
    if head[:4] != CLASS_64_LITTLE[:4]:
        raise ValueError("Magic number does not match")
    if head != CLASS_64_LITTLE:
        return None
    fields = HEADER.unpack(_read(file, 0, HEADER.size))
    machine, at, entry, count, of_names = fields[2], fields[6], fields[11], fields[12], fields[13]
    if not at:
        return ElfTables(file, machine, ())
    first = SECTION.unpack(_read(file, at, SECTION.size))
    count = count or first[5]
    of_names = first[6] if of_names == _EXTENDED else of_names
    if entry != SECTION.size:
        raise ValueError(f"section headers of {entry} bytes")
    headers = list(SECTION.iter_unpack(_read(file, at, count * SECTION.size)))
    names = _read(file, headers[of_names][4], headers[of_names][5]) if headers else b""
    sections = (
        ElfSection(_name_at(names, name), kind, flags, address, offset, size, link, align)
        for name, kind, flags, address, offset, size, link, _, align, _ in headers
    )
    return ElfTables(file, machine, tuple(sections))


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    """Return bytes of a file. Raises: ValueError where it ends before."""
    file.seek(offset)
    content = file.read(size) if size <= _length(file) else b""
    if len(content) != size:
        raise ValueError(f"{size} bytes at {offset} are not there")
    return content


def _length(file: BinaryIO) -> int:
    here = file.tell()
    length = file.seek(0, 2)
    file.seek(here)
    return length


def _name_at(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode("utf-8", "replace")
