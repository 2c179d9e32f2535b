"""General registers freed for the length of a loop: values that wait for its end are parked in a vector register.

    fmov d20, x19              before the loop: x19 and x22 are wanted after it, and not in it
    ins  v20.d[1], x22
    ...                        the loop, with x19 and x22 for scratch
    fmov x19, d20
    umov x22, v20.d[1]

A split load needs a general register for some cycles. Where a function has none to spare, the loads of a loop would
queue for one. Nothing is stored, so neither the stack nor what unwinds it changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.passes.asm.liveness import GENERAL, PRESERVED
from mavcg.passes.asm.rename import SCRATCH_VECTORS
from mavcg.passes.asm.syntax import Instr, Reg

ENOUGH = 4  # scratch registers with which loads seldom wait for one: a load and an insert take some four cycles
_NEVER = ("x18", "x29", "x30")  # the platform's, the frame's and the way back, which others look at


@dataclass(frozen=True)
class Parked:
    """What waits where. registers: the general ones freed; holders: the vector ones that keep them."""

    registers: frozenset[str] = frozenset()
    holders: frozenset[str] = frozenset()
    before: tuple[Instr, ...] = ()
    after: tuple[Instr, ...] = ()


def saved_registers(taken: frozenset[str]) -> frozenset[str]:
    """Registers that belong to the caller, and are not wanted around a loop all the same: the function has saved them.

    taken: what the loop touches, or is wanted at its top or its end. What is not saved is wanted until the function
    returns, and so is among them.
    """
    return PRESERVED - taken - {"sp", *_NEVER}


def _number(register: str) -> int:
    return int(register[1:])


def park(
    accessed: frozenset[str], live_in: frozenset[str], live_out: frozenset[str], lent: Sequence[str] = ()
) -> Parked:
    """Free general registers for a loop that has fewer than ENOUGH, as far as vector registers are to be had.

    accessed: registers that the loop touches. live_in, live_out: those wanted at its top and its end. lent: vector
    registers among them that the loop will do without, taken where no other is to be had.
    """
    taken = accessed | live_in | live_out
    saved = saved_registers(taken)
    missing = ENOUGH - sum(f"x{i}" not in taken for i in range(18)) - sum(r.startswith("x") for r in saved)
    waiting = [r for r in GENERAL if r in live_in & live_out and r not in accessed and r not in _NEVER]
    holders = [r for r in SCRATCH_VECTORS if r not in taken] + sorted((r for r in saved if r[0] == "v"), key=_number)
    holders += lent
    before: list[Instr] = []
    after: list[Instr] = []
    used: list[str] = []
    for number, register in enumerate(waiting[: min(max(0, missing), 2 * len(holders))]):
        holder, lane = holders[number // 2], number % 2
        general = Reg(register, "x")
        used.append(register)
        if lane == 0:
            before.append(Instr("fmov", (Reg(holder, "d"), general)))
            after.append(Instr("fmov", (general, Reg(holder, "d"))))
        else:
            before.append(Instr("ins", (Reg(holder, "v", "d", 1), general)))
            after.append(Instr("umov", (general, Reg(holder, "v", "d", 1))))
    kept = frozenset(holders[: (len(used) + 1) // 2])
    return Parked(frozenset(used), kept, tuple(before), tuple(after))
