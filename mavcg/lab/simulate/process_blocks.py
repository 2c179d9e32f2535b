"""Decode the blocks of a traced program to the rows of the C library.

An instruction's row does not depend on its address, so that each word is decoded once. The trace has the addresses of
loads and stores, and that of a prefetch where the plugin can follow its registers through the block
(csrc/plugin/integer_steps.h). Else it follows from an access of the same block by the same base register.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.harness import ffi
from mavcg.lab.simulate.rows import PREFETCH, WORD, DecodedInstr, decode, for_core
from mavcg.lab.simulate.tables import TimingTables
from mavcg.passes.asm.isa.effects import Malformed
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.syntax import Imm, Instr, Mem, Reg, SyntaxFault, parse_instr

_INDICES = 512  # instructions of a block whose accesses the trace names


@dataclass
class ProcessBlocks:
    """Rows by word, and blocks by their number, of one program on one core.

    unmodelled: instructions without timing facts, with the reason.
    """

    timing: Timing
    tables: TimingTables
    unmodelled: dict[str, str] = field(default_factory=dict)
    _rows: dict[bytes, tuple[Any, DecodedInstr]] = field(default_factory=dict)
    _blocks: dict[int, tuple[int, bytes]] = field(default_factory=dict)

    def define(self, number: int, address: int, code: bytes) -> None:
        """Keep a block: its address and its instructions."""
        self._blocks[number] = address, code

    def rows(self, number: int) -> tuple[int, Any, int]:
        """Return a block's address, its rows as an array of the C library, and their number.

        Raises: MavcgError for a block that was not defined.
        """
        if number not in self._blocks:
            raise MavcgError(f"simulate: block {number} of the trace is not defined; run the program again")
        address, code = self._blocks[number]
        decoded = [self._decode_word(code[at : at + WORD], address + at) for at in range(0, len(code), WORD)]
        table = ffi().new("sim_row[]", max(1, len(decoded)))
        for at, (row, _) in enumerate(decoded):
            table[at] = row[0]
        for at, (_, instr) in enumerate(decoded):
            if instr.memory == PREFETCH and (near := neighbour(at, [other for _, other in decoded])):
                table[at].beside, table[at].beside_offset = near[0] + 1, near[1]
        return address, table, len(decoded)

    def _decode_word(self, word: bytes, address: int) -> tuple[Any, DecodedInstr]:
        if word not in self._rows:
            decoded = for_core(decode(word, address), self.timing)
            if decoded.why:
                self.unmodelled[decoded.op.text] = decoded.why
            self._rows[word] = self.tables.row(decoded), decoded
        return self._rows[word]


def neighbour(at: int, block: Sequence[DecodedInstr]) -> tuple[int, int] | None:
    """Return the access in a block from which a prefetch's address is known: (its index, bytes from it), or None.

    Between the two, the base register may only change by constants: by updates of an address, and by `add` and `sub`.
    """
    target = block[at].address
    if target is None or target.index is not None or target.offset is None:
        return None
    base, last = target.base.name, min(len(block), _INDICES)
    moved = 0
    for index in range(at - 1, -1, -1):
        change = _change(block[index], base)
        if change is None:
            break
        moved += change
        used = _address(block[index], base)
        if used is not None:
            return index, target.offset + moved - used
    moved = 0
    for index in range(at, last):
        used = _address(block[index], base) if index > at else None
        if used is not None:
            return index, target.offset - moved - used
        change = _change(block[index], base)
        if change is None:
            break
        moved += change
    return None


def _instr(decoded: DecodedInstr) -> tuple[Instr, Mem | None] | None:
    try:
        instr = parse_instr(decoded.op.text)
        known = effects(instr)
    except (SyntaxFault, Malformed):
        return None
    return None if known is None else (instr, known.memory.address if known.memory else None)


def _address(decoded: DecodedInstr, base: str) -> int | None:
    """Return the bytes from a base register, before the instruction, to what it loads or stores; None if unknown."""
    if not decoded.size or (parsed := _instr(decoded)) is None or parsed[1] is None:
        return None
    memory = parsed[1]
    if memory.base.name != base or (memory.index is not None and memory.mode != "post"):
        return None
    return 0 if memory.mode == "post" else memory.offset


def _change(decoded: DecodedInstr, base: str) -> int | None:
    """Return by how many bytes an instruction changes a register; None if that is not known."""
    if base not in decoded.op.writes:
        return 0
    parsed = _instr(decoded)
    if parsed is None:
        return None
    instr, memory = parsed
    if decoded.op.writeback == base and memory is not None:
        return memory.offset if memory.index is None else None
    operands = instr.operands
    if instr.mnemonic not in ("add", "sub") or len(operands) != 3 or not isinstance(operands[2], Imm):
        return None
    if not (isinstance(operands[1], Reg) and operands[1].name == base):
        return None
    value = operands[2].value
    return value if instr.mnemonic == "add" else -value
