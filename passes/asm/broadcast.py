"""Broadcasts that only multiply, as plain loads: each multiplication takes the element that it needs.

    ld1r { v30.4s }, [x12]            ->    ldr  s30, [x12]
    fmla v23.4s, v26.4s, v30.4s             fmla v23.4s, v26.4s, v30.s[0]

A broadcasting load goes through the vector units of an A55 (tract #2241 measured the like of it: 1.97 cycles beside a
multiply-add), a plain one does not. Products and their rounding are the same.
"""

from collections.abc import Sequence
from dataclasses import replace

from mavcg.passes.asm.dependences import Code, known
from mavcg.passes.asm.syntax import Instr, Mem, Reg, RegList

_ELEMENT = {"4s": "s", "2s": "s", "2d": "d"}
_MULTIPLIES = ("fmla", "fmls", "fmul")


def by_element(instrs: Sequence[Instr], live_out: frozenset[str]) -> tuple[Instr, ...]:
    """Straight-line code without the broadcasts whose every reader multiplies by them.

    live_out: registers wanted at its end.
    """
    found = list(instrs)
    for at, instr in enumerate(instrs):
        target = _broadcast(instr)
        if target is None:
            continue
        code = known(found)
        readers = _readers(code, at, target, live_out)
        if not readers:
            continue
        element = _ELEMENT[target.arrangement]
        found[at] = Instr("ldr", (Reg(target.name, element), instr.operands[1]))
        for reader in readers:
            operands = found[reader].operands
            found[reader] = replace(found[reader], operands=(*operands[:2], Reg(target.name, "v", element, 0)))
    return tuple(found)


def _broadcast(instr: Instr) -> Reg | None:
    """What a plain ld1r of one register loads, where its elements can be named one by one."""
    if instr.mnemonic != "ld1r" or len(instr.operands) != 2:
        return None
    registers, address = instr.operands
    if not isinstance(registers, RegList) or not isinstance(address, Mem) or address.mode != "offset":
        return None
    target = registers.registers[0]
    return target if len(registers.registers) == 1 and target.arrangement in _ELEMENT else None


def _readers(code: Sequence[Code], at: int, target: Reg, live_out: frozenset[str]) -> list[int]:
    """All that read the value loaded at `at`, when each multiplies by it; else none."""
    found: list[int] = []
    for index in range(at + 1, len(code)):
        accesses = [a for a in code[index].effects.accesses if a.register == target.name]
        reads = [a for a in accesses if a.read]
        if reads:
            operands = code[index].instr.operands
            multiplies = code[index].instr.mnemonic in _MULTIPLIES and len(operands) == 3 and operands[2] == target
            if not multiplies or len(accesses) != 1:
                return []
            found.append(index)
        elif accesses:  # a new value
            return found
    return [] if target.name in live_out else found
