"""Register renaming: removes false dependences between the values of a loop's body before it is scheduled.

    ldr  q0, [x1]                     ->    ldr  q0, [x1]
    fmla v8.4s, v0.4s, v16.4s               fmla v8.4s, v0.4s, v16.4s
    ldr  q0, [x1, #16]                      ldr  q1, [x1, #16]
    fmla v9.4s, v0.4s, v16.4s               fmla v9.4s, v1.4s, v16.4s

Each value that is live within one iteration only gets the register that has been free longest. A value is a web: a full
write and everything that reads or changes it until the next full write (Muchnick, "Advanced Compiler Design and
Implementation", 16.3.3). Webs that are live-in or live-out keep their register.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mavcg.passes.asm.analysis.dependences import Code
from mavcg.passes.asm.isa.effects import FLAGS, Access
from mavcg.passes.asm.isa.syntax import ZERO, Instr, RegList

# Registers that a function may use without saving them (IHI 0055, 6.1.1). The linker may change x16 and x17 between a
# call and its target, which is never within the code that this module sees. x18 is reserved for the platform.
SCRATCH_GENERAL = tuple(f"x{i}" for i in range(18))
SCRATCH_VECTORS = tuple(f"v{i}" for i in (*range(8), *range(16, 32)))


@dataclass
class _Web:
    """One value: its register and its accesses as (instruction, position among its registers).

    span: its live range in half instructions: instruction i reads at 2 i and writes at 2 i + 1, so that a value may
    begin in the instruction that reads the last one of its register.
    """

    register: str
    positions: list[tuple[int, int]] = field(default_factory=list)
    fixed: bool = False
    span: tuple[float, float] = (math.inf, -math.inf)

    def add(self, at: int, access: Access) -> None:
        self.positions.append((at, access.position))
        first = 2 * at + (not access.read)
        last = 2 * at + access.write
        self.span = (min(self.span[0], first), max(self.span[1], last))


class NoRegister(Exception):
    """There are fewer free registers than values that are live at the same time."""


def allocate(
    code: Sequence[Code], live_in: frozenset[str], live_out: frozenset[str], spare: frozenset[str] = frozenset()
) -> tuple[Instr, ...]:
    """Allocate registers anew to the values that are live within the body only.

    Args:
        code: straight-line code; scratch registers with names such as "x%0" get real ones.
        live_in, live_out: registers that are live at the top and at the end, at the top of the next iteration included.
        spare: registers that may be used besides those that need no saving and those that the code writes already.
    Raises: NoRegister.
    """
    webs = _webs(code, live_in, live_out)
    occupied = _occupied(webs, live_in, live_out, spare)
    names: dict[tuple[int, int], str] = {}
    for web in sorted((w for w in webs if not w.fixed), key=lambda w: (*w.span, w.register)):
        chosen = _choose(web, occupied, _allowed(web, code))
        occupied[chosen].append(web.span)
        names.update(dict.fromkeys(web.positions, chosen))
    return tuple(_renamed(c, at, names) for at, c in enumerate(code))


def _webs(code: Sequence[Code], live_in: frozenset[str], live_out: frozenset[str]) -> list[_Web]:
    current: dict[str, _Web] = {}
    webs: list[_Web] = []

    def web_of(register: str, anew: bool) -> _Web:
        if anew or register not in current:
            current[register] = _Web(register, fixed=register in ("sp", FLAGS))
            current[register].fixed |= not anew  # it is read before it is written: live-in
            webs.append(current[register])
        return current[register]

    for at, c in enumerate(code):
        accesses = c.effects.accesses
        fixed = _in_long_list(c.instr)
        for access in sorted(accesses, key=lambda a: (a.write and not a.read, a.position)):  # reads come first
            web = web_of(access.register, access.write and not access.read)
            web.add(at, access)
            web.fixed |= access.position in fixed or access.position < 0
    for register, web in current.items():
        web.fixed |= register in live_out
    return webs


def _in_long_list(instr: Instr) -> frozenset[int]:
    """Return the positions of registers that must have consecutive numbers."""
    if not any(isinstance(operand, RegList) and len(operand.registers) > 1 for operand in instr.operands):
        return frozenset()
    position, consecutive = 0, set()
    for operand in instr.operands:
        if isinstance(operand, RegList):
            if len(operand.registers) > 1:
                consecutive |= set(range(position, position + len(operand.registers)))
            position += len(operand.registers)
        else:
            position += len(Instr("", (operand,)).registers())
    return frozenset(consecutive)


def _occupied(
    webs: Sequence[_Web], live_in: frozenset[str], live_out: frozenset[str], spare: frozenset[str]
) -> dict[str, list[tuple[float, float]]]:
    """Return the live ranges that occupy each register that may be allocated."""
    written = {web.register for web in webs if "%" not in web.register}
    pool = set(SCRATCH_GENERAL) | set(SCRATCH_VECTORS) | (written - {"sp", FLAGS, "x18", "x29", "x30"}) | spare
    taken: dict[str, list[tuple[float, float]]] = {register: [] for register in sorted(pool)}
    for register in sorted(pool & live_in & live_out):  # carried on from iteration to iteration
        taken[register].append((-math.inf, math.inf))
    for web in webs:
        if web.fixed and web.register in taken:
            start = -math.inf if web.register in live_in else web.span[0]
            taken[web.register].append((start, math.inf if web.register in live_out else web.span[1]))
    return taken


def _allowed(web: _Web, code: Sequence[Code]) -> str:
    """Return "x" or "v", or "low" for a lane operand of 16-bit elements, which can only be v0 to v15."""
    if web.register[0] == "x":
        return "x"
    for at, position in web.positions:
        reg = code[at].instr.registers()[position]
        if reg.lane is not None and reg.arrangement.endswith("h"):
            return "low"
    return "v"


def _choose(web: _Web, occupied: Mapping[str, Sequence[tuple[float, float]]], kind: str) -> str:
    """Return the register of the right kind that is free for the web's live range and has been free longest before."""

    def number(register: str) -> int:
        return int(register[1:])

    file = "x" if kind == "x" else "v"
    fitting = [
        register
        for register, spans in occupied.items()
        if register[0] == file
        and (kind != "low" or number(register) < 16)
        and all(end < web.span[0] or web.span[1] < start for start, end in spans)
    ]
    if not fitting:
        raise NoRegister(web.register)

    def last_used(register: str) -> tuple[float, bool, int]:
        ends = [end for _, end in occupied[register] if end < web.span[0]]
        return (max(ends, default=-math.inf), register != web.register, number(register))

    return min(fitting, key=last_used)


def _renamed(code: Code, at: int, names: Mapping[tuple[int, int], str]) -> Instr:
    registers = code.instr.registers()
    chosen = tuple(names.get((at, position), reg.name) for position, reg in enumerate(registers))
    assert not any("%" in name for name in chosen if name != ZERO), str(code.instr)
    if chosen == tuple(reg.name for reg in registers):
        return code.instr
    return code.instr.with_registers(chosen)
