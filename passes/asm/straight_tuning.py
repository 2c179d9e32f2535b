"""Straight-line code for one core: loads split if it lies in a loop, list-scheduled; kept where nothing is gained."""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.core import LoadPolicy
from mavcg.passes.asm.dependences import Code, as_op, block_edges, known
from mavcg.passes.asm.estimate import block_cycles
from mavcg.passes.asm.fold import fold_addresses
from mavcg.passes.asm.listing import list_cycles
from mavcg.passes.asm.pairing import line_with_firsts
from mavcg.passes.asm.rename import NoRegister, allocate
from mavcg.passes.asm.split import split_loads
from mavcg.passes.asm.syntax import Instr
from mavcg.timing import MissingFact, Timing


@dataclass(frozen=True)
class NewSegment:
    """Instructions in a better order; cycles by the model, and how many loads were split."""

    instrs: tuple[Instr, ...]
    cycles: float
    cycles_before: float
    splits: int


def tune_segment(
    instrs: Sequence[Instr],
    live_in: frozenset[str],
    live_out: frozenset[str],
    timing: Timing,
    policy: LoadPolicy,
    renaming: bool,
) -> NewSegment | None:
    """The best of: loads split or not, scheduled anew; None where that is no better than what is there.

    renaming: also choose registers anew for the values that live within (worth it in loops alone).
    """
    if len(instrs) < 2 or not policy.schedule:
        return None
    try:
        start = block_cycles([as_op(c) for c in known(instrs)], timing)
        found = [
            new
            for split in ((True, False) if policy.split or policy.unpair else (False,))
            if (new := _scheduled(instrs, live_in, live_out, timing, policy, renaming, split, start)) is not None
        ]
    except MissingFact:
        return None
    best = min(found, key=lambda new: (new.cycles, len(new.instrs)), default=None)
    return best if best is not None and best.cycles < start else None


def _scheduled(
    instrs: Sequence[Instr],
    live_in: frozenset[str],
    live_out: frozenset[str],
    timing: Timing,
    policy: LoadPolicy,
    renaming: bool,
    split: bool,
    start: float,
) -> NewSegment | None:
    folded = fold_addresses(instrs, live_out) if renaming else tuple(instrs)
    parted = split_loads(folded, policy.split and split, policy.unpair and split)
    try:
        body = allocate(known(parted.instrs), live_in, live_out) if renaming or parted.scratch else parted.instrs
    except NoRegister:
        return None
    code = known(body)
    ops = [as_op(c) for c in code]
    order = straight_order(code, timing)
    cycles = block_cycles([ops[i] for i in order], timing)
    return NewSegment(tuple(body[i] for i in order), cycles, start, parted.splits)


def straight_order(code: Sequence[Code], timing: Timing) -> tuple[int, ...]:
    """Indices of straight-line code in the order of a list schedule."""
    ops = [as_op(c) for c in code]
    edges = block_edges(code, timing)
    return line_with_firsts(list_cycles(ops, edges, timing), ops, edges, timing)
