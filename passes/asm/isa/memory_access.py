"""Effects of loads, stores and prefetches: registers, the address, bytes of memory."""

import re

from mavcg.passes.asm.isa.effects import (
    ELEMENT,
    VIEW_BYTES,
    Access,
    Effects,
    MemoryAccess,
    check_operand_count,
    register_bits,
)
from mavcg.passes.asm.isa.syntax import ZERO, Instr, Mem, Reg, RegList

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
        if not isinstance(ops[0], Reg) or not isinstance(ops[1], Mem):
            return None
        size = (LOADS.get(m) or STORES.get(m)) or VIEW_BYTES.get(ops[0].view, 0)
        load = m in LOADS
        if ops[0].is_vector:
            stem = {16: "q", 8: "d"}.get(size, "s" if load else "d")
        else:
            stem = "x"
        return _transfer(instr, f"{'ldr' if load else 'str'}_{stem}", ops[1], size, load, 1)
    if m in PAIRS:
        check_operand_count(instr, 3)
        if not isinstance(ops[0], Reg) or not isinstance(ops[1], Reg) or not isinstance(ops[2], Mem):
            return None
        if ops[0].view != ops[1].view:  # a pair has registers of one size
            return None
        size = 4 if m == "ldpsw" else VIEW_BYTES.get(ops[0].view, 0)
        load = PAIRS[m]
        stem = "x" if not ops[0].is_vector else {16: "q", 8: "d"}.get(size, "s" if load else "d")
        return _transfer(instr, f"{'ldp' if load else 'stp'}_{stem}", ops[2], 2 * size, load, 2)
    if match := _STRUCTURES.match(m):
        return _structure(instr, match)
    if m in ("prfm", "prfum"):
        check_operand_count(instr, 2)
        if not isinstance(ops[1], Mem) or ops[1].mode != "offset":
            return None
        memory = MemoryAccess(ops[1], 0, False, False)
        return Effects("prfm", _address_accesses(ops[1], 0), memory=memory)
    return None


def _is_scalar_address(address: Mem) -> bool:
    """True if an address is made of general registers alone; no A64 instruction of these tables has another."""
    return not address.base.is_vector and (address.index is None or not address.index.is_vector)


def _structure(instr: Instr, match: re.Match[str]) -> Effects | None:
    check_operand_count(instr, 2)
    registers, address = instr.operands
    if not isinstance(registers, RegList) or not isinstance(address, Mem) or not registers.registers[0].arrangement:
        return None
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
    elif structure > 1:
        op_class = f"{match[1]}{structure}_q"
    elif count == 1:
        op_class = f"{match[1]}1_q" if not load or size == 16 else "ld1_d"
    else:
        op_class = f"{match[1]}1_q{count}"
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
