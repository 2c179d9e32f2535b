"""Executes the dispatchers of a linked library, instruction by instruction, on an emulated CPU and thread."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from mavcg.objects.elf import function_symbols

BASE, THREAD, RSEQ_OFFSET, STACK = 0x10_0000, 0x40_0000, 0x100, 0x60_0000
CPU_ID_START, CPU_ID = 0, 4  # of struct rseq: Linux include/uapi/linux/rseq.h
_PAGE = 0x1000
_RELATIVE = {"x64": 8, "AArch64": 1027}  # R_X86_64_RELATIVE, R_AARCH64_RELATIVE
_BY_SYMBOL = {"x64": (1, 6, 7), "AArch64": (257, 1025, 1026)}  # _64, _GLOB_DAT, _JUMP_SLOT
_MOST_STEPS = 100


@dataclass(frozen=True)
class Walk:
    """From a function's entry to the first instruction of a version or of its slow way.

    instructions: executed before it. loads, stores: accesses to memory. to: the symbol without the function's name.
    """

    instructions: int
    loads: int
    stores: int
    to: str


@dataclass(frozen=True)
class Library:
    """A library in memory. symbols: name -> address there."""

    path: Path
    arch: str
    memory: bytes
    symbols: dict[str, int]

    def walk(self, function: str, cpu: int, core_ids: dict[int, int], has_rseq: bool = True) -> Walk:
        """Call a function on a CPU. core_ids: CPU -> what the run-time selector has written into its table, else 0."""
        unicorn = pytest.importorskip("unicorn")
        image = bytearray(self.memory)
        table = self._only("mavcg_core_of_cpu_") - BASE
        for number, core in core_ids.items():
            image[table + number] = core
        offset = self._only("mavcg_rseq_offset_") - BASE
        image[offset : offset + 8] = (RSEQ_OFFSET if has_rseq else 0).to_bytes(8, "little")
        uc = self._machine(unicorn, bytes(image), cpu)
        ends = {
            address: name[len(function) + 1 :]
            for name, address in self.symbols.items()
            if name.startswith(f"{function}.")
        }
        counts = {"steps": 0, "loads": 0, "stores": 0}
        reached: list[str] = []

        def step(uc: Any, address: int, size: int, data: Any) -> None:
            if address in ends or counts["steps"] == _MOST_STEPS:
                reached.append(ends.get(address, "nowhere"))
                uc.emu_stop()
            else:
                counts["steps"] += 1

        def access(uc: Any, kind: int, address: int, size: int, value: int, data: Any) -> None:
            counts["stores" if kind == unicorn.UC_MEM_WRITE else "loads"] += 1

        uc.hook_add(unicorn.UC_HOOK_CODE, step)
        uc.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, access)
        uc.emu_start(self.symbols[function], 0)
        return Walk(counts["steps"], counts["loads"], counts["stores"], reached[0])

    def _only(self, prefix: str) -> int:
        (address,) = [address for name, address in self.symbols.items() if name.startswith(prefix)]
        return address

    def _machine(self, unicorn: Any, image: bytes, cpu: int) -> Any:
        if self.arch == "x64":
            from unicorn import x86_const as x86

            uc = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
            stack, thread = x86.UC_X86_REG_RSP, x86.UC_X86_REG_FS_BASE
        else:
            from unicorn import arm64_const as arm

            uc = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
            uc.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)
            stack, thread = arm.UC_ARM64_REG_SP, arm.UC_ARM64_REG_TPIDR_EL0
        for at, size in ((BASE, -(-len(image) // _PAGE) * _PAGE), (THREAD, _PAGE), (STACK - _PAGE, 2 * _PAGE)):
            uc.mem_map(at, size)
        uc.mem_write(BASE, image)
        for field in (CPU_ID_START, CPU_ID):
            uc.mem_write(THREAD + RSEQ_OFFSET + field, cpu.to_bytes(4, "little"))
        uc.reg_write(stack, STACK)
        uc.reg_write(thread, THREAD)
        return uc


def load(path: Path) -> Library:
    """Lay a library out at BASE, with its addresses relocated as a loader does."""
    with path.open("rb") as file:
        elf: Any = ELFFile(file)
        arch = elf.get_machine_arch()
        parts = [(s["p_vaddr"], s.data()) for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
        ends = [s["p_vaddr"] + s["p_memsz"] for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
        image = bytearray(max(ends))
        for address, content in parts:
            image[address : address + len(content)] = content
        symbols = {
            symbol.name: BASE + symbol["st_value"]
            for symbol in elf.get_section_by_name(".symtab").iter_symbols()
            if symbol.name and symbol["st_shndx"] != "SHN_UNDEF"
        }
        for section in elf.iter_sections():
            if section["sh_type"] != "SHT_RELA":
                continue
            names = elf.get_section(section["sh_link"])
            for entry in section.iter_relocations():
                at, kind = entry["r_offset"], entry["r_info_type"]
                if kind == _RELATIVE[arch]:
                    value = BASE + entry["r_addend"]
                elif kind in _BY_SYMBOL[arch]:
                    name = names.get_symbol(entry["r_info_sym"]).name
                    value = symbols.get(name, 0) + entry["r_addend"] * (kind == _BY_SYMBOL[arch][0])
                else:
                    continue
                image[at : at + 8] = value.to_bytes(8, "little")
    assert {name for name, _ in function_symbols(path)} <= set(symbols)
    return Library(path, arch, bytes(image), symbols)
