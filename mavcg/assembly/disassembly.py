"""Disassembles functions of an AArch64 ELF file into text for the machine passes, with labels at jump targets."""

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.objects.elf import open_elf
from mavcg.text.safe_text import assembly_symbol, is_assembly_symbol

_WORD = 4  # bytes of an A64 instruction
_EXECUTABLE = 0x4  # SHF_EXECINSTR
_JUMP = re.compile(r"(b|bl|b\.[a-z]{2}|bc\.[a-z]{2}|cbn?z|tbn?z)$")
_PLACE = re.compile(r"(.*?)#(0x[0-9a-f]+|\d+)$")


@dataclass(frozen=True)
class CodeSymbol:
    """A function of the file. section: index. start: its address, or its offset in the section of an object file."""

    name: str
    section: int
    start: int
    size: int


@dataclass(frozen=True)
class Disassembly:
    """The assembly text of some functions. addresses: line of the text -> address of its instruction."""

    text: str
    addresses: Mapping[int, int]


class CodeFile:
    """An AArch64 ELF object, library or program, opened for reading.

    Raises: MavcgError for a file that is missing, not ELF, damaged, of another architecture or byte order, or stripped
    of all function names.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._elf = open_elf(path)
        machine = str(self._elf["e_machine"]).removeprefix("EM_")
        if machine != "AARCH64":
            raise MavcgError(f"{path}: holds code for {machine}; the pipeline models know AArch64: name such a file")
        if not self._elf.little_endian:
            raise MavcgError(f"{path}: is big-endian; only little-endian AArch64 files are read")
        try:
            self.symbols: Mapping[str, CodeSymbol] = dict(self._functions())
            self._data_starts = self._mapping_symbols()
            self._names_by_relocation = self._relocations()
        except MavcgError:
            raise
        except Exception as error:  # pyelftools trusts its input: a wrong offset may end in any exception
            raise MavcgError(f"{path}: a damaged ELF file ({error}); build it again") from error
        if not self.symbols:
            raise MavcgError(
                f"{path}: its symbols are stripped, so that its functions have no names; "
                "give the file as it was before strip"
            )

    def disassemble(self, names: Sequence[str]) -> Disassembly:
        """Disassemble functions in the given order; each must be in `symbols`."""
        lines: list[str] = ["\t.text"]
        addresses: dict[int, int] = {}
        for name in names:
            symbol = self.symbols[name]
            quoted = assembly_symbol(name)
            lines += [f"\t.globl\t{quoted}", f"\t.type\t{quoted}, @function", f"{quoted}:"]
            for address, line in self._lines(symbol):
                lines.append(line)
                if address is not None:
                    addresses[len(lines)] = address
            lines.append(f"\t.size\t{quoted}, .-{quoted}")
        return Disassembly("\n".join(lines) + "\n", addresses)

    def _lines(self, symbol: CodeSymbol) -> Iterator[tuple[int | None, str]]:
        """Yield (address, line) for each instruction; None for the address of a label."""
        import capstone

        section = self._elf.get_section(symbol.section)
        base = 0 if self._is_object else section["sh_addr"]
        code = section.data()[symbol.start - base : symbol.start - base + symbol.size]
        if len(code) < symbol.size:
            raise MavcgError(f"{self.path}: a damaged ELF file ({symbol.name} leaves its section); build it again")
        decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
        instructions: list[tuple[int, str, str]] = []
        labels: set[int] = set()
        for at in range(0, len(code), _WORD):
            address, word = symbol.start + at, code[at : at + _WORD]
            if len(word) < _WORD or self._is_data(symbol.section, address):
                instructions.append((address, ".byte", ", ".join(f"{byte:#04x}" for byte in word)))
                continue
            decoded = next(decoder.disasm_lite(word, address, 1), None)
            if decoded is None:  # newer than the disassembler: to the models a fence, as in hand-written files
                instructions.append((address, ".inst", f"{int.from_bytes(word, 'little'):#010x}"))
                continue
            mnemonic, operands = decoded[2], decoded[3]
            if _JUMP.match(mnemonic) and (operand := _PLACE.match(operands)):
                target, called = int(operand[2], 0), self._names_by_relocation.get((symbol.section, address))
                if called is not None:
                    operands = operand[1] + assembly_symbol(called)
                elif symbol.start <= target < symbol.start + symbol.size and mnemonic != "bl":
                    labels.add(target)
                    operands = operand[1] + self._label(symbol.section, target)
                else:
                    operands = operand[1] + self._name_of(symbol.section, target)
            instructions.append((address, mnemonic, operands))
        for address, mnemonic, operands in instructions:
            if address in labels:
                yield None, f"{self._label(symbol.section, address)}:"
            yield address, f"\t{mnemonic}\t{operands}".rstrip()

    @property
    def _is_object(self) -> bool:
        return bool(self._elf["e_type"] == "ET_REL")

    def _label(self, section: int, address: int) -> str:
        # Sections of an object file all begin at 0.
        return f".L{section}_{address:x}" if self._is_object else f".L{address:x}"

    def _name_of(self, section: int, address: int) -> str:
        """Return the name of a jump's target outside the function."""
        for symbol in self.symbols.values():
            if symbol.section == section and symbol.start == address:
                return assembly_symbol(symbol.name)
        return f"{address:#x}"

    def _is_data(self, section: int, address: int) -> bool:
        """True if the file marks this address as data, such as a literal pool."""
        marks = self._data_starts.get(section, [])
        at = bisect.bisect_right(marks, (address, True)) - 1
        return at >= 0 and marks[at][1]

    def _functions(self) -> Iterator[tuple[str, CodeSymbol]]:
        """Yield (name, function), also for global labels in code that have no function type (hand-written files)."""
        functions: list[tuple[str, int, int, int]] = []
        for symbol in self._all_symbols():
            section, kind = symbol["st_shndx"], symbol["st_info"]["type"]
            typed = kind in ("STT_FUNC", "STT_LOOS")  # STT_LOOS is GNU's indirect function
            exported = kind == "STT_NOTYPE" and symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK")
            if not symbol.name or symbol.name[0] == "$" or not (typed or exported) or not isinstance(section, int):
                continue
            if not is_assembly_symbol(symbol.name):
                continue  # no assembly text can name it
            if self._elf.get_section(section)["sh_flags"] & _EXECUTABLE:
                functions.append((symbol.name, section, symbol["st_value"], symbol["st_size"]))
        starts = sorted({(section, start) for _, section, start, _ in functions})
        for name, section, start, size in functions:
            if not size:  # hand-written without .size: up to the next function
                after = bisect.bisect_right(starts, (section, start))
                header = self._elf.get_section(section)
                end = (0 if self._is_object else header["sh_addr"]) + header["sh_size"]
                size = (starts[after][1] if after < len(starts) and starts[after][0] == section else end) - start
            if size > 0:
                yield name, CodeSymbol(name, section, start, size)

    def _all_symbols(self) -> Iterator[Any]:
        """Return the symbols of the full table, or of the dynamic table if there is no full one."""
        tables = {section["sh_type"]: section for section in self._elf.iter_sections()}
        table = tables.get("SHT_SYMTAB") or tables.get("SHT_DYNSYM")
        yield from table.iter_symbols() if table is not None else ()

    def _mapping_symbols(self) -> dict[int, list[tuple[int, bool]]]:
        """Return section -> [(address, True if data begins there, False if code)], sorted.

        Source: ELF for the Arm 64-bit Architecture, 5.5.
        """
        marks_of: dict[int, list[tuple[int, bool]]] = {}
        for symbol in self._all_symbols():
            if re.match(r"\$[dx](\.|$)", symbol.name) and isinstance(symbol["st_shndx"], int):
                marks_of.setdefault(symbol["st_shndx"], []).append((symbol["st_value"], symbol.name[1] == "d"))
        return {section: sorted(marks) for section, marks in marks_of.items()}

    def _relocations(self) -> dict[tuple[int, int], str]:
        """Return (section, offset) -> symbol that a linker will insert there; empty unless the file is an object."""
        names: dict[tuple[int, int], str] = {}
        for section in self._elf.iter_sections() if self._is_object else ():
            if section["sh_type"] == "SHT_RELA":
                symbols = self._elf.get_section(section["sh_link"])
                for relocation in section.iter_relocations():
                    name = symbols.get_symbol(relocation["r_info_sym"]).name
                    if name:
                        names[section["sh_info"], relocation["r_offset"]] = name
        return names
