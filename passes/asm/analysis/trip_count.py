"""Recognises counted loops: the register that counts, its end and step, from the comparison before the branch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mavcg.passes.asm.analysis.dependences import Code
from mavcg.passes.asm.isa.syntax import ZERO, Imm, Instr, Reg

_ENDS = {"b.ne", "b.lo", "b.cc", "b.lt", "b.hi", "b.gt"}


@dataclass(frozen=True)
class LoopCounter:
    """The counter of a loop: `register` changes by `step` each iteration until it reaches `end`.

    end: the register with the final value; None for 0. up: True if the register is incremented. drop: indices of
    instructions that only control the loop. plain: index -> that instruction in its form that sets no flags. guard:
    mnemonic of the branch that, after a comparison of register and end, is taken when the loop would not count towards
    its end; "" where no guard is needed.
    """

    register: Reg
    end: Reg | None
    step: int
    up: bool
    drop: tuple[int, ...]
    plain: dict[int, Instr]
    guard: str


def loop_counter(code: Sequence[Code]) -> LoopCounter | None:
    """Return the counter that controls the loop's branch; None for a loop that is not a counted loop."""
    last = code[-1].instr
    if last.mnemonic == "cbnz":
        register = last.operands[0]
        return _stepping_counter(code, register, None, (), "", {}) if isinstance(register, Reg) else None
    if last.mnemonic not in _ENDS:
        return None
    setters = [i for i, c in enumerate(code) if c.effects.writes_flags]
    if not setters or any(c.effects.reads_flags for c in code[setters[-1] : -1]):
        return None
    at = setters[-1]
    setter = code[at].instr
    ops = setter.operands
    if setter.mnemonic == "subs" and len(ops) == 3 and ops[0] == ops[1] and isinstance(ops[0], Reg):
        guard = {"b.ne": "", "b.hi": "", "b.gt": "b.le"}.get(last.mnemonic)
        if guard is None or ops[0].name == ZERO:
            return None
        # The branch is taken while more than a step is left, unsigned for b.hi, signed for b.gt.
        return _stepping_counter(code, ops[0], None, (), guard, {at: replace(setter, mnemonic="sub")})
    if setter.mnemonic != "cmp" or len(ops) != 2 or not (isinstance(ops[0], Reg) and isinstance(ops[1], Reg)):
        return None
    first, second = ops
    assert isinstance(first, Reg) and isinstance(second, Reg)
    written = {r for c in code for r in c.effects.writes()}
    moving, still = (first, second) if second.name not in written else (second, first)
    if still.name in written or moving.name not in written or ZERO in (first.name, second.name):
        return None
    below = {"b.ne": "", "b.lo": "b.hs", "b.cc": "b.hs", "b.lt": "b.ge"}  # goes on while first < second
    above = {"b.ne": "", "b.hi": "b.ls", "b.gt": "b.le"}  # goes on while first > second
    table = below if moving == first else {"b.ne": "", "b.hi": "b.hs", "b.gt": "b.ge"}
    if last.mnemonic not in table:
        table = above if moving == first else {"b.ne": "", "b.lo": "b.ls", "b.cc": "b.ls", "b.lt": "b.le"}
        if last.mnemonic not in table:
            return None
        return _stepping_counter(code, moving, still, (at,), table[last.mnemonic], {}, up=False)
    guard = table[last.mnemonic]
    return _stepping_counter(code, moving, still, (at,), guard, {}, up=True if guard else None)


def _stepping_counter(
    code: Sequence[Code],
    register: Reg,
    end: Reg | None,
    drop: tuple[int, ...],
    guard: str,
    plain: dict[int, Instr],
    up: bool | None = None,
) -> LoopCounter | None:
    """Return the loop's counter if one add or sub alone changes `register`; None otherwise.

    drop, guard, plain: as in LoopCounter. up: the direction that the counter must have; None for either.
    """
    writers = [i for i, c in enumerate(code) if register.name in c.effects.writes()]
    if len(writers) != 1:
        return None
    at = writers[0]
    instr = plain.get(at, code[at].instr)
    if instr.mnemonic not in ("add", "sub") or len(instr.operands) != 3:
        return None
    to, source, step = instr.operands
    if not (isinstance(to, Reg) and to == source == register and isinstance(step, Imm) and step.value > 0):
        return None
    compares = drop[0] if drop else len(code)
    goes_up = instr.mnemonic == "add"
    if at > compares or (end is None and goes_up) or (up is not None and up != goes_up):
        return None
    return LoopCounter(register, end, step.value, goes_up, drop, plain, guard)
