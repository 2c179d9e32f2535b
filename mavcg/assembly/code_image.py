"""Assembles AArch64 text into a code image: relocated bytes at fixed addresses, and symbols; no linker runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mavcg.assembly.relocations import CALL_KINDS, GOT_KINDS, OutOfReach, apply_relocation, kind_name
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.objects.elf import open_elf
from mavcg.toolchain.zig import run_zig

# Data comes before code, so that an image whose code was rewritten keeps the addresses of its data. `adr` reaches
# 1 MiB, `bl` 128 MiB.
DATA_BASE = 0x1000_0000
CODE_ALIGN = 0x8_0000
PAGE_BYTES = 0x1000
# Addresses of functions that the image calls but does not define; no executable memory is ever mapped there.
EXTERNAL_BASE = 0x1600_0000
EXTERNAL_BYTES = 16
# Addresses of data that the image refers to but does not define; a run reads zeros or its seed's bytes there.
EXTERNAL_DATA_BASE, EXTERNAL_DATA_LIMIT = 0x2000_0000, 0x4000_0000
EXTERNAL_DATA_BYTES = 1 << 16

# Put on the text's first line, so that the assembler's messages keep their line numbers.
_ASSEMBLE_ALL = ".arch armv8.6-a+fp16+fp16fml+dotprod+i8mm+bf16+crypto+lse+rdm+rcpc+flagm;"
_WRITE, _ALLOC, _EXEC = 1, 2, 4  # SHF_*


@dataclass(frozen=True)
class Section:
    """A section of the image: its address, contents, and access."""

    name: str
    address: int
    data: bytes
    executable: bool
    writable: bool


@dataclass(frozen=True)
class CodeImage:
    """Code and data of one object file.

    symbols: name -> address of each symbol that it defines, local ones included. externals: address -> name of each
    function that it calls but does not define. external_data: the same for data.
    """

    sections: tuple[Section, ...]
    symbols: Mapping[str, int]
    externals: Mapping[int, str]
    external_data: Mapping[int, str] = field(default_factory=dict)

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of symbols in executable sections."""
        code = [range(s.address, s.address + len(s.data)) for s in self.sections if s.executable]
        return tuple(name for name, at in self.symbols.items() if any(at in section for section in code))

    def extent(self, function: str) -> range:
        """Return the addresses of a function's instructions, up to the next symbol or the end of its section."""
        start = self.symbols[function]
        ends = [s.address + len(s.data) for s in self.sections if s.address <= start < s.address + len(s.data)]
        stop = min([at for at in self.symbols.values() if at > start] + ends, default=start)
        return range(start, stop, 4)

    def location(self, address: int) -> str:
        """Return an address as text, such as "kernel+0x1c", or as a number if it is outside of the image."""
        if address in self.externals:
            return self.externals[address]
        if not any(s.address <= address < s.address + len(s.data) for s in self.sections):
            return f"{address:#x}"
        before = [(at, name) for name, at in self.symbols.items() if at <= address]
        at, name = max(before, default=(0, ""))
        return f"{name}+{address - at:#x}" if name else f"{address:#x}"


def assemble_image(text: str, name: str = "assembly text") -> CodeImage:
    """Assemble AArch64 text (ELF directives) into an image.

    A call takes 65 ms for any size, so that one call for many functions is best. name: of the text, for messages.
    Raises: ToolError with the assembler's message; MavcgError for a relocation that needs a linker.
    """
    with scratch_folder("mavcg-image-") as folder:
        source, out = Path(folder) / "image.s", Path(folder) / "image.o"
        source.write_text(_ASSEMBLE_ALL + text, encoding="utf-8", errors="surrogateescape")
        arguments = ["-target", "aarch64-linux-gnu.2.17", "-g0", "-c", source.name, "-o", out.name]
        run_zig("cc", arguments, f"assembling {name}", cwd=Path(folder))
        return read_image(out, name)


def read_image(path: Path, name: str) -> CodeImage:
    """Return the image of an AArch64 object file; name: of the file, for messages.

    Raises: MavcgError if it is not such a file, is damaged, or needs a linker.
    """
    elf = open_elf(path)
    if elf["e_machine"] != "EM_AARCH64" or elf["e_type"] != "ET_REL":
        raise MavcgError(f"{name}: not an AArch64 object file; assemble it for AArch64")
    try:
        return _image_of(elf, name)
    except MavcgError:
        raise
    except Exception as error:  # pyelftools trusts its input: a wrong offset may end in any exception
        raise MavcgError(f"{name}: a damaged ELF file ({error}); build it again") from error


def _image_of(elf: Any, name: str) -> CodeImage:
    """Lay out an object's sections and apply its relocations. Raises: as read_image."""
    bases = _lay_out(elf)
    symbols = _Symbols(elf, bases)
    data = {index: _contents(elf.get_section(index)) for index in bases}
    for section in elf.iter_sections():
        if section["sh_type"] == "SHT_RELA" and section["sh_info"] in bases:
            target = section["sh_info"]
            for relocation in section.iter_relocations():
                location = f"{name}: {elf.get_section(target).name}+{relocation['r_offset']:#x}"
                _relocate(relocation, data[target], bases[target], symbols, location)
    sections = [
        Section(s.name, bases[i], bytes(data[i]), bool(s["sh_flags"] & _EXEC), bool(s["sh_flags"] & _WRITE))
        for i, s in ((i, elf.get_section(i)) for i in bases)
    ]
    if symbols.got:
        entries = b"".join(int(symbols.addresses[number] or 0).to_bytes(8, "little") for number in symbols.got)
        sections.append(Section(".got", symbols.got_base, entries, False, False))
    externals = {at: symbol for symbol, at in symbols.externals.items()}
    external_data = {at: symbol for symbol, at in symbols.external_data.items()}
    return CodeImage(
        tuple(sections),
        MappingProxyType(symbols.definitions()),
        MappingProxyType(externals),
        MappingProxyType(external_data),
    )


