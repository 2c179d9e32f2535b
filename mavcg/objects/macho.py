"""Reads sizes, symbols and notes of 64-bit Mach-O objects and dylibs, as mavcg.objects.elf does for ELF.

Layout: <mach-o/loader.h> and <mach-o/nlist.h> of macOS; only little-endian 64-bit files are read.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.decode import json_document

MAGIC = b"\xcf\xfa\xed\xfe"  # MH_MAGIC_64
NOTE_SECTION = "__mavcg"
_ARM64 = b"\x0c\x00\x00\x01"
_SEGMENT_64, _SYMTAB = 0x19, 0x2
_LOAD_DYLIB, _ID_DYLIB, _DYLD_INFO_ONLY, _CODE_SIGNATURE = 0xC, 0xD, 0x80000022, 0x1D
_ZEROFILL_TYPES = (0x1, 0xC)  # S_ZEROFILL, S_GB_ZEROFILL
_DEBUG = 0x02000000  # S_ATTR_DEBUG
_DEFINED_IN_SECTION, _TYPE_MASK, _STAB = 0xE, 0xE, 0xE0  # N_SECT, N_TYPE, N_STAB


@dataclass(frozen=True)
class MachOSection:
    """A section. address, size: in bytes. flags: as section_64.flags. data: its contents, b"" for zero-filled ones."""

    name: str
    address: int
    size: int
    flags: int
    data: bytes


def is_macho(path: Path) -> bool:
    """True if the file begins as a 64-bit Mach-O file."""
    try:
        with path.open("rb") as file:
            return file.read(4) == MAGIC
    except OSError:
        return False


def is_arm(path: Path) -> bool:
    """True if a Mach-O file holds code for AArch64 (CPU_TYPE_ARM64)."""
    return bool(path.read_bytes()[4:8] == _ARM64)


def _commands(path: Path) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (command, its bytes, the whole file) for each load command. Raises: MavcgError for a truncated file."""
    data = path.read_bytes()
    try:
        count = struct.unpack_from("<I", data, 16)[0]
        at = 32
        for _ in range(count):
            command, size = struct.unpack_from("<II", data, at)
            if size < 8:
                raise struct.error("a load command without length")
            yield command, data[at : at + size], data
            at += size
    except struct.error as error:
        raise MavcgError(f"{path}: a damaged Mach-O file ({error}); build it again") from error


def sections(path: Path) -> list[MachOSection]:
    """Return all sections of the file, in order."""
    all_sections = []
    for command, body, data in _commands(path):
        if command == _SEGMENT_64:
            for number in range(struct.unpack_from("<I", body, 64)[0]):
                name, _, address, size, offset, _, _, _, flags = struct.unpack_from(
                    "<16s16sQQIIIII", body, 72 + 80 * number
                )
                contents = b"" if flags & 0xFF in _ZEROFILL_TYPES else data[offset : offset + size]
                all_sections.append(MachOSection(name.rstrip(b"\0").decode(), address, size, flags, contents))
    return all_sections


def loaded_bytes(path: Path) -> int:
    """Return the bytes that an object adds to a program: sections with contents, but no debug section or note."""
    return sum(
        s.size
        for s in sections(path)
        if s.flags & 0xFF not in _ZEROFILL_TYPES and not s.flags & _DEBUG and s.name != NOTE_SECTION
    )


def symbol_bytes(path: Path, symbol: str) -> int:
    """Return the bytes of a function's code, up to the next symbol or the end of its section; 0 if it is undefined."""
    defined = _defined_symbols(path)
    definition = next(((address, section) for name, address, section in defined if name == "_" + symbol), None)
    if definition is None:
        return 0
    address, number = definition
    section = sections(path)[number - 1]
    ends = [a for _, a, s in defined if s == number and a > address]
    return min([*ends, section.address + section.size]) - address


def _defined_symbols(path: Path) -> list[tuple[str, int, int]]:
    """Return (name, address, section number from 1) for each symbol in a section, without assembler-local ones."""
    symbols = []
    for command, body, data in _commands(path):
        if command == _SYMTAB:
            start, count, names, _ = struct.unpack_from("<IIII", body, 8)
            for number in range(count):
                name_at, kind, section, _, address = struct.unpack_from("<IBBHQ", data, start + 16 * number)
                name = data[names + name_at : data.index(b"\0", names + name_at)].decode(errors="replace")
                if not kind & _STAB and kind & _TYPE_MASK == _DEFINED_IN_SECTION and not name.startswith(("L", "l")):
                    symbols.append((name, address, section))
    return symbols


