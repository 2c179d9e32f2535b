"""AArch64 assembly text -> a code image: bytes at fixed addresses, relocated, with its symbols; nothing is linked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.objects.elf import open_elf
from mavcg.toolchain.zig import run_zig

# Data before code, the code where its size moves no data: an image whose code was rewritten keeps its data's addresses.
# `adr` reaches 1 MiB, `bl` 128 MiB.
DATA_BASE = 0x1000_0000
CODE_ALIGN = 0x8_0000
PAGE_BYTES = 0x1000
# One address for each function that the image calls and does not define: nothing is ever mapped there to be executed.
EXTERNAL_BASE = 0x1600_0000
EXTERNAL_BYTES = 16
# One for each piece of data that it refers to and does not define: a run finds zeroes or its seed's bytes there.
EXTERNAL_DATA_BASE, EXTERNAL_DATA_LIMIT = 0x2000_0000, 0x4000_0000
EXTERNAL_DATA_BYTES = 1 << 16

# On the text's own first line: the assembler's messages keep their line numbers.
_ASSEMBLE_ALL = ".arch armv8.6-a+fp16+fp16fml+dotprod+i8mm+bf16+crypto+lse+rdm+rcpc+flagm;"
_WRITE, _ALLOC, _EXEC = 1, 2, 4  # SHF_*
_LDST128_ABS_LO12_NC = 299  # pyelftools' list lacks it


@dataclass(frozen=True)
class Section:
    name: str
    address: int
    data: bytes
    executable: bool
    writable: bool


@dataclass(frozen=True)
class CodeImage:
    """Code and data of one object file.

    symbols: name -> address of all that it defines, local ones too. externals: address -> name of the functions that
    it calls and does not define; external_data: of the data that it refers to and does not define.
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
        """Return the addresses of a function's instructions: up to the next symbol of its section, or the section's
        end."""
        start = self.symbols[function]
        ends = [s.address + len(s.data) for s in self.sections if s.address <= start < s.address + len(s.data)]
        stop = min([at for at in self.symbols.values() if at > start] + ends, default=start)
        return range(start, stop, 4)

    def location(self, address: int) -> str:
        """Return an address in words: "kernel+0x1c"; the bare address where it lies outside of the image."""
        if address in self.externals:
            return self.externals[address]
        if not any(s.address <= address < s.address + len(s.data) for s in self.sections):
            return f"{address:#x}"
        before = [(at, name) for name, at in self.symbols.items() if at <= address]
        at, name = max(before, default=(0, ""))
        return f"{name}+{address - at:#x}" if name else f"{address:#x}"


def assemble_image(text: str, what: str = "assembly text") -> CodeImage:
    """Assemble AArch64 text (ELF directives) into an image; 65 ms whatever its size, so give it many functions at once.

    what: the text in words, for error messages. Raises: ToolError with the assembler's message; MavcgError for what
    only a linker can place.
    """
    with scratch_folder("mavcg-image-") as folder:
        source, out = Path(folder) / "image.s", Path(folder) / "image.o"
        source.write_text(_ASSEMBLE_ALL + text, encoding="utf-8", errors="surrogateescape")
        arguments = ["-target", "aarch64-linux-gnu.2.17", "-g0", "-c", source.name, "-o", out.name]
        run_zig("cc", arguments, f"assembling {what}", cwd=Path(folder))
        return read_image(out, what)


def read_image(path: Path, what: str) -> CodeImage:
    """Return the image of an AArch64 object file. Raises: MavcgError where it is none or needs a linker."""
    elf = open_elf(path)
    if elf["e_machine"] != "EM_AARCH64" or elf["e_type"] != "ET_REL":
        raise MavcgError(f"{what}: not an AArch64 object file; assemble it for AArch64")
    try:
        return _image_of(elf, what)
    except MavcgError:
        raise
    except Exception as error:  # pyelftools trusts its input: a wrong offset may end in any exception
        raise MavcgError(f"{what}: a damaged ELF file ({error}); build it again") from error


