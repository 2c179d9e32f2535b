"""Unrolls a counted loop: makes one iteration of several, where the remaining trip count is known at its top.

    loop:  body                              sub   xT, xEnd, xN            remaining trip count
           add  xN, xN, #1                   subs  xT, xT, #2
           cmp  xN, xEnd                     b.lo  loop                    fewer than two iterations left
           b.ne loop                  two:   body, body                    (addresses of the second: one step on)
                                             add   xN, xN, #2
                                             subs  xT, xT, #2
                                             b.hs  two
                                             cmn   xT, #2
                                             b.eq  end
                                      loop:  body ...                      unchanged: the epilogue
                                      end:

Registers that only count or address are updated once for all copies, which leaves fewer instructions beside the work,
and values may be live across the copies.
Source: Muchnick, "Advanced Compiler Design and Implementation", 17.4.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mavcg.passes.asm.analysis.dependences import Code, with_effects
from mavcg.passes.asm.analysis.trip_count import LoopCounter, loop_counter
from mavcg.passes.asm.isa.effects import FLAGS
from mavcg.passes.asm.isa.encoding import STEP_LIMIT, at_offset
from mavcg.passes.asm.isa.syntax import Imm, Instr, RawOperand, Reg


@dataclass(frozen=True)
class Unrolled:
    """An unrolled loop.

    before: code in front of the loop; it branches to the label `rest` where too few iterations are left. body: the
    loop, its branch last, its target open. after: code behind the loop; it branches to the label `end` where no
    iteration is left, else falls through to the old loop. counter: the register that `before` sets and `body` counts.
    times: unroll factor.
    """

    before: tuple[Instr, ...]
    body: tuple[Instr, ...]
    after: tuple[Instr, ...]
    counter: str
    times: int


def unroll(
    instrs: Sequence[Instr], times: int, counter: str, live_in: frozenset[str], live_out: frozenset[str],
    rest: str, end: str,
) -> Unrolled | None:  # fmt: skip
    """Unroll a loop `times` times; None for a loop whose trip count is not known at its top.

    Args:
        instrs: one iteration, its branch last.
        counter: a general register that is not used in the loop and not live around it.
        live_in, live_out: registers that are live at its top and end.
        rest, end: labels of the old loop and of the code that follows it.
    """
    code = with_effects(instrs)
    count = loop_counter(code)
    if count is None or FLAGS in live_in or FLAGS in live_out or count.step * times >= STEP_LIMIT:
        return None
    inside = [count.plain.get(i, c.instr) for i, c in enumerate(code[:-1]) if i not in count.drop]
    work = with_effects(inside)
    steps = _single_steps(work)
    body: list[Instr] = []
    for copy in range(times):
        moved = _copy(work, steps, copy, times)
        if moved is None:
            return None
        body += moved
    left = Reg(counter, count.register.view)
    bunch = Imm(count.step * times)
    control = (Instr("subs", (left, left, bunch)), Instr("b.hs", (RawOperand("again"),)))
    after = (Instr("cmn", (left, bunch)), Instr("b.eq", (RawOperand(end),)))
    return Unrolled(_before(count, left, bunch, rest), (*body, *control), after, counter, times)


def _before(count: LoopCounter, left: Reg, bunch: Imm, rest: str) -> tuple[Instr, ...]:
    """Return code that enters the loop where at least `times` iterations are left, else branches to `rest`."""
    guards: tuple[Instr, ...] = ()
    if count.guard:
        against = count.end if count.end is not None else Imm(0)
        guards = (Instr("cmp", (count.register, against)), Instr(count.guard, (RawOperand(rest),)))
    if count.end is None:
        distance = Instr("mov", (left, count.register))
    else:
        distance = Instr("sub", (left, count.end, count.register) if count.up else (left, count.register, count.end))
    return (*guards, distance, Instr("subs", (left, left, bunch)), Instr("b.lo", (RawOperand(rest),)))


def _single_steps(code: Sequence[Code]) -> dict[str, tuple[int, int]]:
    """Return registers that one add or sub of a constant updates and that are otherwise only bases of plain addresses.

    Left out are sp, as memory below it may be overwritten, and bases with 32-bit updates, which clear the upper half.
    Returns: register -> (index of the update, its constant).
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
    """True if the instruction uses the register not at all or only as the base of an address with a plain offset."""
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
    """Return one copy of the body: the last one updates the registers, addresses in earlier ones add the updates."""
    body = []
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
            body.append(moved)
            continue
        stepped = [(r, step) for r, (where, step) in steps.items() if where == at]
        if stepped:
            if copy == times - 1:
                step = abs(stepped[0][1]) * times
                if step >= STEP_LIMIT:
                    return None
                body.append(replace(instr, operands=(*instr.operands[:2], Imm(step))))
            continue
        body.append(instr)
    return body
