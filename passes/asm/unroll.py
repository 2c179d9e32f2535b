"""Unrolling a counted loop: `times` iterations in one, where the number of iterations left is known at its top.

    loop:  body                              sub   xT, xEnd, xN            what is left to count
           add  xN, xN, #1                   subs  xT, xT, #2
           cmp  xN, xEnd                     b.lo  loop                    fewer than two iterations left
           b.ne loop                  two:   body, body                    (addresses of the second: one step on)
                                             add   xN, xN, #2
                                             subs  xT, xT, #2
                                             b.hs  two
                                             cmn   xT, #2
                                             b.eq  end
                                      loop:  body ...                      as it was: what is left
                                      end:

Steps of registers that only count or address are made once for all copies, so that less remains beside the work, and
values need not be done with within one iteration.
Source: Muchnick, "Advanced Compiler Design and Implementation", 17.4.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mavcg.passes.asm.dependences import Code, known
from mavcg.passes.asm.effects import FLAGS
from mavcg.passes.asm.encoding import STEP_LIMIT, at_offset
from mavcg.passes.asm.syntax import ZERO, Imm, Instr, Reg, Word

_ENDS = {"b.ne", "b.lo", "b.cc", "b.lt", "b.hi", "b.gt"}


@dataclass(frozen=True)
class Unrolled:
    """A loop made of several iterations of another.

    before: leads into the loop, or to the label `rest` where too few iterations are left. body: the loop, its branch
    last, its target open. after: what follows it: a branch to the label `end` where nothing is left, else on to
    the old loop. counter: the register that `before` sets and `body` counts. times: iterations in one.
    """

    before: tuple[Instr, ...]
    body: tuple[Instr, ...]
    after: tuple[Instr, ...]
    counter: str
    times: int


@dataclass(frozen=True)
class Count:
    """How a loop counts: `register` goes up (or down) by `step` to `end`, a register or 0.

    drop: indices of instructions that only control the loop. guard: branch mnemonics, after a comparison of register
    and end, that are taken when the count runs the wrong way or not at all.
    """

    register: Reg
    end: Reg | None
    step: int
    up: bool
    drop: tuple[int, ...]
    plain: dict[int, Instr]
    guard: str


def unroll(
    instrs: Sequence[Instr], times: int, counter: str, live_in: frozenset[str], live_out: frozenset[str],
    rest: str, end: str,
) -> Unrolled | None:  # fmt: skip
    """`times` iterations of a loop in one; None for a loop whose iterations cannot be counted at its top.

    instrs: one iteration, its branch last. counter: a general register that nobody uses in or around the loop. live_in,
    live_out: registers wanted at its top and end. rest, end: labels of the old loop and of what follows it.
    """
    code = known(instrs)
    count = count_of(code)
    if count is None or FLAGS in live_in or FLAGS in live_out or count.step * times >= STEP_LIMIT:
        return None
    inside = [count.plain.get(i, c.instr) for i, c in enumerate(code[:-1]) if i not in count.drop]
    kept = known(inside)
    steps = _single_steps(kept)
    body: list[Instr] = []
    for copy in range(times):
        moved = _copy(kept, steps, copy, times)
        if moved is None:
            return None
        body += moved
    left = Reg(counter, count.register.view)
    bunch = Imm(count.step * times)
    control = (Instr("subs", (left, left, bunch)), Instr("b.hs", (Word("again"),)))
    after = (Instr("cmn", (left, bunch)), Instr("b.eq", (Word(end),)))
    return Unrolled(_before(count, left, bunch, rest), (*body, *control), after, counter, times)


def _before(count: Count, left: Reg, bunch: Imm, rest: str) -> tuple[Instr, ...]:
    """Into the loop only where at least `times` iterations are left."""
    guards: tuple[Instr, ...] = ()
    if count.guard:
        against = count.end if count.end is not None else Imm(0)
        guards = (Instr("cmp", (count.register, against)), Instr(count.guard, (Word(rest),)))
    if count.end is None:
        distance = Instr("mov", (left, count.register))
    else:
        distance = Instr("sub", (left, count.end, count.register) if count.up else (left, count.register, count.end))
    return (*guards, distance, Instr("subs", (left, left, bunch)), Instr("b.lo", (Word(rest),)))


def count_of(code: Sequence[Code]) -> Count | None:
    """How the loop's branch comes about, for loops that step a register to an end."""
    last = code[-1].instr
    if last.mnemonic == "cbnz":
        register = last.operands[0]
        return _stepping(code, register, None, (), "", {}) if isinstance(register, Reg) else None
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
        # Taken on while more than a step was left, which for b.hi is what is unsigned, for b.gt what is signed.
        return _stepping(code, ops[0], None, (), guard, {at: replace(setter, mnemonic="sub")})
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
        return _stepping(code, moving, still, (at,), table[last.mnemonic], {}, up=False)
    guard = table[last.mnemonic]
    return _stepping(code, moving, still, (at,), guard, {}, up=True if guard else None)


