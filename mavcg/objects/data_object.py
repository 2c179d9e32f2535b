"""Writes ELF object files that contain only data, such as a model's weights, without an assembler.

For large data an assembler would spend most of its time copying it.
Layouts and numbers: System V ABI, "Object Files".
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.objects.elf import property_data

Buffer = Any  # bytes, or a NumPy array of them: typing.Buffer is of Python 3.12
_HEADER, _SECTION, _SYMBOL = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_IDENT = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")  # 64 bits, little-endian, version 1
_RELOCATABLE, _VERSION = 1, 1
_MACHINES = {"x86_64": 62, "aarch64": 183}
_PROGBITS, _SYMTAB, _STRTAB, _NOTE = 1, 2, 3, 7
_ALLOC = 2
_GLOBAL_OBJECT, _HIDDEN = 0x11, 2
_DATA, _PROPERTY, _NAMES = 1, 3, 5  # numbers of sections: 0 is none
_WORD_BYTES = 8


@dataclass(frozen=True)
class _DataSection:
    """A section of the object. type, flags, align, entry_bytes, link, info: the fields of its section header."""

    name: str
    type: int
    content: bytes = b""
    flags: int = 0
    align: int = 1
    entry_bytes: int = 0
    link: int = 0
    info: int = 0


def write_data_object(pieces: Iterable[Buffer], symbol: str, section: str, align: int, arch: str, out: Path) -> None:
    """Write an object with data in a read-only section; a hidden symbol refers to the section's beginning.

    pieces: contiguous buffers, written one after the other. section: its name. align: of the section, in bytes. arch:
    aarch64 or x86_64. The object is marked to need no executable stack, and to support branch protection.
    """
    begin = -(-_HEADER.size // align) * align
    with out.open("wb") as file:
        file.write(bytes(begin))
        size = sum(file.write(piece) for piece in pieces)
        sections = [*_marks(arch), *_symbols(symbol, size, arch)]
        head = _DataSection(section, _PROGBITS, b"", _ALLOC, align)
        titles = (
            b"\0" + b"".join(data_section.name.encode() + b"\0" for data_section in (head, *sections)) + b".shstrtab\0"
        )
        rows, end = [bytes(_SECTION.size), _row(head, titles, begin, size)], begin + size
        for data_section in (*sections, _DataSection(".shstrtab", _STRTAB, titles)):
            file.write(bytes(-end % data_section.align) + data_section.content)
            end += -end % data_section.align
            rows.append(_row(data_section, titles, end, len(data_section.content)))
            end += len(data_section.content)
        file.write(bytes(-end % _WORD_BYTES) + b"".join(rows))
        file.seek(0)
        file.write(
            _HEADER.pack(
                _IDENT,
                _RELOCATABLE,
                _MACHINES[arch],
                _VERSION,
                0,
                0,
                end + -end % _WORD_BYTES,
                0,
                _HEADER.size,
                0,
                0,
                _SECTION.size,
                len(rows),
                len(rows) - 1,
            )
        )


def _marks(arch: str) -> list[_DataSection]:
    """Return the note sections that state stack and branch protection; they follow the data section."""
    return [
        _DataSection(".note.GNU-stack", _PROGBITS),
        _DataSection(".note.gnu.property", _NOTE, property_data(arch), _ALLOC, _WORD_BYTES),
    ]


def _symbols(symbol: str, size: int, arch: str) -> list[_DataSection]:
    """Return the symbol table and its string table, which follow the sections of _marks."""
    names = b"\0$d\0" + symbol.encode() + b"\0"
    # "ELF for the Arm 64-bit Architecture": a local symbol $d marks data, in contrast to code.
    marked = (_DATA, _PROPERTY) if arch == "aarch64" else ()
    table = [bytes(_SYMBOL.size), *(_SYMBOL.pack(1, 0, 0, number, 0, 0) for number in marked)]
    table.append(_SYMBOL.pack(names.index(symbol.encode(), 4), _GLOBAL_OBJECT, _HIDDEN, _DATA, 0, size))
    content = b"".join(table)
    return [
        _DataSection(".symtab", _SYMTAB, content, 0, _WORD_BYTES, _SYMBOL.size, _NAMES, info=len(table) - 1),
        _DataSection(".strtab", _STRTAB, names),
    ]


def _row(section: _DataSection, titles: bytes, begin: int, size: int) -> bytes:
    """Return a section header. titles: the section name string table. begin, size: of the contents, in bytes."""
    title = titles.index(b"\0" + section.name.encode() + b"\0") + 1
    return _SECTION.pack(
        title,
        section.type,
        section.flags,
        0,
        begin,
        size,
        section.link,
        section.info,
        section.align,
        section.entry_bytes,
    )