def _image_of(elf: Any, what: str) -> CodeImage:
    """Lay an object's sections out and apply its relocations. Raises: as read_image."""
    places = _lay_out(elf)
    table = elf.get_section_by_name(".symtab")
    symbols = list(table.iter_symbols()) if table is not None else []
    addresses = [_address(symbol, places) for symbol in symbols]
    externals: dict[str, int] = {}
    external_data: dict[str, int] = {}
    got: dict[int, int] = {}  # symbol number -> its entry's address
    got_base = _end(elf, places)
    data = {index: _contents(elf.get_section(index)) for index in places}
    for section in elf.iter_sections():
        if section["sh_type"] != "SHT_RELA" or section["sh_info"] not in places:
            continue
        target = section["sh_info"]
        for relocation in section.iter_relocations():
            kind, number = relocation["r_info_type"], relocation["r_info_sym"]
            address, symbol = addresses[number], symbols[number]
            where = f"{what}: {elf.get_section(target).name}+{relocation['r_offset']:#x}"
            name = symbol.name or _section_name(elf, symbol)
            if address is None and kind in _CALLS:
                next_free = EXTERNAL_BASE + len(externals) * EXTERNAL_BYTES
                address = externals.setdefault(symbol.name, next_free)
            patch_address = places[target] + relocation["r_offset"]
            if address is None:
                next_data = EXTERNAL_DATA_BASE + len(external_data) * EXTERNAL_DATA_BYTES
                address = addresses[number] = external_data.setdefault(name, next_data)
                if next_data >= EXTERNAL_DATA_LIMIT:
                    raise MavcgError(f"{where}: refers to '{name}', one of too many names that are not in this text")
            if kind in _GOT:
                address = got.setdefault(number, got_base + 8 * len(got))
            value = address + relocation["r_addend"]
            try:
                _RELOCATIONS[kind](data[target], relocation["r_offset"], value, patch_address)
            except KeyError:
                raise MavcgError(
                    f"{where}: relocation {_kind_name(kind)} against '{name}' needs a linker; only code and data of one"
                    " module can be emulated"
                ) from None
            except _OutOfReach:
                raise MavcgError(
                    f"{where}: '{name}' is out of reach of {_kind_name(kind)}; give smaller pieces"
                ) from None
    sections = [
        Section(s.name, places[i], bytes(data[i]), bool(s["sh_flags"] & _EXEC), bool(s["sh_flags"] & _WRITE))
        for i, s in ((i, elf.get_section(i)) for i in places)
    ]
    if got:
        entries = b"".join(int(addresses[number] or 0).to_bytes(8, "little") for number in got)
        sections.append(Section(".got", got_base, entries, False, False))
    defined = {
        s.name: at
        for s, at in zip(symbols, addresses, strict=True)
        if at is not None
        and s.name[:1] not in ("", "$")
        and s.name not in external_data
        and s["st_info"]["type"] not in ("STT_FILE", "STT_SECTION")
    }
    named = {at: name for name, at in externals.items()}
    data_names = {at: name for name, at in external_data.items()}
    return CodeImage(tuple(sections), MappingProxyType(defined), MappingProxyType(named), MappingProxyType(data_names))


class _OutOfReach(Exception):
    pass


