"""Runs a function of a code image in an emulator from a given state; records its results and memory accesses.

Memory is mapped where the function accesses it, with contents computed from address and seed: every register value is a
valid pointer, and two runs from one state read the same bytes.
"""

import gc
import importlib
import itertools
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from mavcg.assembly.code_image import PAGE_BYTES, CodeImage
from mavcg.assembly.emulated_memory import EmulatedMemory, random_lanes
from mavcg.assembly.matrix_instructions import result_of
from mavcg.errors import MavcgError, import_problem

STACK_TOP = 0x7F00_0000_0000  # near the top of 47 bits, as on Linux, far from code and data
STACK_BYTES = 1 << 20
RETURN_ADDRESS = 0x1700_0000
INSTRUCTION_LIMIT = 20_000
COMPUTED_LIMIT = 1_000  # instructions that matrix_instructions.py computes, a hundred times slower than the emulator
SECONDS_LIMIT = 5.0  # of one run; a run that returns takes milliseconds

_BUFFERS = (0x40_0000_0000, 0x41_0000_0000, 0x42_0000_0000)
_LAST_PAGE = (1 << 64) - PAGE_BYTES
_MASK64 = (1 << 64) - 1
_UNDEFINED = 1  # QEMU's EXCP_UDEF: an undefined instruction


@dataclass(frozen=True)
class State:
    """The registers and memory that a function starts with.

    x: x0 to x29; x30 is the return address. v: v0 to v31, 128 bits each. nzcv: N is bit 3, V is bit 0. memory_seed: of
    the memory's contents. given: (address, bytes) of memory with other contents.
    """

    x: tuple[int, ...]
    v: tuple[int, ...]
    nzcv: int
    memory_seed: int
    sp: int = STACK_TOP
    given: tuple[tuple[int, bytes], ...] = ()


class End(StrEnum):
    RETURNED = "returned"
    NO_END = "no end within the limit"
    CALL = "call of a function that is not there"
    FAULT = "fault"
    MEMORY = "more memory touched than a run is given"
    TIME = "no end in time"


@dataclass(frozen=True)
class RunResult:
    """The state after a run.

    end: how it ended. where: the location at which it stopped, such as "kernel+0x1c", or the name of the missing
    function that it calls; "" if it returned. x: x0 to x29. written: address of each byte stored to -> its final value.
    read: addresses of all bytes loaded. executed: addresses of the instructions that ran.
    """

    end: End
    where: str
    x: tuple[int, ...]
    v: tuple[int, ...]
    sp: int
    nzcv: int
    written: Mapping[int, int]
    read: frozenset[int]
    executed: frozenset[int] = frozenset()

    def register(self, name: str) -> int:
        """Return a register's value; name: x0 to x29, v0 to v31 (128 bits), d0 to d31 (their low halves), sp, nzcv."""
        if name in ("sp", "nzcv"):
            return self.sp if name == "sp" else self.nzcv
        number = int(name[1:])
        if name[0] == "x":
            return self.x[number]
        return self.v[number] if name[0] == "v" else self.v[number] & _MASK64


def start_state(seed: int) -> State:
    """Return a random start state.

    General registers: pointers into a few buffers, near or distant, aligned or not; counts from 0 to 40; or arbitrary
    64 bits. Vector lanes: as random_lanes.
    """
    pick = random.Random(f"state {seed}")

    def general() -> int:
        kind = pick.random()
        if kind < 0.55:
            offset = pick.choice((0, 0, 16, 32, 64, 4, 8, 48, 1024, 4096, 1, 3, 7, 13, PAGE_BYTES - 8, PAGE_BYTES - 5))
            return pick.choice(_BUFFERS) + 0x10_0000 + offset
        if kind < 0.88:
            return pick.randint(0, 40)
        if kind < 0.90:
            return -pick.randint(1, 64) & _MASK64
        return pick.getrandbits(64)

    x = tuple(general() for _ in range(30))
    lanes = random_lanes(pick, 32 * 16)
    v = tuple(int.from_bytes(lanes[at : at + 16], "little") for at in range(0, len(lanes), 16))
    return State(x, v, pick.getrandbits(4), seed)


