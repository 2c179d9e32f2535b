"""Neighbouring scalars that only multiply, as lanes of one vector load.

    ldr  s24, [x11]                   ->    ldr  q24, [x11]
    ldr  s25, [x11, #4]
    ldr  s26, [x11, #8]
    ldr  s27, [x11, #12]
    fmla v0.4s, v28.4s, v24.s[0]            fmla v0.4s, v28.4s, v24.s[0]
    fmla v1.4s, v28.4s, v27.s[0]            fmla v1.4s, v28.4s, v24.s[3]

Compilers load one by one what they broadcast; on a core that loads no vector register beside a multiply-add each such
load costs a cycle. The same bytes are read, products and their rounding are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mavcg.passes.asm.addresses import place_of, tracked
from mavcg.passes.asm.dependences import Code, known
from mavcg.passes.asm.encoding import reaches
from mavcg.passes.asm.split import split_loads
from mavcg.passes.asm.syntax import Instr, Mem, Reg

_ELEMENT_BYTES = {"s": 4, "d": 8}
_VECTOR_BYTES = 16
_MULTIPLIES = ("fmla", "fmls", "fmul")


@dataclass(frozen=True)
class _Scalar:
    """A load of one element: where it stands, its register, where it loads from, and who multiplies by it."""

    at: int
    register: Reg
    address: Mem
    place: tuple[str, int]
    readers: tuple[int, ...]


def as_lanes(instrs: Sequence[Instr], live_out: frozenset[str]) -> tuple[Instr, ...]:
    """Straight-line code with such loads joined; the new values get names such as "v%0" (see rename.allocate).

    live_out: registers wanted at its end. Code that stores is left as it is, and what has nothing to be joined.
    """
    single = _singles(instrs)
    code = known(single)
    if any(c.effects.memory is not None and c.effects.memory.store for c in code):
        return tuple(instrs)
    values = tracked([(c.instr, c.effects) for c in code])
    scalars: dict[tuple[str, str, int], _Scalar] = {}
    for at, c in enumerate(code):
        memory, ops = c.effects.memory, c.instr.operands
        if c.instr.mnemonic not in ("ldr", "ldur") or memory is None or not isinstance(ops[0], Reg):
            continue
        address = memory.address
        if ops[0].view not in _ELEMENT_BYTES or address.mode != "offset" or address.index or address.offset is None:
            continue
        place = place_of(memory, values[at])
        readers = _readers(code, at, ops[0], live_out)
        if place.offset is None or not readers:
            continue
        found = _Scalar(at, ops[0], address, (place.root, place.offset), readers)
        scalars.setdefault((ops[0].view, place.root, place.offset), found)
    return _joined(single, scalars) or tuple(instrs)


def _singles(instrs: Sequence[Instr]) -> list[Instr]:
    """The code with pairs of scalars as two loads."""
    found: list[Instr] = []
    for instr in instrs:
        ops = instr.operands
        if instr.mnemonic == "ldp" and isinstance(ops[0], Reg) and ops[0].view in _ELEMENT_BYTES:
            found += split_loads([instr], False, True).instrs
        else:
            found.append(instr)
    return found


def _joined(instrs: Sequence[Instr], scalars: dict[tuple[str, str, int], _Scalar]) -> tuple[Instr, ...]:
    """The code with every vector's worth of scalars as one load; nothing where there is none."""
    found: list[Instr | None] = list(instrs)
    loads: dict[int, Instr] = {}
    number = 0
    while scalars:
        view, root, offset = min(scalars)
        each = _ELEMENT_BYTES[view]
        keys = [(view, root, offset + by) for by in range(0, _VECTOR_BYTES, each)]
        if any(key not in scalars for key in keys):
            del scalars[keys[0]]
            continue
        group = [scalars.pop(key) for key in keys]
        first = min(group, key=lambda scalar: scalar.at)
        assert first.address.offset is not None
        start = first.address.offset + offset - first.place[1]
        if not reaches(start, _VECTOR_BYTES):
            continue
        name = f"v%{number}"
        number += 1
        for lane, scalar in enumerate(group):
            found[scalar.at] = None
            for reader in scalar.readers:
                instr = found[reader]
                assert instr is not None
                by = Reg(name, "v", view, lane)
                found[reader] = replace(instr, operands=(*instr.operands[:2], by))
        loads[first.at] = Instr("ldr", (Reg(name, "q"), replace(first.address, offset=start)))
    if not number:
        return ()
    return tuple(load for at, instr in enumerate(found) if (load := loads.get(at, instr)) is not None)


def _readers(code: Sequence[Code], at: int, target: Reg, live_out: frozenset[str]) -> tuple[int, ...]:
    """All that read the value loaded at `at`, when each multiplies by its first element; else none."""
    found: list[int] = []
    for index in range(at + 1, len(code)):
        accesses = [a for a in code[index].effects.accesses if a.register == target.name]
        reads = [a for a in accesses if a.read]
        if reads:
            operands = code[index].instr.operands
            by_lane = len(operands) == 3 and operands[2] == Reg(target.name, "v", target.view, 0)
            if code[index].instr.mnemonic not in _MULTIPLIES or not by_lane or len(accesses) != 1:
                return ()
            found.append(index)
        elif accesses:  # a new value
            return tuple(found)
    return () if target.name in live_out else tuple(found)
