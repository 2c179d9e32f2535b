"""Replaces broadcasting loads by scalar loads if every reader of the value can multiply by element.

    ld1r { v30.4s }, [x12]            ->    ldr  s30, [x12]
    fmla v23.4s, v26.4s, v30.4s             fmla v23.4s, v26.4s, v30.s[0]

On an A55 a broadcasting load occupies vector units (tract #2241 measured 1.97 cycles for a similar load beside a
multiply-add); a scalar load does not. Products and their rounding stay the same.
"""

from collections.abc import Sequence
from dataclasses import replace

from mavcg.passes.asm.analysis.dependences import Code, with_effects
from mavcg.passes.asm.isa.syntax import Instr, Mem, Reg, RegList

_ELEMENT = {"4s": "s", "2s": "s", "2d": "d"}
_MULTIPLIES = ("fmla", "fmls", "fmul")


def multiply_by_element(instrs: Sequence[Instr], live_out: frozenset[str]) -> tuple[Instr, ...]:
    """Return straight-line code with scalar loads and multiplications by element in place of broadcasting loads.

    live_out: registers that are live at its end.
    """
    rewritten = list(instrs)
    for at, instr in enumerate(instrs):
        target = _broadcast(instr)
        if target is None:
            continue
        code = with_effects(rewritten)
        readers = _readers(code, at, target, live_out)
        if not readers:
            continue
        element = _ELEMENT[target.arrangement]
        rewritten[at] = Instr("ldr", (Reg(target.name, element), instr.operands[1]))
        for reader in readers:
            operands = rewritten[reader].operands
            rewritten[reader] = replace(rewritten[reader], operands=(*operands[:2], Reg(target.name, "v", element, 0)))
    return tuple(rewritten)


def _broadcast(instr: Instr) -> Reg | None:
    """Return the register that a plain ld1r loads if multiplications by element exist for its type; else None."""
    if instr.mnemonic != "ld1r" or len(instr.operands) != 2:
        return None
    registers, address = instr.operands
    if not isinstance(registers, RegList) or not isinstance(address, Mem) or address.mode != "offset":
        return None
    target = registers.registers[0]
    return target if len(registers.registers) == 1 and target.arrangement in _ELEMENT else None


def _readers(code: Sequence[Code], at: int, target: Reg, live_out: frozenset[str]) -> list[int]:
    """Return the indices of the readers of the value loaded at `at` if all of them multiply by it; else []."""
    readers: list[int] = []
    for index in range(at + 1, len(code)):
        accesses = [a for a in code[index].effects.accesses if a.register == target.name]
        reads = [a for a in accesses if a.read]
        if reads:
            operands = code[index].instr.operands
            multiplies = code[index].instr.mnemonic in _MULTIPLIES and len(operands) == 3 and operands[2] == target
            if not multiplies or len(accesses) != 1:
                return []
            readers.append(index)
        elif accesses:  # a new value
            return readers
    return [] if target.name in live_out else readers
