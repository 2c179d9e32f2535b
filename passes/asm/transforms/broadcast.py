"""Replaces broadcasting loads by scalar loads if every reader of the value can multiply by element.

    ld1r { v30.4s }, [x12]            ->    ldr  s30, [x12]
    fmla v23.4s, v26.4s, v30.4s             fmla v23.4s, v26.4s, v30.s[0]

    ld1r { v30.4s }, [x12], x13       ->    ldr  s30, [x12]
                                            add  x12, x12, x13

On an A55 a broadcasting load occupies vector units (tract #2241 measured 1.97 cycles for a similar load beside a
multiply-add); a scalar load and an addition, each beside a multiply-add, do not. Products and their rounding stay the
same.
"""

from collections.abc import Sequence
from dataclasses import replace

from mavcg.passes.asm.analysis.dependences import Code, with_effects
from mavcg.passes.asm.isa.encoding import STEP_LIMIT
from mavcg.passes.asm.isa.syntax import Imm, Instr, Mem, Reg, RegList

_ELEMENT = {"4s": "s", "2s": "s", "2d": "d"}


def multiply_by_element(
    instrs: Sequence[Instr], live_out: frozenset[str], post_indexed: bool = False
) -> tuple[Instr, ...]:
    """Return straight-line code with scalar loads and multiplications by element in place of broadcasting loads.

    live_out: registers that are live at its end. post_indexed: True to divide a broadcasting load that moves its
    pointer into a scalar load and an addition.
    """
    rewritten = list(instrs)
    additions: dict[int, Instr] = {}
    for at, instr in enumerate(instrs):
        broadcast = _broadcast(instr)
        if broadcast is None or (broadcast[1].mode == "post" and not post_indexed):
            continue
        target, address = broadcast
        code = with_effects(rewritten)
        readers = multiplying_readers(code, at, target, target, live_out)
        step = _step(address)
        if not readers or (address.mode == "post" and step is None):
            continue
        element = _ELEMENT[target.arrangement]
        rewritten[at] = Instr("ldr", (Reg(target.name, element), Mem(address.base)))
        if step is not None:
            additions[at] = Instr("add", (address.base, address.base, step))
        for reader in readers:
            operands = rewritten[reader].operands
            rewritten[reader] = replace(rewritten[reader], operands=(*operands[:2], Reg(target.name, "v", element, 0)))
    return tuple(
        new for at, instr in enumerate(rewritten) for new in ((instr, additions[at]) if at in additions else (instr,))
    )


def _broadcast(instr: Instr) -> tuple[Reg, Mem] | None:
    """Return register and address of an ld1r if multiplications by element exist for its type; else None."""
    match instr:
        case Instr("ld1r", (RegList((target,)), Mem() as address)) if target.arrangement in _ELEMENT:
            return target, address
    return None


def _step(address: Mem) -> Reg | Imm | None:
    """Return what a post-indexed access adds to its base; None if it adds nothing, or more than one `add` can."""
    if address.mode != "post":
        return None
    if address.index is not None:
        return address.index
    return Imm(address.offset) if address.offset is not None and 0 < address.offset < STEP_LIMIT else None


def multiplying_readers(
    code: Sequence[Code], at: int, target: Reg, factor: Reg, live_out: frozenset[str]
) -> tuple[int, ...]:
    """Return the indices of the readers of the value loaded at `at` if all of them multiply by it; else ().

    target: the register that is loaded. factor: the operand by which a reader multiplies: the register, or an element.
    """
    readers: list[int] = []
    for index in range(at + 1, len(code)):
        accesses = [a for a in code[index].effects.accesses if a.register == target.name]
        if any(a.read for a in accesses):
            match code[index].instr:
                case Instr("fmla" | "fmls" | "fmul", (_, _, operand)) if operand == factor and len(accesses) == 1:
                    readers.append(index)
                case _:
                    return ()
        elif accesses:  # a new value
            return tuple(readers)
    return () if target.name in live_out else tuple(readers)
