"""Which registers hold a value that is still wanted, at the top and the end of each block of a function.

Registers are whole ones ("x3", "v3", "nzcv"). Wherever something is not known, everything is taken to be live.
Source for what calls and returns read: Procedure Call Standard for the Arm 64-bit Architecture (IHI 0055), section 6.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.passes.asm.blocks import Block, Function
from mavcg.passes.asm.isa import FLAGS

GENERAL = tuple(f"x{i}" for i in range(31))
VECTORS = tuple(f"v{i}" for i in range(32))
ALL = frozenset((*GENERAL, *VECTORS, "sp", FLAGS))
PRESERVED = frozenset((*(f"x{i}" for i in range(18, 31)), "sp", *(f"v{i}" for i in range(8, 16))))
# What a return may hand back, and what it must have kept. x8 to x17 and v16 up are nobody's then.
AT_RETURN = frozenset((*(f"x{i}" for i in range(9)), *(f"v{i}" for i in range(8)))) | PRESERVED
# What a callee may read. Some conventions pass more than the standard one in general registers. A callee may also keep
# more than the standard asks (the vector convention), so that a call ends the life of nothing.
AT_CALL = frozenset((*GENERAL, *(f"v{i}" for i in range(8)), "sp"))


@dataclass(frozen=True)
class Liveness:
    """Live registers by block index, at the top and at the end of each."""

    at_top: tuple[frozenset[str], ...]
    at_end: tuple[frozenset[str], ...]


def liveness(function: Function, variant_convention: bool = False) -> Liveness:
    """Backward data flow over a function's blocks.

    variant_convention: the function is marked .variant_pcs, so that its caller may count on any register.
    """
    at_leave = ALL - {FLAGS} if variant_convention else AT_RETURN
    count = len(function.blocks)
    at_top: list[frozenset[str]] = [frozenset()] * count
    at_end: list[frozenset[str]] = [frozenset()] * count
    changed = True
    while changed:
        changed = False
        for i in reversed(range(count)):
            block = function.blocks[i]
            end = frozenset[str]().union(*(at_top[s] for s in block.successors))
            if block.leaves:
                end |= _left_with(block, at_leave)
            top = before(block, end)
            if (top, end) != (at_top[i], at_end[i]):
                at_top[i], at_end[i], changed = top, end, True
    return Liveness(tuple(at_top), tuple(at_end))


def before(block: Block, at_end: frozenset[str], first: int = 0) -> frozenset[str]:
    """What is live before line `first` of a block, from what is live at its end."""
    live = at_end
    for line in reversed(block.lines[first:]):
        effect = line.effects
        if effect is None:
            live = ALL
        elif effect.flow == "call":
            live = (live - {"x30"}) | AT_CALL | effect.reads()
        else:
            whole = {a.register for a in effect.accesses if a.write and not a.read}
            live = (live - whole - ({FLAGS} if effect.writes_flags and not effect.reads_flags else set()))
            live |= effect.reads()
    return live


def _left_with(block: Block, at_leave: frozenset[str]) -> frozenset[str]:
    """What somebody outside may want when control leaves the function at a block's end."""
    last = block.lines[-1].effects if block.lines else None
    if last is not None and last.flow == "return":
        return at_leave
    if last is not None and last.flow in ("jump", "cond"):  # a tail call, or a branch to another function
        return at_leave | AT_CALL
    return ALL if last is None or last.flow != "indirect" else ALL


def unused_everywhere(live: Sequence[frozenset[str]]) -> frozenset[str]:
    """Registers that are live in none of the sets."""
    return ALL.difference(*live)
