"""Derive the tokens between execution units from the memory that instructions read and write.

An instruction that depends on several instructions of another unit waits for the last of them, because units execute in
order. It needs no token if an earlier instruction of its own unit has already waited for that instruction or a later
one. So the k-th token that a unit gives to another unit is the k-th that the other unit takes: counters are sufficient.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from mavcg.accelerators.isa.footprint import DDR_PARAMETERS, AccessedRange
from mavcg.accelerators.isa.instruction import AccelInstruction


@dataclass
class _Piece:
    """State of a range of memory.

    writer: last writer, as (unit, instruction). readers: last reader of each unit since that write.
    """

    writer: tuple[int, int] | None = None  # unit, instruction
    readers: dict[int, int] = field(default_factory=dict)


class _Ranges:
    """A memory as consecutive pieces; piece i begins at starts[i]."""

    def __init__(self) -> None:
        self.starts = [0]
        self.pieces = [_Piece()]

    def _split(self, at: int) -> int:
        index = bisect_left(self.starts, at)
        if index < len(self.starts) and self.starts[index] == at:
            return index
        before = self.pieces[index - 1]
        self.starts.insert(index, at)
        self.pieces.insert(index, _Piece(before.writer, dict(before.readers)))
        return index

    def touch(self, access: AccessedRange, unit: int, index: int) -> list[tuple[int, int]]:
        """Record an access, and return the instructions that it must follow, as (unit, instruction)."""
        first, end = self._split(access.first), self._split(access.end)
        earlier: list[tuple[int, int]] = []
        for piece in self.pieces[first:end]:
            if piece.writer is not None:
                earlier.append(piece.writer)
            if access.writes:
                earlier += piece.readers.items()
            else:
                piece.readers[unit] = index
        if access.writes:
            self.starts[first + 1 : end] = []
            self.pieces[first:end] = [_Piece((unit, index))]
        return earlier


def with_tokens(
    instructions: Sequence[AccelInstruction], accessed: Sequence[Iterable[AccessedRange]]
) -> tuple[AccelInstruction, ...]:
    """Return the instructions with `wait` and `signal` set so that all dependences are kept.

    The last instruction (misc.end) waits for all others. accessed: for each instruction, the ranges that it reads and
    writes.
    """
    units = range(len(instructions[0].form.units)) if instructions else range(0)
    memories: dict[str, _Ranges] = {}
    # waited[unit][other]: the latest instruction of `other` that `unit` has waited for.
    waited = [[-1] * len(units) for _ in units]
    last = [-1] * len(units)
    waits, signals = [0] * len(instructions), [0] * len(instructions)
    for index, instruction in enumerate(instructions):
        needs = [-1] * len(units)
        for access in accessed[index]:
            if access.memory == DDR_PARAMETERS:  # no instruction writes the parameters
                continue
            ranges = memories.setdefault(access.memory, _Ranges())
            for unit, earlier in ranges.touch(access, instruction.unit, index):
                needs[unit] = max(needs[unit], earlier)
        if index == len(instructions) - 1:
            needs = list(last)
        for unit, need in enumerate(needs):
            if unit != instruction.unit and need > waited[instruction.unit][unit]:
                waits[index] |= 1 << unit
                signals[need] |= 1 << instruction.unit
                waited[instruction.unit][unit] = need
        last[instruction.unit] = index
    return tuple(
        replace(instruction, wait=wait, signal=signal)
        for instruction, wait, signal in zip(instructions, waits, signals, strict=True)
    )
