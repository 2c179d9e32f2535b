"""Writes object files that hold data alone, as ELF relocatable files, without an assembler in between.

An assembler reads the data, keeps a copy and writes it again: of a model's weights that is most of its time.
Layouts and numbers: System V ABI, "Object Files".
"""

import struct
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
_DATA_MARK = "$d"


@dataclass(frozen=True)
class _Section:
    """A section, its content apart. flags, align, entry_bytes, link, info: as its row of the table has them."""

    name: str
    type: int
    flags: int = 0
    align: int = 1
    entry_bytes: int = 0
    link: int = 0
    info: int = 0


def write_data_object(content: Buffer, symbol: str, section: str, align: int, arch: str, out: Path) -> None:
    """Write an object with these bytes in a read-only section of their own, from its beginning, under a hidden symbol.

    content: a contiguous buffer. align: of the section, in bytes. arch: aarch64 or x86_64. The object is marked as one
    that needs no executable stack, and that has nothing without branch protection.
    """
    data = memoryview(content).cast("B")
    names = b"\0" + symbol.encode() + b"\0" + _DATA_MARK.encode() + b"\0"
    # "ELF for the Arm 64-bit Architecture" marks where a section has data, and not code, by local symbols.
    marked = (1, 3) if arch == "aarch64" else ()
    marks = [_SYMBOL.pack(names.index(_DATA_MARK.encode()), 0, 0, number, 0, 0) for number in marked]
    symbols = [bytes(_SYMBOL.size), *marks, _SYMBOL.pack(1, _GLOBAL_OBJECT, _HIDDEN, 1, 0, data.nbytes)]
    sections: list[tuple[_Section, Buffer]] = [
        (_Section(section, _PROGBITS, _ALLOC, align), data),
        (_Section(".note.GNU-stack", _PROGBITS), b""),
        (_Section(".note.gnu.property", _NOTE, _ALLOC, 8), property_data(arch)),
        (_Section(".symtab", _SYMTAB, 0, 8, _SYMBOL.size, link=5, info=len(symbols) - 1), b"".join(symbols)),
        (_Section(".strtab", _STRTAB), names),
    ]
    titles = b"\0" + b"".join(each.name.encode() + b"\0" for each, _ in sections) + b".shstrtab\0"
    sections.append((_Section(".shstrtab", _STRTAB), titles))
    rows, end = [bytes(_SECTION.size)], _HEADER.size
    with out.open("wb") as file:
        file.write(bytes(_HEADER.size))
        for each, part in sections:
            file.write(bytes(-end % each.align))
            begin = end + -end % each.align
            file.write(part)
            end = begin + len(part)
            rows.append(
                _SECTION.pack(
                    titles.index(b"\0" + each.name.encode() + b"\0") + 1, each.type, each.flags, 0, begin, len(part),
                    each.link, each.info, each.align, each.entry_bytes,
                )
            )  # fmt: skip
        file.write(bytes(-end % 8) + b"".join(rows))
        file.seek(0)
        file.write(
            _HEADER.pack(
                _IDENT, _RELOCATABLE, _MACHINES[arch], _VERSION, 0, 0, end + -end % 8, 0, _HEADER.size, 0, 0,
                _SECTION.size, len(rows), len(rows) - 1,
            )
        )  # fmt: skip
