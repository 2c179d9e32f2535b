"""Joins loads of adjacent scalar multipliers into one vector load; the products then use lanes of the vector.

    ldr  s24, [x11]                   ->    ldr  q24, [x11]
    ldr  s25, [x11, #4]
    ldr  s26, [x11, #8]
    ldr  s27, [x11, #12]
    fmla v0.4s, v28.4s, v24.s[0]            fmla v0.4s, v28.4s, v24.s[0]
    fmla v1.4s, v28.4s, v27.s[0]            fmla v1.4s, v28.4s, v24.s[3]

So for eight halves (`ldr h`) and two doubles. Compilers load such scalars one by one; on a core that does not dual-
issue a vector load and a multiply-add each load costs a cycle. The bytes read, the products and their rounding stay the
same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mavcg.passes.asm.analysis.aliasing import address_range, track_registers
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.isa.encoding import reaches
from mavcg.passes.asm.isa.syntax import Instr, Mem, Reg
from mavcg.passes.asm.transforms.broadcast import multiplying_readers
from mavcg.passes.asm.transforms.split_loads import split_loads

_ELEMENT_BYTES = {"h": 2, "s": 4, "d": 8}
_VECTOR_BYTES = 16


@dataclass(frozen=True)
class _ScalarLoad:
    """A load of one element whose readers all multiply by it.

    at: index of the load. location: root and offset of its address (aliasing.py). readers: indices of the products.
    """

    at: int
    register: Reg
    address: Mem
    location: tuple[str, int]
    readers: tuple[int, ...]


def join_scalar_loads(instrs: Sequence[Instr], live_out: frozenset[str], pairs: bool = False) -> tuple[Instr, ...]:
    """Return straight-line code with loads of adjacent multipliers joined; unchanged if it stores, or joins none.

    live_out: registers that are live at its end. pairs: True to join also two f32 values, into a vector of 64 bits. New
    vectors are named "v%0", .. until rename_registers.allocate.
    """
    single = _singles(instrs)
    code = with_effects(single)
    if any(c.effects.memory is not None and c.effects.memory.store for c in code):
        return tuple(instrs)
    values = track_registers([(c.instr, c.effects) for c in code])
    scalars: dict[tuple[str, str, int], _ScalarLoad] = {}
    for at, c in enumerate(code):
        match c.instr:
            case Instr(
                "ldr" | "ldur",
                (Reg(view="h" | "s" | "d") as loaded, Mem(offset=int(), index=None, mode="offset") as address),
            ) if c.effects.memory is not None:
                target = address_range(c.effects.memory, values[at])
                element = Reg(loaded.name, "v", loaded.view, 0)
                readers = multiplying_readers(code, at, loaded, element, live_out)
                if target.offset is not None and readers:
                    scalar = _ScalarLoad(at, loaded, address, (target.root, target.offset), readers)
                    scalars.setdefault((loaded.view, target.root, target.offset), scalar)
    return _join(single, scalars, (_VECTOR_BYTES, _VECTOR_BYTES // 2) if pairs else (_VECTOR_BYTES,)) or tuple(instrs)


def _singles(instrs: Sequence[Instr]) -> list[Instr]:
    """Return the code with loads of a pair of scalars split into two loads."""
    singles: list[Instr] = []
    for instr in instrs:
        match instr:
            case Instr("ldp", (Reg(view="h" | "s" | "d"), *_)):
                singles += split_loads([instr], False, True).instrs
            case _:
                singles.append(instr)
    return singles


def _join(
    instrs: Sequence[Instr], scalars: dict[tuple[str, str, int], _ScalarLoad], sizes: Sequence[int]
) -> tuple[Instr, ...]:
    """Return the code with each group of scalars that fills a vector loaded at once; () if there is no such group.

    sizes: bytes of vectors, the largest first.
    """
    rewritten: list[Instr | None] = list(instrs)
    loads: dict[int, Instr] = {}
    number = 0
    for size, group in _groups(scalars, sizes):
        first = min(group, key=lambda scalar: scalar.at)
        assert first.address.offset is not None
        view = first.register.view
        start = first.address.offset + group[0].location[1] - first.location[1]
        if not reaches(start, size):
            continue
        name = f"v%{number}"
        number += 1
        for lane, scalar in enumerate(group):
            rewritten[scalar.at] = None
            for reader in scalar.readers:
                instr = rewritten[reader]
                assert instr is not None
                element = Reg(name, "v", view, lane)
                rewritten[reader] = replace(instr, operands=(*instr.operands[:2], element))
        whole = Reg(name, "q" if size == _VECTOR_BYTES else "d")
        loads[first.at] = Instr("ldr", (whole, replace(first.address, offset=start)))
    if not number:
        return ()
    return tuple(load for at, instr in enumerate(rewritten) if (load := loads.get(at, instr)) is not None)


def _groups(
    scalars: dict[tuple[str, str, int], _ScalarLoad], sizes: Sequence[int]
) -> Iterator[tuple[int, list[_ScalarLoad]]]:
    """Yield (bytes, scalars in the order of their addresses) for each group of adjacent scalars that fills a vector."""
    for size in sizes:
        left = dict(scalars)
        while left:
            view, root, offset = min(left)
            keys = [(view, root, offset + distance) for distance in range(0, size, _ELEMENT_BYTES[view])]
            if len(keys) == 1 or any(key not in left for key in keys):
                del left[keys[0]]
                continue
            for key in keys:
                del left[key]
            yield size, [scalars.pop(key) for key in keys]