class EmulatedCore:
    """An emulated core with an image loaded; runs are independent of each other. For one thread only."""

    def __init__(self, image: CodeImage) -> None:
        """Load the image. Raises: MavcgError if unicorn is not installed."""
        self.image = image
        self._core = _UnicornCore(image)

    def run(
        self, function: str, state: State, limit: int = INSTRUCTION_LIMIT, seconds: float = SECONDS_LIMIT
    ) -> RunResult:
        """Run a function of the image until it returns, or a limit of instructions or seconds is reached.

        Raises: MavcgError if the image does not define the function.
        """
        entry = self.image.symbols.get(function)
        if entry is None:
            raise MavcgError(f"check by execution: no function '{function}' in the code; check its name")
        outcome = self._core.run(entry, state, limit, seconds)
        if outcome.end in (End.FAULT, End.CALL, End.MEMORY):
            self._core = _UnicornCore(self.image)  # the emulator's state after an exception is not documented
        return outcome


def run(image: CodeImage, function: str, state: State, limit: int = INSTRUCTION_LIMIT) -> RunResult:
    """Run a function once; for many runs of one image, an EmulatedCore is four times faster."""
    return EmulatedCore(image).run(function, state, limit)


def _emulator() -> tuple[Any, Any]:
    """Import unicorn on first use; return the module and its constants for AArch64."""
    try:
        return importlib.import_module("unicorn"), importlib.import_module("unicorn.arm64_const")
    except ImportError as error:
        absent = "check by execution: the emulator is not installed; pip install 'mavcg[check]'"
        raise import_problem(error, absent) from error


# Unicorn's callbacks refer to their emulator and to themselves, so that only the garbage collector ends one that is not
# used any more. Each reserves a gigabyte of addresses, and the command line collects garbage seldom.
COLLECT_EVERY = 32
_MADE = itertools.count(1)


