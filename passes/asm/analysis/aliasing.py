"""Alias analysis of a block: addresses as a root value plus a constant, so that some accesses provably do not alias."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.passes.asm.isa.effects import Effects, MemoryAccess
from mavcg.passes.asm.isa.syntax import ZERO, Imm, Instr, RawOperand, Reg


@dataclass(frozen=True)
class AddressRange:
    """The memory that an access touches: `bytes` bytes starting at root + offset (+ index).

    root: name of the base value: a register at the top of the block ("x0"), or a register as instruction 7 of the block
    sets it ("x0@7"). offset: in bytes; None where it is not known. index: root, offset and extension of the index
    register ("x1+0 x lsl #2"); "" without one.
    """

    root: str
    offset: int | None
    index: str
    bytes: int


# Register -> (root, distance in bytes): its value is root + distance. A register that is absent is its own root.
RegisterValues = Mapping[str, tuple[str, int]]


@dataclass(frozen=True)
class BlockAccesses:
    """The memory accesses of a block.

    ranges: one AddressRange per instruction, None for an instruction without a memory access. steps: for each register
    that the block writes, its increase from the top of the block to the end, in bytes; None if it is not a constant.
    """

    ranges: tuple[AddressRange | None, ...]
    steps: dict[str, int | None]


def track_registers(code: Sequence[tuple[Instr, Effects]]) -> list[RegisterValues]:
    """Track registers through straight-line code; return their values before each instruction and after the last."""
    values: dict[str, tuple[str, int]] = {}
    states: list[RegisterValues] = [{}]
    for at, (instr, effect) in enumerate(code):
        new = _update(instr, effect, values)
        for register in effect.writes():
            values[register] = new.get(register, (f"{register}@{at}", 0))
        states.append(dict(values))
    return states


def block_accesses(code: Sequence[tuple[Instr, Effects]]) -> BlockAccesses:
    """Return the address range of each access of straight-line code."""
    states = track_registers(code)
    ranges = tuple(
        None if effect.memory is None or not effect.memory.bytes else address_range(effect.memory, values)
        for (_, effect), values in zip(code, states, strict=False)
    )
    steps = {r: offset if root == r else None for r, (root, offset) in states[-1].items()}
    return BlockAccesses(ranges, steps)


def address_range(memory: MemoryAccess, values: RegisterValues) -> AddressRange:
    """Return the address range of an access, from the values of registers before it."""
    address = memory.address
    root, offset = _value(values, address.base.name)
    if address.mode == "post":
        return AddressRange(root, offset, "", memory.bytes)
    if address.index is not None:
        index_root, index_offset = _value(values, address.index.name)
        return AddressRange(
            root, offset, f"{index_root}+{index_offset} {address.index.view} {address.extend}", memory.bytes
        )
    if address.offset is None:
        return AddressRange(root, None, address.symbol, memory.bytes)
    return AddressRange(root, offset + address.offset, "", memory.bytes)


def _value(values: RegisterValues, register: str) -> tuple[str, int]:
    return values.get(register, (register, 0))


def _update(instr: Instr, effect: Effects, values: RegisterValues) -> dict[str, tuple[str, int]]:
    """Return the new values of registers that an instruction sets to a root plus a constant."""
    if effect.memory is not None:
        address = effect.memory.address
        if address.mode != "offset" and address.index is None and address.offset is not None:
            root, offset = _value(values, address.base.name)
            return {address.base.name: (root, offset + address.offset)}
        return {}
    match instr:
        case Instr("mov", (Reg(view="x") as to, Reg(view="x") as source)):
            return {} if source.name == ZERO else {to.name: _value(values, source.name)}
        case Instr("add" | "sub", (Reg(view="x") as to, Reg(view="x") as source, Imm(step))):
            distance = step
        case Instr("add" | "sub", (Reg(view="x") as to, Reg(view="x") as source, Imm(step), RawOperand(text))) if (
            text.lower().replace("#", "").split() == ["lsl", "12"]
        ):
            distance = step << 12
        case _:
            return {}
    root, offset = _value(values, source.name)
    return {to.name: (root, offset + (distance if instr.mnemonic == "add" else -distance))}


def may_overlap(
    first: AddressRange | None, second: AddressRange | None, steps: Mapping[str, int | None], later: int = 0
) -> bool:
    """True unless `second`, executed `later` iterations after `first`, provably shares no byte with `first`.

    steps: as in BlockAccesses.
    """
    if first is None or second is None or first.offset is None or second.offset is None:
        return True
    if first.root != second.root or first.index != second.index:
        return True
    distance = second.offset - first.offset
    if later:
        step = _step(first.root, steps)
        if step is None or (first.index and _step(first.index.split("+")[0], steps) != 0):
            return True
        distance += later * step
    return -second.bytes < distance < first.bytes


def _step(root: str, steps: Mapping[str, int | None]) -> int | None:
    """Return the increase of a root per iteration, in bytes: 0 for a register that the loop does not write."""
    return None if "@" in root else steps.get(root, 0)
