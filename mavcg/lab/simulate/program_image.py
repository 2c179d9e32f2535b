"""A linked AArch64 library or program as a code image: its segments at their addresses, relocated for the emulator.

Each function imported from another library gets an address of its own in a reserved range; imported data is zeroed.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mavcg.assembly.code_image import (
    EXTERNAL_BASE,
    EXTERNAL_BYTES,
    EXTERNAL_DATA_BASE,
    EXTERNAL_DATA_BYTES,
    PAGE_BYTES,
    CodeImage,
    Section,
    read_image,
)
from mavcg.errors import MavcgError
from mavcg.objects.elf import open_elf

LIBRARY_BASE = 0x1_0000_0000  # above the external functions and the link addresses of executables
LARGEST_IMAGE = 1 << 30  # bytes
_EXECUTE, _WRITE = 1, 2  # PF_*
_ABS64, _GLOB_DAT, _JUMP_SLOT, _RELATIVE, _TPREL, _TLSDESC, _IRELATIVE = 257, 1025, 1026, 1027, 1030, 1031, 1032


def read_program(path: Path, weak_data: Collection[str] = ()) -> CodeImage:
    """Return the code image of an AArch64 ELF file: an object, a shared library, or a program.

    weak_data: names of weak data symbols that are given memory here; other weak data symbols resolve to address 0.
    Raises: MavcgError for another kind of file, a damaged file, and an unsupported relocation.
    """
    elf = open_elf(path)
    if elf["e_machine"] != "EM_AARCH64" or not elf.little_endian:
        raise MavcgError(f"{path}: holds no little-endian AArch64 code; name such an object, library or program")
    if elf["e_type"] == "ET_REL":
        return read_image(path, str(path))
    try:
        return _link_image(elf, path, weak_data)
    except MavcgError:
        raise
    except Exception as error:  # pyelftools does not validate its input: a wrong offset may raise any exception
        raise MavcgError(f"{path}: a damaged ELF file ({error}); build it again") from error


def constructors(path: Path) -> tuple[int, ...]:
    """Return the addresses of the constructors in a library's .init_array. Raises: as `read_program`."""
    image, elf = read_program(path), open_elf(path)
    array = elf.get_section_by_name(".init_array")
    if array is None:
        return ()
    start = array["sh_addr"] + (LIBRARY_BASE if elf["e_type"] == "ET_DYN" else 0)
    size = array["sh_size"] // 8 * 8
    for section in image.sections:
        if section.address <= start and start + size <= section.address + len(section.data):
            words = section.data[start - section.address :][:size]
            addresses = [int.from_bytes(words[at : at + 8], "little") for at in range(0, size, 8)]
            return tuple(address for address in addresses if address not in (0, (1 << 64) - 1))
    return ()


def _link_image(elf: Any, path: Path, weak_data: Collection[str]) -> CodeImage:
    base = LIBRARY_BASE if elf["e_type"] == "ET_DYN" else 0
    segments = [segment for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD" and segment["p_memsz"]]
    if not segments:
        raise MavcgError(f"{path}: has no segments to load; link it again")
    first = min(s["p_vaddr"] for s in segments) // PAGE_BYTES * PAGE_BYTES
    end = max(s["p_vaddr"] + s["p_memsz"] for s in segments)
    if end - first > LARGEST_IMAGE:
        raise MavcgError(f"{path}: {end - first} bytes to load; the simulator takes {LARGEST_IMAGE}")
    memory = bytearray(-(-(end - first) // PAGE_BYTES) * PAGE_BYTES)
    flags = bytearray(len(memory) // PAGE_BYTES)
    for segment in segments:
        at = segment["p_vaddr"] - first
        data = segment.data()
        if len(data) > segment["p_memsz"]:
            raise MavcgError(f"{path}: a damaged ELF file (a segment has more bytes than room); build it again")
        memory[at : at + len(data)] = data
        for page in range(at // PAGE_BYTES, (at + segment["p_memsz"] - 1) // PAGE_BYTES + 1):
            flags[page] |= segment["p_flags"]
    externals, data_names = _relocate(elf, path, memory, first, base, weak_data)
    sections, start = [], 0
    for page in range(1, len(flags) + 1):
        if page == len(flags) or flags[page] != flags[start]:
            content = bytes(memory[start * PAGE_BYTES : page * PAGE_BYTES])
            address = base + first + start * PAGE_BYTES
            kind = flags[start]
            if kind:
                sections.append(Section("segment", address, content, bool(kind & _EXECUTE), bool(kind & _WRITE)))
            start = page
    return CodeImage(tuple(sections), MappingProxyType(_symbols(elf, base)), MappingProxyType(externals), data_names)


def _symbols(elf: Any, base: int) -> dict[str, int]:
    addresses: dict[str, int] = {}
    for name in (".dynsym", ".symtab"):
        table = elf.get_section_by_name(name)
        for symbol in table.iter_symbols() if table is not None else ():
            if isinstance(symbol["st_shndx"], int) and symbol.name[:1] not in ("", "$"):
                if symbol["st_info"]["type"] in ("STT_FUNC", "STT_NOTYPE", "STT_OBJECT", "STT_LOOS"):
                    addresses[symbol.name] = base + symbol["st_value"]
    return addresses


def _relocate(
    elf: Any, path: Path, memory: bytearray, first: int, base: int, weak_data: Collection[str]
) -> tuple[dict[int, str], Mapping[int, str]]:
    """Apply the dynamic relocations to the memory; return imported functions and imported data: names by address."""
    externals: dict[str, int] = {}
    data: dict[str, int] = {}
    for section in elf.iter_sections():
        if section["sh_type"] != "SHT_RELA" or not section["sh_flags"] & 2:
            continue
        symbols = elf.get_section(section["sh_link"])
        for relocation in section.iter_relocations():
            kind, addend = relocation["r_info_type"], relocation["r_addend"]
            if kind == _RELATIVE:
                value = base + addend
            elif kind in (_ABS64, _GLOB_DAT, _JUMP_SLOT):
                symbol = symbols.get_symbol(relocation["r_info_sym"])
                value = _address(symbol, base, externals, data, weak_data) + addend
            elif kind in (_TPREL, _TLSDESC, _IRELATIVE):
                value = 0  # thread-local variable or indirect function: code that uses it ends at address 0
            else:
                raise MavcgError(f"{path}: relocation of type {kind} is not known; link the library in another way")
            at = relocation["r_offset"] - first
            if not 0 <= at <= len(memory) - 8:
                raise MavcgError(f"{path}: a damaged ELF file (a relocation is outside of it); build it again")
            memory[at : at + 8] = (value % (1 << 64)).to_bytes(8, "little")
    return {at: name for name, at in externals.items()}, MappingProxyType({at: name for name, at in data.items()})


def _address(
    symbol: Any, base: int, externals: dict[str, int], data: dict[str, int], weak_data: Collection[str]
) -> int:
    if isinstance(symbol["st_shndx"], int):
        return base + int(symbol["st_value"])
    kind = symbol["st_info"]["type"]
    if symbol["st_info"]["bind"] == "STB_WEAK" and kind != "STT_FUNC" and symbol.name not in weak_data:
        return 0
    if kind == "STT_OBJECT" or symbol.name in weak_data:
        return data.setdefault(symbol.name, EXTERNAL_DATA_BASE + len(data) * EXTERNAL_DATA_BYTES)
    return externals.setdefault(symbol.name, EXTERNAL_BASE + len(externals) * EXTERNAL_BYTES)