class _UnicornCore:
    """Unicorn with its hooks. accesses: (True for a write, address, bytes). blocks: (address, bytes) executed."""

    def __init__(self, image: CodeImage) -> None:
        if next(_MADE) % COLLECT_EVERY == 0:
            gc.collect()
        unicorn, arm = _emulator()
        self.image = image
        self.accesses: set[tuple[bool, int, int]] = set()
        self.blocks: set[tuple[int, int]] = set()
        self.deadline = 0.0
        self.computed = 0
        self.stopped: End | None = None  # why a hook stopped the run
        self.write_kind = unicorn.UC_MEM_WRITE
        self.error = unicorn.UcError
        self.x = [arm.UC_ARM64_REG_X0 + i for i in range(29)] + [arm.UC_ARM64_REG_X29]
        self.v = [arm.UC_ARM64_REG_V0 + i for i in range(32)]
        self.link, self.sp, self.pc = arm.UC_ARM64_REG_X30, arm.UC_ARM64_REG_SP, arm.UC_ARM64_REG_PC
        self.nzcv, self.modes = arm.UC_ARM64_REG_NZCV, [arm.UC_ARM64_REG_FPCR, arm.UC_ARM64_REG_FPSR]
        self.uc: Any = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self.uc.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)
        # Addresses have all 64 bits and are not translated: no page tables, no maximum physical address.
        self.uc.ctl_set_tlb_mode(unicorn.UC_TLB_VIRTUAL)
        self.memory = EmulatedMemory(self.uc, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        for section in image.sections:
            size = -(-len(section.data) // PAGE_BYTES) * PAGE_BYTES
            access = unicorn.UC_PROT_READ
            access |= unicorn.UC_PROT_EXEC if section.executable else 0
            access |= unicorn.UC_PROT_WRITE if section.writable else 0
            self.memory.fix(section.address, size, access)
        self.uc.hook_add(unicorn.UC_HOOK_BLOCK, self._on_block)
        self.uc.hook_add(unicorn.UC_HOOK_INTR, self._on_exception)
        self.uc.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, self._on_access)
        self.uc.hook_add(unicorn.UC_HOOK_MEM_READ_UNMAPPED | unicorn.UC_HOOK_MEM_WRITE_UNMAPPED, self._on_unmapped)

    def _on_access(self, uc: Any, kind: int, address: int, size: int, value: int, data: Any) -> None:
        self.accesses.add((kind == self.write_kind, address, size))
        if address + size > _LAST_PAGE:
            # The emulator misreports addresses of the very last page.
            self._stop(End.FAULT)
        elif time.monotonic() > self.deadline:
            self._stop(End.TIME)

    def _on_block(self, uc: Any, address: int, size: int, data: Any) -> None:
        self.blocks.add((address, size))

    def _on_exception(self, uc: Any, number: int, data: Any) -> None:
        """Compute what the emulator does not know; any other exception ends the run."""
        pc = uc.reg_read(self.pc)
        word = int.from_bytes(uc.mem_read(pc, 4), "little") if number == _UNDEFINED else 0
        result = result_of(word, [uc.reg_read(register) for register in self.v]) if word else None
        self.computed += 1
        if result is None or self.computed > COMPUTED_LIMIT:
            self._stop(End.FAULT if result is None else End.NO_END)
            return
        uc.reg_write(self.v[result[0]], result[1])
        uc.reg_write(self.pc, pc + 4)

    def _stop(self, why: End) -> None:
        self.stopped = why
        self.uc.emu_stop()

    def _on_unmapped(self, uc: Any, kind: int, address: int, size: int, value: int, data: Any) -> bool:
        if self.memory.grow(address):
            return True
        self.stopped = End.MEMORY
        return False

    def run(self, entry: int, state: State, limit: int, seconds: float) -> RunResult:
        uc = self.uc
        self.memory.begin(state.memory_seed, state.given)
        self.accesses.clear()
        self.blocks.clear()
        self.computed = 0
        self.stopped, self.deadline = None, time.monotonic() + seconds
        for section in self.image.sections:
            uc.mem_write(section.address, section.data)
        registers = [*zip(self.x, state.x, strict=True), *zip(self.v, state.v, strict=True)]
        registers += [(self.link, RETURN_ADDRESS), (self.sp, state.sp), (self.nzcv, state.nzcv << 28)]
        uc.reg_write_batch([*registers, *((mode, 0) for mode in self.modes)])
        end = End.NO_END
        try:
            uc.emu_start(entry, RETURN_ADDRESS, count=limit)
        except self.error:
            end = End.FAULT
        pc = uc.reg_read(self.pc)
        if self.stopped is not None:
            end = self.stopped
        elif pc == RETURN_ADDRESS:
            end = End.RETURNED
        elif pc in self.image.externals:
            end = End.CALL
        loads = [range(address, address + size) for write, address, size in self.accesses if not write]
        return RunResult(
            end,
            "" if end == End.RETURNED else self.image.location(pc),
            tuple(uc.reg_read_batch(self.x)),
            tuple(uc.reg_read(register) for register in self.v),
            uc.reg_read(self.sp),
            uc.reg_read(self.nzcv) >> 28,
            MappingProxyType(self._written_bytes()),
            frozenset(itertools.chain.from_iterable(loads)),
            frozenset(at for start, size in self.blocks for at in range(start, start + size, 4)),
        )

    def _written_bytes(self) -> dict[int, int]:
        """Return the address of each byte stored to -> its final value."""
        written: dict[int, int] = {}
        for write, address, size in self.accesses:
            if write and address + size <= _LAST_PAGE:
                try:
                    written.update(zip(range(address, address + size), self.uc.mem_read(address, size), strict=True))
                except self.error:
                    continue  # the store itself faulted: to code, or to read-only data
        return written
