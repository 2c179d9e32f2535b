"""Decode instructions for the simulator: class, registers by number, memory access, control flow.

Each encoding is decoded once per address and cached. tables.py turns a decoded instruction into a row of the C library.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mavcg.hardware.timing import MissingFact, Timing
from mavcg.passes.asm.analysis.dependences import Code
from mavcg.passes.asm.isa.effects import Effects, Malformed
from mavcg.passes.asm.isa.instruction import effects
from mavcg.passes.asm.isa.op import Op, RegisterRead
from mavcg.passes.asm.isa.syntax import Mem, SyntaxFault, parse_instr

UNMODELLED = "unmodelled"  # class of instructions without timing facts
WORD = 4
_FLOWS = {"cond": 1, "jump": 2, "call": 3, "return": 4, "indirect": 5}
_CALL_INDIRECT = 6
LOAD, STORE, PREFETCH, UNSIZED = 1, 2, 4, 8
_HINTS = frozenset("bti hint csdb yield esb".split())  # instructions without an effect on registers or memory
_JUMPS = frozenset("b bl br blr ret braa brab braaz brabz blraa blrab blraaz blrabz retaa retab".split())


@dataclass(frozen=True)
class DecodedInstr:
    """An executed instruction.

    op: the operation as the pipeline models take it; its class is UNMODELLED if the instruction tables or the core's
    file lack it; `why` is the reason. flow, memory: numbers of sim_flow and sim_memory in simulate_api.h. size: bytes
    that it accesses in memory. address: address operand of a prefetch.
    """

    op: Op
    flow: int = 0
    memory: int = 0
    size: int = 0
    address: Mem | None = None
    why: str = ""


def register_number(name: str) -> int:
    """Return a register's number in the simulator: x0 to x30 are 0 to 30, sp 31, v0 to v31 32 to 63, nzcv 64."""
    if name in ("sp", "nzcv"):
        return 31 if name == "sp" else 64
    return int(name[1:]) + (32 if name[0] == "v" else 0)


@lru_cache(maxsize=1)
def _decoder() -> Any:
    import capstone

    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    decoder.detail = True
    return decoder


@lru_cache(maxsize=1 << 16)
def decode(word: bytes, address: int) -> DecodedInstr:
    """Decode one instruction; if the tables of passes/asm/isa lack it, its registers are those that capstone names."""
    instruction = next(_decoder().disasm(word, address, 1), None)
    if instruction is None:
        text = f".inst {int.from_bytes(word, 'little'):#010x}"
        return DecodedInstr(Op(text, UNMODELLED), memory=UNSIZED, why="unknown to the disassembler")
    text = f"{instruction.mnemonic} {instruction.op_str}".strip()
    if instruction.mnemonic in _HINTS:
        return DecodedInstr(Op(text, "nop"))
    try:
        instr = parse_instr(text)
        known = effects(instr)
    except (SyntaxFault, Malformed):
        known = None
    if known is None:
        return _unmodelled_instr(instruction, text)
    op = Code(instr, known).op
    return DecodedInstr(op, _flow(instruction.mnemonic, known), *_memory(known))


def _flow(mnemonic: str, known: Effects) -> int:
    return _CALL_INDIRECT if mnemonic.startswith("blr") else _FLOWS.get(known.flow, 0)


def _memory(known: Effects) -> tuple[int, int, Mem | None]:
    memory = known.memory
    if memory is None:
        return 0, 0, None
    if not memory.bytes:
        return PREFETCH, 0, memory.address
    return LOAD * memory.load | STORE * memory.store, memory.bytes, None


def _unmodelled_instr(instruction: Any, text: str) -> DecodedInstr:
    read, written = instruction.regs_access()
    reads = [name for number in read if (name := _whole_register(instruction.reg_name(number)))]
    writes = [name for number in written if (name := _whole_register(instruction.reg_name(number)))]
    op = Op(" ".join(text.split()), UNMODELLED, tuple(RegisterRead(name) for name in reads), tuple(writes))
    flow = 0
    if instruction.mnemonic in _JUMPS or instruction.mnemonic.startswith("bc."):
        flow = (
            4
            if instruction.mnemonic.startswith("ret")
            else _CALL_INDIRECT
            if instruction.mnemonic.startswith("blr")
            else 5
        )
    return DecodedInstr(op, flow, UNSIZED, why="not in the tables of instructions")


def _whole_register(name: str) -> str:
    """Return the full register that a capstone name is part of, such as "x1" for "w1"; "" if it is not simulated."""
    if name in ("sp", "nzcv", "wsp"):
        return "nzcv" if name == "nzcv" else "sp"
    named = {"fp": "x29", "lr": "x30"}.get(name, name)
    if len(named) < 2 or not named[1:].isdigit() or named[0] not in "wxbhsdqv":
        return ""
    return ("x" if named[0] in "wx" else "v") + named[1:]


def for_core(decoded: DecodedInstr, timing: Timing) -> DecodedInstr:
    """Return the instruction unchanged, or as UNMODELLED if the core's file has no timing of its class."""
    if decoded.op.op_class == UNMODELLED:
        return decoded
    try:
        timing.of(decoded.op.op_class)
        if decoded.op.writeback is not None:
            timing.of("writeback")
        return decoded
    except MissingFact:
        op = Op(decoded.op.text, UNMODELLED, decoded.op.reads, decoded.op.writes)
        why = f"the core's file has no row for {decoded.op.op_class}"
        return DecodedInstr(op, decoded.flow, decoded.memory, decoded.size, decoded.address, why)


@dataclass(frozen=True)
class PrefetchAddress:
    """The address operand of a prefetch: base + (extend(index) << shift) + offset.

    base, index: register numbers; index is NO_REGISTER if there is none. extend: 0 for none, 1 for uxtw, 2 for sxtw.
    """

    base: int
    index: int
    extend: int
    shift: int
    offset: int


NO_REGISTER = 255


def prefetch_address(address: Mem) -> PrefetchAddress:
    """Return a prefetch's address operand with its registers as numbers."""
    base = register_number(address.base.name)
    offset = address.offset or 0
    if address.index is None or address.index.name not in _GENERAL:
        return PrefetchAddress(base, NO_REGISTER, 0, 0, offset)
    extend = str(address.extend or "").lower()
    digits = "".join(c for c in extend if c.isdigit())
    kind = 1 if extend.startswith("uxtw") else 2 if extend.startswith("sxtw") else 0
    return PrefetchAddress(base, register_number(address.index.name), kind, int(digits or 0), offset)


_GENERAL = frozenset(f"x{n}" for n in range(31))