def _relocate(relocation: Any, data: bytearray, base: int, symbols: "_Symbols", location: str) -> None:
    """Apply one relocation to the contents of a section at address `base`."""
    kind, number, offset = relocation["r_info_type"], relocation["r_info_sym"], relocation["r_offset"]
    symbol = symbols.name(number)
    value = symbols.address(number, kind, location) + relocation["r_addend"]
    try:
        apply_relocation(kind, data, offset, value, base + offset)
    except KeyError:
        raise MavcgError(
            f"{location}: relocation {kind_name(kind)} against '{symbol}' needs a linker; only code and data of one"
            " module can be emulated"
        ) from None
    except OutOfReach:
        raise MavcgError(f"{location}: '{symbol}' is out of reach of {kind_name(kind)}; give smaller pieces") from None


class _Symbols:
    """The symbols of an object, and the addresses given to them; undefined ones get an address on first use.

    addresses: by symbol number; None for an undefined symbol. externals: undefined function -> its address.
    external_data: undefined data -> its address. got: symbol number -> address of its entry in the global offset table.
    """

    def __init__(self, elf: Any, bases: Mapping[int, int]) -> None:
        """bases: section number -> its address."""
        self._elf = elf
        table = elf.get_section_by_name(".symtab")
        self._symbols = list(table.iter_symbols()) if table is not None else []
        self.addresses = [_address(symbol, bases) for symbol in self._symbols]
        self.externals: dict[str, int] = {}
        self.external_data: dict[str, int] = {}
        self.got: dict[int, int] = {}
        self.got_base = _end(elf, bases)

    def name(self, number: int) -> str:
        """Return a symbol's name, or its section's for a local label without a name."""
        symbol = self._symbols[number]
        index = symbol["st_shndx"]
        return symbol.name or (str(self._elf.get_section(index).name) if isinstance(index, int) else "?")

    def address(self, number: int, kind: int, location: str) -> int:
        """Return the address that a relocation of this kind refers to: the symbol's, or that of its GOT entry."""
        address = self.addresses[number]
        if address is None and kind in CALL_KINDS:
            next_function = EXTERNAL_BASE + len(self.externals) * EXTERNAL_BYTES
            address = self.externals.setdefault(self._symbols[number].name, next_function)
        if address is None:
            next_data = EXTERNAL_DATA_BASE + len(self.external_data) * EXTERNAL_DATA_BYTES
            name = self.name(number)
            address = self.addresses[number] = self.external_data.setdefault(name, next_data)
            if next_data >= EXTERNAL_DATA_LIMIT:
                raise MavcgError(f"{location}: refers to '{name}', beyond the limit of names defined elsewhere")
        if kind in GOT_KINDS:
            address = self.got.setdefault(number, self.got_base + 8 * len(self.got))
        return address

    def definitions(self) -> dict[str, int]:
        """Return defined symbol -> its address, without sections, files and the assembler's mapping symbols."""
        return {
            symbol.name: at
            for symbol, at in zip(self._symbols, self.addresses, strict=True)
            if at is not None
            and symbol.name[:1] not in ("", "$")
            and symbol.name not in self.external_data
            and symbol["st_info"]["type"] not in ("STT_FILE", "STT_SECTION")
        }


def _lay_out(elf: Any) -> dict[int, int]:
    """Return section number -> address for all sections that are loaded; no two share a page."""
    loaded = [
        (bool(s["sh_flags"] & _EXEC), s.name, index)
        for index, s in enumerate(elf.iter_sections())
        # Unwind tables change with the code, and no emulated code reads them.
        if s["sh_flags"] & _ALLOC and s["sh_size"] and s.name != ".eh_frame" and s["sh_type"] != "SHT_NOTE"
    ]
    places = {}
    at, in_code = DATA_BASE, False
    for is_code, _, index in sorted(loaded):
        if is_code and not in_code:
            at, in_code = _align(at + 1, CODE_ALIGN), True
        align = max(elf.get_section(index)["sh_addralign"], PAGE_BYTES)
        places[index] = at = _align(at, align)
        at += elf.get_section(index)["sh_size"]
    return places


def _end(elf: Any, places: Mapping[int, int]) -> int:
    """Return the first free page after all sections."""
    return _align(max((at + elf.get_section(i)["sh_size"] for i, at in places.items()), default=DATA_BASE), PAGE_BYTES)


def _align(value: int, align: int) -> int:
    return -(-value // align) * align


def _contents(section: Any) -> bytearray:
    return bytearray(section["sh_size"] if section["sh_type"] == "SHT_NOBITS" else section.data())


def _address(symbol: Any, places: Mapping[int, int]) -> int | None:
    """Return a symbol's address; None if it is undefined, common, or in a section that is not loaded."""
    index = symbol["st_shndx"]
    if index == "SHN_ABS":
        return int(symbol["st_value"])
    return places[index] + int(symbol["st_value"]) if index in places else None
