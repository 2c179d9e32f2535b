"""Cycles of a loop or of straight-line code on one core, by the model that fits the core, and what they are lost to.

Everything here is a model's answer, not a measurement: see inorder.py and ports.py for what they leave out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from mavcg.passes.asm.demands import blocked_cycles, dependences, unit_uses
from mavcg.passes.asm.inorder import Issue, simulate, steady
from mavcg.passes.asm.op import Op
from mavcg.passes.asm.ports import PortBounds, port_bounds
from mavcg.timing import Timing

IN_ORDER = "in-order"
PORT_BOUND = "port-bound"


@dataclass(frozen=True)
class OpEstimate:
    """What the model says of one op.

    cycle, slot: where it issues, from the start of the iteration that is shown; None in the port-bound model.
    stall_cycles: cycles per iteration in which nothing issued because of it. lost_slots: issue slots per iteration that
    stayed empty because of it, those of stall cycles included. why: what it last waited for; "" where it did not.
    pressure: busy cycles per iteration that it brings to each unit of a pool, by pool; port-bound model only.
    """

    op: Op
    cycle: int | None = None
    slot: int | None = None
    stall_cycles: float = 0.0
    lost_slots: float = 0.0
    why: str = ""
    pressure: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LoopEstimate:
    """Cycles per iteration of a loop, or of one run through a block, as a model of one core sees them.

    bound_by: "dispatch" (issue slots or micro-ops), "units" or "recurrence" where no order of the ops could do better,
        else what most is lost to: a kind of inorder.Wait, or "critical path" (a block, out of order).
    because: the same in a sentence, with figures.
    issues: in-order model only: the iterations until the schedule repeats, cycles from the first issue of the first.
    period_cycles: how many cycles those take. pools: busy cycles per iteration of each unit of a pool.
    bounds: port-bound model only: cycles by kind of bound; a block has a critical path instead of a recurrence.
    """

    core: str
    model: str
    cycles: float
    bound_by: str
    because: str
    width: int
    ops: tuple[OpEstimate, ...]
    issues: tuple[Issue, ...] = ()
    period_cycles: int = 0
    pools: Mapping[str, float] = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)
    is_loop: bool = True


def estimate_loop(ops: Sequence[Op], timing: Timing) -> LoopEstimate:
    """Cycles per iteration of a loop with this body, in its steady state.

    Raises: MissingFact when the core's profile does not know a class; MavcgError when it can never issue an op.
    """
    if timing.order != "in":
        found = port_bounds(ops, timing)
        return _port_bound(ops, timing, found, found.largest.cycles, found.largest.kind, found.largest.why)
    settled = steady(ops, timing)
    trace = simulate(ops, timing, settled.start + settled.period)
    shown = trace.issues[settled.start * len(ops) :]
    before = trace.issues[settled.start * len(ops) - 1] if ops and settled.start else None
    return _in_order(ops, timing, shown, before, settled.per_iteration, settled.cycles)


def estimate_block(ops: Sequence[Op], timing: Timing) -> LoopEstimate:
    """Cycles until the last op has issued, from a core with nothing under way and all inputs ready.

    Raises: as `estimate_loop`.
    """
    if timing.order == "in":
        trace = simulate(ops, timing)
        cycles = trace.issues[-1].cycle + 1 if ops else 0
        return _in_order(ops, timing, trace.issues, None, Fraction(cycles), cycles, is_loop=False)
    found = port_bounds(ops, timing)
    path, ends = _critical_path(ops, timing)
    candidates = [(bound.cycles, bound.kind, bound.why) for bound in (found.units, found.dispatch)]
    candidates.append((Fraction(path), "critical path", ends))
    largest, bound_by, because = max(candidates, key=lambda candidate: candidate[0])
    bounds = {kind: float(figure) for figure, kind, _ in reversed(candidates)}
    return replace(_port_bound(ops, timing, found, largest, bound_by, because), bounds=bounds, is_loop=False)


def loop_cycles(ops: Sequence[Op], timing: Timing) -> float:
    """The cycles of `estimate_loop` without the reasons, which take longer to find. Raises: as it."""
    return float(steady(ops, timing).per_iteration if timing.order == "in" else port_bounds(ops, timing).largest.cycles)


def block_cycles(ops: Sequence[Op], timing: Timing) -> float:
    """The cycles of `estimate_block`, likewise."""
    if timing.order == "in":
        return float(simulate(ops, timing).issues[-1].cycle + 1 if ops else 0)
    found = port_bounds(ops, timing)
    path, _ = _critical_path(ops, timing)
    return float(max(found.units.cycles, found.dispatch.cycles, Fraction(path)))


def _port_bound(
    ops: Sequence[Op], timing: Timing, found: PortBounds, cycles: Fraction, bound_by: str, because: str
) -> LoopEstimate:
    bounds = {bound.kind: float(bound.cycles) for bound in (found.dispatch, found.units, found.recurrence)}
    culprits = {"units": found.units, "recurrence": found.recurrence}.get(bound_by)
    details = tuple(
        OpEstimate(
            op,
            why=because if culprits is not None and index in culprits.ops else "",
            pressure={pool: float(share) for pool, share in found.pressure[index].items()},
        )
        for index, op in enumerate(ops)
    )
    pools = {pool: float(found.busy(pool)) for pool in timing.pools}
    return LoopEstimate(
        timing.core,
        PORT_BOUND,
        float(cycles),
        bound_by,
        because,
        timing.width,
        details,
        pools=pools,
        bounds=bounds,
    )


def _in_order(
    ops: Sequence[Op],
    timing: Timing,
    issues: Sequence[Issue],
    before: Issue | None,
    cycles: Fraction,
    period_cycles: int,
    is_loop: bool = True,
) -> LoopEstimate:
    """Details of one period; `before` issued last before it."""
    period = max(1, len(issues) // max(1, len(ops)))
    start = issues[0].cycle if issues else 0
    stalls, lost, why = [0] * len(ops), [0] * len(ops), [""] * len(ops)
    losses: dict[tuple[str, str], int] = {}
    previous = before
    for issue in issues:
        slots = _lost_slots(issue, previous, timing.width)
        stalls[issue.op] += issue.stall_cycles
        lost[issue.op] += sum(slots)
        for wait, count in zip(issue.waits, slots, strict=True):
            losses[wait.kind, wait.why] = losses.get((wait.kind, wait.why), 0) + count
        if issue.waits:
            why[issue.op] = issue.waits[-1].why
        previous = issue
    bound_by, because = _cause(ops, timing, cycles, losses, period, is_loop)
    details = tuple(
        OpEstimate(op, first.cycle - start, first.slot, stalls[n] / period, lost[n] / period, why[n])
        for n, (op, first) in enumerate(zip(ops, issues, strict=False))
    )
    moved = tuple(
        Issue(i.iteration - issues[0].iteration, i.op, i.cycle - start, i.slot, i.stall_cycles, i.waits) for i in issues
    )
    return LoopEstimate(
        timing.core,
        IN_ORDER,
        float(cycles),
        bound_by,
        because,
        timing.width,
        details,
        moved,
        period_cycles,
        is_loop=is_loop,
    )


def _lost_slots(issue: Issue, previous: Issue | None, width: int) -> list[int]:
    """Issue slots that stayed empty during each of an op's waits: of the first cycle, those its predecessor left."""
    lost = [wait.cycles * width for wait in issue.waits]
    if lost and previous is not None and previous.slot + 1 < width:
        lost[0] -= previous.slot + 1
    return lost


