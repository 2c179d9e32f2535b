"""Edges for schedulers on cores that forward a sum early only to the multiply-accumulate that follows next.

A Cortex-A53 takes 4 cycles from one accumulation into a register to the next, but 1 if no other lies between:

    mul v0 ; mul v1 ; mla v0 ; mla v1     6 cycles    ->    mul v0 ; mla v0 ; mul v1 ; mla v1     4 cycles

The latency of an edge then depends on the order, which a scheduler has yet to choose. It may take every accumulation as
late (`far` edges), or every one as early (`near` edges), or keep them in an order that is given, whose latencies are
known.
"""

from collections.abc import Sequence

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Edge, Op
from mavcg.passes.asm.schedule.list_schedule import critical_path


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
