"""Reads sizes, symbols and notes of ELF files, by pyelftools."""

import io
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mavcg.errors import MavcgError
from mavcg.files.decode import json_document
from mavcg.objects.elf_tables import DYNAMIC, DYNSYM, FUNCTION, NOBITS, UNDEFINED, ElfTables, read_tables

NOTE_NAME = "mavcg"
NOTE_SECTION = ".note.mavcg"
NOTE_TYPE = 1
_ALLOC = 0x2  # SHF_ALLOC
_DF_1_PIE = 0x08000000
ARCHITECTURES = {183: "aarch64", 62: "x86_64"}  # by e_machine: EM_AARCH64, EM_X86_64
_PROPERTY_TYPE = 5  # NT_GNU_PROPERTY_TYPE_0


def open_elf(path: Path) -> Any:
    """Return a file as pyelftools' ELFFile, read into memory. Raises: MavcgError if it is missing or not ELF."""
    with _reading(path) as elf:
        elf.stream.seek(0)
        return type(elf)(io.BytesIO(elf.stream.read()))


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    """Open an ELF file as a context that turns any error of pyelftools into MavcgError.

    Only the requested parts are read, because a model's weights may be most of the file.
    """
    from elftools.elf.elffile import ELFFile

    with _open_file(path) as file:
        yield ELFFile(file)


@contextmanager
def read_elf(path: Path) -> Iterator[ElfTables | None]:
    """Open an ELF file for its tables of sections and symbols; None for one that is not 64-bit and little-endian.

    Raises: MavcgError if it is missing, damaged or not ELF.
    """
    with _open_file(path) as file:
        yield read_tables(file)


@contextmanager
def _open_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file as a context that turns any error of its reader into MavcgError."""
    try:
        file = path.open("rb")
        begin = file.read(4)
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); name an ELF library or object") from error
    with file:
        try:
            file.seek(0)
            yield file
        except MavcgError:
            raise
        except Exception as error:  # pyelftools trusts its input: a wrong offset may end in any exception
            kind = "a damaged ELF file" if begin == b"\x7fELF" else "not an ELF file"
            raise MavcgError(f"{path}: {kind} ({error}); name a library that mavcg built") from error


def loaded_bytes(path: Path) -> int:
    """Return the bytes that a file adds to a program's image: allocated sections with contents, without our note."""
    with read_elf(path) as tables:
        if tables is not None:
            loaded = [s for s in tables.sections if s.flags & _ALLOC and s.kind != NOBITS and s.name != NOTE_SECTION]
            return sum(section.size for section in loaded)
    with _reading(path) as elf:
        return sum(
            s["sh_size"]
            for s in elf.iter_sections()
            if s["sh_flags"] & _ALLOC and s["sh_type"] != "SHT_NOBITS" and s.name != NOTE_SECTION
        )


def symbol_bytes(path: Path, symbol: str) -> int:
    """Return the size of a function's code, in bytes; 0 if the file does not define it."""
    return next((size for name, size in function_symbols(path) if name == symbol), 0)


def function_symbols(path: Path) -> Iterator[tuple[str, int]]:
    """Yield (name, size in bytes) of each function that the symbol table defines, local functions included."""
    with read_elf(path) as tables:
        if tables is not None:
            defined = (s for s in tables.symbols() if s.kind == FUNCTION and s.section != UNDEFINED)
            yield from [(symbol.name, symbol.size) for symbol in defined]
            return
    with _reading(path) as elf:
        for symbol in symbols_of(elf, "SHT_SYMTAB"):
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF":
                yield symbol.name, symbol["st_size"]


def symbols_of(elf: Any, *kinds: str) -> Iterator[Any]:
    """Yield the symbols of an ELFFile's tables of these kinds, as pyelftools has them; without kinds, of both."""
    for section in elf.iter_sections():
        if section["sh_type"] in (kinds or ("SHT_SYMTAB", "SHT_DYNSYM")):
            yield from section.iter_symbols()


def is_aligned(path: Path, name: str, align: int) -> bool:
    """True if an object defines a symbol at a multiple of `align` bytes."""
    with read_elf(path) as tables:
        if tables is not None:
            for symbol in tables.symbols():
                if symbol.name == name and UNDEFINED < symbol.section < len(tables.sections):
                    return symbol.value % align == 0 and tables.sections[symbol.section].align % align == 0
    return False


def undefined_symbols(path: Path) -> list[str]:
    """Return the names that the file imports, weak ones included, sorted."""
    with _reading(path) as elf:
        return sorted({s.name for s in symbols_of(elf) if s["st_shndx"] == "SHN_UNDEF" and s.name})


def exported_symbols(path: Path) -> set[str]:
    """Return the names that an object exports: global or weak, and not hidden."""
    with _reading(path) as elf:
        return {
            symbol.name
            for symbol in symbols_of(elf, "SHT_SYMTAB")
            if symbol["st_shndx"] != "SHN_UNDEF"
            and symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK")
            and symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED")
        }


