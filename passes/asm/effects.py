"""What an instruction does, as a value: registers and flags read and written, memory touched, where it jumps."""

import re
from dataclasses import dataclass

from mavcg.passes.asm.syntax import ZERO, Instr, Mem

FLAGS = "nzcv"

# Bytes of a register by the letter of its view or element.
VIEW_BYTES = {"b": 1, "h": 2, "s": 4, "d": 8, "q": 16, "w": 4, "x": 8}
ELEMENT = re.compile(r"(\d*)([bhsdq])$")


@dataclass(frozen=True)
class Access:
    """One register operand: its place in Instr.registers(), what is done with it, and as what (instr_classes.ROLES).

    A register that is only partly written is read too.
    """

    place: int
    register: str
    read: bool
    write: bool
    role: str = ""


@dataclass(frozen=True)
class MemoryAccess:
    """Memory that is read or written: `bytes` at the address operand. A prefetch touches 0 bytes."""

    address: Mem
    bytes: int
    load: bool
    store: bool


@dataclass(frozen=True)
class Effects:
    """All that an instruction does.

    accesses: every register operand but zero registers. flow: "" or "cond" (a conditional branch), "jump", "call",
    "return", "indirect". target: the label of a direct branch.
    """

    op_class: str
    accesses: tuple[Access, ...]
    reads_flags: bool = False
    writes_flags: bool = False
    memory: MemoryAccess | None = None
    flow: str = ""
    target: str = ""

    def reads(self) -> frozenset[str]:
        """Registers read, the flags as "nzcv" among them."""
        found = {access.register for access in self.accesses if access.read}
        return frozenset(found | {FLAGS} if self.reads_flags else found)

    def writes(self) -> frozenset[str]:
        """Registers written, in whole or in part."""
        found = {access.register for access in self.accesses if access.write}
        return frozenset(found | {FLAGS} if self.writes_flags else found)


class Malformed(ValueError):
    """An instruction that is known, with operands that it never has: garbled text rather than something new."""


def uses(instr: Instr, use: str) -> tuple[Access, ...]:
    """Accesses by a use string of isa_rows.py; for registers that stand for themselves (no lists, no addresses)."""
    found = []
    for place, reg in enumerate(instr.registers()):
        kind = use[min(place, len(use) - 1)]
        if reg.name == ZERO:
            continue
        read = kind != "w" or (reg.lane is not None and kind == "w" and place == 0)
        found.append(Access(place, reg.name, read, kind != "r", "acc" if kind == "a" else ""))
    return tuple(found)


def check_count(instr: Instr, *allowed: int) -> None:
    """Raises: Malformed where the number of operands is none of these."""
    if len(instr.operands) not in allowed:
        raise Malformed(f"`{instr.mnemonic}` has {len(instr.operands)} operands, not {allowed[0]}")


def register_bits(arrangement: str) -> int:
    """4s: 128; of what is no arrangement, 128 too."""
    found = ELEMENT.match(arrangement)
    if found is None:
        return 128
    return int(found[1] or 1) * VIEW_BYTES[found[2]] * 8
