"""Run code in the Unicorn emulator: map memory, set registers, and pass Unicorn's C functions to the simulator."""

import ctypes
import importlib
from typing import Any

from mavcg.assembly.code_image import EXTERNAL_BASE, EXTERNAL_DATA_BYTES, PAGE_BYTES, CodeImage
from mavcg.errors import MavcgError, import_problem
from mavcg.lab.simulate.call_arguments import CallState, page_range
from mavcg.lab.simulate.harness import ffi

RETURN_ADDRESS = 0x1700_0000
STACK_TOP, STACK_BYTES = 0x7F00_0000_0000, 8 << 20
THREAD_AREA, THREAD_BYTES = 0x7E00_0000_0000, 1 << 16  # zeroed memory; TPIDR_EL0 points to its middle
EXTERNAL_LIMIT = EXTERNAL_BASE + (1 << 20)
# Extensions of the instruction set that Unicorn executes; not i8mm and bf16.
EMULATED_EXTENSIONS = frozenset({"dotprod", "fp16fml", "fullfp16", "lse", "rdm"})
_RET = bytes.fromhex("c0035fd6")


class Emulator:
    """A Unicorn instance with a code image in its memory. Threads must not share it."""

    def __init__(self, image: CodeImage) -> None:
        """Map the image, a stack, a thread area and the addresses of external functions.

        Raises: MavcgError if unicorn is not installed, or parts of the image overlap.
        """
        try:
            self._unicorn = importlib.import_module("unicorn")
            self._arm = importlib.import_module("unicorn.arm64_const")
        except ImportError as error:
            absent = "simulate: the emulator is not installed; pip install 'mavcg[check]'"
            raise import_problem(error, absent) from error
        unicorn, arm = self._unicorn, self._arm
        self.image = image
        self.uc: Any = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self.uc.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)
        self.uc.ctl_set_tlb_mode(unicorn.UC_TLB_VIRTUAL)
        self._mapped: set[tuple[int, int]] = set()
        self._buffers: set[tuple[int, int]] = set()
        self._loaded = False
        self._reset = True
        for section in image.sections:
            self._map(section.address, len(section.data), section.executable, section.writable)
        for address in image.external_data:
            self._map(address, EXTERNAL_DATA_BYTES, False, True)
        self._map(EXTERNAL_BASE, EXTERNAL_LIMIT - EXTERNAL_BASE, True, False)
        self.uc.mem_write(EXTERNAL_BASE, _RET * ((EXTERNAL_LIMIT - EXTERNAL_BASE) // len(_RET)))
        self._map(STACK_TOP - STACK_BYTES, STACK_BYTES + PAGE_BYTES, False, True)
        self._map(THREAD_AREA, THREAD_BYTES, False, True)
        self.x = [arm.UC_ARM64_REG_X0 + n for n in range(29)] + [arm.UC_ARM64_REG_X29, arm.UC_ARM64_REG_X30]
        self.v = [arm.UC_ARM64_REG_V0 + n for n in range(32)]

    def _map(self, address: int, size: int, executable: bool, writable: bool) -> None:
        unicorn = self._unicorn
        first, size = page_range(address, size)
        access = unicorn.UC_PROT_READ
        access |= unicorn.UC_PROT_EXEC if executable else 0
        access |= unicorn.UC_PROT_WRITE if writable else 0
        if (first, size) not in self._mapped:
            try:
                self.uc.mem_map(first, size, access)
            except unicorn.UcError as error:
                raise MavcgError(f"simulate: the code's memory at {first:#x} cannot be mapped ({error})") from error
            self._mapped.add((first, size))

    def begin(self, state: CallState) -> None:
        """Set memory and registers to the state at the entry of a function."""
        arm = self._arm
        for section in self.image.sections if self._reset else ():
            if section.writable or not self._loaded:
                self.uc.mem_write(section.address, section.data)
        self._loaded = True
        pages = {page_range(address, len(content)) for address, content in state.buffers}
        for first, size in self._buffers - pages:
            self.uc.mem_unmap(first, size)
            self._mapped.discard((first, size))
        self._buffers = pages
        for address, content in state.buffers:
            self._map(address, len(content), False, True)
            self.uc.mem_write(address, content)
        sp = (STACK_TOP - len(state.stack)) & ~15
        self.uc.mem_write(sp, state.stack)
        self.uc.mem_write(THREAD_AREA, bytes(THREAD_BYTES))
        x = [*state.x, *[0] * (31 - len(state.x))]
        x[30] = RETURN_ADDRESS
        v = [*state.v, *[0] * (32 - len(state.v))]
        self.uc.reg_write_batch([*zip(self.x, x, strict=True), *zip(self.v, v, strict=True)])
        self.uc.reg_write(arm.UC_ARM64_REG_SP, sp)
        self.uc.reg_write(arm.UC_ARM64_REG_NZCV, 0)
        self.uc.reg_write(arm.UC_ARM64_REG_FPCR, 0)
        self.uc.reg_write(arm.UC_ARM64_REG_FPSR, 0)
        self.uc.reg_write(arm.UC_ARM64_REG_TPIDR_EL0, THREAD_AREA + THREAD_BYTES // 2)

    def keep_memory(self) -> None:
        """Load the image, and no longer reset its writable memory at each call."""
        for section in self.image.sections:
            self.uc.mem_write(section.address, section.data)
        self._reset = False

    def map_data(self, address: int, size: int) -> None:
        """Map memory for data: writable, not executable."""
        self._map(address, size, False, True)

    def set_general(self, number: int, value: int) -> None:
        """Set a general register. number: 0 to 30 for x0 to x30."""
        self.uc.reg_write(self.x[number], value)

    def code(self, address: int, size: int) -> bytes:
        """Return bytes of memory: code or data."""
        return bytes(self.uc.mem_read(address, size))

    @property
    def error(self) -> Any:
        """Return the type of unicorn's errors."""
        return self._unicorn.UcError

    def pc(self) -> int:
        """Return the program counter."""
        return int(self.uc.reg_read(self._arm.UC_ARM64_REG_PC))

    def general(self, number: int) -> int:
        """Return the value of a general register. number: 0 to 30 for x0 to x30."""
        return int(self.uc.reg_read(self.x[number]))

    def return_from(self, value: int | None) -> int:
        """Return from an external function, with a value in x0 if it is not None.

        Returns: the address where its caller continues.
        """
        if value is not None:
            self.uc.reg_write(self.x[0], value)
        return self.general(30)

    def retranslate(self, address: int, size: int) -> None:
        """Discard unicorn's translation of code, so that hooks added to it take effect."""
        self.uc.ctl_remove_cache(address, address + size)

    def c_emulator(self) -> Any:
        """Return unicorn's C functions and constants as the simulator's C library takes them (sim_emulator)."""
        unicorn, arm = self._unicorn, self._arm
        calls = importlib.import_module("unicorn.unicorn_py3.unicorn").uclib
        emulator = ffi().new("sim_emulator *")
        for field, name in (
            ("start", "uc_emu_start"),
            ("stop", "uc_emu_stop"),
            ("hook_add", "uc_hook_add"),
            ("hook_del", "uc_hook_del"),
            ("reg_read", "uc_reg_read"),
            ("control", "uc_ctl"),
        ):
            setattr(emulator, field, ffi().cast("void *", ctypes.cast(getattr(calls, name), ctypes.c_void_p).value))
        emulator.handle = ffi().cast("void *", self.uc._uch.value)
        emulator.hook_block, emulator.hook_code = unicorn.UC_HOOK_BLOCK, unicorn.UC_HOOK_CODE
        emulator.hook_read, emulator.hook_write = unicorn.UC_HOOK_MEM_READ, unicorn.UC_HOOK_MEM_WRITE
        emulator.hook_unmapped = unicorn.UC_HOOK_MEM_UNMAPPED | unicorn.UC_HOOK_MEM_PROT
        emulator.hook_exception, emulator.hook_invalid = unicorn.UC_HOOK_INTR, unicorn.UC_HOOK_INSN_INVALID
        emulator.mem_write = unicorn.UC_MEM_WRITE
        emulator.flush = (unicorn.UC_CTL_IO_WRITE << 30) | unicorn.UC_CTL_TB_FLUSH
        for number, register in enumerate([*self.x, arm.UC_ARM64_REG_SP, *self.v, arm.UC_ARM64_REG_NZCV]):
            emulator.registers[number] = register
        return emulator
