"""Which registers hold a value that is still wanted, at the top and the end of each block of a function.

Registers are whole ones ("x3", "v3", "nzcv"). Wherever something is not known, everything is taken to be live.
Source for what calls and returns read: Procedure Call Standard for the Arm 64-bit Architecture (IHI 0055), section 6.1.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from mavcg.passes.asm.blocks import Block, Function
from mavcg.passes.asm.effects import FLAGS

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


@dataclass(frozen=True)
class Private:
    """What hand-written functions of one file agree on beyond the standard.

    read_by: function -> registers that it is seen to read before it writes them. read_after: function -> registers that
    its callers are seen to read after it returns. inner: labels of the file that are no function's name.
    """

    read_by: Mapping[str, frozenset[str]] = field(default_factory=dict)
    read_after: Mapping[str, frozenset[str]] = field(default_factory=dict)
    inner: frozenset[str] = frozenset()


def private_conventions(functions: Sequence[Function]) -> Private:
    """Follow registers from function to function of a file. What is not known is taken to read nothing here."""
    names = {f.name for f in functions}
    inner = frozenset(label for f in functions for block in f.blocks for label in block.labels) - names
    seen = Private({name: frozenset() for name in names}, {name: frozenset() for name in names}, inner)
    while True:
        read_by, read_after = dict(seen.read_by), dict(seen.read_after)
        for f in functions:
            live = _solved(f, partial(_seen_to_leave, f, seen), seen, frozenset(), frozenset())
            if f.blocks:
                read_by[f.name] |= live.at_top[0]
            for block, at_end in zip(f.blocks, live.at_end, strict=True):
                for at, line in enumerate(block.lines):
                    effect = line.effects
                    if effect is None or effect.target not in names:
                        continue
                    if effect.flow == "call":
                        read_after[effect.target] |= before(block, at_end, at + 1, seen, frozenset(), frozenset())
                    else:  # a tail call: its callers are this one's
                        read_after[effect.target] |= read_after[f.name]
        if (read_by, read_after) == (seen.read_by, seen.read_after):
            return seen
        seen = Private(read_by, read_after, inner)


def _seen_to_leave(function: Function, seen: Private, block: Block) -> frozenset[str]:
    last = block.lines[-1].effects if block.lines else None
    target = last.target if last is not None else ""
    return seen.read_after[function.name] | seen.read_by.get(target, frozenset())


NONE = Private()


def liveness(function: Function, variant_convention: bool = False, private: Private = NONE) -> Liveness:
    """Backward data flow over a function's blocks.

    variant_convention: the function is marked .variant_pcs, so that its caller may count on any register. private: what
    the functions of its file agree on.
    """
    at_leave = (ALL - {FLAGS} if variant_convention else AT_RETURN) | private.read_after.get(function.name, frozenset())
    return _solved(function, lambda block: _left_with(block, at_leave, private), private, AT_CALL, ALL)


def _solved(
    function: Function,
    left_with: Callable[[Block], frozenset[str]],
    private: Private,
    at_call: frozenset[str],
    at_unknown: frozenset[str],
) -> Liveness:
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
                end |= left_with(block)
            top = before(block, end, 0, private, at_call, at_unknown)
            if (top, end) != (at_top[i], at_end[i]):
                at_top[i], at_end[i], changed = top, end, True
    return Liveness(tuple(at_top), tuple(at_end))


def before(
    block: Block,
    at_end: frozenset[str],
    first: int = 0,
    private: Private = NONE,
    at_call: frozenset[str] = AT_CALL,
    at_unknown: frozenset[str] = ALL,
) -> frozenset[str]:
    """What is live before line `first` of a block, from what is live at its end.

    at_call: what a callee may read besides what it is seen to read; at_unknown: what an unknown instruction may.
    """
    live = at_end
    for line in reversed(block.lines[first:]):
        effect = line.effects
        if effect is None:
            live |= at_unknown
        elif effect.flow == "call":
            live = (live | at_call | private.read_by.get(effect.target, frozenset())) - {"x30"} | effect.reads()
        else:
            whole = {a.register for a in effect.accesses if a.write and not a.read}
            live = live - whole - ({FLAGS} if effect.writes_flags and not effect.reads_flags else set())
            live |= effect.reads()
    return live


def _left_with(block: Block, at_leave: frozenset[str], private: Private) -> frozenset[str]:
    """What somebody outside may want when control leaves the function at a block's end."""
    last = block.lines[-1].effects if block.lines else None
    if last is not None and last.flow == "return":
        return at_leave
    if last is not None and last.flow in ("jump", "cond") and not _is_inner(last.target, private):
        # A tail call, or a branch to another function.
        return at_leave | AT_CALL | private.read_by.get(last.target, frozenset())
    return ALL


def _is_inner(target: str, private: Private) -> bool:
    """Whether this is a place within code that no function's convention holds for."""
    return target in private.inner or target.startswith(".") or not re.match(r"[A-Za-z_$]", target)
