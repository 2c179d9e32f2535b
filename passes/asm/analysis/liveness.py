"""Liveness analysis: the registers that are live at the top and the end of each block of a function.

Registers are named by their whole ("x3", "v3", "nzcv"). At an unknown instruction all registers count as live.
Source for what calls and returns read: Procedure Call Standard for the Arm 64-bit Architecture (IHI 0055), section 6.1.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from mavcg.passes.asm.analysis.blocks import Block, Function
from mavcg.passes.asm.isa.effects import FLAGS

GENERAL = tuple(f"x{i}" for i in range(31))
VECTORS = tuple(f"v{i}" for i in range(32))
ALL = frozenset((*GENERAL, *VECTORS, "sp", FLAGS))
PRESERVED = frozenset((*(f"x{i}" for i in range(18, 31)), "sp", *(f"v{i}" for i in range(8, 16))))
# Result registers and those that a function must preserve. x9 to x17 and v16 up are dead at a return.
AT_RETURN = frozenset((*(f"x{i}" for i in range(9)), *(f"v{i}" for i in range(8)))) | PRESERVED
# Registers that a callee may read: some conventions pass more general registers than the standard one. A callee may
# also preserve more than the standard requires (the vector convention), so a call kills no register.
AT_CALL = frozenset((*GENERAL, *(f"v{i}" for i in range(8)), "sp"))


@dataclass(frozen=True)
class Liveness:
    """The live registers of a function, at the top and at the end of each block, by block index."""

    at_top: tuple[frozenset[str], ...]
    at_end: tuple[frozenset[str], ...]


@dataclass(frozen=True)
class PrivateConventions:
    """Calling conventions between hand-written functions of one file, beyond the standard.

    read_by: function -> registers that it reads before it writes them. read_after: function -> registers that its
    callers read after it returns. inner: labels of the file that do not name a function.
    """

    read_by: Mapping[str, frozenset[str]] = field(default_factory=dict)
    read_after: Mapping[str, frozenset[str]] = field(default_factory=dict)
    inner: frozenset[str] = frozenset()


def private_conventions(functions: Sequence[Function]) -> PrivateConventions:
    """Find the registers that the functions of a file pass to each other; unknown code is assumed to read nothing."""
    # A function may have several names, such as a global one and a local one that its file calls.
    names = {label: f.name for f in functions for block in f.blocks[:1] for label in block.labels}
    names |= {f.name: f.name for f in functions}
    inner = frozenset(label for f in functions for block in f.blocks for label in block.labels) - set(names.values())
    seen = PrivateConventions({name: frozenset() for name in names}, {name: frozenset() for name in names}, inner)
    while True:
        read_by, read_after = dict(seen.read_by), dict(seen.read_after)
        for f in functions:
            live = _solve(f, partial(_read_after_exit, f, seen), seen, frozenset(), frozenset())
            if f.blocks:
                for name in (f.name, *f.blocks[0].labels):
                    read_by[name] |= live.at_top[0]
            for block, at_end in zip(f.blocks, live.at_end, strict=True):
                for at, line in enumerate(block.lines):
                    effect = line.effects
                    if effect is None or effect.target not in names:
                        continue
                    callee = names[effect.target]
                    if effect.flow == "call":
                        read_after[callee] |= live_before(block, at_end, at + 1, seen, frozenset(), frozenset())
                    else:  # a tail call: its callers are this one's
                        read_after[callee] |= read_after[f.name]
        if (read_by, read_after) == (seen.read_by, seen.read_after):
            return seen
        seen = PrivateConventions(read_by, read_after, inner)


def _read_after_exit(function: Function, conventions: PrivateConventions, block: Block) -> frozenset[str]:
    last = block.lines[-1].effects if block.lines else None
    target = last.target if last is not None else ""
    return conventions.read_after[function.name] | conventions.read_by.get(target, frozenset())


NO_CONVENTIONS = PrivateConventions()


def liveness(
    function: Function, variant_convention: bool = False, private: PrivateConventions = NO_CONVENTIONS
) -> Liveness:
    """Compute live registers by backward data flow over a function's blocks.

    variant_convention: the function is marked .variant_pcs, so that its caller may rely on any register. private: the
    conventions between the functions of its file.
    """
    at_leave = (ALL - {FLAGS} if variant_convention else AT_RETURN) | private.read_after.get(function.name, frozenset())
    return _solve(function, lambda block: _live_at_exit(block, at_leave, private), private, AT_CALL, ALL)


def _solve(
    function: Function,
    left_with: Callable[[Block], frozenset[str]],
    private: PrivateConventions,
    at_call: frozenset[str],
    at_unknown: frozenset[str],
) -> Liveness:
    count = len(function.blocks)
    at_top: list[frozenset[str]] = [frozenset()] * count
    at_end: list[frozenset[str]] = [frozenset()] * count
    transfers = [_transfer(block, 0, private, at_call, at_unknown) for block in function.blocks]
    changed = True
    while changed:
        changed = False
        for i in reversed(range(count)):
            block = function.blocks[i]
            end = frozenset[str]().union(*(at_top[s] for s in block.successors))
            if block.leaves:
                end |= left_with(block)
            overwritten, read = transfers[i]
            top = end - overwritten | read
            if (top, end) != (at_top[i], at_end[i]):
                at_top[i], at_end[i], changed = top, end, True
    return Liveness(tuple(at_top), tuple(at_end))


def live_before(
    block: Block,
    at_end: frozenset[str],
    first: int = 0,
    private: PrivateConventions = NO_CONVENTIONS,
    at_call: frozenset[str] = AT_CALL,
    at_unknown: frozenset[str] = ALL,
) -> frozenset[str]:
    """Return the registers that are live before line `first` of a block, from those that are live at its end.

    at_call: registers that any callee may read; at_unknown: registers that an unknown instruction may read.
    """
    overwritten, read = _transfer(block, first, private, at_call, at_unknown)
    return at_end - overwritten | read


def _transfer(
    block: Block, first: int, private: PrivateConventions, at_call: frozenset[str], at_unknown: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the registers that lines `first` and later overwrite, and those that they read before they do."""
    overwritten = read = frozenset[str]()
    for line in reversed(block.lines[first:]):
        effect = line.effects
        if effect is None:
            overwrites, reads = frozenset[str](), at_unknown
        elif effect.flow == "call":
            overwrites = frozenset({"x30"})
            reads = (at_call | private.read_by.get(effect.target, frozenset())) - overwrites | effect.reads()
        else:
            overwrites, reads = effect.overwrites, effect.reads()
        overwritten, read = overwritten | overwrites, read - overwrites | reads
    return overwritten, read


def _live_at_exit(block: Block, at_leave: frozenset[str], private: PrivateConventions) -> frozenset[str]:
    """Return the registers that are live when control leaves the function at a block's end."""
    last = block.lines[-1].effects if block.lines else None
    if last is not None and last.flow == "return":
        return at_leave
    if last is not None and last.flow in ("jump", "cond") and not _is_inner(last.target, private):
        # A tail call, or a branch to another function.
        return at_leave | AT_CALL | private.read_by.get(last.target, frozenset())
    return ALL


def _is_inner(target: str, private: PrivateConventions) -> bool:
    """True if a label lies inside a function, where no calling convention holds."""
    return target in private.inner or target.startswith(".") or not re.match(r"[A-Za-z_$]", target)