def imports_of(path: Path) -> tuple[list[str], list[str]]:
    """Return the (libraries, symbols) that a shared library needs at load: DT_NEEDED and undefined dynamic symbols."""
    with read_elf(path) as tables:
        if tables is not None and not any(section.kind in (DYNAMIC, DYNSYM) for section in tables.sections):
            return [], []  # an object, in most cases
    with _reading(path) as elf:
        dynamic = (section for section in elf.iter_sections() if section["sh_type"] == "SHT_DYNAMIC")
        tags = (tag for section in dynamic for tag in section.iter_tags())
        libraries = [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"]
        symbols = symbols_of(elf, "SHT_DYNSYM")
        return libraries, sorted(s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name)


def is_static_program(path: Path) -> bool:
    """True for a program that no dynamic loader starts, at a fixed address or not."""
    with _reading(path) as elf:
        segments = [segment.header.p_type for segment in elf.iter_segments()]
        tags = [
            tag.entry
            for segment in elf.iter_segments(type="PT_DYNAMIC")
            for tag in segment.iter_tags()
            if tag.entry.d_tag == "DT_FLAGS_1"
        ]
        is_program = elf.header.e_type == "ET_EXEC" or any(entry.d_val & _DF_1_PIE for entry in tags)
        return is_program and "PT_INTERP" not in segments


def note_assembly(value: Any) -> str:
    """Return assembly of an allocated ELF note that contains a JSON document; `strip` does not remove it."""
    data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    padded = ", ".join(str(byte) for byte in data)
    return (
        f'\t.section {NOTE_SECTION},"a",@note\n\t.p2align 2\n'
        f"\t.long {len(NOTE_NAME) + 1}\n\t.long {len(data)}\n\t.long {NOTE_TYPE}\n"
        f'\t.asciz "{NOTE_NAME}"\n\t.p2align 2\n\t.byte {padded}\n\t.p2align 2\n'
        '\t.section .note.GNU-stack,"",@progbits\n'
    )


# GNU property notes: a word of bits; the linker keeps the bits that all its inputs have. Sources: "ELF for the Arm
# 64-bit Architecture", Program Property; "x86-64 psABI", Program Property.
_PROPERTIES = {
    "aarch64": (0xC0000000, {1: "BTI", 2: "PAC", 4: "GCS"}),
    "x86_64": (0xC0000002, {1: "IBT", 2: "SHSTK"}),
}


def property_note(arch: str) -> str:
    """Return assembly of the property note that states branch protection, for objects without code."""
    words = ", ".join(str(byte) for byte in property_data(arch))
    return f'\t.section .note.gnu.property,"a",@note\n\t.p2align 3\n\t.byte {words}\n'


def property_data(arch: str) -> bytes:
    """Return the note's bytes: its sizes and type, "GNU", then one property, padded to 8 bytes."""
    kind, bits = _PROPERTIES[arch]
    return struct.pack("<III4sIIII", 4, 16, _PROPERTY_TYPE, b"GNU", kind, 4, sum(bits), 0)


def protection(path: Path) -> list[str]:
    """Return the branch protection that a file states for all its code, some of: BTI, PAC, GCS; IBT, SHSTK."""
    with _reading(path) as elf:
        kind, bits = _PROPERTIES.get(_architecture(elf), (0, {}))
        marks = 0
        for section in elf.iter_sections():
            if section.name == ".note.gnu.property":
                marks = _property(section.data(), kind)
        return [name for bit, name in bits.items() if marks & bit]


def architecture(path: Path) -> str:
    """Return "aarch64" or "x86_64", "" for another architecture. Raises: MavcgError for a file that is not ELF."""
    with read_elf(path) as tables:
        if tables is not None:
            return ARCHITECTURES.get(tables.machine, "")
    return ""


def _architecture(elf: Any) -> str:
    return {"EM_AARCH64": "aarch64", "EM_X86_64": "x86_64"}.get(elf["e_machine"], "")


def _property(data: bytes, kind: int) -> int:
    """Return the value of a property in a .note.gnu.property section of a 64-bit file; 0 if it is missing."""
    at = 16  # after the note's sizes, its type and "GNU"
    while at + 12 <= len(data):
        property_kind, size, word = (int.from_bytes(data[at + i : at + i + 4], "little") for i in (0, 4, 8))
        if property_kind == kind:
            return word
        at += 8 + (size + 7) // 8 * 8
    return 0


def notes(path: Path) -> list[dict[str, Any]]:
    """Read the JSON documents of a file's mavcg notes, in link order. Raises: MavcgError for a garbled note."""
    documents: list[dict[str, Any]] = []
    where = f"{path}: its {NOTE_SECTION} is damaged"
    for data in _note_sections(path):
        at = 0
        while at + 12 <= len(data):
            name_size, size, _ = (int.from_bytes(data[at + i : at + i + 4], "little") for i in (0, 4, 8))
            start = at + 12 + (name_size + 3) // 4 * 4
            document = json_document(data[start : start + size], where, "build the library again", file_names=True)
            documents.append(document.decode(dict[str, Any]))
            at = start + (size + 3) // 4 * 4
    return documents


def _note_sections(path: Path) -> list[bytes]:
    with read_elf(path) as tables:
        if tables is not None:
            return [tables.contents(section) for section in tables.sections if section.name == NOTE_SECTION]
    with _reading(path) as elf:
        return [section.data() for section in elf.iter_sections() if section.name == NOTE_SECTION]
