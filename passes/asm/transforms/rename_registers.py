"""Register renaming: removes false dependences between the values of a loop's body before it is scheduled.

    ldr  q0, [x1]                     ->    ldr  q0, [x1]
    fmla v8.4s, v0.4s, v16.4s               fmla v8.4s, v0.4s, v16.4s
    ldr  q0, [x1, #16]                      ldr  q1, [x1, #16]
    fmla v9.4s, v0.4s, v16.4s               fmla v9.4s, v1.4s, v16.4s

Each value whose live range lies within an iteration gets the register that has been free longest. A value is a web: a
full write and all reads and partial writes of it until the next full write (Muchnick, "Advanced Compiler Design and
Implementation", 16.3.3). Webs that are live-in or live-out keep their register.
"""

from collections.abc import Callable, Mapping, Sequence
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
    """A web: one value in one register.

    positions: its accesses, as (instruction, position in Instr.registers()). fixed: True if it must keep its register.
    from_before: True if it is read before it is written, and thus live-in. is_last: True if no later web has the same
    register. first, last: its live range in half instructions: instruction i reads at 2 i and writes at 2 i + 1, so
    that a web may begin in the instruction that reads the previous web of its register for the last time.
    """

    register: str
    positions: list[tuple[int, int]] = field(default_factory=list)
    fixed: bool = False
    from_before: bool = False
    is_last: bool = False
    first: int = -1
    last: int = -1

    def add(self, at: int, access: Access) -> None:
        """Add an access of instruction `at`; accesses are added in program order."""
        if not self.positions:
            self.first = 2 * at + (not access.read)
        self.positions.append((at, access.position))
        self.first = min(self.first, 2 * at + (not access.read))
        self.last = max(self.last, 2 * at + access.write)


class NoRegister(Exception):
    """Raised if more values are live at the same time than there are free registers."""


def allocate(
    code: Sequence[Code], live_in: frozenset[str], live_out: frozenset[str], spare: frozenset[str] = frozenset()
) -> tuple[Instr, ...]:
    """Allocate new registers to the values whose live range lies within the code.

    First each value gets the register that has been free longest, which separates reuses most. If the registers do not
    suffice, each value keeps its own register if that is free: the code's own allocation is known to fit.
    Args:
        code: straight-line code; scratch registers with names such as "x%0" get real registers.
        live_in, live_out: registers that are live at the top and at the end, at the top of the next iteration included.
        spare: registers that may be used besides caller-saved ones and those that the code writes already.
    Raises: NoRegister.
    """
    webs = _webs(code, live_in, live_out)
    occupied = _occupied_ranges(webs, 2 * len(code), live_in, live_out, spare)
    try:
        names = _names(webs, dict(occupied), code, _longest_free)
    except NoRegister:
        names = _names(webs, dict(occupied), code, _own_if_free)
    return tuple(_rename(c, at, names) for at, c in enumerate(code))


_Ranges = dict[str, int]  # by register: the half instructions at which it is occupied, as bits
_Rank = tuple[int, bool, int]


def _names(
    webs: Sequence[_Web],
    occupied: _Ranges,
    code: Sequence[Code],
    rank: Callable[[_Web, str, int], _Rank],
) -> dict[tuple[int, int], str]:
    """Give each web the free register of least rank; return (instruction, position) -> register.

    The webs' live ranges are added to `occupied`.
    """
    names: dict[tuple[int, int], str] = {}
    general = [register for register in occupied if register[0] == "x"]
    vectors = [register for register in occupied if register[0] == "v"]
    files = {"x": general, "v": vectors, "low": [register for register in vectors if _number(register) < 16]}
    for web in sorted((w for w in webs if not w.fixed), key=lambda w: (w.first, w.last, w.register)):
        live = _bits(web.first, web.last)
        free = [register for register in files[_allowed_kind(web, code)] if not occupied[register] & live]
        if not free:
            raise NoRegister(web.register)
        before = (1 << web.first) - 1
        chosen = min(free, key=lambda register: rank(web, register, (occupied[register] & before).bit_length()))
        occupied[chosen] |= live
        names.update(dict.fromkeys(web.positions, chosen))
    return names


def _bits(first: int, last: int) -> int:
    """Return the bits of a live range, both ends included."""
    return (1 << last + 1) - (1 << first)


def _webs(code: Sequence[Code], live_in: frozenset[str], live_out: frozenset[str]) -> list[_Web]:
    current: dict[str, _Web] = {}
    webs: list[_Web] = []

    def web_of(register: str, anew: bool) -> _Web:
        if anew or register not in current:
            current[register] = _Web(register, fixed=register in ("sp", FLAGS))
            current[register].from_before = not anew
            current[register].fixed |= not anew
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
        web.is_last = True
        web.fixed |= register in live_out
    return webs


def _in_long_list(instr: Instr) -> frozenset[int]:
    """Return the positions of registers in lists of several, which must have consecutive numbers."""
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


def _occupied_ranges(
    webs: Sequence[_Web], length: int, live_in: frozenset[str], live_out: frozenset[str], spare: frozenset[str]
) -> _Ranges:
    """Return for each allocatable register where it is occupied, in code of `length` half instructions.

    A register that carries a value from iteration to iteration is free between the last read of the old value and the
    first write of the new one.
    """
    written = {web.register for web in webs if "%" not in web.register}
    pool = set(SCRATCH_GENERAL) | set(SCRATCH_VECTORS) | (written - {"sp", FLAGS, "x18", "x29", "x30"}) | spare
    taken = dict.fromkeys(sorted(pool), 0)
    touched = {web.register for web in webs}
    for register in (pool & live_in & live_out) - touched:
        taken[register] = _bits(0, length)
    for web in webs:
        if web.fixed and web.register in taken:
            first = 0 if web.from_before else web.first
            last = length if web.is_last and web.register in live_out else web.last
            taken[web.register] |= _bits(first, last)
    return taken


def _allowed_kind(web: _Web, code: Sequence[Code]) -> str:
    """Return the register file of a web: "x", "v", or "low" for v0 to v15, which lanes of 16-bit elements require."""
    if web.register[0] == "x":
        return "x"
    for at, position in web.positions:
        reg = code[at].instr.registers()[position]
        if reg.lane is not None and reg.arrangement.endswith("h"):
            return "low"
    return "v"


def _longest_free(web: _Web, register: str, last_use: int) -> _Rank:
    """Rank the registers by the end of their last use, so that the one that has been free longest comes first."""
    return (last_use, register != web.register, _number(register))


def _own_if_free(web: _Web, register: str, last_use: int) -> _Rank:
    """Rank the web's own register first; then as _longest_free."""
    return (-1, False, 0) if register == web.register else (last_use, True, _number(register))


def _number(register: str) -> int:
    return int(register[1:])


def _rename(code: Code, at: int, names: Mapping[tuple[int, int], str]) -> Instr:
    registers = code.instr.registers()
    chosen = tuple(names.get((at, position), reg.name) for position, reg in enumerate(registers))
    assert not any("%" in name for name in chosen if name != ZERO), str(code.instr)
    if chosen == tuple(reg.name for reg in registers):
        return code.instr
    return code.instr.with_registers(chosen)