def undefined_symbols(path: Path) -> list[str]:
    """Return the names that the file imports, without the leading underscore, sorted."""
    undefined = set()
    for command, body, data in _commands(path):
        if command == _SYMTAB:
            start, count, names, _ = struct.unpack_from("<IIII", body, 8)
            for number in range(count):
                name_at, kind, _, _, _ = struct.unpack_from("<IBBHQ", data, start + 16 * number)
                if not kind & _STAB and kind & _TYPE_MASK == 0 and kind & 1:  # N_UNDF, external
                    name = data[names + name_at : data.index(b"\0", names + name_at)].decode(errors="replace")
                    undefined.add(name.removeprefix("_"))
    return sorted(undefined)


def install_name(path: Path) -> str | None:
    """Return the install name, by which programs linked with this dylib load it; None for an object."""
    return next((_dylib_name(body) for command, body, _ in _commands(path) if command == _ID_DYLIB), None)


def libraries(path: Path) -> list[str]:
    """Return the install names of the dylibs that the file needs at load."""
    return [_dylib_name(body) for command, body, _ in _commands(path) if command == _LOAD_DYLIB]


def is_signed(path: Path) -> bool:
    """True if the file has a code signature, which arm64 Macs require."""
    return any(command == _CODE_SIGNATURE for command, _, _ in _commands(path))


def exports(path: Path) -> list[str]:
    """Return the names that a dylib exports, from dyld's export trie, without the leading underscore, sorted.

    Raises: MavcgError for a garbled trie.
    """
    for command, body, data in _commands(path):
        if command == _DYLD_INFO_ONLY:
            start, size = struct.unpack_from("<II", body, 40)
            try:
                return sorted(name.removeprefix("_") for name in trie_names(data[start : start + size]))
            except (IndexError, ValueError) as error:
                raise MavcgError(f"{path}: a damaged Mach-O file (its exports); build it again") from error
    return []


def _dylib_name(body: bytes) -> str:
    at = struct.unpack_from("<I", body, 8)[0]
    return body[at:].split(b"\0", 1)[0].decode(errors="replace")


def trie_names(trie: bytes) -> Iterator[str]:
    """Yield the names of the terminal nodes of an export trie.

    A node has the ULEB128 size of its data, the data, a count of edges, and for each edge its text and the ULEB128
    offset of its target node.
    """
    waiting, seen = [("", 0)] if trie else [], set()
    while waiting:
        prefix, at = waiting.pop()
        if at in seen:
            raise ValueError("a cycle")
        seen.add(at)
        own, at = _uleb128(trie, at)
        if own:
            yield prefix
        at += own
        count, at = trie[at], at + 1
        for _ in range(count):
            end = trie.index(b"\0", at)
            label = trie[at:end].decode(errors="replace")
            target, at = _uleb128(trie, end + 1)
            waiting.append((prefix + label, target))


def _uleb128(data: bytes, at: int) -> tuple[int, int]:
    """Decode a ULEB128 number; return (value, offset after it)."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at


def note_assembly(value: Any) -> str:
    """Return assembly of a note section: the length of a JSON document, then the document.

    The linker concatenates the notes of all objects.
    """
    data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    bytes_ = ", ".join(str(byte) for byte in data)
    return (
        f"\t.section __TEXT,{NOTE_SECTION},regular,no_dead_strip\n\t.p2align 2\n"
        f"\t.long {len(data)}\n\t.byte {bytes_}\n\t.p2align 2\n"
    )


def notes(path: Path) -> list[dict[str, Any]]:
    """Read the JSON documents of a file's mavcg notes. Raises: MavcgError for a garbled note."""
    documents = []
    for section in sections(path):
        at = 0
        while section.name == NOTE_SECTION and at + 4 <= len(section.data):
            size = int.from_bytes(section.data[at : at + 4], "little")
            where = f"{path}: its {NOTE_SECTION} is damaged"
            document = json_document(section.data[at + 4 : at + 4 + size], where, "build it again", file_names=True)
            documents.append(document.decode(dict[str, Any]))
            at += 4 + (size + 3) // 4 * 4
    return documents
