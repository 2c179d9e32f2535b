"""Folds copies and sums of a pointer into the addresses of the accesses that use them.

    add  x15, x11, #256        ->    prfm pldl1keep, [x11, #256]
    prfm pldl1keep, [x15]

On an in-order core each folded instruction saves an issue slot. The base of an access is replaced by a register that
then holds the same value plus a constant, if the new offset can be encoded.
"""

from collections.abc import Sequence
from dataclasses import replace

from mavcg.passes.asm.analysis.aliasing import RegisterValues, address_range, track_registers
from mavcg.passes.asm.analysis.dependences import Code, with_effects
from mavcg.passes.asm.isa.encoding import STEP_LIMIT, at_offset
from mavcg.passes.asm.isa.syntax import Imm, Instr, Reg


def fold_addresses(instrs: Sequence[Instr], live_out: frozenset[str]) -> tuple[Instr, ...]:
    """Return straight-line code with fewer address computations.

    live_out: registers that are live at the end of the block, in the next iteration included.
    """
    code = with_effects(_plain_steps(with_effects(instrs)))
    values = track_registers([(c.instr, c.effects) for c in code])
    folded = [
        _sum_of_origin(c, before) if c.effects.memory is None else _on_root(c, before)
        for c, before in zip(code, values, strict=False)
    ]
    return _without_dead(folded, live_out)


def _plain_steps(code: Sequence[Code]) -> list[Instr]:
    """Split post-indexed accesses through a copied pointer into access and add, so that the copy can be folded."""
    values = track_registers([(c.instr, c.effects) for c in code])
    rewritten: list[Instr] = []
    for c, before in zip(code, values, strict=False):
        memory = c.effects.memory
        base = memory.address.base.name if memory is not None else ""
        root, _ = before.get(base, (base, 0))
        if memory is None or memory.address.mode != "post" or memory.address.index is not None or root in ("", base):
            rewritten.append(c.instr)
            continue
        step = memory.address.offset
        plain = at_offset(c.instr, replace(memory.address, offset=0, mode="offset"), memory.bytes)
        if plain is None or step is None or not 0 < abs(step) < STEP_LIMIT or base in _data_registers(c):
            rewritten.append(c.instr)
            continue
        pointer = memory.address.base
        rewritten += [plain, Instr("add" if step > 0 else "sub", (pointer, pointer, Imm(abs(step))))]
    return rewritten


def _data_registers(code: Code) -> list[str]:
    """Return the registers of an access that are not part of its address."""
    return [a.register for a in code.effects.accesses if a.role != "addr"]


def _on_root(code: Code, before: RegisterValues) -> Instr:
    """Return the access with the root of its address as base, if the root is a register's value at the block's top."""
    memory = code.effects.memory
    if memory is None or memory.address.mode != "offset" or memory.address.index is not None:
        return code.instr
    target = address_range(memory, before)
    origin = _origin(target.root)
    if target.offset is None or origin == memory.address.base.name:
        return code.instr
    root, moved = before.get(origin, (origin, 0))
    if root != target.root:
        return code.instr
    address = replace(memory.address, base=Reg(origin, "x"), offset=target.offset - moved)
    return at_offset(code.instr, address, memory.bytes) or code.instr


def _origin(root: str) -> str:
    """Return the register that held a root's value first: "x0" of "x0" and of "x0@7" (aliasing.AddressRange)."""
    return root.partition("@")[0]


def _sum_of_origin(code: Code, before: RegisterValues) -> Instr:
    """Return a sum or difference of two registers, with the register that was copied in place of its copy."""

    def original(register: Reg) -> Reg:
        value = before.get(register.name, (register.name, 0))
        origin = _origin(value[0])
        same = origin != "sp" and before.get(origin, (origin, 0)) == value
        return replace(register, name=origin) if same else register

    match code.instr:
        case Instr("add" | "sub", (Reg(view="x") as to, Reg(view="x") as first, Reg(view="x") as second)):
            return replace(code.instr, operands=(to, original(first), original(second)))
    return code.instr


def _without_dead(instrs: Sequence[Instr], live_out: frozenset[str]) -> tuple[Instr, ...]:
    """Remove copies and sums whose result is dead."""
    live = set(live_out)
    live_code: list[Instr] = []
    for code in reversed(with_effects(instrs)):
        effect = code.effects
        only_moves = effect.op_class in ("alu", "mov_imm") and not effect.reads_flags and not effect.writes_flags
        if only_moves and "sp" not in effect.writes() and not effect.writes() & live:
            continue
        live -= {a.register for a in effect.accesses if a.write and not a.read}
        live |= effect.reads()
        live_code.append(code.instr)
    return tuple(reversed(live_code))
