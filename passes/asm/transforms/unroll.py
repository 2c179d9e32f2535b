"""Unrolls a counted loop whose remaining trip count is known at its top: one new iteration does several old ones.

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

Registers that only count or address are updated once for all copies, which leaves fewer instructions beside the
arithmetic. Source: Muchnick, "Advanced Compiler Design and Implementation", 17.4.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mavcg.passes.asm.analysis.dependences import Code, with_effects
from mavcg.passes.asm.analysis.loop_nest import LoopCounter, loop_counter
from mavcg.passes.asm.isa.effects import FLAGS
from mavcg.passes.asm.isa.encoding import STEP_LIMIT, at_offset
from mavcg.passes.asm.isa.syntax import Imm, Instr, RawOperand, Reg


@dataclass(frozen=True)
class Unrolled:
    """An unrolled loop.

    before: code in front of the loop; it branches to the old loop if too few iterations are left. body: the loop, its
    branch last; the caller sets the branch's target. after: code behind the loop; it branches to the label `end` if no
    iteration is left, else falls through to the old loop. counter: the register that `before` sets and `body`
    decrements. times: unroll factor.
    """

    before: tuple[Instr, ...]
    body: tuple[Instr, ...]
    after: tuple[Instr, ...]
    counter: str
    times: int


def unroll(
    instrs: Sequence[Instr],
    times: int,
    counter: str,
    live_in: frozenset[str],
    live_out: frozenset[str],
    old_loop: str,
    end: str,
) -> Unrolled | None:
    """Unroll a loop `times` times; None for a loop whose trip count is not known at its top.

    Args:
        instrs: one iteration, its branch last.
        counter: a general register that the loop does not use and that is not live across it.
        live_in, live_out: registers that are live at its top and end.
        old_loop, end: labels of the old loop and of the code that follows it.
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
    remaining = Reg(counter, count.register.view)
    step = Imm(count.step * times)
    control = (Instr("subs", (remaining, remaining, step)), Instr("b.hs", (RawOperand("again"),)))
    after = (Instr("cmn", (remaining, step)), Instr("b.eq", (RawOperand(end),)))
    return Unrolled(_before(count, remaining, step, old_loop), (*body, *control), after, counter, times)


def _before(count: LoopCounter, remaining: Reg, step: Imm, old_loop: str) -> tuple[Instr, ...]:
    """Return code that branches to `old_loop` if fewer iterations are left than the unrolled loop does at once.

    remaining: the register that gets the remaining count. step: by which one unrolled iteration decrements it.
    """
    guards: tuple[Instr, ...] = ()
    if count.guard:
        against = count.end if count.end is not None else Imm(0)
        guards = (Instr("cmp", (count.register, against)), Instr(count.guard, (RawOperand(old_loop),)))
    if count.end is None:
        distance = Instr("mov", (remaining, count.register))
    else:
        ends = (count.end, count.register) if count.up else (count.register, count.end)
        distance = Instr("sub", (remaining, *ends))
    return (*guards, distance, Instr("subs", (remaining, remaining, step)), Instr("b.lo", (RawOperand(old_loop),)))


def _single_steps(code: Sequence[Code]) -> dict[str, tuple[int, int]]:
    """Find the registers that one add or sub of a constant updates and that are otherwise only bases of addresses.

    Left out are sp, because memory below it may be overwritten, and bases with a 32-bit update, which clears the upper
    half.
    Returns: register -> (index of the update, its constant).
    """
    steps: dict[str, tuple[int, int]] = {}
    for at, c in enumerate(code):
        match c.instr:
            case Instr("add" | "sub" as sign, (Reg(name, view) as to, source, Imm(value))) if to == source:
                if name == "sp" or (view == "w" and _is_base(code, name)):
                    continue
                steps[name] = (at, value if sign == "add" else -value) if name not in steps else (-1, 0)
    return {
        register: (at, step)
        for register, (at, step) in steps.items()
        if at >= 0 and all(_only_addresses(c, register) for i, c in enumerate(code) if i != at)
    }


def _is_base(code: Sequence[Code], register: str) -> bool:
    return any(c.effects.memory is not None and c.effects.memory.address.base.name == register for c in code)


def _only_addresses(code: Code, register: str) -> bool:
    """True if the instruction does not use the register, or only as the base of an address with a constant offset."""
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
    """Return one copy of the body; None if an offset or update has no encoding.

    Only the last copy updates the registers in `steps`; earlier copies add the missing updates to their offsets.
    """
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
