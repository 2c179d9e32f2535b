"""Spills general registers to vector registers around a loop, which frees scratch registers for split loads.

    loop: ...                  ->        fmov d20, x19          x19 and x22 are live across the loop, not used in it
                                         ins  v20.d[1], x22
                                   loop: ...                    the loop may use x19 and x22 as scratch registers
                                         fmov x19, d20
                                         umov x22, v20.d[1]

A split load needs a general register for some cycles; with too few of them, the loads of a loop wait for each other.
Nothing is stored to memory, so that neither the stack nor unwinding changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.passes.asm.analysis.liveness import GENERAL, PRESERVED
from mavcg.passes.asm.isa.syntax import Instr, Reg
from mavcg.passes.asm.transforms.rename_registers import SCRATCH_VECTORS

ENOUGH = 4  # scratch registers with which loads seldom wait: a load and its insert take about four cycles
_NEVER = ("x18", "x29", "x30")  # platform register, frame pointer, link register: read by unwinders and signal handlers


@dataclass(frozen=True)
class VectorSpill:
    """A spill around a loop.

    registers: general registers that it frees. holders: vector registers that hold their values. before, after: the
    code in front of the loop and behind it.
    """

    registers: frozenset[str] = frozenset()
    holders: frozenset[str] = frozenset()
    before: tuple[Instr, ...] = ()
    after: tuple[Instr, ...] = ()


def saved_registers(used: frozenset[str]) -> frozenset[str]:
    """Return the callee-saved registers that are free in a loop because the function has saved them.

    used: registers that the loop uses or that are live at its top or end. A callee-saved register that the function
    has not saved is live until it returns, and is therefore among `used`.
    """
    return PRESERVED - used - {"sp", *_NEVER}


def _number(register: str) -> int:
    return int(register[1:])


def spill_to_vectors(
    accessed: frozenset[str], live_in: frozenset[str], live_out: frozenset[str], released: Sequence[str] = ()
) -> VectorSpill:
    """Spill general registers of a loop until ENOUGH are free, or no vector register is left to hold one.

    accessed: registers that the loop uses. live_in, live_out: registers live at its top and its end. released: vector
    registers in `accessed` that the caller takes from the loop; they are used last.
    """
    taken = accessed | live_in | live_out
    saved = saved_registers(taken)
    missing = ENOUGH - sum(f"x{i}" not in taken for i in range(18)) - sum(r.startswith("x") for r in saved)
    waiting = [r for r in GENERAL if r in live_in & live_out and r not in accessed and r not in _NEVER]
    holders = [r for r in SCRATCH_VECTORS if r not in taken] + sorted((r for r in saved if r[0] == "v"), key=_number)
    holders += released
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
    filled = frozenset(holders[: (len(used) + 1) // 2])
    return VectorSpill(frozenset(used), filled, tuple(before), tuple(after))
