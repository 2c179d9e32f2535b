"""The effects of an instruction as a value: registers and flags read and written, memory accessed, control flow."""

import re
from dataclasses import dataclass

from mavcg.passes.asm.isa.syntax import ZERO, Instr, Mem

FLAGS = "nzcv"

# Size in bytes of a register, by the letter of its view or element.
VIEW_BYTES = {"b": 1, "h": 2, "s": 4, "d": 8, "q": 16, "w": 4, "x": 8}
ELEMENT = re.compile(r"(\d*)([bhsdq])$")


@dataclass(frozen=True)
class Access:
    """The use of one register operand: its position in Instr.registers(), and its role (instr_classes.ROLES).

    A register that is written in part counts as read too.
    """

    position: int
    register: str
    read: bool
    write: bool
    role: str = ""


@dataclass(frozen=True)
class MemoryAccess:
    """A memory access of `bytes` bytes at an address operand. A prefetch accesses 0 bytes."""

    address: Mem
    bytes: int
    load: bool
    store: bool


@dataclass(frozen=True)
class Effects:
    """All effects of an instruction.

    op_class: name of the instruction class (instr_classes.CLASSES). accesses: of every register operand except zero
    registers. flow: "" for no branch, or "cond" (a conditional branch), "jump", "call", "return", "indirect". target:
    the label of a direct branch.
    """

    op_class: str
    accesses: tuple[Access, ...]
    reads_flags: bool = False
    writes_flags: bool = False
    memory: MemoryAccess | None = None
    flow: str = ""
    target: str = ""

    def reads(self) -> frozenset[str]:
        """Return the registers read, the flags as "nzcv" among them."""
        registers = {access.register for access in self.accesses if access.read}
        return frozenset(registers | {FLAGS} if self.reads_flags else registers)

    def writes(self) -> frozenset[str]:
        """Return the registers written, in whole or in part."""
        registers = {access.register for access in self.accesses if access.write}
        return frozenset(registers | {FLAGS} if self.writes_flags else registers)


class Malformed(ValueError):
    """Raised for a known instruction with an impossible number of operands: garbled text, not an unknown extension."""


def register_accesses(instr: Instr, use: str) -> tuple[Access, ...]:
    """Return the register accesses of an instruction without addresses; use: a use string of mnemonics.py."""
    accesses = []
    for position, reg in enumerate(instr.registers()):
        kind = use[min(position, len(use) - 1)]
        if reg.name == ZERO:
            continue
        read = kind != "w" or (reg.lane is not None and kind == "w" and position == 0)
        accesses.append(Access(position, reg.name, read, kind not in "rc", "acc" if kind in "ac" else ""))
    return tuple(accesses)


def check_operand_count(instr: Instr, *allowed: int) -> None:
    """Raise Malformed if the number of operands is not among those allowed."""
    if len(instr.operands) not in allowed:
        raise Malformed(f"`{instr.mnemonic}` has {len(instr.operands)} operands, not {allowed[0]}")


def register_bits(arrangement: str) -> int:
    """Return the width of an arrangement in bits: 128 for "4s", 64 for "2s"; 128 for text that is not one."""
    match = ELEMENT.match(arrangement)
    if match is None:
        return 128
    return int(match[1] or 1) * VIEW_BYTES[match[2]] * 8
