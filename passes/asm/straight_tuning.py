"""Tunes straight-line code for one core: splits loads if it lies in a loop, and list-schedules it.

On cores that forward a sum early only to the multiply-accumulate that follows next, the latency of an edge depends on
the order, which the scheduler has yet to choose. A Cortex-A53 takes 4 cycles from one accumulation into a register to
the next, but 1 if no other lies between:

    mul v0 ; mul v1 ; mla v0 ; mla v1     6 cycles    ->    mul v0 ; mla v0 ; mul v1 ; mla v1     4 cycles

It may take every accumulation as late (`far` edges), or every one as early (`near` edges), or keep them in an order
that is given, whose latencies are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.hardware.core import LoadPolicy
from mavcg.hardware.timing import MissingFact, Timing
from mavcg.passes.asm.analysis.dependences import Code, block_edges, with_effects
from mavcg.passes.asm.isa.op import Edge, Op
from mavcg.passes.asm.isa.syntax import Instr
from mavcg.passes.asm.models.estimate import block_cycles
from mavcg.passes.asm.schedule.issue_order import block_issue_order
from mavcg.passes.asm.schedule.list_schedule import critical_path, list_schedule
from mavcg.passes.asm.transforms.fold_addresses import fold_addresses
from mavcg.passes.asm.transforms.rename_registers import NoRegister, allocate
from mavcg.passes.asm.transforms.split_loads import split_loads


def chained_edges(ops: Sequence[Op], near: Sequence[Edge], far: Sequence[Edge], timing: Timing) -> tuple[Edge, ...]:
    """Return edges of straight-line code that keep its accumulations chain after chain, as early as that makes them.

    near, far: edges that are equal but for latencies, as block_edges returns them for adjacent accumulations and for
    others. Returns: far, if the chains wait for each other, so that none can be completed before the next one.
    """
    order = _chain_after_chain(ops, near, far, timing)
    after = dict(zip(order, order[1:], strict=False))
    known = [early if after.get(early.source) == early.target else late for early, late in zip(near, far, strict=True)]
    edges = (*known, *(Edge(first, then, 0) for first, then in after.items()))
    try:
        critical_path(len(ops), edges)
    except ValueError:  # a cycle
        return tuple(far)
    return edges


def _chain_after_chain(ops: Sequence[Op], near: Sequence[Edge], far: Sequence[Edge], timing: Timing) -> tuple[int, ...]:
    """Return the ops that accumulate, each followed by the next one of its chain."""
    follower = {
        early.source: early.target for early, late in zip(near, far, strict=True) if early.latency < late.latency
    }
    order: dict[int, None] = {}
    for first, op in enumerate(ops):
        at: int | None = first if timing.accumulates(op.op_class) else None
        while at is not None and at not in order:
            order[at] = None
            at = follower.get(at)
    return tuple(order)


@dataclass(frozen=True)
class NewSegment:
    """Instructions in a better order; cycles, cycles_before: by the model. splits: number of loads that were split."""

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
    """Return the best schedule, with loads split or whole; None if the model predicts no gain over the input.

    renaming: also rename registers of values whose live range lies within the code, which pays in loops only.
    """
    if len(instrs) < 2 or not policy.schedule:
        return None
    try:
        start = block_cycles([c.op for c in with_effects(instrs)], timing)
        candidates = [
            new
            for split in ((True, False) if policy.split or policy.unpair else (False,))
            if (new := _schedule_segment(instrs, live_in, live_out, timing, policy, renaming, split, start)) is not None
        ]
    except MissingFact:
        return None
    best = min(candidates, key=lambda new: (new.cycles, len(new.instrs)), default=None)
    return best if best is not None and best.cycles < start else None


def _schedule_segment(
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
        body = allocate(with_effects(parted.instrs), live_in, live_out) if renaming or parted.scratch else parted.instrs
    except NoRegister:
        return None
    code = with_effects(body)
    ops = [c.op for c in code]
    order = block_order(code, timing)
    cycles = block_cycles([ops[i] for i in order], timing)
    return NewSegment(tuple(body[i] for i in order), cycles, start, parted.splits)


def block_order(code: Sequence[Code], timing: Timing) -> tuple[int, ...]:
    """Return the indices of straight-line code in the order of a list schedule.

    If latencies depend on the order, it is the best by the model of the given order and of three schedules: with
    accumulations late, early, and chain after chain.
    """
    ops = [c.op for c in code]
    near = block_edges(code, timing)
    far = block_edges(code, timing, adjacent=False) if timing.adjacent_forwards else near
    if near == far:
        return _list_order(ops, near, timing)
    tried = (far, near, chained_edges(ops, near, far, timing))
    orders = [tuple(range(len(ops))), *(_list_order(ops, edges, timing) for edges in dict.fromkeys(tried))]
    return min(orders, key=lambda order: block_cycles([ops[i] for i in order], timing))


def _list_order(ops: Sequence[Op], edges: Sequence[Edge], timing: Timing) -> tuple[int, ...]:
    return block_issue_order(list_schedule(ops, edges, timing), ops, edges, timing)