def _lay_out(elf: Any) -> dict[int, int]:
    """Return section number -> address, of all sections that are loaded; each on pages of its own."""
    loaded = [
        (bool(s["sh_flags"] & _EXEC), s.name, index)
        for index, s in enumerate(elf.iter_sections())
        # Unwind tables change with the code and are read by nothing that runs here.
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
    """Return a symbol's address; None for one defined elsewhere, in a section that is not loaded, or common."""
    index = symbol["st_shndx"]
    if index == "SHN_ABS":
        return int(symbol["st_value"])
    return places[index] + int(symbol["st_value"]) if index in places else None


def _section_name(elf: Any, symbol: Any) -> str:
    """Return the name of a symbol's section, by which alone local labels are known."""
    index = symbol["st_shndx"]
    return str(elf.get_section(index).name) if isinstance(index, int) else "?"


def _kind_name(kind: int) -> str:
    from elftools.elf.enums import ENUM_RELOC_TYPE_AARCH64

    return next((name for name, number in ENUM_RELOC_TYPE_AARCH64.items() if number == kind), f"type {kind}")


# A relocation writes `value` (symbol + addend), for some kinds relative to `patch_address`, into the bytes at `offset`.
_Write = Callable[[bytearray, int, int, int], None]


def _word(size: int, relative: bool) -> _Write:
    def write(data: bytearray, offset: int, value: int, patch_address: int) -> None:
        value -= patch_address if relative else 0
        if not -(1 << 8 * size - 1) <= value < 1 << 8 * size:
            raise _OutOfReach
        data[offset : offset + size] = (value % (1 << 8 * size)).to_bytes(size, "little")

    return write


def _field(data: bytearray, offset: int, bits: int, at: int, value: int) -> None:
    """Set a field of the instruction at `offset`: `bits` bits from bit `at` on."""
    word = int.from_bytes(data[offset : offset + 4], "little")
    mask = ((1 << bits) - 1) << at
    data[offset : offset + 4] = (word & ~mask | value << at & mask).to_bytes(4, "little")


def _branch(bits: int, at: int) -> _Write:
    def write(data: bytearray, offset: int, value: int, patch_address: int) -> None:
        distance = value - patch_address
        if distance % 4 or not -(1 << bits - 1) <= distance >> 2 < 1 << bits - 1:
            raise _OutOfReach
        _field(data, offset, bits, at, distance >> 2)

    return write


def _adr(page: bool) -> _Write:
    def write(data: bytearray, offset: int, value: int, patch_address: int) -> None:
        distance = (value >> 12) - (patch_address >> 12) if page else value - patch_address
        if not -(1 << 20) <= distance < 1 << 20:
            raise _OutOfReach
        _field(data, offset, 2, 29, distance & 3)
        _field(data, offset, 19, 5, distance >> 2)

    return write


def _low12(shift: int) -> _Write:
    def write(data: bytearray, offset: int, value: int, patch_address: int) -> None:
        low = value & 0xFFF
        if low % (1 << shift):
            raise _OutOfReach  # the instruction cannot say this address
        _field(data, offset, 12, 10, low >> shift)

    return write


def _mov(part: int) -> _Write:
    def write(data: bytearray, offset: int, value: int, patch_address: int) -> None:
        _field(data, offset, 16, 5, value >> 16 * part & 0xFFFF)

    return write


# Numbers: "ELF for the Arm 64-bit Architecture (AArch64)", ARM IHI 0056, section 5.7 (relocations).
_CALLS = {282, 283}  # JUMP26, CALL26
_GOT = {311, 312}  # ADR_GOT_PAGE, LD64_GOT_LO12_NC
_RELOCATIONS: dict[int, _Write] = {
    257: _word(8, False),  # ABS64
    258: _word(4, False),  # ABS32
    260: _word(8, True),  # PREL64
    261: _word(4, True),  # PREL32
    262: _word(2, True),  # PREL16
    **{263 + number: _mov(number // 2) for number in range(7)},  # MOVW_UABS_G0, G0_NC, ... G3
    273: _branch(19, 5),  # LD_PREL_LO19
    274: _adr(page=False),  # ADR_PREL_LO21
    275: _adr(page=True),  # ADR_PREL_PG_HI21
    276: _adr(page=True),  # ADR_PREL_PG_HI21_NC
    277: _low12(0),  # ADD_ABS_LO12_NC
    278: _low12(0),  # LDST8_ABS_LO12_NC
    279: _branch(14, 5),  # TSTBR14
    280: _branch(19, 5),  # CONDBR19
    282: _branch(26, 0),  # JUMP26
    283: _branch(26, 0),  # CALL26
    284: _low12(1),  # LDST16_ABS_LO12_NC
    285: _low12(2),  # LDST32_ABS_LO12_NC
    286: _low12(3),  # LDST64_ABS_LO12_NC
    _LDST128_ABS_LO12_NC: _low12(4),
    311: _adr(page=True),  # ADR_GOT_PAGE
    312: _low12(3),  # LD64_GOT_LO12_NC
    314: _word(4, True),  # PLT32
}