def _stepping(
    code: Sequence[Code], register: Reg, end: Reg | None, drop: tuple[int, ...], guard: str, plain: dict[int, Instr],
    up: bool | None = None,
) -> Count | None:  # fmt: skip
    """The count of a register that one add or sub changes, and that alone; up: the way it has to go, or None."""
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
    return Count(register, end, step.value, goes_up, drop, plain, guard)


def _single_steps(code: Sequence[Code]) -> dict[str, tuple[int, int]]:
    """Registers that one add or sub of a constant moves, and that are else only bases of plain addresses: where, and by
    how much.

    Not sp, below which nothing may lie; nor a register of which a step in 32 bits clears the upper half.
    """
    steps: dict[str, tuple[int, int]] = {}
    for at, c in enumerate(code):
        ops = c.instr.operands
        if c.instr.mnemonic in ("add", "sub") and len(ops) == 3 and ops[0] == ops[1] and isinstance(ops[2], Imm):
            assert isinstance(ops[0], Reg)
            if ops[0].name == "sp" or (ops[0].view == "w" and _is_base(code, ops[0].name)):
                continue
            sign = 1 if c.instr.mnemonic == "add" else -1
            steps[ops[0].name] = (at, sign * ops[2].value) if ops[0].name not in steps else (-1, 0)
    return {
        register: (at, step)
        for register, (at, step) in steps.items()
        if at >= 0 and all(_only_addresses(c, register) for i, c in enumerate(code) if i != at)
    }


def _is_base(code: Sequence[Code], register: str) -> bool:
    return any(c.effects.memory is not None and c.effects.memory.address.base.name == register for c in code)


def _only_addresses(code: Code, register: str) -> bool:
    """Whether the instruction does not touch the register, or only as the base of an address with a plain offset."""
    uses = [a for a in code.effects.accesses if a.register == register]
    if not uses:
        return True
    memory = code.effects.memory
    return (
        len(uses) == 1
        and memory is not None
        and memory.address.mode == "offset"
        and memory.address.offset is not None
        and memory.address.index is None
        and memory.address.base.name == register
        and code.instr.mnemonic in ("ldr", "ldur", "str", "stur", "ldp", "stp", "prfm")
    )


def _copy(code: Sequence[Code], steps: dict[str, tuple[int, int]], copy: int, times: int) -> list[Instr] | None:
    """One copy of the body: steps are made in the last one, addresses before that count them in."""
    found = []
    for at, c in enumerate(code):
        instr = c.instr
        memory = c.effects.memory
        if memory is not None and memory.address.base.name in steps:
            where, step = steps[memory.address.base.name]
            assert memory.address.offset is not None
            done = copy * step if copy < times - 1 or at < where else 0
            if copy < times - 1 and at > where:
                done += step
            address = replace(memory.address, offset=memory.address.offset + done)
            moved = at_offset(instr, address, memory.bytes) if done else instr
            if moved is None:
                return None
            found.append(moved)
            continue
        stepped = [(r, step) for r, (where, step) in steps.items() if where == at]
        if stepped:
            if copy == times - 1:
                step = abs(stepped[0][1]) * times
                if step >= STEP_LIMIT:
                    return None
                found.append(replace(instr, operands=(*instr.operands[:2], Imm(step))))
            continue
        found.append(instr)
    return found