def _cause(
    ops: Sequence[Op],
    timing: Timing,
    cycles: Fraction,
    losses: Mapping[tuple[str, str], int],
    period: int,
    is_loop: bool,
) -> tuple[str, str]:
    """The bound that the loop meets, else what it loses most issue slots to."""
    if not ops:
        return "dispatch", "no ops"
    limit, kind, why = max(_limits(ops, timing, is_loop), key=lambda entry: entry[0])
    if cycles <= limit or not losses:
        return kind, why
    kinds: dict[str, int] = {}
    for (name, _), count in losses.items():
        kinds[name] = kinds.get(name, 0) + count
    kind = max(kinds, key=lambda name: kinds[name])
    worst = max((entry for entry in losses if entry[0] == kind), key=lambda entry: losses[entry])
    empty, all_slots = Fraction(kinds[kind], period), cycles * timing.width
    return kind, f"{_number(empty)} of {_number(all_slots)} issue slots lost, most of them: {worst[1]}"


def _limits(ops: Sequence[Op], timing: Timing, is_loop: bool) -> list[tuple[Fraction, str, str]]:
    """What no order of the ops could beat on an in-order core: cycles, kind, why."""
    found = port_bounds(ops, timing)
    blocks = sum(blocked_cycles(op, timing) for op in ops)
    paired = [op for op in ops if not blocked_cycles(op, timing)]
    beside = f", beside {blocks} cycles for {len(ops) - len(paired)} that issue alone" if blocks else ""
    slots = blocks + Fraction(len(paired), timing.width)
    limits = [
        (found.units.cycles, "units", found.units.why),
        (slots, "dispatch", f"{len(paired)} instructions, {timing.width} a cycle{beside}"),
    ]
    if blocks and all(use.cycles == 1 for op in paired for use in unit_uses(op, timing)):
        # No other op issues in the cycles of one that blocks, so the units that the others need for a cycle idle.
        others = port_bounds(paired, timing).units
        limits.insert(0, (others.cycles + blocks, "units", others.why + beside))
    if is_loop:
        limits.append((found.recurrence.cycles, "recurrence", found.recurrence.why))
    return limits


def _number(value: Fraction) -> str:
    return f"{float(value):.2f}".rstrip("0").rstrip(".")


def _critical_path(ops: Sequence[Op], timing: Timing) -> tuple[int, str]:
    """Cycles until the last op of the longest chain of results has issued, and that chain's ends."""
    issued, begins = [0] * len(ops), list(range(len(ops)))
    for index, waits in enumerate(dependences(ops, timing)):
        for after in waits:
            if after.kind == "register" and not after.distance and issued[after.source] + after.cycles > issued[index]:
                issued[index] = issued[after.source] + after.cycles
                begins[index] = begins[after.source]
    if not ops:
        return 0, "no ops"
    last = max(range(len(ops)), key=lambda index: issued[index])
    return issued[last] + 1, f"from `{ops[begins[last]].text}` to `{ops[last].text}`: {issued[last]} cycles of latency"
