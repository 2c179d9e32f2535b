"""Which memory accesses of a block are provably apart: addresses as a value at its top plus a known distance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.passes.asm.effects import Effects, MemoryAccess
from mavcg.passes.asm.syntax import ZERO, Imm, Instr, Reg, Word


@dataclass(frozen=True)
class Place:
    """Where an access goes: `bytes` bytes from root + offset.

    root: a value that is the same wherever its name is: a register's at the top of the block ("x0"), or one made in it
    ("x0@7"). index: the same for a register that is added, with its extension, or "".
    """

    root: str
    offset: int | None
    index: str
    bytes: int


# Register -> (root, distance): its value is the root's plus the distance. A register that is not in it is its own root.
Values = Mapping[str, tuple[str, int]]


@dataclass(frozen=True)
class Places:
    """A block's accesses: one Place, or None where nothing is known, for each instruction; and by how many bytes each
    register that the block writes is greater at its end than at its top, None where that is no constant."""

    of: tuple[Place | None, ...]
    steps: dict[str, int | None]


def tracked(code: Sequence[tuple[Instr, Effects]]) -> list[Values]:
    """What is known of registers before each instruction of straight-line code, and after the last."""
    values: dict[str, tuple[str, int]] = {}
    found: list[Values] = [{}]
    for at, (instr, effect) in enumerate(code):
        new = _update(instr, effect, values)
        for register in effect.writes():
            values[register] = new.get(register, (f"{register}@{at}", 0))
        found.append(dict(values))
    return found


def places(code: Sequence[tuple[Instr, Effects]]) -> Places:
    """Where each access of straight-line code goes."""
    known = tracked(code)
    found = tuple(
        None if effect.memory is None or not effect.memory.bytes else place_of(effect.memory, values)
        for (_, effect), values in zip(code, known, strict=False)
    )
    steps = {r: offset if root == r else None for r, (root, offset) in known[-1].items()}
    return Places(found, steps)


def place_of(memory: MemoryAccess, values: Values) -> Place:
    """Where an access goes, from what is known of registers before it."""
    address = memory.address
    root, offset = _value(values, address.base.name)
    if address.mode == "post":
        return Place(root, offset, "", memory.bytes)
    if address.index is not None:
        index_root, index_offset = _value(values, address.index.name)
        return Place(root, offset, f"{index_root}+{index_offset} {address.index.view} {address.extend}", memory.bytes)
    if address.offset is None:
        return Place(root, None, address.symbol, memory.bytes)
    return Place(root, offset + address.offset, "", memory.bytes)


def _value(values: Values, register: str) -> tuple[str, int]:
    return values.get(register, (register, 0))


def _update(instr: Instr, effect: Effects, values: Values) -> dict[str, tuple[str, int]]:
    """New values of registers that differ from a known one by a constant."""
    if effect.memory is not None:
        address = effect.memory.address
        if address.mode != "offset" and address.index is None and address.offset is not None:
            root, offset = _value(values, address.base.name)
            return {address.base.name: (root, offset + address.offset)}
        return {}
    ops = instr.operands
    if instr.mnemonic == "mov" and len(ops) == 2 and all(isinstance(o, Reg) and o.view == "x" for o in ops):
        to, source = ops
        assert isinstance(to, Reg) and isinstance(source, Reg)
        return {} if source.name == ZERO else {to.name: _value(values, source.name)}
    if instr.mnemonic not in ("add", "sub") or len(ops) not in (3, 4):
        return {}
    to, source, step = ops[:3]
    if not (isinstance(to, Reg) and isinstance(source, Reg) and isinstance(step, Imm)):
        return {}
    if not to.view == source.view == "x":
        return {}
    shift = 0
    if len(ops) == 4:
        if not isinstance(ops[3], Word) or ops[3].text.lower().replace("#", "").split() != ["lsl", "12"]:
            return {}
        shift = 12
    distance = step.value << shift
    root, offset = _value(values, source.name)
    return {to.name: (root, offset + (distance if instr.mnemonic == "add" else -distance))}


def may_overlap(one: Place | None, other: Place | None, steps: Mapping[str, int | None], later: int = 0) -> bool:
    """Whether `other`, made `later` iterations after `one`, may touch a byte that `one` touches.

    steps: as in Places.
    """
    if one is None or other is None or one.offset is None or other.offset is None:
        return True
    if one.root != other.root or one.index != other.index:
        return True
    distance = other.offset - one.offset
    if later:
        step = _step(one.root, steps)
        if step is None or (one.index and _step(one.index.split("+")[0], steps) != 0):
            return True
        distance += later * step
    return -other.bytes < distance < one.bytes


def _step(root: str, steps: Mapping[str, int | None]) -> int | None:
    """By how much a root grows in an iteration: 0 for a register that the loop leaves alone."""
    return None if "@" in root else steps.get(root, 0)
