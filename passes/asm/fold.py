"""Addresses from the registers that they come from: copies and sums of a pointer that only address are folded away.

    add  x15, x11, #256        ->    prfm pldl1keep, [x11, #256]
    prfm pldl1keep, [x15]

On an in-order core each such instruction takes a slot beside the work. An access may use another register where that
holds, at this point, the same value but for a constant, and the offset can be encoded.
"""

from collections.abc import Sequence
from dataclasses import replace

from mavcg.passes.asm.addresses import Values, place_of, tracked
from mavcg.passes.asm.dependences import Code, known
from mavcg.passes.asm.encoding import STEP_LIMIT, at_offset
from mavcg.passes.asm.syntax import Imm, Instr, Reg


def fold_addresses(instrs: Sequence[Instr], live_out: frozenset[str]) -> tuple[Instr, ...]:
    """The same work with fewer address registers.

    live_out: registers wanted at the end of the block, by the next iteration too.
    """
    code = known(_plain_steps(known(instrs)))
    values = tracked([(c.instr, c.effects) for c in code])
    folded = [_on_root(c, before) for c, before in zip(code, values, strict=False)]
    return _without_dead(folded, live_out)


def _plain_steps(code: Sequence[Code]) -> list[Instr]:
    """Accesses that also move a copied pointer, as an access and an add: the copy may then be folded."""
    values = tracked([(c.instr, c.effects) for c in code])
    found: list[Instr] = []
    for c, before in zip(code, values, strict=False):
        memory = c.effects.memory
        base = memory.address.base.name if memory is not None else ""
        root, _ = before.get(base, (base, 0))
        if memory is None or memory.address.mode != "post" or memory.address.index is not None or root in ("", base):
            found.append(c.instr)
            continue
        step = memory.address.offset
        plain = at_offset(c.instr, replace(memory.address, offset=0, mode="offset"), memory.bytes)
        if plain is None or step is None or not 0 < abs(step) < STEP_LIMIT or base in _others(c):
            found.append(c.instr)
            continue
        pointer = memory.address.base
        found += [plain, Instr("add" if step > 0 else "sub", (pointer, pointer, Imm(abs(step))))]
    return found


def _others(code: Code) -> list[str]:
    """The registers of an access that are no part of its address."""
    return [a.register for a in code.effects.accesses if a.role != "addr"]


def _on_root(code: Code, before: Values) -> Instr:
    """The access on the register that its address comes from, where that is one that the block was entered with."""
    memory = code.effects.memory
    if memory is None or memory.address.mode != "offset" or memory.address.index is not None:
        return code.instr
    place = place_of(memory, before)
    if place.offset is None or "@" in place.root or place.root == memory.address.base.name:
        return code.instr
    root, moved = before.get(place.root, (place.root, 0))
    if root != place.root:
        return code.instr
    address = replace(memory.address, base=Reg(place.root, "x"), offset=place.offset - moved)
    return at_offset(code.instr, address, memory.bytes) or code.instr


def _without_dead(instrs: Sequence[Instr], live_out: frozenset[str]) -> tuple[Instr, ...]:
    """Copies and sums that nobody reads any more, left out."""
    live = set(live_out)
    kept: list[Instr] = []
    for code in reversed(known(instrs)):
        effect = code.effects
        only_moves = effect.op_class in ("alu", "mov_imm") and not effect.reads_flags and not effect.writes_flags
        if only_moves and "sp" not in effect.writes() and not effect.writes() & live:
            continue
        live -= {a.register for a in effect.accesses if a.write and not a.read}
        live |= effect.reads()
        kept.append(code.instr)
    return tuple(reversed(kept))
