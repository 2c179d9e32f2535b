"""The effects of an instruction as a value: registers and flags read and written, memory accessed, control flow.

Those of loads, stores and prefetches (registers, the address, bytes of memory) are found here.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from mavcg.passes.asm.isa.syntax import ZERO, Instr, Mem, Reg, RegList

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
        return self._reads

    @cached_property
    def _reads(self) -> frozenset[str]:
        registers = {access.register for access in self.accesses if access.read}
        return frozenset(registers | {FLAGS} if self.reads_flags else registers)

    @cached_property
    def overwrites(self) -> frozenset[str]:
        """The registers, the flags as "nzcv" among them, whose values before the instruction are lost by it."""
        registers = {access.register for access in self.accesses if access.write and not access.read}
        return frozenset(registers | {FLAGS} if self.writes_flags and not self.reads_flags else registers)

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


LOADS = {
    "ldr": 0,
    "ldur": 0,
    "ldrb": 1,
    "ldurb": 1,
    "ldrsb": 1,
    "ldursb": 1,
    "ldrh": 2,
    "ldurh": 2,
    "ldrsh": 2,
    "ldursh": 2,
    "ldrsw": 4,
    "ldursw": 4,
}
STORES = {"str": 0, "stur": 0, "strb": 1, "sturb": 1, "strh": 2, "sturh": 2}
PAIRS = {"ldp": True, "ldnp": True, "ldpsw": True, "stp": False, "stnp": False}
_STRUCTURES = re.compile(r"(ld|st)([1-4])(r?)$")


def memory_effects(instr: Instr) -> Effects | None:
    """Return the effects of a memory instruction; None for other instructions and for unknown forms."""
    m, ops = instr.mnemonic, instr.operands
    if any(isinstance(operand, Mem) and not _is_scalar_address(operand) for operand in ops):
        return None
    if m in LOADS or m in STORES:
        check_operand_count(instr, 2)
        match ops:
            case (Reg() as register, Mem() as address):
                size, load = (LOADS.get(m) or STORES.get(m)) or VIEW_BYTES.get(register.view, 0), m in LOADS
                op_class = f"{'ldr' if load else 'str'}_{_size_stem(register, size, load)}"
                return _transfer(instr, op_class, address, size, load, 1)
        return None
    if m in PAIRS:
        check_operand_count(instr, 3)
        match ops:
            case (Reg() as first, Reg() as second, Mem() as address) if first.view == second.view:
                size, load = 4 if m == "ldpsw" else VIEW_BYTES.get(first.view, 0), PAIRS[m]
                op_class = f"{'ldp' if load else 'stp'}_{_size_stem(first, size, load)}"
                return _transfer(instr, op_class, address, 2 * size, load, 2)
        return None  # registers of two sizes are no pair
    if match := _STRUCTURES.match(m):
        return _structure(instr, match)
    if m in ("prfm", "prfum"):
        check_operand_count(instr, 2)
        match ops[1]:
            case Mem(mode="offset") as address:
                return Effects("prfm", _address_accesses(address, 0), memory=MemoryAccess(address, 0, False, False))
    return None


def _size_stem(register: Reg, size: int, load: bool) -> str:
    """Return the end of a class's name for the size of each register, in bytes; stores have no class of 4 bytes."""
    return {16: "q", 8: "d"}.get(size, "s" if load else "d") if register.is_vector else "x"


def _is_scalar_address(address: Mem) -> bool:
    """True if an address is made of general registers alone; no A64 instruction of these tables has another."""
    return not address.base.is_vector and (address.index is None or not address.index.is_vector)


def _structure(instr: Instr, match: re.Match[str]) -> Effects | None:
    check_operand_count(instr, 2)
    match instr.operands:
        case (RegList() as registers, Mem() as address) if registers.registers[0].arrangement:
            return _structure_of(instr, match, registers, address)
    return None


def _structure_of(instr: Instr, match: re.Match[str], registers: RegList, address: Mem) -> Effects | None:
    load, structure, replicate = match[1] == "ld", int(match[2]), bool(match[3])
    count = len(registers.registers)
    element = ELEMENT.match(registers.registers[0].arrangement)
    if element is None or (structure > 1 and count != structure):
        return None
    lane = registers.lane is not None
    if lane or replicate:
        size = VIEW_BYTES[element[2]] * structure
    else:
        size = register_bits(registers.registers[0].arrangement) // 8 * count
    if lane:
        half = structure == 1 and element[2] == "d"
        op_class = f"{match[1]}{structure}_lane{'_d' if half else ''}"
    elif replicate:
        op_class = f"ld{structure}r"
    else:
        form = "q" if size == 16 * count else "d"
        op_class = f"{match[1]}{structure}_{form}{count if structure == 1 < count else ''}"
    return _transfer(instr, op_class, address, size, load, count, partial=lane)


def _transfer(
    instr: Instr, op_class: str, address: Mem, size: int, load: bool, count: int, partial: bool = False
) -> Effects | None:
    """Return the effects of a load or store of the first `count` registers."""
    if not size or (address.mode != "offset" and address.base.name == ZERO) or "!" in str(address.extend):
        return None
    role = "" if load else "data"
    accesses = [
        Access(position, reg.name, not load or partial, load, "acc" if partial and load else role)
        for position, reg in enumerate(instr.registers()[:count])
        if reg.name != ZERO
    ]
    accesses += _address_accesses(address, count)
    return Effects(op_class, tuple(accesses), memory=MemoryAccess(address, size, load, not load))


def _address_accesses(address: Mem, position: int) -> tuple[Access, ...]:
    base = Access(position, address.base.name, True, address.mode != "offset", "addr")
    if address.index is None or address.index.name == ZERO:
        return (base,)
    return (base, Access(position + 1, address.index.name, True, False, "addr"))
